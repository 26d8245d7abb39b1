"""What refining needs from outside: the harness, and a place for what it proposes."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Protocol

from harnessctl.domain.snapshot import Snapshot
from harnessctl.domain.update import EntryEdit, Evidence, Record, Risk, UpdateState


@dataclass(frozen=True, slots=True)
class Draft:
    """What a proposal says about its edits; id, base, digests, actor and origin are the writer's."""

    summary: str
    why: str
    expected_outcome: str
    how_to_see: str
    model: str
    evidence: tuple[Evidence, ...]
    risk: Risk


@dataclass(frozen=True, slots=True)
class Proposed:
    """A proposal that was written: its commit, and its record as it stands in it."""

    commit: str
    record: Record


class Harness(Protocol):
    """Durable state as refining sees it: read it, propose a change of it, nothing else."""

    def check_identity(self) -> None:
        """:raises UsageError: ``no_identity``: a commit could not say who made it."""
        ...

    def snapshot(self) -> Snapshot:
        """The landed tip, empty where nothing has landed."""
        ...

    def past(self) -> Sequence[tuple[Record, UpdateState]]:
        """Earlier updates with their states, open proposals included."""
        ...

    def propose(self, edits: Sequence[EntryEdit], draft: Draft, base: Snapshot) -> Proposed:
        """Write a proposal as the agent; all edits or none.

        :raises HarnessError: the result would break a rule, or the writer refuses it.
        """
        ...
