"""``rollback REV``: agent-owned entries become what they were at REV, by a new commit; history stays.

Entries that a human owns, policy, gates and records are as they are today. A person's later edit of
an entry that would change blocks, unless it is named.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harnessctl.domain.entry import Owner
from harnessctl.domain.errors import ConflictError, HarnessError
from harnessctl.domain.ids import EntryId, new_ulid, record_path
from harnessctl.domain.update import Actor, EntryEdit, Record, RecordType
from harnessctl.layers.l3_durable import identity
from harnessctl.layers.l3_durable.content import Content, entry_digest, entry_of
from harnessctl.layers.l3_durable.git.history import reaches
from harnessctl.layers.l3_durable.merge import changed_entries
from harnessctl.layers.l3_durable.message import commit_message
from harnessctl.layers.l3_durable.mode import Place
from harnessctl.layers.l3_durable.names import LIVE
from harnessctl.layers.l3_durable.ownership import owner_of, read_entry
from harnessctl.layers.l3_durable.proposals import changes_of, file_edits, record_file
from harnessctl.layers.l3_durable.records import Step, find_record, steps
from harnessctl.layers.l3_durable.states import in_force
from harnessctl.layers.l3_durable.updates import records_since
from harnessctl.layers.l3_durable.writer import Change


@dataclass(frozen=True)
class Plan:
    """What a rollback does to the tip.

    :ivar kept: entries that differ from REV and stay, because a human owns them.
    :ivar dependants: entries that stay and depend on one that goes.
    """

    change: Change
    record: Record
    kept: tuple[str, ...]
    dependants: tuple[str, ...]


def plan_rollback(place: Place, target: str, rev: str, tip: Content, include: Sequence[str]) -> Plan:
    """The commit that brings agent-owned entries back to ``target``.

    :param rev: as the user wrote it; stands in the summary.
    :param include: ids of entries that are taken back although a person edited them later.
    :raises HarnessError: ``not_behind``, ``nothing_changed``.
    :raises ConflictError: ``human_edit``: names the entries.
    """
    if not reaches(place.repository, (tip.commit,), target):
        raise HarnessError(f"{rev} is not in the history of '{place.branch}'", id="not_behind")
    old = Content(place.repository, target)
    differing = changed_entries(old, tip)[0]
    going = [e for e in differing if _owner(old, tip, e) is Owner.AGENT]
    if not going:
        raise HarnessError(
            f"agent-owned entries at {rev} equal those of today; there is nothing to take back",
            id="nothing_changed",
            hint="choose an older revision: harnessctl log",
        )
    _refuse_human_edits(place, target, tip, going, {str(EntryId.parse(i)) for i in include})
    edits = [_back(old, entry) for entry in going]
    record = _record(place, tip, old, edits, rev)
    files = file_edits(tip, edits) | {record_path(record.id): record_file(record)}
    author = identity.author(place.repository, place.environment)
    committer = identity.committer(place.repository, place.environment)
    change = Change(files, commit_message(record), author, committer, linted=False)
    gone = {str(e.id) for e in edits if e.action == "delete"}
    kept = tuple(str(e) for e in differing if e not in set(going))
    return Plan(change, record, kept, dependants_of(tip, gone))


def _owner(old: Content, tip: Content, entry: EntryId) -> Owner | None:
    """Today's owner; of an entry that is gone today, the one at REV."""
    return owner_of(tip, entry) or owner_of(old, entry)


def _back(old: Content, entry: EntryId) -> EntryEdit:
    files = old.entry(entry)
    return EntryEdit(entry, "update" if files else "delete", files)


def _record(place: Place, tip: Content, old: Content, edits: Sequence[EntryEdit], rev: str) -> Record:
    changes = changes_of(tip, edits)
    person = identity.committer(place.repository, place.environment)
    return Record(
        type=RecordType.ROLLBACK,
        id=new_ulid(),
        actor=Actor("human", person.name),
        base=tip.commit,
        summary=f"back to {rev if old.commit.startswith(rev) else f'{rev} ({old.commit[:12]})'}",
        entries=changes,
        takes_back=_taken_back(old, tip, {c.id for c in changes}),
    )


def _taken_back(old: Content, tip: Content, entries: set[str]) -> tuple[str, ...]:
    """Records since REV, in force today, that touch an entry which changes."""
    later = records_since(old, tip)
    standing = in_force(later, later.keys())
    return tuple(sorted(u for u in standing if any(c.id in entries for c in later[u].entries)))


def _refuse_human_edits(
    place: Place, target: str, tip: Content, going: Sequence[EntryId], included: set[str]
) -> None:
    edited: dict[str, str] = {}
    watched = {str(e) for e in going} - included
    for step in steps(place.repository, (tip.commit,), (target,)):
        if step.changed:
            for entry in _by_hand(place, step, watched):
                edited.setdefault(entry, step.commit.id)
    if edited:
        named = ", ".join(f"{entry} (in {commit[:12]})" for entry, commit in sorted(edited.items()))
        raise ConflictError(
            f"a person edited since then what this would take back: {named}",
            id="human_edit",
            hint="name each entry with --include to take its later edit back too",
        )


def _by_hand(place: Place, step: Step, watched: set[str]) -> list[str]:
    """Watched entries whose state after ``step`` no agent's update and no rollback in it explains."""
    here = Content(place.repository, step.commit.id)
    before = Content(place.repository, step.commit.parents[0]) if step.commit.parents else None
    touched = [e for e in changed_entries(before, here)[0] if str(e) in watched]
    if not touched:
        return []
    explained = set()
    for update in step.records:
        record = find_record(here, update)
        if record is not None and (record.actor.kind == "agent" or record.type is RecordType.ROLLBACK):
            explained |= {(c.id, c.after) for c in record.entries}
    return [str(e) for e in touched if (str(e), entry_digest(here.entry(e))) not in explained]


def dependants_of(content: Content, gone: set[str]) -> tuple[str, ...]:
    """Entries at a commit, not in ``gone`` themselves, that state a dependency on one of ``gone``."""
    if not gone:
        return ()
    found = []
    for entry in sorted({e for e in (entry_of(f.path) for f in content.entry_files) if e}):
        read = read_entry(entry, content.entry(entry)) if str(entry) not in gone else None
        if read is not None and gone & set(read.depends_on):
            found.append(str(entry))
    return tuple(found)


def sessions_reading(place: Place, updates: Sequence[str]) -> tuple[str, ...]:
    """Sessions on this machine whose pinned commit holds one of ``updates``."""
    wanted = set(updates)
    return tuple(
        name.removeprefix(LIVE)
        for name, oid in place.repository.refs.list(LIVE).items()
        if wanted & Content(place.repository, oid).records().keys()
    )
