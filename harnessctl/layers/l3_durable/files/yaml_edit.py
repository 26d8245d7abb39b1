"""YAML text out: whole mappings of ours, and single keys of other people's, byte for byte.

What we write reads the same in every YAML tool: a text that YAML would take for a number, a date or
a truth value is quoted, so that a tool with types sees the text that we see.
"""

from __future__ import annotations

import re
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import yaml

from harnessctl.domain.errors import HarnessError
from harnessctl.layers.l3_durable.files.yaml_text import UNPRINTABLE, events

#: Value of one key: text, or a list of texts, or a mapping of the same.
Value = str | Sequence[Any] | Mapping[str, Any]

_PLAIN = re.compile(r"[A-Za-z(][^\n\t#:\"'\\`{}\[\]&*!|>%@]*(?::[^\s:#][^\n\t#:\"'\\`{}\[\]&*!|>%@]*)*\Z")
_PLAIN_KEY = re.compile(r"[A-Za-z_][A-Za-z0-9_.-]*\Z")
#: YAML 1.1 line breaks and the byte order mark: read back as themselves only when escaped.
_MUST_ESCAPE = re.compile('[\\\\"\n\r\t\x85\u2028\u2029\ufeff]|' + UNPRINTABLE.pattern)
_SHORT = {"\\": "\\\\", '"': '\\"', "\n": "\\n", "\r": "\\r", "\t": "\\t"}
_BLOCK_STYLES = ("|", ">")


class KeyNotEditableError(HarnessError):
    """A key whose value cannot be changed without touching other bytes."""

    def __init__(self, key: str) -> None:
        super().__init__(
            f"cannot change the key '{key}' without rewriting text around it",
            id="key_not_editable",
            hint="write the frontmatter in block style, one key a line",
        )


def emit_mapping(meta: Mapping[str, Any], newline: str = "\n") -> str:
    """``meta`` as YAML in block style, keys in the order given, a line end after each.

    :raises ValueError: a value that is no text, list or mapping, or a lone surrogate.
    """
    return "".join(line + newline for key, value in meta.items() for line in _lines(key, value, ""))


def _lines(key: str, value: Value, indent: str) -> list[str]:
    name = key if _PLAIN_KEY.match(key) and not _has_type(key) else quote(key)
    head = f"{indent}{name}:"
    if isinstance(value, str):
        return [f"{head} {scalar(value)}"]
    if isinstance(value, Mapping):
        if not value:
            return [f"{head} {{}}"]
        return [head, *(line for k, v in value.items() for line in _lines(k, v, indent + "  "))]
    if not isinstance(value, Sequence):
        raise ValueError(f"the value of '{key}' is neither text nor a list nor a mapping")
    if all(isinstance(part, str) for part in value):
        return [head, *(f"{indent}  - {scalar(part)}" for part in value)] if value else [f"{head} []"]
    return [f"{head} {flow(value)}"]


def flow(value: Value) -> str:
    """``value`` on one line, every text quoted: fits into any context."""
    if isinstance(value, str):
        return quote(value)
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{quote(k)}: {flow(v)}" for k, v in value.items()) + "}"
    return "[" + ", ".join(flow(part) for part in value) + "]"


def scalar(text: str) -> str:
    """``text`` as a plain YAML scalar where every YAML tool reads it as that text, else quoted."""
    plain = _PLAIN.match(text) and not text.endswith((" ", ":")) and not _has_type(text)
    if plain and not _MUST_ESCAPE.search(text):
        return text
    return quote(text)


def quote(text: str) -> str:
    """``text`` as a double-quoted YAML scalar.

    :raises ValueError: a lone surrogate, which UTF-8 does not have.
    """
    text.encode("utf-8")
    return '"' + _MUST_ESCAPE.sub(_escape, text) + '"'


def _escape(match: re.Match[str]) -> str:
    char = match[0]
    code = ord(char)
    return _SHORT.get(char) or (f"\\x{code:02x}" if code <= 0xFF else f"\\u{code:04x}")


def _has_type(text: str) -> bool:
    """Whether YAML 1.1 would read the plain scalar ``text`` as something other than text."""
    resolvers = yaml.SafeLoader.yaml_implicit_resolvers
    return any(pattern.match(text) for _, pattern in resolvers.get(text[:1], ()) if pattern is not None)


@dataclass(frozen=True)
class _Place:
    """Where one key stands: indexes into the whole text."""

    key: int
    start: int
    end: int
    flow: bool
    style: str
    empty: bool


