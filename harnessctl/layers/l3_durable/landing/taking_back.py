"""``rollback --only REV``: one update is taken back, and everything that came later stays.

Each entry of the update must still be what the update made of it; whatever came later and would be
lost is named, and nothing is done.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from harnessctl.domain.entry import EntryFile, Owner
from harnessctl.domain.errors import ConflictError, HarnessError, NotFoundError, UsageError
from harnessctl.domain.ids import HARNESS_DIR, UPDATES_DIR, EntryId, suggestion
from harnessctl.domain.update import EntryChange, EntryEdit, Record, RecordType
from harnessctl.layers.l3_durable.checking.ownership import owner_of
from harnessctl.layers.l3_durable.content import Content, entry_digest, entry_of
from harnessctl.layers.l3_durable.git.history import reaches
from harnessctl.layers.l3_durable.history.records import Step, step, steps
from harnessctl.layers.l3_durable.history.updates import brought_by
from harnessctl.layers.l3_durable.landing.rollback import Plan, Wanted, make_plan, ways_back
from harnessctl.layers.l3_durable.places.mode import Place


@dataclass(frozen=True)
class _Undo:
    """One entry's way back: to what it is in ``old``, None where there was no entry."""

    entry: EntryId
    old: Content | None
    human: bool

    @property
    def files(self) -> tuple[EntryFile, ...]:
        """As they were before the update."""
        return self.old.entry(self.entry) if self.old else ()


def plan_only(place: Place, wanted: Wanted, tip: Content) -> Plan:
    """The commit that takes back the one update that ``wanted.rev`` names.

    :raises ConflictError: ``later_edit``: names each entry that changed again since, and by what.
    :raises NotFoundError: ``no_update``, ``state_lost``; ``no_entry``: it changed none of that name.
    :raises UsageError: ``ambiguous_revision``: the commit brought several.
    :raises HarnessError: ``not_behind``, ``nothing_changed``.
    """
    if not reaches(place.repository, (tip.commit,), wanted.target):
        raise HarnessError(
            f"{wanted.rev} is not landed on '{place.branch}', so there is nothing to take back",
            id="not_behind",
            hint="an open proposal is decided with harnessctl review reject",
        )
    record = _chosen(place, wanted)
    changed = [c.id for c in record.entries]
    for name in wanted.entries:
        if name not in changed:
            raise NotFoundError(
                f"{record.id} changed no entry '{name}'",
                id="no_entry",
                hint=f"{suggestion(name, changed)}it changed {', '.join(changed)}",
            )
    standing = [
        (c, now)
        for c in record.entries
        if wanted.wants(EntryId.parse(c.id)) and (now := _digest(tip, c.id)) != c.before
    ]
    if not standing:
        raise HarnessError(
            f"nothing of {record.id} stands today; it was taken back already",
            id="nothing_changed",
            hint="harnessctl log says by what",
        )
    _refuse_later(place, wanted, tip, [c.id for c, now in standing if now != c.after])
    undone = [_undo(place, wanted, tip, change) for change, _ in standing]
    edits = [EntryEdit(u.entry, "update" if u.files else "delete", u.files) for u in undone if not u.human]
    kept = tuple(str(u.entry) for u in undone if u.human)
    if not edits:
        raise HarnessError(
            f"what {record.id} changed is owned by a human and stays as it is: {', '.join(kept)}",
            id="nothing_changed",
            hint=ways_back((u.entry, u.old) for u in undone),
        )
    return make_plan(place, tip, edits, f"take back {record.id}: {record.summary}", (record.id,), kept)


def by_hand(place: Place, tip: Content, record: Record) -> str:
    """How a person makes the rollback ``record`` with git, newest update first; "" without updates.

    Git takes back whole commits: what else one of them holds is named.
    """
    wanted = set(record.takes_back)
    found = [s for s in steps(place.repository, (tip.commit,)) if wanted & set(s.updates)]
    if not found:
        return ""
    more = sorted({update for s in found for update in s.updates} - wanted)
    files = {path for s in found for path in _others(place, s, record)}
    if files:
        more.append(f"{len(files)} other file{'s' if len(files) > 1 else ''}")
    also = f", and with it {' and '.join(more)}" if more else ""
    return f"git revert {' '.join(s.commit[:12] for s in found)} there takes it back{also}"


