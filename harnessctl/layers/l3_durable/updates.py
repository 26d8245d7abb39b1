"""All updates of a repository with the state of each, from refs, trees and history."""

from __future__ import annotations

from dataclasses import dataclass, field

from harnessctl.domain.ids import UPDATES_DIR
from harnessctl.domain.update import Record, RecordType, UpdateState, Verdict
from harnessctl.layers.l3_durable.content import Content
from harnessctl.layers.l3_durable.git.history import reaches, walk
from harnessctl.layers.l3_durable.git.repository import Commit
from harnessctl.layers.l3_durable.merge import changed_entries, merge
from harnessctl.layers.l3_durable.mode import Place
from harnessctl.layers.l3_durable.names import DECISIONS, PROPOSALS
from harnessctl.layers.l3_durable.records import find_record, new_records, steps
from harnessctl.layers.l3_durable.states import Facts, derive


@dataclass(frozen=True)
class Update:
    """One update, rollback, or commit by hand.

    :ivar id: "" for a commit without a record.
    :ivar commit: the commit that brought it; the proposal's own while it is open.
    :ivar state: None for a commit without a record (shown as ``unrecorded``).
    :ivar shared: whether that commit is on the remote, as far as this clone knows.
    :ivar record: for a rejected update whose proposal is gone, the decision's.
    """

    id: str
    commit: Commit
    state: UpdateState | None
    shared: bool
    record: Record | None
    entries: tuple[str, ...] = ()

    def to_json(self) -> dict[str, object]:
        """The update as it appears in ``--json`` lists (CONTRACT 10)."""
        evidence = self.record.evidence if self.record else ()
        return {
            "update": self.id or None,
            "commit": self.commit.id,
            "type": self.record.type.value if self.record else None,
            "subject": self.commit.subject,
            "entries": list(self.entries),
            "state": self.state.value if self.state else "unrecorded",
            "shared": self.shared,
            "session": evidence[0].session if evidence else None,
            "model": self.record.model if self.record else None,
            "author": self.commit.author.name,
            "accepter": self.commit.committer.name,
            "time": self.commit.committer.time,
        }


@dataclass
class _Gathered:
    """What one walk over history finds."""

    records: dict[str, Record] = field(default_factory=dict)
    brought: dict[str, Commit] = field(default_factory=dict)
    rows: list[tuple[str, Commit]] = field(default_factory=list)
    commits: set[str] = field(default_factory=set)


def list_updates(place: Place) -> tuple[Update, ...]:
    """Open proposals, then everything landed, newest first."""
    found = _walk(place)
    proposed = _proposed(place, found)
    _decisions(place, found)
    tips = place.landed_tips()
    present, reverted = _presence(place, found, tips)
    states = derive(Facts(found.records, present, reverted, proposed))
    on_remote = _shared(place, found)
    rows = []
    for update, commit in found.rows:
        shared = commit.id in on_remote
        record = found.records.get(update)
        if record is not None and record.type is RecordType.DECISION:
            if record.verdict is Verdict.REJECTED and record.of not in present:
                rows.append(Update(record.of or "", commit, UpdateState.REJECTED, shared, record))
            continue
        state = states.get(update)
        rows.append(Update(update, commit, state, shared, record, _entries(place, record, commit)))
    return tuple(rows)


def _shared(place: Place, found: _Gathered) -> set[str]:
    """Landed commits that the remote has, as far as this clone knows."""
    tip = place.remote_tip()
    if tip is None:
        return set()
    return found.commits - {c.id for c in walk(place.repository, place.landed_tips(), (tip,))}


def _walk(place: Place) -> _Gathered:
    found = _Gathered()
    for step in steps(place.repository, place.landed_tips()):
        content = Content(place.repository, step.commit.id)
        found.commits.add(step.commit.id)
        for update in step.records:
            record = find_record(content, update)
            if record is not None and update not in found.brought:
                found.records[update] = record
                found.brought[update] = step.commit
                found.rows.append((update, step.commit))
        if step.changed and not step.records:
            found.rows.append(("", step.commit))
    return found


def _proposed(place: Place, found: _Gathered) -> dict[str, bool]:
    """Open proposals: id -> whether it conflicts; their records and rows are added to ``found``."""
    proposed: dict[str, bool] = {}
    rows = []
    for name, oid in place.repository.refs.list(PROPOSALS).items():
        update = name.removeprefix(PROPOSALS)
        record = find_record(Content(place.repository, oid), update)
        if record is not None and update not in found.brought:  # landed wins over a left-over ref
            proposed[update] = bool(conflicts(place, oid))
            found.records.setdefault(update, record)
            rows.append((update, place.repository.commit(oid)))
    found.rows[:0] = reversed(rows)
    return proposed


def conflicts(place: Place, proposal: str) -> tuple[str, ...]:
    """Entries that a proposal and the landed tip both changed since the proposal's base."""
    tip = place.local_tip() or place.remote_tip()
    parents = place.repository.commit(proposal).parents
    if tip is None or not parents:
        return ()
    base, theirs = Content(place.repository, parents[0]), Content(place.repository, proposal)
    return merge(base, theirs, Content(place.repository, tip)).conflicts


def _decisions(place: Place, found: _Gathered) -> None:
    """Decisions that wait for the next landing (in-tree mode) count as made."""
    for name, oid in place.repository.refs.list(DECISIONS).items():
        update = name.removeprefix(DECISIONS)
        record = find_record(Content(place.repository, oid), update)
        if record is not None and update not in found.brought:
            found.records[update] = record
            found.rows.insert(0, (update, place.repository.commit(oid)))


def _presence(place: Place, found: _Gathered, tips: tuple[str, ...]) -> tuple[set[str], set[str]]:
    """Ids that stand, and ids that a tip once reached by their newest commit and now lacks."""
    contents = [(tip, Content(place.repository, tip).records()) for tip in tips]
    present, reverted = set(), set()
    for update, commit in found.brought.items():
        lacking = [tip for tip, records in contents if update not in records]
        if lacking and reaches(place.repository, lacking, commit.id):
            reverted.add(update)
        else:
            present.add(update)
    return present, reverted


def _entries(place: Place, record: Record | None, commit: Commit) -> tuple[str, ...]:
    if record is not None:
        return tuple(change.id for change in record.entries)
    parent = Content(place.repository, commit.parents[0]) if commit.parents else None
    return tuple(str(e) for e in changed_entries(parent, Content(place.repository, commit.id))[0])


def records_since(old: Content | None, new: Content) -> dict[str, Record]:
    """Readable records that ``new`` has and ``old`` lacks."""
    repository = new.repository
    before = repository.folder(old.folder, UPDATES_DIR) if old and old.folder else None
    after = repository.folder(new.folder, UPDATES_DIR) if new.folder else None
    found = {}
    for update in new_records(repository, before, after):
        record = find_record(new, update)
        if record is not None:
            found[update] = record
    return found
