"""Unified patch text between two sets of files, made from their bytes alone.

No attribute, text conversion or external diff program of the repository takes part, so a reviewer
sees the same change everywhere, whatever a ``.gitattributes`` says.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import pygit2

#: path -> (mode, content)
Files = Mapping[str, tuple[int, bytes]]


@dataclass(frozen=True, slots=True)
class FilePatch:
    """The change of one file; ``status`` is "A", "M" or "D"; lines are counted as git does."""

    path: str
    status: Literal["A", "M", "D"]
    added: int
    removed: int
    binary: bool
    data: bytes


def patch_files(before: Files, after: Files) -> tuple[FilePatch, ...]:
    """One patch for each path whose mode or content differs, sorted by path."""
    paths = sorted(before.keys() | after.keys())
    return tuple(
        _patch(path, before.get(path), after.get(path))
        for path in paths
        if before.get(path) != after.get(path)
    )


def _patch(path: str, old: tuple[int, bytes] | None, new: tuple[int, bytes] | None) -> FilePatch:
    shown = path.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    made = pygit2.Patch.create_from(
        old[1] if old else None, new[1] if new else None, old_as_path=shown, new_as_path=shown
    )
    _, added, removed = made.line_stats
    status: Literal["A", "M", "D"] = "A" if old is None else "D" if new is None else "M"
    data = _with_modes(made.data, shown, old[0] if old else None, new[0] if new else None)
    return FilePatch(path, status, added, removed, bool(made.delta.is_binary), data)


def _with_modes(data: bytes, path: str, old: int | None, new: int | None) -> bytes:
    """The patch with the real modes: libgit2 writes 100644 for everything made from buffers."""
    if old is None or new is None:
        mode = new if old is None else old
        return data.replace(b" mode 100644\n", f" mode {mode:06o}\n".encode(), 1)
    if old == new:
        return data.replace(b" 100644\n", f" {new:06o}\n".encode(), 1)
    head, _, rest = data.partition(b"\n")
    head = head or f"diff --git a/{path} b/{path}".encode()
    rest = rest.replace(b" 100644\n", b"\n", 1)
    return b"%s\nold mode %06o\nnew mode %06o\n%s" % (head, old, new, rest)
