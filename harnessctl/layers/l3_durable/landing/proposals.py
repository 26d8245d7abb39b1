"""Proposals: updates that wait for review under ``refs/harness/proposals/<id>``."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace

from harnessctl.domain.entry import EntryFile, Origin, Owner
from harnessctl.domain.errors import ConflictError, HarnessError, NotFoundError, RefusedError
from harnessctl.domain.ids import EntryId, new_ulid, record_path
from harnessctl.domain.update import (
    Actor,
    EntryChange,
    EntryEdit,
    Evidence,
    Record,
    RecordType,
    Risk,
    UpdateState,
    Verdict,
)
from harnessctl.layers.l3_durable.checking.ownership import agent_edit, owner_of
from harnessctl.layers.l3_durable.checking.validation import Edits
from harnessctl.layers.l3_durable.content import Content, entry_digest, entry_of
from harnessctl.layers.l3_durable.files.message import commit_message
from harnessctl.layers.l3_durable.git.refs import LostRaceError
from harnessctl.layers.l3_durable.git.repository import Person
from harnessctl.layers.l3_durable.history.history_cache import HistoryCache
from harnessctl.layers.l3_durable.history.merge import Merged, TreeEdits, changed_entries, merge, replacing
from harnessctl.layers.l3_durable.history.records import find_record
from harnessctl.layers.l3_durable.history.revisions import one_of
from harnessctl.layers.l3_durable.history.since import rejected_since
from harnessctl.layers.l3_durable.history.updates import conflicts, ever_landed, list_updates
from harnessctl.layers.l3_durable.landing.decisions import land, park, rejected_waiting
from harnessctl.layers.l3_durable.landing.writer import Change, Moved, Writer
from harnessctl.layers.l3_durable.places import identity
from harnessctl.layers.l3_durable.places.mode import Place
from harnessctl.layers.l3_durable.places.names import PROPOSALS

#: Proposals up to which it is looked up for each what was decided since its base; for more, all of
#: history is read once.
FEW = 4


@dataclass(frozen=True)
class Draft:
    """What the proposer says about an update; the rest of its record the writer finds out.

    :ivar may_verify: a gate passed in the run the evidence comes from, so ``verified`` may be claimed.
    """

    summary: str
    why: str = ""
    expected_outcome: str = ""
    how_to_see: str = ""
    model: str | None = None
    evidence: tuple[Evidence, ...] = ()
    origin: Origin = Origin.AGENT
    risk: Risk = field(default_factory=Risk)
    may_verify: bool = False


@dataclass(frozen=True)
class Proposal:
    """An update that waits for review.

    :ivar base: the commit it was made on.
    :ivar conflicts: entries that changed on the branch too since then; not empty in state conflict.
    """

    id: str
    commit: str
    base: str
    record: Record
    author: Person
    conflicts: tuple[str, ...] = ()

    @property
    def state(self) -> UpdateState:
        """``open`` or ``conflict``."""
        return UpdateState.CONFLICT if self.conflicts else UpdateState.OPEN

    def to_json(self) -> dict[str, object]:
        """The proposal as it appears in ``--json`` lists (CONTRACT 10)."""
        return {
            "id": self.id,
            "commit": self.commit,
            "entries": [c.id for c in self.record.entries],
            "summary": self.record.summary,
            "why": self.record.why,
            "risk": {"level": self.record.risk.level, "reasons": list(self.record.risk.reasons)},
            "state": self.state.value,
            "conflicts": list(self.conflicts),
            "base": self.base,
        }


def changes_of(before: Content | None, edits: Sequence[EntryEdit]) -> tuple[EntryChange, ...]:
    """The record's view of edits: digests before and after; edits that change nothing are left out."""
    found = []
    for edit in edits:
        old = entry_digest(before.entry(edit.id)) if before else None
        new = entry_digest(edit.files)
        if old != new:
            action = "create" if old is None else "delete" if new is None else "update"
            found.append(EntryChange(str(edit.id), action, old, new))  # type: ignore[arg-type]
    return tuple(found)


def file_edits(before: Content | None, edits: Sequence[EntryEdit]) -> dict[str, EntryFile | None]:
    """Files to write and remove so that each entry is exactly what its edit says."""
    found: dict[str, EntryFile | None] = {}
    for edit in edits:
        old = before.listing(edit.id) if before else {}
        found |= dict.fromkeys(old)
        found |= {f.path: f for f in edit.files}
    return found


