"""``pin``: move the lock."""

from __future__ import annotations

from dataclasses import dataclass

from harnessctl.domain.pin import Lock
from harnessctl.layers.l3_durable.store import HarnessStore


@dataclass(frozen=True)
class Pinned:
    """The lock before (None: there was none, or it was unreadable) and after."""

    before: Lock | None
    lock: Lock

    def to_json(self) -> dict[str, object]:
        """As ``pin --json`` prints it."""
        return {
            "before": self.before.commit if self.before else None,
            "commit": self.lock.commit,
            "branch": self.lock.branch,
            "tree": self.lock.tree,
            "entries": self.lock.entries,
        }


def pin(store: HarnessStore, rev: str | None = None, *, resolve: bool = False) -> Pinned:
    """Write ``harness.lock`` at ``rev``, by default the landed tip.

    :param resolve: settle a merge conflict in the lock: take the side that holds the other.
    :raises HarnessError: ``pin_not_landed``.
    :raises ConflictError: ``lock_conflict``: with ``resolve``, neither side holds the other.
    :raises RefusedError: ``agent_refused``.
    """
    before = store.readable_lock()
    return Pinned(before, store.move_pin(rev, resolve_conflict=resolve))
