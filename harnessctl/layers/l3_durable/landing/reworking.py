"""A waiting proposal made anew: on the tip after the branch moved, or with a reviewer's own words.

The id stays, the ref moves by compare-and-swap, and the record tells the new digests. Landing stays
as it is: entry by entry, nothing mixed. Here, where a person looks at the result before it can land,
lines that both sides changed in different places of one entry are merged.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from harnessctl.domain.entry import EntryFile
from harnessctl.domain.errors import ConflictError, HarnessError, RefusedError, UsageError
from harnessctl.domain.ids import EntryId, record_path
from harnessctl.domain.update import EntryEdit
from harnessctl.layers.l3_durable.checking.ownership import agent_edit
from harnessctl.layers.l3_durable.content import Content, entry_of
from harnessctl.layers.l3_durable.files.message import commit_message
from harnessctl.layers.l3_durable.git.lost_race import LostRaceError
from harnessctl.layers.l3_durable.git.text_merge import has_marks, marked_text, merge_text
from harnessctl.layers.l3_durable.history.merge import changed_entries
from harnessctl.layers.l3_durable.landing.proposals import Proposal, changes_of, file_edits, record_file
from harnessctl.layers.l3_durable.landing.writer import Change, Writer
from harnessctl.layers.l3_durable.places import identity
from harnessctl.layers.l3_durable.places.names import PROPOSALS

_Listing = Mapping[str, tuple[int, str]]


@dataclass(frozen=True)
class Reworked:
    """The proposal as it is now.

    :ivar merged: entries in which lines of both sides stand together: worth a look.
    :ivar settled: entries that are on the branch already as proposed, and left the proposal.
    """

    proposal: Proposal
    merged: tuple[str, ...] = ()
    settled: tuple[str, ...] = ()


@dataclass(frozen=True)
class Editable:
    """What a reviewer edits.

    :ivar base: commit that the result will be a change of.
    :ivar files: as proposed; after a conflict what the branch and the proposal make together, with marks
        around the lines that both changed; what it deletes and the branch changed, as the branch has it.
    """

    base: str
    files: tuple[EntryFile, ...]


def rebase(writer: Writer, proposal: Proposal) -> Reworked:
    """Put ``proposal`` on the landed tip.

    :raises ConflictError: ``conflict``: names entries and files whose lines both sides changed;
        ``moved_ref``: the proposal moved meanwhile.
    :raises HarnessError: ``nothing_changed``: it is on the tip, or the branch says the same already.
    :raises RefusedError: ``not_owner``: a human owns the entry by now; ``overreach``.
    """
    place = writer.place
    tip = Content(place.repository, place.landing_tip())
    if proposal.base == tip.commit:
        raise HarnessError(
            f"{proposal.id} is on the tip already",
            id="nothing_changed",
            hint=f"harnessctl review show {proposal.id}",
        )
    base, theirs = Content(place.repository, proposal.base), Content(place.repository, proposal.commit)
    edits, merged, settled, stuck = [], [], [], []
    for entry in changed_entries(base, theirs)[0]:
        sides = tuple(c.listing(entry) for c in (base, tip, theirs))
        files, mixed, conflicts = _merge_entry(writer, *sides)
        stuck += [f"{entry} ({', '.join(conflicts)})"] if conflicts else []
        if sides[1] == sides[2]:
            settled.append(str(entry))
            continue
        merged += [str(entry)] if mixed else []
        edits.append(EntryEdit(entry, "update" if files else "delete", files))
    if stuck:
        raise ConflictError(
            f"the branch and {proposal.id} both changed the same lines of {'; '.join(stuck)}",
            id="conflict",
            hint=f"the proposal stays as it is: harnessctl review edit {proposal.id} shows both sides and "
            f"puts what you make of them on the branch; harnessctl review reject {proposal.id} ends it",
        )
    return replace(_write(writer, proposal, tip, edits), merged=tuple(merged), settled=tuple(settled))


def _merge_entry(
    writer: Writer, base: _Listing, ours: _Listing, theirs: _Listing
) -> tuple[tuple[EntryFile, ...], bool, list[str]]:
    """(files, whether lines of both sides stand in one entry, paths in conflict)."""
    if ours == base:
        return _files(writer, theirs), False, []
    files: list[EntryFile] = []
    conflicts: list[str] = []
    for path in sorted(base.keys() | ours.keys() | theirs.keys()):
        old, now, new = base.get(path), ours.get(path), theirs.get(path)
        if now in (old, new):
            files += _files(writer, {path: new} if new else {})
        elif new == old:
            files += _files(writer, {path: now} if now else {})
        else:
            made = _merge_file(writer, path, old, now, new)
            files += [made] if made else []
            conflicts += [] if made else [path]
    return tuple(files), True, conflicts


def _merge_file(
    writer: Writer,
    path: str,
    old: tuple[int, str] | None,
    now: tuple[int, str] | None,
    new: tuple[int, str] | None,
) -> EntryFile | None:
    if old is None or now is None or new is None:
        return None
    data = merge_text(writer.place.repository, old[1], now[1], new[1])
    return EntryFile(path, _mode(old, now, new), data) if data is not None else None


def _mode(old: tuple[int, str] | None, now: tuple[int, str], new: tuple[int, str]) -> int:
    return now[0] if old is not None and now[0] != old[0] else new[0]


def _files(writer: Writer, listing: _Listing) -> tuple[EntryFile, ...]:
    blob = writer.place.repository.blob
    return tuple(EntryFile(path, mode, blob(oid)) for path, (mode, oid) in sorted(listing.items()))


def proposed_files(writer: Writer, proposal: Proposal) -> tuple[EntryFile, ...]:
    """Files of the entries that ``proposal`` creates or changes, as proposed."""
    theirs = Content(writer.place.repository, proposal.commit)
    return tuple(f for c in proposal.record.entries for f in theirs.entry(EntryId.parse(c.id)))


def editable(writer: Writer, proposal: Proposal, begun_on: str = "") -> Editable:
    """What a person edits of ``proposal``: on its own base, or after a conflict on the landed tip.

    :param begun_on: an earlier tip on which a conflict was begun to be settled: it stays the base as long
        as the branch has not changed the same entries again.
    """
    place = writer.place
    if not proposal.conflicts:
        return Editable(proposal.base, proposed_files(writer, proposal))
    tip = Content(place.repository, place.landing_tip())
    base, theirs = Content(place.repository, proposal.base), Content(place.repository, proposal.commit)
    entries = [EntryId.parse(c.id) for c in proposal.record.entries]
    if begun_on and place.repository.has(begun_on):
        earlier = Content(place.repository, begun_on)
        tip = earlier if all(earlier.listing(e) == tip.listing(e) for e in entries) else tip
    files: list[EntryFile] = []
    for entry in entries:
        sides = [c.listing(entry) for c in (base, tip, theirs)]
        if sides[2]:
            files += _marked_entry(writer, *sides)
        elif sides[1] != sides[0]:  # it goes if the person, who sees it, takes it away
            files += _files(writer, sides[1])
    return Editable(tip.commit, tuple(files))


def _marked_entry(writer: Writer, base: _Listing, ours: _Listing, theirs: _Listing) -> list[EntryFile]:
    """An entry as both sides make it; where they cannot be put together, as proposed.

    A file that the proposal removes and the branch changed is there as the branch has it.
    """
    files: list[EntryFile] = []
    for path in sorted(base.keys() | ours.keys() | theirs.keys()):
        old, now, new = base.get(path), ours.get(path), theirs.get(path)
        taken = now if new in (old, None) and now != old else new
        if now not in (old, new) and new not in (old, None) and now is not None and new is not None:
            data = marked_text(writer.place.repository, old and old[1], now[1], new[1])
            if data is not None:
                files.append(EntryFile(path, _mode(old, now, new), data))
                continue
        files += _files(writer, {path: taken} if taken else {})
    return files


def edit(writer: Writer, proposal: Proposal, files: Sequence[EntryFile], onto: str = "") -> Reworked:
    """Replace what ``proposal`` proposes by a person's version; deletions it proposes stay.

    The record says who edited it; owner and origin stay the agent's, and so does what may be claimed.

    :param files: every file of every entry it creates or changes; an entry with none left is deleted,
        or, where the proposal would create it, dropped.
    :param onto: commit of the branch that ``files`` are a change of; "" for the proposal's base.
    :raises UsageError: ``stray_file``: of an entry that the proposal does not touch.
    :raises ConflictError: ``unsettled``: marks of :func:`editable` still stand in the text.
    :raises HarnessError: ``nothing_changed``, ``invalid_entry``.
    :raises RefusedError: ``secret_found``, ``not_owner``; ``overreach``, as ``accept`` would. The proposal
        stays as it was.
    """
    place = writer.place
    onto = onto or proposal.base
    if onto == proposal.base and {f.path: (f.mode, f.data) for f in files} == {
        f.path: (f.mode, f.data) for f in proposed_files(writer, proposal)
    }:
        raise nothing_changed()
    if onto != proposal.base and (marked := [f.path for f in files if has_marks(f.data)]):
        raise ConflictError(
            f"lines of the branch and of the proposal still stand side by side in {', '.join(marked)}",
            id="unsettled",
            hint="choose between <<<<<<< and >>>>>>>, and take the marks out",
        )
    base = Content(place.repository, onto)
    touched: dict[EntryId, list[EntryFile]] = {EntryId.parse(c.id): [] for c in proposal.record.entries}
    for file in files:
        entry = entry_of(file.path)
        if entry is None or entry not in touched:
            raise UsageError(
                f"{file.path} belongs to no entry of this proposal", id="stray_file", hint="take it out again"
            )
        touched[entry].append(file)
    edits = [EntryEdit(e, "update" if found else "delete", tuple(found)) for e, found in touched.items()]
    person = identity.committer(place.repository, place.environment).name
    said = f"Edited in review by {person}."
    why = proposal.record.why
    told = why if said in why else f"{why}\n{said}".strip()
    changed = replace(proposal, record=replace(proposal.record, why=told))
    try:
        return _write(writer, changed, base, edits)
    except RefusedError as error:
        if error.id == "overreach":
            error.hint += "; once it has landed, harnessctl edit makes it your own word"
        raise


def nothing_changed() -> HarnessError:
    """The error of an edit that left everything as it was."""
    return HarnessError("nothing was changed", id="nothing_changed", hint="the proposal stays as it was")


def _write(writer: Writer, proposal: Proposal, base: Content, edits: Sequence[EntryEdit]) -> Reworked:
    place = writer.place
    origin = proposal.record.origin
    # The record's own evidence says below whether a gate passed.
    owned = [agent_edit(base, e, origin, may_verify=True) for e in edits]
    changes = changes_of(base, owned)
    if not changes:
        raise HarnessError(
            f"nothing is left of {proposal.id}: the branch says the same already",
            id="nothing_changed",
            hint="harnessctl review reject",
        )
    record = replace(proposal.record, base=base.commit, entries=changes)
    files = file_edits(base, owned) | {record_path(record.id): record_file(record)}
    # It stays the agent's update, whoever chose the words: what its landing would refuse is said now.
    writer.checks.refuse_overreach(base, files, record)
    committer = identity.committer(place.repository, place.environment)
    commit, _ = writer.build(base.commit, Change(files, commit_message(record), proposal.author, committer))
    try:
        writer.settle(PROPOSALS + record.id, proposal.commit, commit, "rework")
    except LostRaceError as error:
        raise ConflictError(
            f"{record.id} was changed or decided meanwhile", id="moved_ref", hint="harnessctl review list"
        ) from error
    return Reworked(Proposal(record.id, commit, base.commit, record, proposal.author))
