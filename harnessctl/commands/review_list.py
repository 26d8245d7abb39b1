"""``review list``: open proposals."""

from __future__ import annotations

from dataclasses import dataclass

from harnessctl.layers.l3_durable.landing.proposals import Proposal
from harnessctl.layers.l3_durable.store import HarnessStore


@dataclass(frozen=True)
class Waiting:
    """Proposals that wait, oldest first."""

    proposals: tuple[Proposal, ...]

    def to_json(self) -> list[dict[str, object]]:
        """One array of proposals (CONTRACT 10)."""
        return [p.to_json() for p in self.proposals]


def review_list(store: HarnessStore) -> Waiting:
    """Proposals in state ``open`` or ``conflict``."""
    return Waiting(store.proposals())
