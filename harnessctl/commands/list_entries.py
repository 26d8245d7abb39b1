"""``list``: entries at the pin, or at a revision."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from harnessctl.domain.entry import Entry
from harnessctl.domain.finding import Finding
from harnessctl.domain.ids import Kind
from harnessctl.layers.l3_durable.store import HarnessStore


@dataclass(frozen=True)
class Listing:
    """Entries and, separately, what cannot be read: with any ``broken`` the exit code is 1."""

    commit: str
    entries: tuple[Entry, ...]
    broken: tuple[Finding, ...]

    def to_json(self) -> list[dict[str, object]]:
        """One array of entries (CONTRACT 10)."""
        return [entry.to_json() for entry in self.entries]


def list_entries(store: HarnessStore, *, at: str | None = None, kinds: Iterable[Kind] = ()) -> Listing:
    """Entries at ``at`` (a REV), by default at the pin; of all kinds when ``kinds`` is empty.

    :raises NotFoundError: ``unknown_revision``, ``pin_missing``.
    :raises ConflictError: ``lock_conflict``.
    """
    snapshot = store.snapshot(at)
    wanted = frozenset(kinds)
    entries = (e for e in snapshot.entries.values() if not wanted or e.id.kind in wanted)
    return Listing(snapshot.commit, tuple(entries), snapshot.broken)