def _others(place: Place, found: Step, record: Record) -> Iterator[str]:
    """Files that a commit changed and neither ``record`` nor an update of the commit speaks of."""
    spoken = {c.id for r in (record, *_other_updates(place, found, record)) for c in r.entries}
    commit = place.repository.commit(found.commit)
    before = place.repository.commit(commit.parents[0]).tree if commit.parents else None
    for path in place.repository.changed(before, commit.tree):
        below = path.removeprefix(f"{HARNESS_DIR}/")
        entry = entry_of(below) if below != path else None
        if below == path or not (below.startswith(f"{UPDATES_DIR}/") or str(entry) in spoken):
            yield path


def _other_updates(place: Place, found: Step, record: Record) -> Iterator[Record]:
    return (r for r in brought_by(place, found.commit) if r.id not in record.takes_back)


def _chosen(place: Place, wanted: Wanted) -> Record:
    """The record that ``wanted.rev`` means among those its commit brought."""
    brought = brought_by(place, wanted.target)
    found = [r for r in brought if r.type is not RecordType.DECISION]
    named = [r for r in found if r.id.startswith(wanted.rev.strip().upper())] or found
    if not named and brought:
        raise NotFoundError(
            f"{wanted.rev} brought no update; it holds the decision on {brought[0].of}",
            id="no_update",
            hint=f"a decision changes no entry; harnessctl show {brought[0].of} has what was decided on",
        )
    if not named:
        raise NotFoundError(
            f"{wanted.rev} brought no update",
            id="no_update",
            hint="what a person committed by hand is taken back with git revert, or harnessctl rollback REV",
        )
    if len(named) > 1:
        raise UsageError(
            f"{wanted.rev} brought {len(named)} updates: {', '.join(r.id for r in named)}",
            id="ambiguous_revision",
            hint="name one of them by its id",
        )
    return named[0]


def _digest(content: Content, entry: str) -> str | None:
    return entry_digest(content.entry(EntryId.parse(entry)))


def _refuse_later(place: Place, wanted: Wanted, tip: Content, later: list[str]) -> None:
    if not later:
        return
    by: dict[str, Step] = {}
    for found in [
        *steps(place.repository, (tip.commit,), (wanted.target,)),
        step(place.repository, wanted.target),
    ]:
        for entry in set(later) & set(found.entries):
            by.setdefault(entry, found)
    named = ", ".join(f"{entry} (by {_name(by.get(entry))})" for entry in later)
    raise ConflictError(
        f"changed again since {wanted.rev}, and that would be lost: {named}",
        id="later_edit",
        hint="take the later change back first, or go back behind both: harnessctl rollback REV",
    )


def _name(found: Step | None) -> str:
    if found is None:
        return "a commit"
    return " and ".join(found.updates) or f"commit {found.commit[:12]}"


def _undo(place: Place, wanted: Wanted, tip: Content, change: EntryChange) -> _Undo:
    entry = EntryId.parse(change.id)
    if change.before is None:
        return _Undo(entry, None, owner_of(tip, entry) is Owner.HUMAN)
    old = _holding(place, wanted.target, entry, change.before)
    owner = owner_of(tip, entry) or owner_of(old, entry)
    return _Undo(entry, old, owner is Owner.HUMAN)


def _holding(place: Place, commit: str, entry: EntryId, digest: str) -> Content:
    """The newest state up to ``commit`` in which ``entry`` has ``digest``.

    :raises NotFoundError: ``state_lost``: a squash merged it with what came after.
    """
    for found in steps(place.repository, (commit,)):
        if str(entry) in found.entries:
            for parent in place.repository.commit(found.commit).parents:
                content = Content(place.repository, parent)
                if _digest(content, str(entry)) == digest:
                    return content
    raise NotFoundError(
        f"the state of {entry} before the update is in no commit of this clone: it was squashed away",
        id="state_lost",
        hint="write it anew: harnessctl add",
    )