def record_file(record: Record) -> EntryFile:
    """The record as a file below ``.harness/``."""
    return EntryFile(record_path(record.id), 0o100644, record.to_bytes())


def propose(writer: Writer, edits: Sequence[EntryEdit], draft: Draft, base: str) -> Proposal:
    """Write ``edits`` of an agent as one commit on ``base``, and a ref to it.

    :raises RefusedError: ``not_owner``, ``claims_verified``, ``secret_found``; nothing was written.
    :raises UsageError: ``no_identity``, ``nothing_changed``.
    :raises HarnessError: ``invalid_entry``.
    """
    place = writer.place
    committer = identity.committer(place.repository, place.environment)
    record, change, _ = _proposed(place, edits, draft, base, committer)
    writer.checks.refuse_overreach(Content(place.repository, base), change.edits, record)
    commit, _ = writer.build(base, change)
    writer.settle(PROPOSALS + record.id, None, commit, "propose", "proposed")
    return Proposal(record.id, commit, base, record, change.author)


def judge(writer: Writer, edits: Sequence[EntryEdit], draft: Draft, base: str) -> tuple[EntryEdit, ...]:
    """The edits as :func:`propose` would write them; errors as there, ``no_identity`` apart.

    Nothing is written, and who would commit need not be known.
    """
    place = writer.place
    content = Content(place.repository, base)
    author = identity.agent(place.repository)
    record, change, owned = _proposed(place, edits, draft, base, author)
    writer.checks.refuse_overreach(content, change.edits, record)
    writer.judge(content, change)
    return owned


def _proposed(
    place: Place, edits: Sequence[EntryEdit], draft: Draft, base: str, committer: Person
) -> tuple[Record, Change, tuple[EntryEdit, ...]]:
    """The record, the commit to be, and the edits as they stand in it.

    Errors as :func:`propose` for what an agent may not do.
    """
    author = identity.agent(place.repository)
    content = Content(place.repository, base)
    owned = tuple(agent_edit(content, e, draft.origin, may_verify=draft.may_verify) for e in edits)
    record = _record(content, owned, draft, author.name)
    files = file_edits(content, owned) | {record_path(record.id): record_file(record)}
    return record, Change(files, commit_message(record), author, committer), owned


def _record(content: Content, edits: Sequence[EntryEdit], draft: Draft, name: str) -> Record:
    changes = changes_of(content, edits)
    if not changes:
        raise HarnessError("the edits leave every entry as it is", id="nothing_changed")
    return Record(
        type=RecordType.UPDATE,
        id=new_ulid(),
        actor=Actor("agent", name),
        base=content.commit,
        summary=draft.summary,
        why=draft.why,
        expected_outcome=draft.expected_outcome,
        how_to_see=draft.how_to_see,
        model=draft.model,
        entries=changes,
        evidence=draft.evidence,
        origin=draft.origin,
        risk=draft.risk,
    )


def list_proposals(place: Place, cache: HistoryCache | None = None) -> tuple[Proposal, ...]:
    """Open proposals, oldest first; a ref whose update is landed or rejected is a left-over and is none."""
    return tuple(_open(place, place.repository.refs.names(PROPOSALS), cache or HistoryCache()))


def find_proposal(place: Place, prefix: str, cache: HistoryCache) -> Proposal:
    """The open proposal whose id starts with ``prefix``.

    :raises NotFoundError: ``no_proposal``; ``decided``: the update landed or was rejected.
    :raises UsageError: ``ambiguous_revision``.
    """
    wanted = prefix.strip().upper()
    names = place.repository.refs.names(PROPOSALS + wanted) if wanted else ()
    everything = {p.id: p for p in _open(place, names, cache)}
    update = one_of(prefix, everything)
    if update is None:
        raise _decided(place, prefix, wanted, cache) or NotFoundError(
            f"there is no open proposal '{prefix}'", id="no_proposal", hint="harnessctl review list"
        )
    return everything[update]


def _decided(place: Place, prefix: str, wanted: str, cache: HistoryCache) -> NotFoundError | None:
    """What became of the update whose id starts with ``wanted``, None when there is no such update."""
    rows = list_updates(place, cache, lambda row: bool(wanted and row.id.startswith(wanted)))
    found = {row.id: row for row in rows}
    update = one_of(prefix, found)
    if update is None:
        return None
    row = found[update]
    became = {
        UpdateState.REJECTED: "was rejected",
        UpdateState.TAKEN_BACK: "landed, and was taken back later",
        UpdateState.LANDED: "landed",
    }.get(row.state or UpdateState.OPEN)
    if became is None:
        return None
    by = f" by {row.accepter.name}" if row.accepter else ""
    message = f"{update} is no open proposal: it {became} ({row.commit.id[:12]}{by})"
    return NotFoundError(message, id="decided", hint=f"harnessctl show {update}")


