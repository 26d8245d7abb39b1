"""Lint over what a change touches: the second half of every check, after the load rules."""

from __future__ import annotations

import tomllib
from collections.abc import Container, Iterator, Mapping, Sequence

from harnessctl.domain.entry import Entry, EntryFile
from harnessctl.domain.finding import Finding
from harnessctl.domain.ids import EntryId
from harnessctl.layers.l3_durable.files.frontmatter import Frontmatter, FrontmatterError, parse
from harnessctl.layers.l3_durable.files.schema import validate
from harnessctl.layers.l3_durable.files.tree import EXECUTABLE, FILE, TreeItem
from harnessctl.layers.l3_durable.rules import lint_rules as rules
from harnessctl.layers.l3_durable.rules.change import Change, LintContext
from harnessctl.layers.l3_durable.rules.entries import Subject, check_entry
from harnessctl.layers.l3_durable.rules.files import check_content, check_name, is_text
from harnessctl.layers.l3_durable.rules.load_rules import MAX_OTHER_FILE
from harnessctl.layers.l3_durable.rules.names import PLACEHOLDER, place
from harnessctl.layers.l3_durable.rules.records import check_record, check_untouched, reverted_records
from harnessctl.layers.l3_durable.rules.registry import found, tidy
from harnessctl.layers.l3_durable.rules.text import check_secrets, check_text


def check_lint(changes: Sequence[Change], context: LintContext) -> tuple[Finding, ...]:
    """Findings of the lint rules on ``changes``, sorted by path and line.

    Files that break a load rule are left to the load rules: they are judged here as far as they go.
    """
    reverted = reverted_records(changes, context)
    found_here = [finding for change in changes for finding in _file(change, context, reverted)]
    touched = {place(change.path).entry for change in changes} - {None}
    for entry in sorted(touched, key=str):
        if entry is not None:
            found_here += _entry(entry, context)
    return tidy(found_here)


def _file(change: Change, context: LintContext, reverted: Container[str]) -> Iterator[Finding]:
    """Rules on one file."""
    where = place(change.path)
    if where.role == "record":
        yield from check_untouched(change, reverted)
    if change.after is None:
        return
    yield from check_name(change.path)
    if where.role == "stray" and not change.path.endswith(PLACEHOLDER):
        yield found(rules.STRAY, change.path, "is neither an entry, nor a record, nor harness.toml")
    data = _read(change.after)
    if data is None:
        return
    if where.role == "record":
        yield from check_record(change, data)
    elif where.role == "policy":
        yield from _policy(change.path, data)
    elif where.role in ("file", "stray"):
        yield from check_content(change.path, data)
    if is_text(data) or where.role == "main":
        yield from check_text(change.path, data, context.allow)
    else:
        yield from check_secrets(change.path, data, context.allow)


def _read(item: TreeItem) -> bytes | None:
    """Content of a plain file of bearable size."""
    if item.mode not in (FILE, EXECUTABLE) or item.known_size() > MAX_OTHER_FILE:
        return None
    data = item.read()
    return data if len(data) <= MAX_OTHER_FILE else None


def _policy(path: str, data: bytes) -> Iterator[Finding]:
    try:
        value = tomllib.loads(data.decode("utf-8-sig"))
    except (ValueError, RecursionError):
        return  # HRN114
    for problem in validate("harness_toml", value):
        where = f"'{problem.path}' " if problem.path else ""
        yield found(rules.POLICY_SCHEMA, path, f"{where}{problem.message}")


def _entry(entry: EntryId, context: LintContext) -> Iterator[Finding]:
    """Rules on one touched entry as a whole; nothing when it is gone or does not parse."""
    after = _build(entry, context.after, context.beside(entry))
    if after is not None:
        before = _build(entry, context.before, ())
        subject = Subject(after[0], after[1], before[0] if before else None)
        yield from check_entry(subject, context.today)


def _build(
    entry: EntryId, tree: Mapping[str, TreeItem], beside: Sequence[TreeItem]
) -> tuple[Entry, Frontmatter] | None:
    """The entry in ``tree``; files beside its main one come without content, for their names."""
    main = tree.get(entry.path)
    data = _read(main) if main is not None else None
    if main is None or data is None:
        return None
    try:
        read = parse(data, "")
    except FrontmatterError:
        return None
    others = tuple(EntryFile(item.path, item.mode, b"") for item in beside if item.path != main.path)
    return Entry(entry, (EntryFile(main.path, main.mode, data), *others), read.meta, read.body), read
