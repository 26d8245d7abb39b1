"""``rollback``: bring agent-owned entries back to a revision."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harnessctl.layers.l3_durable.landed import Landed
from harnessctl.layers.l3_durable.rollback import sessions_reading
from harnessctl.layers.l3_durable.store import HarnessStore


@dataclass(frozen=True)
class RolledBack:
    """What a rollback changed and what it left.

    :ivar takes_back: ids of the updates it takes back.
    :ivar kept: entries that differ from the revision and stay, because a human owns them.
    :ivar dependants: entries that stay and depend on one that went.
    :ivar sessions: running sessions on this machine that read what was taken back.
    """

    landed: Landed
    takes_back: tuple[str, ...]
    kept: tuple[str, ...]
    dependants: tuple[str, ...]
    sessions: tuple[str, ...]

    def to_json(self) -> dict[str, object]:
        """As ``rollback --json`` prints it."""
        record = self.landed.record
        return self.landed.to_json() | {
            "changes": record.to_json()["entries"] if record else [],
            "takes_back": list(self.takes_back),
            "kept": list(self.kept),
            "dependants": list(self.dependants),
            "sessions": list(self.sessions),
        }


def rollback(store: HarnessStore, rev: str, *, include: Sequence[str] = ()) -> RolledBack:
    """Bring agent-owned entries back to what they were at ``rev`` by a new commit; the lock moves to it.

    :param include: ids of entries that go back although a person edited them since.
    :raises ConflictError: ``human_edit``: names the entries.
    :raises HarnessError: ``nothing_changed``, ``not_behind``, ``branch_in_use``.
    :raises RefusedError: ``agent_refused``.
    """
    landed, plan = store.rollback(rev, include)
    taken = plan.record.takes_back
    return RolledBack(landed, taken, plan.kept, plan.dependants, sessions_reading(store.place, taken))
