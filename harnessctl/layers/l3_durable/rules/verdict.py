"""What one blob is worth as a file of one kind: a pure function of its bytes, so it can be kept."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harnessctl.domain.entry import Entry
from harnessctl.domain.finding import Finding
from harnessctl.domain.ids import EntryId, Kind
from harnessctl.layers.l3_durable.files.frontmatter import FrontmatterError, parse
from harnessctl.layers.l3_durable.rules.load_rules import MAX_MAIN_FILE, REQUIRED, SIZE
from harnessctl.layers.l3_durable.rules.registry import found


@dataclass(frozen=True, slots=True)
class Verdict:
    """The load rules' verdict on one blob.

    :ivar problems: findings with an empty path, since a blob has none.
    :ivar depends_on: what the entry says it needs, for the rules over the whole harness.
    :ivar depends_line: line of that key, 0 without one.
    """

    problems: tuple[Finding, ...] = ()
    depends_on: tuple[str, ...] = ()
    depends_line: int = 0


def judge(kind: Kind, data: bytes) -> Verdict:
    """The verdict on ``data`` as the main file of an entry of ``kind``."""
    if len(data) > MAX_MAIN_FILE:
        return oversized(len(data))
    try:
        read = parse(data, "")
    except FrontmatterError as error:
        return Verdict((error.finding,))
    problems = _required(read.meta, read.lines)
    entry = Entry(EntryId(kind, "x"), (), read.meta)
    line = read.lines.get("depends_on") or read.lines.get("metadata.harnessctl-depends-on") or 0
    return Verdict(problems, entry.own_list("depends_on"), line)


def oversized(size: int) -> Verdict:
    """The verdict on a main file of ``size`` bytes, which is not read at all."""
    return Verdict((found(SIZE, "", f"has {size} bytes; at most {MAX_MAIN_FILE} are read"),))


def _required(meta: Mapping[str, Any], lines: Mapping[str, int]) -> tuple[Finding, ...]:
    if "description" not in meta:
        return (found(REQUIRED, "", "the frontmatter has no key 'description'", line=1, column=1),)
    value = meta["description"]
    if isinstance(value, str) and value.strip():
        return ()
    what = "is empty" if isinstance(value, str) else "is not text"
    return (found(REQUIRED, "", f"'description' {what}", line=lines.get("description", 1), column=1),)
