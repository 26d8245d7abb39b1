"""``rollback REV``: agent-owned entries become what they were at REV, by a new commit; history stays.

Entries that a human owns, policy, gates and records are as they are today. A person's later edit of
an entry that would change blocks, unless it is named.
"""

from __future__ import annotations

from collections.abc import Collection, Iterable, Sequence
from dataclasses import dataclass

from harnessctl.domain.entry import Owner
from harnessctl.domain.errors import ConflictError, HarnessError
from harnessctl.domain.ids import HARNESS_DIR, EntryId, Kind, new_ulid, record_path
from harnessctl.domain.update import Actor, EntryEdit, Record, RecordType
from harnessctl.layers.l3_durable.checking.ownership import owner_of, read_entry
from harnessctl.layers.l3_durable.content import Content, entry_digest, entry_of, no_entry
from harnessctl.layers.l3_durable.files.message import commit_message
from harnessctl.layers.l3_durable.git.history import reaches
from harnessctl.layers.l3_durable.history.merge import changed_entries
from harnessctl.layers.l3_durable.history.records import Step, find_record, records_since, steps
from harnessctl.layers.l3_durable.history.states import in_force
from harnessctl.layers.l3_durable.landing.proposals import changes_of, file_edits, record_file
from harnessctl.layers.l3_durable.landing.writer import Change
from harnessctl.layers.l3_durable.places import identity
from harnessctl.layers.l3_durable.places.mode import Place

#: Entries for which a hint says how they go back by hand.
TOLD_WAYS = 3


@dataclass(frozen=True)
class Plan:
    """What a rollback does to the tip.

    :ivar kept: entries that differ from the wanted state and stay, because a human owns them.
    :ivar dependants: entries that stay and depend on one that changes.
    """

    change: Change
    record: Record
    kept: tuple[str, ...]
    dependants: tuple[str, ...]


@dataclass(frozen=True)
class Wanted:
    """What the user asked for.

    :ivar target: full commit id of REV.
    :ivar rev: as the user wrote it; stands in the summary.
    :ivar include: ids of entries that are taken back although a person edited them later.
    :ivar entries: only these ids; empty for all.
    """

    target: str
    rev: str
    include: tuple[str, ...] = ()
    entries: tuple[str, ...] = ()

    def wants(self, entry: EntryId) -> bool:
        """Whether ``entry`` is among those asked for."""
        return not self.entries or str(entry) in self.entries


def plan_rollback(place: Place, wanted: Wanted, tip: Content) -> Plan:
    """The commit that brings agent-owned entries back to what they were at the target.

    :raises HarnessError: ``not_behind``, ``nothing_changed``.
    :raises NotFoundError: ``no_entry``: one that was asked for is neither there today nor was it then.
    :raises ConflictError: ``human_edit``: names the entries.
    """
    if not reaches(place.repository, (tip.commit,), wanted.target):
        raise HarnessError(
            f"{wanted.rev} is not in the history of '{place.branch}'",
            id="not_behind",
            hint="harnessctl log lists what is",
        )
    old = Content(place.repository, wanted.target)
    for named in map(EntryId.parse, wanted.entries):
        if not old.listing(named) and not tip.listing(named):
            raise no_entry(tip, named, *([old] if old.commit != tip.commit else []))
    differing = [e for e in changed_entries(old, tip)[0] if wanted.wants(e)]
    going = [e for e in differing if owner_then(old, tip, e) is Owner.AGENT]
    if not going:
        raise _nothing(wanted, old, tip, differing)
    _refuse_human_edits(place, wanted, tip, going)
    edits = [_back(old, entry) for entry in going]
    summary = wanted.rev if old.commit.startswith(wanted.rev) else f"{wanted.rev} ({old.commit[:12]})"
    taken = _taken_back(old, tip, {str(e) for e in going})
    kept = tuple(str(e) for e in differing if e not in set(going))
    return make_plan(place, tip, edits, f"back to {summary}", taken, kept)


def make_plan(
    place: Place,
    tip: Content,
    edits: Sequence[EntryEdit],
    summary: str,
    takes_back: tuple[str, ...],
    kept: tuple[str, ...],
) -> Plan:
    """The commit that makes ``edits`` and says which updates they take back."""
    person = identity.committer(place.repository, place.environment)
    record = Record(
        type=RecordType.ROLLBACK,
        id=new_ulid(),
        actor=Actor("human", person.name),
        base=tip.commit,
        summary=summary,
        entries=changes_of(tip, edits),
        takes_back=takes_back,
    )
    files = file_edits(tip, edits) | {record_path(record.id): record_file(record)}
    author = identity.author(place.repository, place.environment)
    change = Change(files, commit_message(record), author, person, linted=False)
    return Plan(change, record, kept, dependants_of(tip, {str(e.id) for e in edits}))