def _open(place: Place, names: Sequence[str], cache: HistoryCache) -> Iterator[Proposal]:
    """The proposals under the refs ``names`` that nobody has decided on; what cannot be read is none."""
    tips = [Content(place.repository, tip) for tip in place.landed_tips()]
    decided = set(rejected_waiting(place))
    if len(names) > FEW:
        decided.update(ever_landed(place, cache), *(rejected_since(None, tip, cache) for tip in tips))
    for name in names:
        update = name.removeprefix(PROPOSALS)
        oid = place.repository.refs.read(name)
        if oid is None or update in decided or any(tip.has_record(update) for tip in tips):
            continue
        proposal = _read(place, update, oid)
        if proposal is None or (len(names) <= FEW and _decided_since(place, proposal, tips, cache)):
            continue
        yield proposal
    cache.save()


def _decided_since(place: Place, proposal: Proposal, tips: Sequence[Content], cache: HistoryCache) -> bool:
    """Whether a decision rejects it, or it landed and a revert took its record away, since its base."""
    if any(_rejected(proposal, tip, cache) for tip in tips):
        return True
    return proposal.id in ever_landed(place, cache, proposal.base)


def _rejected(proposal: Proposal, tip: Content, cache: HistoryCache) -> bool:
    """Whether ``tip`` holds a decision against ``proposal``: it came after the proposal's base."""
    return proposal.id in rejected_since(Content(tip.repository, proposal.base), tip, cache)


def _read(place: Place, update: str, oid: str) -> Proposal | None:
    if Content(place.repository, oid).unreadable:  # one bad ref must not hide the others; doctor names it
        return None
    record = find_record(Content(place.repository, oid), update)
    commit = place.repository.commit(oid)
    if record is None or not commit.parents:
        return None
    return Proposal(update, oid, commit.parents[0], record, commit.author, conflicts(place, oid))


def accept(writer: Writer, proposal: Proposal, cache: HistoryCache) -> Moved:
    """Land ``proposal`` as a new commit on the tip; author as proposed, committer who accepts.

    :raises ConflictError: ``conflict``: the proposal stays as it is.
    :raises RefusedError: ``not_owner``, ``bad_proposal``: made past the proposal door.
    """
    place = writer.place
    committer = identity.committer(place.repository, place.environment)
    base, theirs = Content(place.repository, proposal.base), Content(place.repository, proposal.commit)

    def plan(tip: Content) -> Change:
        _refuse_decided(proposal, tip, cache)
        if proposal.id in rejected_waiting(place):
            raise _already(proposal, "rejected")
        merged = merge(base, theirs, tip)
        _refuse_conflict(proposal, merged)
        writer.checks.refuse_overreach(base, _asked(base, theirs), proposal.record)
        _refuse_forged(proposal, base, theirs, tip, merged)
        files = {path: _file(theirs, path, item) for path, item in merged.edits.items()}
        return Change(files, commit_message(proposal.record, committer), proposal.author, committer)

    merge_it = f"git merge {PROPOSALS}{proposal.id} there lands it"
    moved = land(writer, plan, f"{merge_it}; harnessctl review pr {proposal.id} offers it as a pull request")
    remove(writer, proposal)
    return moved


def _asked(base: Content, theirs: Content) -> Edits:
    """Everything that ``theirs`` changes below ``.harness/``, be it an update's business or not."""
    entries, others = changed_entries(base, theirs)
    edits: TreeEdits = {}
    for entry in entries:
        edits |= replacing(base.listing(entry), theirs.listing(entry))
    for path in others:
        item = theirs.item(path)
        edits[path] = (item.mode, item.oid) if item else None
    return {path: _file(theirs, path, item) for path, item in edits.items()}


def _file(content: Content, path: str, item: tuple[int, str] | None) -> EntryFile | None:
    return EntryFile(path, item[0], content.repository.blob(item[1])) if item else None


