"""``rollback``: bring agent-owned entries back to a revision, or take back one update."""

from __future__ import annotations

from collections.abc import Collection, Sequence
from dataclasses import dataclass

from harnessctl.commands.session_pins import SessionPin, holds, readers
from harnessctl.domain.errors import UsageError
from harnessctl.domain.ids import EntryId
from harnessctl.domain.update import RecordType, UpdateState
from harnessctl.layers.l3_durable.landing.landed import Landed
from harnessctl.layers.l3_durable.landing.rollback import Wanted
from harnessctl.layers.l3_durable.store import HarnessStore

_STANDS = frozenset({UpdateState.OPEN, UpdateState.CONFLICT, UpdateState.LANDED})


@dataclass(frozen=True)
class Derived:
    """An update that may rest on what was taken back, and stays.

    :ivar read_by: the session behind its evidence that read it; "" where the log is not on this
        machine and only the revision it was proposed on tells that it was there.
    """

    update: str
    state: str
    read_by: str

    def to_json(self) -> dict[str, object]:
        """As ``rollback --json`` prints it."""
        return {"update": self.update, "state": self.state, "read_by": self.read_by or None}


@dataclass(frozen=True)
class RolledBack:
    """What a rollback changed, or with ``dry_run`` would change, and what it left.

    :ivar takes_back: ids of the updates it takes back.
    :ivar kept: entries that differ from the wanted state and stay, because a human owns them.
    :ivar dependants: entries that stay and depend on one that changed.
    :ivar derived: updates that stay and may have been learned from what went.
    :ivar readers: sessions on this machine that read what was taken back.
    """

    landed: Landed
    takes_back: tuple[str, ...]
    kept: tuple[str, ...]
    dependants: tuple[str, ...]
    derived: tuple[Derived, ...]
    readers: tuple[SessionPin, ...]
    dry_run: bool = False

    @property
    def sessions(self) -> tuple[str, ...]:
        """Ids of :attr:`readers`."""
        return tuple(reader.session for reader in self.readers)

    def to_json(self) -> dict[str, object]:
        """As ``rollback --json`` prints it."""
        record = self.landed.record
        return self.landed.to_json() | {
            "dry_run": self.dry_run,
            "changes": record.to_json()["entries"] if record else [],
            "takes_back": list(self.takes_back),
            "kept": list(self.kept),
            "dependants": list(self.dependants),
            "derived": [one.to_json() for one in self.derived],
            "sessions": list(self.sessions),
            "running": [reader.session for reader in self.readers if reader.running],
        }


def rollback(
    store: HarnessStore,
    rev: str,
    *,
    only: bool = False,
    entries: Sequence[str] = (),
    include: Sequence[str] = (),
    dry_run: bool = False,
) -> RolledBack:
    """Bring agent-owned entries back to what they were at ``rev`` by a new commit; the lock moves to it.

    :param only: take back the one update that ``rev`` names and keep what came later.
    :param entries: only these entries.
    :param include: ids of entries that go back although a person edited them since.
    :param dry_run: change nothing; say what would change, or raise what would stand in the way.
    :raises ConflictError: ``human_edit``, ``later_edit``: name the entries.
    :raises HarnessError: ``nothing_changed``, ``not_behind``, ``branch_in_use``, ``invalid_entry``.
    :raises NotFoundError: ``no_update``, ``state_lost``: with ``only``.
    :raises UsageError: ``include_with_only``, ``bad_entry_id``.
    :raises RefusedError: ``agent_refused``.
    """
    if only and include:
        raise UsageError(
            "--include has no meaning with --only: what came later than the update is kept, or it refuses",
            id="include_with_only",
            hint="harnessctl rollback REV --include ID goes back behind a person's edit",
        )
    names = tuple(str(EntryId.parse(entry)) for entry in entries)
    wanted = Wanted(store.resolve(rev), rev, tuple(include), names)
    landed, plan = store.rollback(wanted, only=only, dry_run=dry_run)
    taken = plan.record.takes_back
    read = readers(store, taken)
    derived = _derived(store, taken, {reader.session for reader in read})
    return RolledBack(landed, taken, plan.kept, plan.dependants, derived, read, dry_run)


def _derived(store: HarnessStore, taken: Collection[str], read: Collection[str]) -> tuple[Derived, ...]:
    """Updates that stand, from a session that read ``taken`` or, with no log here, made on top of it."""
    found = []
    logs = store.state_dir / "sessions"
    for update in store.updates(lambda row: row.state in _STANDS and bool(row.sessions)):
        record = update.record
        if record is None or record.type is not RecordType.UPDATE or update.id in taken:
            continue
        sessions = [e.session for e in record.evidence]
        reading = next((s for s in sessions if s in read), "")
        unknown = not any((logs / s).is_dir() for s in sessions)
        if reading or (unknown and holds(store, record.base, taken)):
            found.append(Derived(update.id, update.state.value if update.state else "", reading))
    return tuple(found)
