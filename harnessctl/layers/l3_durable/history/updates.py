"""All updates of a repository with the state of each, from refs, trees and history."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from functools import cached_property

from harnessctl.domain.ids import is_ulid, record_path
from harnessctl.domain.update import Record, RecordType, UpdateState, Verdict
from harnessctl.layers.l3_durable.content import Content
from harnessctl.layers.l3_durable.files.message import ACCEPTED_BY
from harnessctl.layers.l3_durable.git.graph import Node, merged_by, nodes
from harnessctl.layers.l3_durable.git.history import reaches
from harnessctl.layers.l3_durable.git.repository import Commit, Person
from harnessctl.layers.l3_durable.history.history_cache import Gist, HistoryCache
from harnessctl.layers.l3_durable.history.merge import merge
from harnessctl.layers.l3_durable.history.records import find_record, read_record, step
from harnessctl.layers.l3_durable.history.states import Facts, derive
from harnessctl.layers.l3_durable.places.mode import Place
from harnessctl.layers.l3_durable.places.names import DECISIONS, PROPOSALS

#: In place of a state: a commit by hand, without a record.
UNRECORDED = "unrecorded"
_WAITS = frozenset({UpdateState.OPEN, UpdateState.CONFLICT})


@dataclass(frozen=True)
class Update:
    """One update, rollback, or commit by hand.

    :ivar id: "" for a commit without a record.
    :ivar commit: the commit that brought it; the proposal's own while it is open.
    :ivar state: None for a commit without a record (shown as ``unrecorded``).
    :ivar shared: whether that commit is on the remote, as far as this clone knows.
    :ivar record: for a rejected update whose proposal is gone, the decision's.
    :ivar accepter: who let it in, or decided against it; None while it waits.
    """

    id: str
    commit: Commit
    state: UpdateState | None
    shared: bool
    record: Record | None
    entries: tuple[str, ...] = ()
    accepter: Person | None = None

    def to_json(self) -> dict[str, object]:
        """The update as it appears in ``--json`` lists (CONTRACT 10)."""
        evidence = self.record.evidence if self.record else ()
        return {
            "update": self.id or None,
            "commit": self.commit.id,
            "type": self.record.type.value if self.record else None,
            "subject": self.commit.subject,
            "entries": list(self.entries),
            "state": self.state.value if self.state else UNRECORDED,
            "shared": self.shared,
            "session": evidence[0].session if evidence else None,
            "evidence": [f"{e.session}#{n}" for e in evidence for n in e.events],
            "model": self.record.model if self.record else None,
            "author": self.commit.author.name,
            "accepter": self.accepter.name if self.accepter else None,
            "time": self.commit.committer.time,
        }


@dataclass(frozen=True, slots=True)
class Row:
    """An update before its commit and record are read: enough to choose by.

    :ivar blob: of the record that tells it; the decision's for a rejected update, "" for none.
    :ivar came_by: the merge that brought the commit in, "" when it landed by itself.
    """

    id: str
    commit: str
    state: UpdateState | None
    shared: bool
    entries: tuple[str, ...]
    sessions: tuple[str, ...] = ()
    blob: str = ""
    came_by: str = ""

    @property
    def state_name(self) -> str:
        """The state as users write it."""
        return self.state.value if self.state else UNRECORDED


@dataclass
class _Gathered:
    """What one walk over history finds; rows are (update, commit, blob of the record, entries)."""

    gists: dict[str, Gist] = field(default_factory=dict)
    brought: dict[str, str] = field(default_factory=dict)
    rows: list[tuple[str, str, str, tuple[str, ...]]] = field(default_factory=list)
    known: dict[str, Node] = field(default_factory=dict)


def list_updates(
    place: Place, cache: HistoryCache | None = None, keep: Callable[[Row], bool] = lambda _: True
) -> tuple[Update, ...]:
    """Open proposals, then everything landed, newest first; only rows that ``keep`` wants are read.

    :raises NotFoundError: ``missing_object``: a partial clone lacks a record.
    """
    return tuple(read_row(place, row) for row in list_rows(place, cache) if keep(row))


def list_rows(place: Place, cache: HistoryCache | None = None) -> list[Row]:
    """The rows of :func:`list_updates`."""
    cache = cache or HistoryCache()
    # In the order in which an update goes from one to the next: nothing that moves meanwhile is missed.
    proposals, decisions = (_ours(place, prefix) for prefix in (PROPOSALS, DECISIONS))
    tips = place.landed_tips()
    found = _walk(place, cache, tips)
    _decisions(place, found, cache, decisions)
    proposed = _proposed(place, found, cache, proposals)
    cache.save()
    present, reverted = _presence(place, found, tips)
    states = derive(Facts(found.gists, present, reverted, proposed))
    on_remote = _shared(place, found)
    merges = merged_by(tips, found.known)
    rows = []
    for update, commit, blob, entries in found.rows:
        shared, gist = commit in on_remote, found.gists.get(update)
        came_by = merges.get(commit, "")
        if gist is None:
            rows.append(Row("", commit, None, shared, entries, came_by=came_by))
        elif gist.type is not RecordType.DECISION:
            state = states.get(update)
            if state is UpdateState.REJECTED:  # its decision has a row, and the ref is a left-over
                continue
            rows.append(Row(update, commit, state, shared, gist.entries, gist.sessions, blob, came_by))
        elif gist.verdict is Verdict.REJECTED and gist.of not in present:
            of = gist.of or ""
            rows.append(
                Row(of, commit, UpdateState.REJECTED, shared, gist.entries, gist.sessions, blob, came_by)
            )
    return rows


def read_row(place: Place, row: Row) -> Update:
    """The update with its commit and record."""
    commit = place.repository.commit(row.commit)
    record = read_record(place.repository.blob(row.blob)) if row.blob else None
    accepter = None if row.state in _WAITS else _accepter(place, commit, record, row.came_by)
    return Update(row.id, commit, row.state, row.shared, record, row.entries, accepter)


def _accepter(place: Place, commit: Commit, record: Record | None, came_by: str) -> Person:
    """The committer; of an agent's commit that a merge brought in as it was proposed, the merge's."""
    merged = came_by and _as_proposed(commit, record)
    return place.repository.commit(came_by).committer if merged else commit.committer


def _as_proposed(commit: Commit, record: Record | None) -> bool:
    return record is not None and record.actor.kind == "agent" and ACCEPTED_BY not in commit.message


class Accepters:
    """Who let landed commits in; the graph is read once, and only for commits that may have been merged."""

    def __init__(self, place: Place) -> None:
        self._place = place

    @cached_property
    def _merges(self) -> dict[str, str]:
        tips = self._place.landed_tips()
        return merged_by(tips, {node.id: node for node in nodes(self._place.repository, tips)})

    def of(self, commit: Commit, record: Record | None) -> Person:
        """Who let ``commit`` in; ``record`` is what it brought, None for a commit by hand."""
        came_by = self._merges.get(commit.id, "") if _as_proposed(commit, record) else ""
        return _accepter(self._place, commit, record, came_by)


def _shared(place: Place, found: _Gathered) -> set[str]:
    """Landed commits that the remote has, as far as this clone knows."""
    tip = place.remote_tip()
    if tip is None:
        return set()
    return found.known.keys() - {n.id for n in nodes(place.repository, place.landed_tips(), (tip,))}


def _walk(place: Place, cache: HistoryCache, tips: tuple[str, ...]) -> _Gathered:
    found = _Gathered()
    found.known = {node.id: node for node in nodes(place.repository, tips)}
    for did in cache.steps(place, list(found.known.values())):
        for update, blob in did.records:
            gist = cache.gist(place.repository, blob)
            if gist is None and not place.repository.has(blob):
                place.repository.blob(blob)  # says what to fetch: not to be told from a commit by hand
            if gist is not None and update not in found.brought:
                found.gists[update] = gist
                found.brought[update] = did.commit
                found.rows.append((update, did.commit, blob, gist.entries))
        told = any(cache.gist(place.repository, blob) is not None for _, blob in did.records)
        if (did.changed or did.records) and not told:
            found.rows.append(("", did.commit, "", did.entries))
    return found


def _proposed(
    place: Place, found: _Gathered, cache: HistoryCache, refs: Mapping[str, str]
) -> dict[str, bool]:
    """Open proposals: id -> whether it conflicts; their gists and rows are added to ``found``."""
    proposed: dict[str, bool] = {}
    rows = []
    for update, oid, blob, gist in _waiting(place, found, cache, refs):
        proposed[update] = bool(conflicts(place, oid))
        found.gists[update] = gist
        rows.append((update, oid, blob, gist.entries))
    found.rows[:0] = reversed(rows)
    return proposed


def _ours(place: Place, prefix: str) -> dict[str, str]:
    """Refs below ``prefix``, named without it: name -> commit."""
    return {name.removeprefix(prefix): oid for name, oid in place.repository.refs.list(prefix).items()}


def _waiting(
    place: Place, found: _Gathered, cache: HistoryCache, refs: Mapping[str, str]
) -> Iterator[tuple[str, str, str, Gist]]:
    """(id, commit, blob, gist) of records under a ref of ours; landed wins over a left-over ref."""
    for update, oid in refs.items():
        content = Content(place.repository, oid)
        if not is_ulid(update) or update in found.brought or content.unreadable or content.folder is None:
            continue
        folder = content.folder
        item = place.repository.entry(folder, record_path(update))
        gist = cache.gist(place.repository, item.oid) if item else None
        if item is not None and gist is not None:
            yield update, oid, item.oid, gist


def conflicts(place: Place, proposal: str) -> tuple[str, ...]:
    """Entries that a proposal and the landed tip both changed since the proposal's base."""
    tip = place.local_tip() or place.remote_tip()
    parents = place.repository.commit(proposal).parents
    if tip is None or not parents:
        return ()
    base, theirs = Content(place.repository, parents[0]), Content(place.repository, proposal)
    return merge(base, theirs, Content(place.repository, tip)).conflicts