def _refuse_conflict(proposal: Proposal, merged: Merged) -> None:
    if merged.conflicts:
        raise ConflictError(
            f"{', '.join(merged.conflicts)} changed on the branch since the base of {proposal.id}",
            id="conflict",
            hint=f"it stays open: harnessctl review rebase {proposal.id} puts it on the branch if no lines "
            f"meet, harnessctl review edit {proposal.id} shows both sides, "
            f"harnessctl review reject {proposal.id} ends it",
        )


def _refuse_forged(proposal: Proposal, base: Content, theirs: Content, tip: Content, merged: Merged) -> None:
    """A ref can be made with git alone: what the door would refuse is refused at landing too."""
    record = proposal.record
    if merged.strangers:
        raise _bad(proposal, f"it changes {merged.strangers[0]}, which only people change")
    records = [p for p in merged.edits if entry_of(p) is None]
    if records != [record_path(proposal.id)] or record.type is not RecordType.UPDATE:
        raise _bad(proposal, "it brings other records than its own, or none")
    entries = changed_entries(base, theirs)[0]
    told = {c.id: (c.before, c.after) for c in record.entries}
    real = {str(e): (entry_digest(base.entry(e)), entry_digest(theirs.entry(e))) for e in entries}
    if told != real:
        raise _bad(proposal, "its record does not tell what it changes")
    for entry in entries:
        if Owner.HUMAN in (owner_of(tip, entry), owner_of(theirs, entry)):
            raise RefusedError(
                f"{entry} is owned by a human; no agent's proposal may {_action(record, entry)} it",
                id="not_owner",
                hint="reject the proposal",
            )


def _action(record: Record, entry: EntryId) -> str:
    return next((c.action for c in record.entries if c.id == str(entry)), "change")


def _bad(proposal: Proposal, why: str) -> RefusedError:
    return RefusedError(
        f"proposal {proposal.id} was not made by harnessctl: {why}", id="bad_proposal", hint="reject it"
    )


def _refuse_decided(proposal: Proposal, tip: Content, cache: HistoryCache) -> None:
    """:raises ConflictError: ``already_landed`` or ``already_rejected``: somebody else was faster."""
    if tip.has_record(proposal.id):
        raise _already(proposal, "landed")
    if _rejected(proposal, tip, cache):
        raise _already(proposal, "rejected")


def _already(proposal: Proposal, how: str) -> ConflictError:
    return ConflictError(
        f"{proposal.id} is {how} already", id=f"already_{how}", hint="harnessctl log tells by whom"
    )


def reject(
    writer: Writer, proposal: Proposal, why: str, cache: HistoryCache, *, waits: bool
) -> tuple[Record, str]:
    """Decide against ``proposal``; the decision's record and commit.

    :param waits: the branch cannot be moved now: keep the decision under a ref until the next landing.
    :raises ConflictError: ``already_landed``, ``already_rejected``.
    """
    record, change = _decision(writer, proposal, why)

    def plan(tip: Content) -> Change:
        _refuse_decided(proposal, tip, cache)
        return change

    if waits:
        commit = park(writer, record, plan(Content(writer.place.repository, record.base)))
    else:
        commit = land(writer, plan).new
    remove(writer, proposal)
    return record, commit


def _decision(writer: Writer, proposal: Proposal, why: str) -> tuple[Record, Change]:
    """The record that rejects ``proposal``, and the commit that would land it.

    It keeps what was proposed as digests, and on which events, so that the same is not proposed
    again without new evidence once the proposal's own commit is gone.
    """
    place = writer.place
    person = identity.committer(place.repository, place.environment)
    record = Record(
        type=RecordType.DECISION,
        id=new_ulid(),
        actor=Actor("human", person.name),
        base=place.landing_tip(),
        summary=f"reject {proposal.id}: {proposal.record.summary}",
        why=why,
        entries=proposal.record.entries,
        evidence=tuple(replace(e, quotes=(), excerpt=()) for e in proposal.record.evidence),
        of=proposal.id,
        verdict=Verdict.REJECTED,
    )
    files: Edits = {record_path(record.id): record_file(record)}
    author = identity.author(place.repository, place.environment)
    return record, Change(files, commit_message(record), author, person)


def remove(writer: Writer, proposal: Proposal) -> None:
    """Take away a decided proposal's ref, unless somebody put another commit there meanwhile.

    One that stays counts as decided, by its record, until `doctor` takes it away.
    """
    with suppress(LostRaceError, ConflictError):
        writer.settle(PROPOSALS + proposal.id, proposal.commit, None, "decided", "cleaned")
