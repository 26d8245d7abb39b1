"""Lint rules on records: their form, and that none changes, or goes without what it did (``git revert``)."""

from __future__ import annotations

import json
from collections import Counter, defaultdict
from collections.abc import Container, Iterator, Mapping, Sequence

from harnessctl.domain.canonical import files_digest, sha256_hex
from harnessctl.domain.finding import Finding
from harnessctl.domain.ids import EntryId, Kind
from harnessctl.domain.update import EntryChange, Record
from harnessctl.layers.l3_durable.files.schema import validate
from harnessctl.layers.l3_durable.files.tree import EXECUTABLE, FILE, TreeItem
from harnessctl.layers.l3_durable.rules import lint_rules as rules
from harnessctl.layers.l3_durable.rules.change import Change, LintContext
from harnessctl.layers.l3_durable.rules.load_rules import MAX_OTHER_FILE, MAX_RECORD
from harnessctl.layers.l3_durable.rules.names import place
from harnessctl.layers.l3_durable.rules.registry import found

#: An update the way back: the entry's digest after it, and before it; None for an entry that is not there.
_Way = tuple[str | None, str | None]


def check_record(change: Change, data: bytes) -> Iterator[Finding]:
    """HRN214 on a record that a change adds."""
    try:
        value = json.loads(data.decode("utf-8"))
    except (ValueError, RecursionError) as error:
        line, column = (error.lineno, error.colno) if isinstance(error, json.JSONDecodeError) else (0, 0)
        yield found(rules.RECORD, change.path, "is not JSON in UTF-8", line=line, column=column)
        return
    problems = validate("record", value)
    for problem in problems:
        place = f"'{problem.path}' " if problem.path else ""
        yield found(rules.RECORD, change.path, f"{place}{problem.message}")
    if problems:
        return
    name = change.path.rpartition("/")[2].removesuffix(".json")
    if value["id"] != name:
        yield found(rules.RECORD, change.path, f"its id is '{value['id']}', its name says '{name}'")
    elif Record.from_json(value).to_bytes() != data:
        message = "is not written as records are: sorted keys, two spaces, LF, UTF-8"
        yield found(rules.RECORD, change.path, message)


def check_untouched(change: Change, reverted: Container[str]) -> Iterator[Finding]:
    """HRN215 on a record that was there before, unless it is one of :func:`reverted_records`."""
    if change.before is not None and change.path not in reverted:
        what = "is deleted" if change.after is None else "is changed"
        yield found(rules.RECORD_CHANGED, change.path, f"{what}; records are only ever added")


def reverted_records(changes: Sequence[Change], context: LintContext) -> frozenset[str]:
    """Paths of deleted records whose entries, each of them, became what they were before the update.

    A change may take several updates of one entry back. The entry must then lead from what it was to
    what it is through all of them.
    """
    gone: dict[str, list[EntryId]] = {}
    ways: defaultdict[EntryId, list[_Way]] = defaultdict(list)
    for change in changes:
        if change.after is not None or place(change.path).role != "record":
            continue
        gone[change.path] = []
        for done in _entry_changes(change):
            entry = EntryId.parse(done.id)
            gone[change.path].append(entry)
            ways[entry].append((done.after, done.before))
    back = {e for e in ways if _lead(ways[e], _digest(e, context.before), _digest(e, context.after))}
    return frozenset(path for path, entries in gone.items() if entries and back.issuperset(entries))


def _entry_changes(change: Change) -> tuple[EntryChange, ...]:
    """What a deleted record did to entries; () of a decision and of what is no record."""
    item = change.before
    if item is None or item.mode != FILE or item.length() > MAX_RECORD:
        return ()
    data = item.read()
    return () if any(check_record(change, data)) else Record.from_json(json.loads(data)).entries


def _lead(ways: Sequence[_Way], start: str | None, end: str | None) -> bool:
    """Whether one path from ``start`` to ``end`` uses each of ``ways`` once."""
    sources, targets = (Counter(side) for side in zip(*ways, strict=True))
    if sources + Counter([end]) != targets + Counter([start]):
        return False
    reached, ahead = {start}, list(ways)
    while near := [way for way in ahead if way[0] in reached]:
        ahead = [way for way in ahead if way[0] not in reached]
        reached.update(target for _, target in near)
    return not ahead


def _digest(entry: EntryId, tree: Mapping[str, TreeItem]) -> str | None:
    """Content digest of ``entry`` in ``tree``, None when it is not there; "" when it cannot be told."""
    if entry.kind is Kind.SKILL:
        folder = f"{entry.kind.directory}/{entry.name}/"
        files = [item for path, item in tree.items() if path.startswith(folder)]
    else:
        files = [tree[entry.path]] if entry.path in tree else []
    if any(item.mode not in (FILE, EXECUTABLE) or item.length() > MAX_OTHER_FILE for item in files):
        return ""
    return files_digest((f.path, f.mode, sha256_hex(f.read())) for f in files) if files else None
