"""A proposal's change as files, hunks and lines.

The patch is read from bytes, split at LF alone: a lone CR inside a line is content and stays in it.
Files that follow each other without ``diff --git`` lines are parted before parsing, because
unidiff takes two additions in a row for a rename (seen with 0.7.5).
"""

from __future__ import annotations

import io
from collections.abc import Iterator
from dataclasses import dataclass
from typing import Literal

from unidiff import PatchSet
from unidiff.errors import UnidiffParseError

from harnessctl.domain.errors import HarnessError

#: unidiff iterates its input; a text stream with newline="\n" splits at LF only and translates nothing.
_NEWLINE = "\n"


@dataclass(frozen=True, slots=True)
class Line:
    """One line of a hunk, without its line end; ``kind`` is "+", "-" or " ".

    :ivar old: 1-based line in the old file, None for an added line.
    :ivar new: 1-based line in the new file, None for a removed one.
    """

    kind: Literal["+", "-", " "]
    text: str
    old: int | None
    new: int | None


@dataclass(frozen=True, slots=True)
class FileDiff:
    """One file of a patch; ``hunks`` is empty for a binary file or a change of mode alone."""

    path: str
    status: Literal["A", "M", "D"]
    added: int
    removed: int
    binary: bool
    hunks: tuple[tuple[Line, ...], ...]


def read_patch(data: bytes) -> tuple[FileDiff, ...]:
    """The files of a unified patch.

    :raises HarnessError: ``bad_patch``, naming what is wrong; a patch is never read in half.
    """
    return tuple(found for part in split_files(data) for found in _read(part))


def split_files(data: bytes) -> list[bytes]:
    """The patch of each file, header lines included.

    A new file starts at ``diff --git``, or at ``--- `` followed by ``+++ `` where no hunk is open
    and the header before it is complete.
    """
    parts: list[list[bytes]] = []
    left_old = left_new = 0
    headed = False
    lines = data.split(b"\n")
    for n, line in enumerate(lines):
        following = lines[n + 1] if n + 1 < len(lines) else b""
        inside = left_old > 0 or left_new > 0
        if not inside and _starts(line, following, headed):
            parts.append([])
            headed = line.startswith(b"diff --git ")
        elif not inside and line.startswith(b"--- "):
            headed = False
        if parts:
            parts[-1].append(line)
        left_old, left_new = _left(line, left_old, left_new)
    return [b"\n".join(part) + (b"\n" if part[-1] else b"") for part in parts]


def _starts(line: bytes, following: bytes, headed: bool) -> bool:
    """Whether a new file's patch starts at ``line``; its own ``---`` line after ``diff --git`` does not."""
    if line.startswith(b"diff --git "):
        return True
    return line.startswith(b"--- ") and following.startswith(b"+++ ") and not headed


def _left(line: bytes, old: int, new: int) -> tuple[int, int]:
    """Lines that the open hunk still expects on each side, after ``line``."""
    if old <= 0 and new <= 0:
        return _hunk(line) if line.startswith(b"@@ ") else (0, 0)
    if line.startswith(b"\\"):
        return old, new
    return old - (not line.startswith(b"+")), new - (not line.startswith(b"-"))


def _hunk(line: bytes) -> tuple[int, int]:
    try:
        ranges = line.split(b"@@")[1].split()
        sizes = [int(r.partition(b",")[2] or 1) for r in ranges[:2]]
    except (IndexError, ValueError) as error:
        raise HarnessError(f"a patch has a malformed hunk header: {line[:80]!r}", id="bad_patch") from error
    return sizes[0], sizes[1]


def _read(part: bytes) -> Iterator[FileDiff]:
    text = part.decode("utf-8", "replace")
    try:
        found = PatchSet(io.StringIO(text, newline=_NEWLINE))
    except UnidiffParseError as error:
        raise HarnessError(f"a patch cannot be read: {error}", id="bad_patch") from error
    for file in found:
        status: Literal["A", "M", "D"] = "A" if file.is_added_file else "D" if file.is_removed_file else "M"
        hunks = tuple(tuple(_lines(hunk)) for hunk in file)
        yield FileDiff(file.path, status, file.added, file.removed, bool(file.is_binary_file), hunks)
    if not len(found) and b"\nold mode " in part:
        yield FileDiff(_path_of(part), "M", 0, 0, False, ())


def _lines(hunk: object) -> Iterator[Line]:
    for line in hunk:  # type: ignore[attr-defined]
        if line.line_type in ("+", "-", " "):
            yield Line(
                line.line_type, line.value.removesuffix("\n"), line.source_line_no, line.target_line_no
            )


def _path_of(part: bytes) -> str:
    """Path in a ``diff --git a/x b/x`` line."""
    names = part.partition(b"\n")[0].removeprefix(b"diff --git a/")
    return names[: (len(names) - 3) // 2].decode("utf-8", "replace")