def set_in(text: str, start: int, end: int, path: Sequence[str], value: Value, newline: str) -> str:
    """``text`` with the value of one key changed or added between two indexes, all else untouched.

    :param path: names of the keys from the top: ``("metadata", "harnessctl-owner")``.
    :raises KeyNotEditableError: the text around it would have to change.
    """
    root, places = _places(text, start, end)
    place = places.get(tuple(path))
    if place is not None:
        return _replace(text, place, value, path[-1], newline)
    if len(path) > 1:
        return _insert_nested(text, start, end, path, value, newline)
    if root is not None and root.flow:
        return _insert_in_flow(text, root, path[0], value)
    indent = "" if root is None else text[text.rfind("\n", 0, root.start) + 1 : root.start]
    return text[:end] + _own_lines(path[0], value, indent, newline) + text[end:]


def _own_lines(key: str, value: Value, indent: str, newline: str) -> str:
    return "".join(line + newline for line in _lines(key, value, indent))


def _insert_nested(text: str, start: int, end: int, path: Sequence[str], value: Value, newline: str) -> str:
    """Add a key to a mapping below the top, which is made when it is not there."""
    root, places = _places(text, start, end)
    outer = tuple(path[:-1])
    parent = places.get(outer)
    if parent is None or parent.empty:
        inner: Value = {path[-1]: value}
        return set_in(text, start, end, outer, inner, newline)
    if parent.flow:
        return _insert_in_flow(text, parent, path[-1], value)
    siblings = [place for name, place in places.items() if name[:-1] == outer]
    if root is None or root.flow or not siblings:
        raise KeyNotEditableError(".".join(path))
    line = text.rfind("\n", 0, siblings[0].key) + 1
    indent = text[line : siblings[0].key]
    after = text.find("\n", siblings[-1].end) + 1
    if indent.strip() or not after:
        raise KeyNotEditableError(".".join(path))
    return text[:after] + _own_lines(path[-1], value, indent, newline) + text[after:]


def _insert_in_flow(text: str, place: _Place, key: str, value: Value) -> str:
    """Add a key before the closing brace of a flow mapping."""
    brace = place.end - 1
    inside = text[place.start + 1 : brace].rstrip()
    comma = "" if not inside or inside.endswith(",") else ", "
    at = place.start + 1 + len(inside)
    return f"{text[:at]}{comma}{quote(key)}: {flow(value)}{text[at:]}"


def _replace(text: str, place: _Place, value: Value, key: str, newline: str) -> str:
    """Put ``value`` where the old value stands; a comment behind it stays."""
    if place.flow or isinstance(value, str) or not value:
        new = flow(value) if place.flow or not isinstance(value, str) else scalar(value)
        gap = "" if text[place.start - 1 : place.start].isspace() else " "
        return text[: place.start] + gap + new + text[place.end :]
    if place.style in _BLOCK_STYLES or "\n" in text[place.start : place.end] or place.empty:
        line = text.rfind("\n", 0, place.key) + 1
        indent = text[line : place.key]
        if not indent.strip():
            lines = _own_lines(key, value, indent, newline).removesuffix(newline)
            return text[: place.key - len(indent)] + lines + text[place.end :]
    return text[: place.start] + flow(value) + text[place.end :]


def _places(text: str, start: int, end: int) -> tuple[_Place | None, dict[tuple[str, ...], _Place]]:
    """The root mapping and the place of every key, by path, of a frontmatter that parses."""
    finder = _Finder(text, start, events(text, start, end, ""))
    return finder.root(), finder.places


class _Finder:
    """Walks the events of a frontmatter and notes where each key and its value stand."""

    def __init__(self, text: str, offset: int, stream: Iterator[Any]) -> None:
        self.places: dict[tuple[str, ...], _Place] = {}
        self._text, self._offset, self._events = text, offset, stream

    def root(self) -> _Place | None:
        next(self._events)
        if isinstance(next(self._events), yaml.StreamEndEvent):
            return None
        return self._node(next(self._events), (), self._offset)

    def _node(self, event: Any, path: tuple[str, ...], key: int) -> _Place:
        first = self._offset + event.start_mark.index
        if isinstance(event, yaml.ScalarEvent):
            style, stop = event.style or "", self._stop(event)
            if style in _BLOCK_STYLES:
                stop = first + len(self._text[first:stop].rstrip(" \t\r\n"))
            return _Place(key, first, stop, False, style, not event.value and not style)
        last, ending = self._inside(event, path, first)
        in_flow = bool(event.flow_style)
        return _Place(key, first, self._stop(ending) if in_flow else last, in_flow, "", False)

    def _inside(self, event: Any, path: tuple[str, ...], last: int) -> tuple[int, Any]:
        """Walk a collection: end of its last node, and the event that ends it."""
        listed = isinstance(event, yaml.SequenceStartEvent)
        while True:
            inner = next(self._events)
            if isinstance(inner, yaml.CollectionEndEvent):
                return last, inner
            start = self._offset + inner.start_mark.index
            if listed:
                last = self._node(inner, (*path, "[]"), start).end
            else:
                name = (*path, inner.value)
                self.places[name] = self._node(next(self._events), name, start)
                last = self.places[name].end

    def _stop(self, event: Any) -> int:
        return self._offset + int(event.end_mark.index)
