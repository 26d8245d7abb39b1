"""Paths below ``.harness/``: which entry a file belongs to, and which names are one file to some system."""

from __future__ import annotations

import unicodedata
from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from harnessctl.domain.finding import Finding
from harnessctl.domain.ids import SEGMENT, SKILL_FILE, UPDATES_DIR, EntryId, Kind, is_ulid, record_path
from harnessctl.layers.l3_durable.rules.load_rules import CLASH, MAX_DEPTH, MAX_PATH
from harnessctl.layers.l3_durable.rules.registry import below, found

POLICY_FILE = "harness.toml"
#: Holds a folder that would otherwise be empty; read by nobody, so welcome anywhere.
PLACEHOLDER = ".gitkeep"

#: Characters that HFS+ leaves out when it compares names.
_IGNORED_BY_HFS = dict.fromkeys(
    [*range(0x200C, 0x2010), *range(0x202A, 0x202F), *range(0x206A, 0x2070), 0xFEFF], None
)


@dataclass(frozen=True, slots=True)
class Place:
    """What a path below ``.harness/`` is.

    :ivar entry: the entry it belongs to, None for policy, records, strangers and bad names.
    :ivar problem: why the name is refused, "" when it is not.
    :ivar rule_count: the problem is one of depth or length (HRN115), not of grammar (HRN107).
    :ivar role: ``main``, ``file`` (of a skill), ``record``, ``policy``, ``stray`` or ``bad``.
    """

    role: str
    entry: EntryId | None = None
    problem: str = ""
    rule_count: bool = False


def place(path: str) -> Place:
    """Classify ``path``; names are judged as git stores them, never as a file system shows them."""
    head, slash, rest = path.partition("/")
    kind = Kind.of_directory(head) if slash else None
    if path == POLICY_FILE:
        return Place("policy")
    if head == UPDATES_DIR and slash:
        return _record(path, rest)
    if kind is None or path.endswith("/" + PLACEHOLDER):
        return Place("stray")
    if len(path.encode("utf-8", "surrogatepass")) > MAX_PATH:
        return Place("bad", problem=f"the path has more than {MAX_PATH} bytes", rule_count=True)
    return _skill(rest) if kind is Kind.SKILL else _note(kind, rest)


def _record(path: str, rest: str) -> Place:
    name = rest.rpartition("/")[2].removesuffix(".json")
    if is_ulid(name) and path == record_path(name):
        return Place("record")
    if path.endswith("/" + PLACEHOLDER):
        return Place("stray")
    return Place("bad", problem="a record's path is updates/<yyyy-mm>/<its ULID>.json, with the ULID's month")


def _note(kind: Kind, rest: str) -> Place:
    name = rest.removesuffix(".md")
    segments = name.split("/")
    if name == rest:
        return Place("bad", problem=f"a {kind} is a file that ends in .md")
    if not all(map(SEGMENT.match, segments)):
        return Place("bad", problem="a name has a-z, 0-9, '.', '_', '-' and begins with a letter or digit")
    if kind is not Kind.MEMORY and len(segments) > 1:
        return Place("bad", problem="only memory may nest")
    if len(segments) > MAX_DEPTH:
        return Place("bad", problem=f"nested deeper than {MAX_DEPTH} levels", rule_count=True)
    return Place("main", EntryId(kind, name))


def _skill(rest: str) -> Place:
    name, slash, inner = rest.partition("/")
    if not slash:
        return Place("bad", problem="a skill is a folder with a SKILL.md")
    if not SEGMENT.match(name):
        return Place("bad", problem="a skill's name has a-z, 0-9 and '-', and begins with a letter or digit")
    entry = EntryId(Kind.SKILL, name)
    segments = inner.split("/")
    if not all(map(_inner_name, segments)):
        return Place(
            "bad", entry, "a name holds '..', a backslash, a control character or bytes that are not UTF-8"
        )
    if len(segments) > MAX_DEPTH:
        return Place("bad", entry, f"nested deeper than {MAX_DEPTH} levels inside the skill", True)
    return Place("main" if inner == SKILL_FILE else "file", entry)


def _inner_name(segment: str) -> bool:
    """Files inside a skill keep the names other tools gave them, short of what no system should be shown."""
    return segment not in ("", ".", "..") and not any(
        c == "\\" or c < " " or "\x7f" <= c <= "\x9f" or "\ud800" <= c <= "\udfff" for c in segment
    )


def fold(name: str) -> str:
    """``name`` as the least careful file system compares it: without case, Unicode form or ignorables."""
    if name.isascii():
        return name.lower()
    folded = unicodedata.normalize("NFKC", name.translate(_IGNORED_BY_HFS)).casefold()
    return unicodedata.normalize("NFC", folded)


def clashes(paths: Iterable[str]) -> Iterator[Finding]:
    """HRN120 for each path, or folder of one, that folds to the same as an earlier one."""
    seen: dict[str, str] = {}
    for path in sorted(paths):
        end = path.find("/")
        while True:
            name = path if end < 0 else path[:end]
            other = seen.setdefault(fold(name), name)
            if other != name:
                yield found(
                    CLASH, path, f"'{below(name)}' and '{below(other)}' differ only by case or Unicode form"
                )
                break
            if end < 0:
                break
            end = path.find("/", end + 1)
