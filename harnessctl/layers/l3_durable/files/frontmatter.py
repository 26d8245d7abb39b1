"""A file of an entry: YAML frontmatter and Markdown body, read, written, and changed one key at a time.

Reading accepts a byte order mark and CRLF and keeps both. A person's file is never emitted anew:
:func:`set_key` changes the bytes of one key only.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

from harnessctl.domain.finding import Finding, Severity
from harnessctl.layers.l3_durable.files.yaml_edit import KeyNotEditableError, Value, emit_mapping, set_in
from harnessctl.layers.l3_durable.files.yaml_text import FrontmatterError, read_mapping, refused

__all__ = ["Frontmatter", "FrontmatterError", "KeyNotEditableError", "emit", "parse", "set_key"]

BOM = b"\xef\xbb\xbf"
#: Characters between the fences. Agent Skills advise about 100 tokens; 64 Ki is past any honest use.
MAX_FRONTMATTER = 64 * 1024

_OPENING = re.compile(r"---[ \t]*\r?\n")
_CLOSING = re.compile(r"^---[ \t]*\r?(?:\n|\Z)", re.MULTILINE)


@dataclass(frozen=True)
class Frontmatter:
    """A parsed file.

    :ivar meta: keys in the order written; values are text, lists and mappings of the same.
    :ivar body: Markdown after the closing fence, line ends as read.
    :ivar lines: 1-based line of each key; nested keys as ``metadata.harnessctl-tags``.
    :ivar bom: the file began with a UTF-8 byte order mark (kept, worth a warning).
    :ivar crlf: a line of the file ends with CR LF (kept, worth a warning).
    :ivar body_line: 1-based line on which the body starts.
    """

    meta: dict[str, Any]
    body: str
    lines: Mapping[str, int] = field(default_factory=dict)
    bom: bool = False
    crlf: bool = False
    body_line: int = 1


def parse(data: bytes, path: str) -> Frontmatter:
    """Read a file.

    :param path: as it should stand in findings.
    :raises FrontmatterError: refused by one of the load rules HRN101 to HRN105 or HRN112.
    """
    text = decode(data, path)
    start, end, body = split(text, path)
    meta, lines = read_mapping(text, start, end, path)
    return Frontmatter(
        meta=meta,
        body=text[body:],
        lines=lines,
        bom=data.startswith(BOM),
        crlf="\r\n" in text,
        body_line=text.count("\n", 0, body) + 1,
    )


def decode(data: bytes, path: str) -> str:
    """``data`` as text without its byte order mark.

    :raises FrontmatterError: HRN101; names the byte offset.
    """
    try:
        return data.decode("utf-8").removeprefix("\ufeff")
    except UnicodeDecodeError as error:
        head = data[: error.start]
        column = len(head.rpartition(b"\n")[2].decode("utf-8").removeprefix("\ufeff")) + 1
        message = f"not UTF-8: byte 0x{data[error.start]:02x} at byte offset {error.start}"
        line = head.count(b"\n") + 1
        hint = "save the file as UTF-8"
        raise FrontmatterError(Finding("HRN101", Severity.ERROR, path, message, hint, line, column)) from None


def split(text: str, path: str) -> tuple[int, int, int]:
    """Where the frontmatter of ``text`` starts and ends and where the body starts.

    :raises FrontmatterError: HRN102, no fence at the top or none below; HRN112, too much between.
    """
    opening = _OPENING.match(text)
    if opening is None:
        message, hint = (
            "no frontmatter: the first line is not '---'",
            "begin with '---', 'description: …', '---'",
        )
        raise refused("HRN102", path, text, 0, message, hint)
    start = opening.end()
    closing = _CLOSING.search(text, start)
    if closing is None:
        message, hint = (
            "the frontmatter is not closed: no second line '---'",
            "end the frontmatter with '---'",
        )
        raise refused("HRN102", path, text, 0, message, hint)
    if closing.start() - start > MAX_FRONTMATTER:
        message = f"the frontmatter has more than {MAX_FRONTMATTER} characters"
        raise refused("HRN112", path, text, 0, message, "move text into the body")
    return start, closing.start(), closing.end()


def emit(meta: Mapping[str, Any], body: str) -> bytes:
    """A new file of ours: LF, UTF-8, keys in the order given. ``parse(emit(m, b))`` gives m and b back.

    :raises ValueError: a value that YAML text cannot hold.
    """
    return f"---\n{emit_mapping(meta)}---\n{body}".encode()


def set_key(data: bytes, key: str | Sequence[str], value: Value) -> bytes:
    """``data`` with one key changed or added; no other byte differs.

    :param key: a key, or the path to a nested one: ``("metadata", "harnessctl-owner")``.
    :raises FrontmatterError: ``data`` does not parse.
    :raises KeyNotEditableError: the key's value cannot be changed alone.
    """
    path = (key,) if isinstance(key, str) else tuple(key)
    text = decode(data, "")
    start, end, _ = split(text, "")
    before = read_mapping(text, start, end, "")[0]
    newline = "\r\n" if text[:start].endswith("\r\n") else "\n"
    changed = set_in(text, start, end, path, value, newline)
    _must_be(changed, _with(before, path, value), text[end:], path)
    return (BOM if data.startswith(BOM) else b"") + changed.encode("utf-8")


def _must_be(text: str, meta: Mapping[str, Any], tail: str, path: Sequence[str]) -> None:
    """Refuse an edit that would read back as anything but what was asked."""
    try:
        start, end, _ = split(text, "")
        same = read_mapping(text, start, end, "")[0] == meta and text[end:] == tail
    except FrontmatterError:
        same = False
    if not same:
        raise KeyNotEditableError(".".join(path))


def _with(meta: Mapping[str, Any], path: Sequence[str], value: Any) -> dict[str, Any]:
    head, *rest = path
    if not rest:
        plain = list(value) if not isinstance(value, str | Mapping) else value
        return {**meta, head: plain}
    inner = meta.get(head)
    return {**meta, head: _with(inner if isinstance(inner, Mapping) else {}, rest, value)}
