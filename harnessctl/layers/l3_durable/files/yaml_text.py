"""YAML where every scalar is text and nothing stands for anything else.

Works on PyYAML's event stream, not on its constructed values: ``1.0`` stays ``1.0``, ``2026-03-05``
stays text, and what YAML would silently resolve (a duplicate key, an alias, a merge key, a tag) is
refused with its place. The rules raised here are load rules, frozen for schema version 1.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping
from typing import Any

import yaml

from harnessctl.domain.errors import HarnessError
from harnessctl.domain.finding import Finding, Severity

#: Nested collections in a frontmatter; ours need three.
MAX_DEPTH = 16

#: What YAML 1.1 calls unprintable; asked here so that both of PyYAML's loaders say the same.
UNPRINTABLE = re.compile("[^\t\n\r\x20-\x7e\x85\xa0-\ud7ff\ue000-\ufffd\U00010000-\U0010ffff]")
#: A key short enough to be repeated in a hint: no token is.
_KEY_AND_VALUE = re.compile(r"\s*(?:- +)?(?P<key>[^\s:]{1,16}):[ \t]+\S")

#: libyaml's where PyYAML has it, as all its wheels do; its own is slower and a little stricter.
_C_LOADER: type[Any] = getattr(yaml, "CSafeLoader", yaml.SafeLoader)


class FrontmatterError(HarnessError):
    """A file that does not parse. ``finding`` says which rule, where and what to do."""

    def __init__(self, finding: Finding) -> None:
        place = f"{finding.path}:{finding.line}:{finding.column}" if finding.line else finding.path
        super().__init__(f"{place}: {finding.message}", id="bad_entry", hint=finding.hint)
        self.finding = finding


def position(text: str, index: int) -> tuple[int, int]:
    """1-based line and column, in characters, of ``index`` in ``text``; lines end at LF."""
    return text.count("\n", 0, index) + 1, index - text.rfind("\n", 0, index)


def refused(rule: str, path: str, text: str, index: int, message: str, hint: str) -> FrontmatterError:
    """The error for ``rule`` at ``index`` of ``text``."""
    line, column = position(text, index)
    return FrontmatterError(Finding(rule, Severity.ERROR, path, message, hint, line, column))


def events(text: str, start: int, end: int, path: str) -> Iterator[Any]:
    """PyYAML's events between two indexes of ``text``; marks count from ``start``.

    :raises FrontmatterError: HRN103, with the place and, where it helps, "quote the value".
    """
    source = text[start:end]
    bad = UNPRINTABLE.search(source)
    if bad is not None:
        message = f"the character U+{ord(bad[0]):04X} may not stand in YAML"
        hint = "remove it, or write it as an escape in a quoted value"
        raise refused("HRN103", path, text, start + bad.start(), message, hint)
    # libyaml takes U+FEFF inside a text for an error, PyYAML's own reader does not: neither sees it.
    stand_in = _unused(source) if "\ufeff" in source else ""
    try:
        for event in yaml.parse(source.replace("\ufeff", stand_in) if stand_in else source, Loader=_C_LOADER):
            if stand_in and isinstance(event, yaml.ScalarEvent):
                event.value = event.value.replace(stand_in, "\ufeff")
            yield event
    except yaml.MarkedYAMLError as error:
        mark, context = error.problem_mark or error.context_mark, error.context_mark
        index = start + min(mark.index, len(source)) if mark is not None else start
        opened = start + context.index if context is not None else index
        message = f"not valid YAML: {error.problem}"
        raise refused("HRN103", path, text, index, message, _hint(text, index, opened, message)) from None


def _unused(text: str) -> str:
    """A private-use character that ``text`` does not hold."""
    return next(char for char in map(chr, range(0xE000, 0xF900)) if char not in text)


def _hint(text: str, index: int, opened: int, message: str) -> str:
    """What to do about a YAML error: nearly always the value wants quotes."""
    if text[index : index + 1] == "\t":
        return "indent with spaces"
    if "end of stream" in message:
        return f"close the quote or bracket opened in line {position(text, opened)[0]}"
    line_start = text.rfind("\n", 0, index) + 1
    match = _KEY_AND_VALUE.match(text, line_start)
    if match:
        return f'quote the value: {match["key"]}: "…"'
    return "check indentation and quotes above this place"


def read_mapping(text: str, start: int, end: int, path: str) -> tuple[dict[str, Any], dict[str, int]]:
    """The one mapping between two indexes of ``text``, and the 1-based line of each key.

    Nested keys are named ``metadata.harnessctl-tags``. Nothing at all reads as an empty mapping.

    :raises FrontmatterError: one of HRN103, HRN104, HRN105, HRN112.
    """
    reader = _Reader(text, start, end, path)
    return reader.document(), reader.lines


class _Reader:
    """Builds plain values from events, refusing what schema version 1 does not have."""

    def __init__(self, text: str, start: int, end: int, path: str) -> None:
        self.lines: dict[str, int] = {}
        self._text, self._start, self._path = text, start, path
        self._events = events(text, start, end, path)

    def document(self) -> dict[str, Any]:
        next(self._events)  # the stream's start
        if isinstance(next(self._events), yaml.StreamEndEvent):
            return {}
        root = next(self._events)
        self._plain(root)
        if not isinstance(root, yaml.MappingStartEvent):
            message = "the frontmatter is not a mapping of keys to values"
            raise self._error("HRN103", root, message, "write 'key: value'")
        meta = self._mapping(1, "")
        ending = next(self._events)
        if ending.explicit or not isinstance(next(self._events), yaml.StreamEndEvent):
            message = "the frontmatter holds more than one YAML document"
            raise self._error("HRN103", ending, message, "remove the line '...'")
        return meta

    def _value(self, event: Any, depth: int, name: str) -> Any:
        self._plain(event)
        if isinstance(event, yaml.ScalarEvent):
            return event.value
        if depth >= MAX_DEPTH:
            message = f"nested deeper than {MAX_DEPTH} levels"
            raise self._error("HRN112", event, message, "flatten the frontmatter")
        if isinstance(event, yaml.SequenceStartEvent):
            return self._sequence(depth + 1, name)
        return self._mapping(depth + 1, name)

    def _sequence(self, depth: int, name: str) -> list[Any]:
        values: list[Any] = []
        while not isinstance(event := next(self._events), yaml.SequenceEndEvent):
            values.append(self._value(event, depth, f"{name}[{len(values)}]"))
        return values

    def _mapping(self, depth: int, name: str) -> dict[str, Any]:
        values: dict[str, Any] = {}
        while not isinstance(event := next(self._events), yaml.MappingEndEvent):
            key = self._key(event, values)
            full = f"{name}.{key}" if name else key
            self.lines[full] = position(self._text, self._start + event.start_mark.index)[0]
            values[key] = self._value(next(self._events), depth, full)
        return values

    def _key(self, event: Any, seen: Mapping[str, Any]) -> str:
        self._plain(event)
        if not isinstance(event, yaml.ScalarEvent):
            raise self._error("HRN103", event, "a key is not plain text", "write 'key: value'")
        if event.value == "<<" and not event.style:
            raise self._error("HRN105", event, "merge keys are not read", "write the keys out")
        key: str = event.value
        if key in seen:
            raise self._error("HRN104", event, "this key stands twice", "keep one of the two")
        return key

    def _plain(self, event: Any) -> None:
        """Refuse aliases, anchors and tags: scalars are text, and nothing stands for something else."""
        if isinstance(event, yaml.AliasEvent):
            what = "an alias"
        elif event.anchor is not None:
            what = "an anchor"
        elif event.tag is not None:
            what = "a tag"
        else:
            return
        raise self._error("HRN105", event, f"{what} is not read here", "quote the value")

    def _error(self, rule: str, event: Any, message: str, hint: str) -> FrontmatterError:
        return refused(rule, self._path, self._text, self._start + event.start_mark.index, message, hint)