def _decisions(place: Place, found: _Gathered, cache: HistoryCache, refs: Mapping[str, str]) -> None:
    """Decisions that wait for the next landing (in-tree mode) count as made."""
    for update, oid, blob, gist in _waiting(place, found, cache, refs):
        found.gists[update] = gist
        found.rows.insert(0, (update, oid, blob, ()))


def _presence(place: Place, found: _Gathered, tips: tuple[str, ...]) -> tuple[set[str], set[str]]:
    """Ids that stand, and ids that a tip once reached by their newest commit and now lacks."""
    contents = [(tip, Content(place.repository, tip).records()) for tip in tips]
    present, reverted = set(), set()
    for update, commit in found.brought.items():
        lacking = [tip for tip, records in contents if update not in records]
        if lacking and reaches(place.repository, lacking, commit):
            reverted.add(update)
        else:
            present.add(update)
    return present, reverted


def ever_landed(place: Place, cache: HistoryCache, base: str = "") -> frozenset[str]:
    """Ids whose record a landed commit brought, whether or not it still stands.

    A `git revert` takes a record out of the tip's tree, and the update has landed and was taken back.

    :param base: a commit behind which nobody looks, "": all of history.
    """
    found = list(nodes(place.repository, place.landed_tips(), (base,) if base else ()))
    return frozenset(
        update
        for did in cache.steps(place, found)
        for update, blob in did.records
        if cache.gist(place.repository, blob) is not None
    )


def brought_by(place: Place, commit: str) -> tuple[Record, ...]:
    """Readable records that ``commit`` brought."""
    content = Content(place.repository, commit)
    found = (find_record(content, update) for update in step(place.repository, commit).updates)
    return tuple(record for record in found if record is not None)
