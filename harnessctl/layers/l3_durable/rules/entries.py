"""Lint rules on one entry: its frontmatter against its schema, its promises, its tools, its code."""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from datetime import date
from difflib import get_close_matches
from typing import Any

from harnessctl.domain.entry import SKILL_METADATA_PREFIX, Entry
from harnessctl.domain.finding import Finding
from harnessctl.domain.ids import Kind
from harnessctl.domain.safe_text import character_name, hidden_characters
from harnessctl.layers.l3_durable.files.frontmatter import Frontmatter
from harnessctl.layers.l3_durable.files.schema import load, validate
from harnessctl.layers.l3_durable.files.tools import asks_for, widened
from harnessctl.layers.l3_durable.rules import lint_rules as rules
from harnessctl.layers.l3_durable.rules.registry import found

_TOP = re.compile(r"[^.\[]+")
#: Keys of ours that a skill carries under ``metadata``; ``description`` is one of Agent Skills' own.
_OURS = ("title", "tags", "status", "depends_on", "expires", "owner", "origin")
#: Likeness of two keys, of which one is probably a slip: `depends` and `depends_on`, not `type` and `title`.
_NEAR = 0.8


@dataclass(frozen=True)
class Subject:
    """One touched entry.

    :ivar entry: as it stands after the change, with all its files.
    :ivar read: its main file.
    :ivar before: as it stood before; None for a new one, or one that did not parse.
    """

    entry: Entry
    read: Frontmatter
    before: Entry | None

    @property
    def path(self) -> str:
        """Path of the main file below ``.harness/``."""
        return self.entry.id.path

    def line(self, key: str) -> int:
        """Line of a key; of the key around it when it has none of its own; 1 failing that."""
        top = _TOP.match(key)
        return self.read.lines.get(key) or self.read.lines.get(top[0] if top else "") or 1


def check_entry(subject: Subject, today: date) -> Iterator[Finding]:
    """Findings on the entry as a whole."""
    yield from _schema(subject)
    yield from _escaped(subject)
    yield from _expires(subject, today)
    yield from _tools(subject)
    yield from _length(subject)
    yield from _slips(subject)
    if subject.entry.id.kind is Kind.SKILL:
        yield from _skill(subject)


def _schema(subject: Subject) -> Iterator[Finding]:
    for problem in validate(subject.entry.id.kind.value, subject.read.meta):
        if subject.entry.id.kind is Kind.SKILL and problem.path in ("", "name") and "name" in problem.message:
            continue  # HRN210 says it with the folder's name
        if "description" in (problem.path, *problem.message.split("'")) and _undescribed(subject):
            continue  # HRN106 says it
        place = f"'{problem.path}' " if problem.path else ""
        line = subject.line(problem.path)
        yield found(rules.SCHEMA, subject.path, f"{place}{problem.message}", line=line)


def _undescribed(subject: Subject) -> bool:
    """Whether there is no description that could be read, which a load rule finds."""
    value = subject.read.meta.get("description")
    return not (isinstance(value, str) and value.strip())


def _escaped(subject: Subject) -> Iterator[Finding]:
    r"""HRN204 for hidden characters that YAML escapes (``"\\u202e"``) keep out of the file's own text."""
    raw = subject.entry.main.data.decode("utf-8", "replace")
    for key, text in _texts(subject.read.meta, ""):
        hidden = next((text[i] for i in hidden_characters(text) if text[i] not in raw), None)
        if hidden is not None:
            message = f"'{key}' holds {character_name(hidden)}, written as an escape"
            yield found(rules.HIDDEN, subject.path, message, line=subject.line(key))


def _texts(value: Any, name: str) -> Iterator[tuple[str, str]]:
    """Every text in a frontmatter with the name of its key, keys themselves included."""
    if isinstance(value, str):
        yield name, value
    elif isinstance(value, Mapping):
        for key, inner in value.items():
            full = f"{name}.{key}" if name else key
            yield full, key
            yield from _texts(inner, full)
    else:
        for inner in value:
            yield from _texts(inner, name)


