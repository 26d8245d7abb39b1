"""Three-way merge of one file's lines, in memory, without merge drivers or attributes of the repository."""

from __future__ import annotations

import pygit2
from pygit2.enums import FileMode
from pygit2.index import MergeFileResult

from harnessctl.layers.l3_durable.git.repository import Repository

#: Lines around what both sides changed, as git marks them; the labels say whose they are.
OURS, THEIRS = "the harness branch", "the proposal"


def merge_text(repository: Repository, base: str, ours: str, theirs: str) -> bytes | None:
    """The merged content of three blobs (by id), None where both sides changed the same lines.

    Content that is not UTF-8 is never merged: None.
    """
    found = _merged(repository, base, ours, theirs)
    return str(found.contents).encode("utf-8") if found is not None and found.automergeable else None


def marked_text(repository: Repository, base: str | None, ours: str, theirs: str) -> bytes | None:
    """As :func:`merge_text`, with both versions between marks where they meet; None: not UTF-8."""
    found = _merged(repository, base, ours, theirs)
    return None if found is None else str(found.contents).encode("utf-8")


def has_marks(data: bytes) -> bool:
    """Whether a mark that :func:`marked_text` made still stands in ``data``."""
    marks = (f"<<<<<<< {OURS}", f">>>>>>> {THEIRS}")
    return any(line.rstrip() in marks for line in data.decode("utf-8", "replace").split("\n"))


def _merged(repository: Repository, base: str | None, ours: str, theirs: str) -> MergeFileResult | None:
    try:
        for oid in (base, ours, theirs):
            if oid is not None:
                repository.blob(oid).decode("utf-8")
    except UnicodeDecodeError:
        return None
    # A path serves as the label of its side, and as nothing else.
    old = None if base is None else _side("base", base)
    found: MergeFileResult = repository.raw.merge_file_from_index(
        old, _side(OURS, ours), _side(THEIRS, theirs), use_deprecated=False
    )
    return found


def _side(label: str, oid: str) -> pygit2.IndexEntry:
    return pygit2.IndexEntry(label, pygit2.Oid(hex=oid), FileMode.BLOB)
