"""Three-way merge of one file's lines, in memory, without merge drivers or attributes of the repository."""

from __future__ import annotations

import pygit2
from pygit2.enums import FileMode

from harnessctl.layers.l3_durable.git.repository import Repository


def merge_text(repository: Repository, base: str, ours: str, theirs: str) -> bytes | None:
    """The merged content of three blobs (by id), None where both sides changed the same lines.

    Content that is not UTF-8 is never merged: None.
    """
    blobs = [repository.blob(oid) for oid in (base, ours, theirs)]
    try:
        for data in blobs:
            data.decode("utf-8")
    except UnicodeDecodeError:
        return None
    old, now, new = (pygit2.IndexEntry("f", pygit2.Oid(hex=o), FileMode.BLOB) for o in (base, ours, theirs))
    found = repository.raw.merge_file_from_index(old, now, new, use_deprecated=False)
    return str(found.contents).encode("utf-8") if found.automergeable else None
