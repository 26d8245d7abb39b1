"""Recomputing what a record says about the entries it changed, from the trees of its commit."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator, Sequence

from harnessctl.domain.errors import HarnessError
from harnessctl.domain.ids import EntryId, record_path
from harnessctl.domain.update import EntryChange, Record, RecordType
from harnessctl.layers.l3_durable.content import Content, entry_digest
from harnessctl.layers.l3_durable.files.schema import validate
from harnessctl.layers.l3_durable.git.graph import shallow_commits
from harnessctl.layers.l3_durable.history.updates import Update, brought_by
from harnessctl.layers.l3_durable.places.mode import Place


def record_problems(place: Place, update: Update) -> tuple[str, ...]:
    """What is wrong with the record of ``update``, each as ``field: what``; empty when all of it stands.

    Looked at are the record's form, that it is the same in the landed state as in the commit that
    brought it, and the digests of every entry it changed before and after that commit.
    """
    record = update.record
    if record is None:
        return ("record: there is none",)
    if record.id != update.id:  # a decision tells of a proposal that is gone
        return tuple(_form(place, update.commit.id, record.id))
    return (
        *_form(place, update.commit.id, update.id),
        *_changed_since(place, update),
        *_digests(place, update.commit.id, record),
    )


def other_records(place: Place, told: Collection[str]) -> Iterator[tuple[str, tuple[str, ...]]]:
    """(id, problems of form) of each record in the landed state that is not among ``told``."""
    for tip in place.landed_tips():
        for update in sorted(Content(place.repository, tip).records().keys() - set(told)):
            yield update, tuple(_form(place, tip, update))


def _form(place: Place, commit: str, update: str) -> Iterator[str]:
    data = Content(place.repository, commit).read(record_path(update))
    if data is None:
        yield "record: it is not in the commit that brought it"
        return
    try:
        value = json.loads(data)
    except (ValueError, RecursionError):
        yield "record: not JSON"
        return
    for problem in validate("record", value):
        yield f"{problem.path or 'record'}: {problem.message}"
    if isinstance(value, dict) and value.get("id") != update:
        yield "id: not that of the file's name"


def _changed_since(place: Place, update: Update) -> Iterator[str]:
    """Records are add-only: a later commit that writes into one is named."""
    path = record_path(update.id)
    then = Content(place.repository, update.commit.id).read(path)
    for tip in place.landed_tips():
        now = Content(place.repository, tip).read(path)
        if now is not None and now != then:
            yield f"record: it was changed after {update.commit.id[:12]} brought it"
            return


def _digests(place: Place, commit: str, record: Record) -> Iterator[str]:
    found = place.repository.commit(commit)
    if commit in shallow_commits(place.repository):
        return  # what was before is not in this clone
    after = Content(place.repository, commit)
    parents = [Content(place.repository, p) for p in found.parents if place.repository.has(p)]
    beside = [r for r in brought_by(place, commit) if r.id != record.id and r.type is not RecordType.DECISION]
    for change in record.entries:
        try:
            yield from _change(change, parents, after, beside)
        except HarnessError as error:
            yield f"entries[{change.id}]: {error.message}"


def _change(
    change: EntryChange, parents: Sequence[Content], after: Content, beside: Sequence[Record]
) -> Iterator[str]:
    """A squash of several updates of one entry shows only the first state and the last: the records in
    it must then form a chain."""
    entry = EntryId.parse(change.id)
    others = [c for record in beside for c in record.entries if c.id == change.id]
    old = {entry_digest(parent.entry(entry)) for parent in parents} or {None}
    new = entry_digest(after.entry(entry))
    if change.after != new and change.after not in {c.before for c in others}:
        yield f"entries[{change.id}].after: {change.after} in the record, {new} in the commit"
    was_so_already = old == {new} == {change.after}
    if change.before not in old | {c.after for c in others} and not was_so_already:
        stated = ", ".join(sorted(str(digest) for digest in old))
        yield f"entries[{change.id}].before: {change.before} in the record, {stated} in the commit's parent"