def _nothing(wanted: Wanted, old: Content, tip: Content, differing: Sequence[EntryId]) -> HarnessError:
    """Why nothing can be taken back; whoever names the bad update itself is told how that is done."""
    if differing:
        named = ", ".join(map(str, differing))
        return HarnessError(
            f"what differs from {wanted.rev} is owned by a human and stays as it is: {named}",
            id="nothing_changed",
            hint=ways_back((entry, old) for entry in differing),
        )
    if wanted.entries and old.commit != tip.commit:
        return HarnessError(
            f"{', '.join(wanted.entries)} is today as at {wanted.rev}; there is nothing to take back",
            id="nothing_changed",
            hint=f"harnessctl log --entry {wanted.entries[0]} lists what changed it",
        )
    same = "is the tip" if wanted.target == tip.commit else "has the same entries as the tip"
    return HarnessError(
        f"{wanted.rev} {same}; there is nothing to take back",
        id="nothing_changed",
        hint=f"to take back the update {wanted.rev} itself: harnessctl rollback --only {wanted.rev}; "
        "to go back behind it, name an older revision: harnessctl log",
    )


def ways_back(entries: Iterable[tuple[EntryId, Content | None]]) -> str:
    """How the owner makes each entry what it is in the content beside it (None: away); the first few."""
    told = [_way_back(entry, old) for entry, old in entries]
    return "; ".join(told[:TOLD_WAYS]) + ("; and so on" if len(told) > TOLD_WAYS else "")


def _way_back(entry: EntryId, old: Content | None) -> str:
    if old is None or not old.listing(entry):
        return f"harnessctl remove {entry} takes it away"
    there = f"{old.commit[:12]}:{HARNESS_DIR}"
    if entry.kind is Kind.SKILL:
        return (
            f"git archive {there}/{entry} | tar -x -C FOLDER && harnessctl add {entry} FOLDER "
            "(in the root, with an empty FOLDER)"
        )
    return f"git show {there}/{entry.path} | harnessctl add {entry}"


def owner_then(old: Content, tip: Content, entry: EntryId) -> Owner | None:
    """Today's owner; of an entry that is gone today, the one it had."""
    return owner_of(tip, entry) or owner_of(old, entry)


def _back(old: Content, entry: EntryId) -> EntryEdit:
    files = old.entry(entry)
    return EntryEdit(entry, "update" if files else "delete", files)


def _taken_back(old: Content, tip: Content, entries: Collection[str]) -> tuple[str, ...]:
    """Records since REV, in force today, that touch an entry which changes.

    A rollback among them gives back what it took: what came before REV is in force again as it was then,
    and what came after it is taken back here instead.
    """
    later = records_since(old, tip)
    standing = in_force(later, later.keys())
    taken = [u for u in standing if any(c.id in entries for c in later[u].entries)]
    for update in taken:  # more are added on the way
        taken += [t for t in later[update].takes_back if t in later and t not in taken]
    return tuple(sorted(taken))


def _refuse_human_edits(place: Place, wanted: Wanted, tip: Content, going: Sequence[EntryId]) -> None:
    edited: dict[str, str] = {}
    watched = {str(e) for e in going} - {str(EntryId.parse(i)) for i in wanted.include}
    for step in steps(place.repository, (tip.commit,), (wanted.target,)):
        for entry in _by_hand(place, step, watched & set(step.entries)):
            edited.setdefault(entry, step.commit)
    if edited:
        named = ", ".join(f"{entry} (in {commit[:12]})" for entry, commit in sorted(edited.items()))
        raise ConflictError(
            f"a person edited since then what this would take back: {named}",
            id="human_edit",
            hint="name each entry with --include to take its later edit back too",
        )


def _by_hand(place: Place, step: Step, touched: Collection[str]) -> list[str]:
    """Those of ``touched`` whose state after ``step`` no agent's update and no rollback in it explains."""
    if not touched:
        return []
    here = Content(place.repository, step.commit)
    explained = set()
    for update in step.updates:
        record = find_record(here, update)
        if record is not None and (record.actor.kind == "agent" or record.type is RecordType.ROLLBACK):
            explained |= {(c.id, c.after) for c in record.entries}
    found = ((e, entry_digest(here.entry(EntryId.parse(e)))) for e in touched)
    return [entry for entry, digest in found if (entry, digest) not in explained]


def dependants_of(content: Content, changing: Collection[str]) -> tuple[str, ...]:
    """Entries at a commit that state a dependency on one of ``changing`` and are none themselves."""
    found = []
    for entry in sorted({e for e in (entry_of(f.path) for f in content.entry_files) if e}):
        read = read_entry(entry, content.entry(entry)) if str(entry) not in changing else None
        if read is not None and set(changing) & set(read.depends_on):
            found.append(str(entry))
    return tuple(found)