def _expires(subject: Subject, today: date) -> Iterator[Finding]:
    value = subject.entry.own("expires")
    if not value:
        return
    key = "expires" if subject.entry.id.kind is not Kind.SKILL else f"metadata.{SKILL_METADATA_PREFIX}expires"
    try:
        last = date.fromisoformat(value)
    except ValueError:
        message = "'expires' is not a day of the calendar, written yyyy-mm-dd"
        yield found(rules.SCHEMA, subject.path, message, line=subject.line(key))
        return
    if last < today:
        yield found(rules.EXPIRED, subject.path, f"expired on {last}", line=subject.line(key))


def _tools(subject: Subject) -> Iterator[Finding]:
    meta = subject.read.meta
    for what in widened(subject.before.meta, meta) if subject.before else asks_for(meta):
        key = what.split("'")[1].partition(":")[0]
        yield found(rules.TOOLS, subject.path, what, line=subject.line(key))


def _length(subject: Subject) -> Iterator[Finding]:
    lines = subject.read.body.count("\n") + 1
    if lines > rules.LONG_BODY_LINES or len(subject.read.body) > rules.LONG_BODY_CHARACTERS:
        message = f"the body has {lines} lines and {len(subject.read.body)} characters"
        yield found(rules.LONG, subject.path, message, line=subject.read.body_line)


def _skill(subject: Subject) -> Iterator[Finding]:
    meta, folder = subject.read.meta, subject.entry.id.name
    name = meta.get("name")
    if name != folder:
        what = "has no text 'name'" if not isinstance(name, str) else f"'name' is '{name}'"
        message = f"{what}; the folder is '{folder}'"
        yield found(rules.SKILL_NAME, subject.path, message, line=subject.line("name"))
    yield from _skill_keys(subject, meta)
    code = sorted(f.path for f in subject.entry.files if _is_code(subject.entry, f.path))
    if code:
        package = any(path.endswith(("/pyproject.toml", "/__init__.py")) for path in code)
        what = "a Python package" if package else "code"
        yield found(rules.CODE, subject.path, f"brings {what}: {', '.join(code[:5])}")


def _slips(subject: Subject) -> Iterator[Finding]:
    """Keys that nothing reads and that are one slip away from one of ours."""
    kind, meta = subject.entry.id.kind, subject.read.meta
    if kind is Kind.SKILL:
        inside = meta.get("metadata")
        known = [f"{SKILL_METADATA_PREFIX}{key.replace('_', '-')}" for key in _OURS]
        keys = [key for key in inside if isinstance(key, str)] if isinstance(inside, Mapping) else []
    else:
        known, keys = list(load(kind.value)["properties"]), list(meta)
    for key in keys:
        near = get_close_matches(key, known, n=1, cutoff=_NEAR) if key not in known else []
        if near:
            message = f"'{key}' is read by nothing: did you mean '{near[0]}'?"
            yield found(rules.SLIP, subject.path, message, line=subject.line(key))


def _skill_keys(subject: Subject, meta: Mapping[str, Any]) -> Iterator[Finding]:
    known = load("skill")["properties"]
    for key in meta:
        if key in _OURS:
            inside = f"{SKILL_METADATA_PREFIX}{key.replace('_', '-')}"
            message = f"'{key}' is not read here; in a skill it is metadata: {inside}"
            yield found(rules.MISPLACED, subject.path, message, line=subject.line(key))
        elif key not in known:
            message = f"'{key}' is not a key of Agent Skills"
            yield found(rules.UNKNOWN_SKILL_KEY, subject.path, message, line=subject.line(key))


def _is_code(entry: Entry, path: str) -> bool:
    """Whether a file of a skill may be run: everything under scripts/ and src/, and what names a language."""
    inner = path.removeprefix(f"{entry.id.kind.directory}/{entry.id.name}/")
    if inner.startswith(("scripts/", "src/")) or inner == "pyproject.toml":
        return True
    return inner.endswith((".py", ".sh", ".bash", ".zsh", ".js", ".mjs", ".ts", ".rb", ".pl", ".ps1"))
