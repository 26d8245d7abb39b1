"""``.harness/`` as it lies in a work tree, read the way git would store it.

Nothing is added to an index and no filter runs: an agent-writable folder is only looked at.
"""

from __future__ import annotations

import os
import stat
from collections.abc import Iterator
from pathlib import Path

from harnessctl.layers.l3_durable.files.tree import EXECUTABLE, FILE, GITLINK, SYMLINK, TreeItem
from harnessctl.layers.l3_durable.git.repository import Repository

#: Bytes up to which a file's blob id is computed; a larger one breaks a rule by its size alone.
MAX_HASHED = 8 * 1024 * 1024
_NO_ID = "0" * 40


def read_folder(folder: Path) -> tuple[TreeItem, ...]:
    """Every file below ``folder``, sorted by path; () when it is not there."""
    if folder.is_symlink():
        return (TreeItem("", SYMLINK, _NO_ID, lambda: os.fsencode(os.readlink(folder))),)
    return tuple(sorted(_walk(folder, ""), key=lambda item: item.path))


def _walk(folder: Path, prefix: str) -> Iterator[TreeItem]:
    try:
        entries = sorted(os.scandir(folder), key=lambda entry: entry.name)
    except (FileNotFoundError, NotADirectoryError):
        return
    if prefix and any(entry.name == ".git" for entry in entries):
        # git stores this as a gitlink, or refuses it while it has no commit; both lose its content.
        yield TreeItem(prefix.rstrip("/"), GITLINK, _NO_ID, lambda: b"", 0)
        return
    for entry in entries:
        path = prefix + entry.name
        if entry.is_dir(follow_symlinks=False):
            yield from _walk(folder / entry.name, f"{path}/")
        else:
            yield _item(folder / entry.name, path, entry.stat(follow_symlinks=False))


def _item(file: Path, path: str, status: os.stat_result) -> TreeItem:
    if stat.S_ISLNK(status.st_mode):
        return TreeItem(path, SYMLINK, _NO_ID, lambda: os.fsencode(os.readlink(file)))
    if not stat.S_ISREG(status.st_mode):
        # A pipe or a device: git would not store it, and reading it could hang.
        return TreeItem(path, status.st_mode, _NO_ID, lambda: b"", 0)
    mode = EXECUTABLE if status.st_mode & 0o100 else FILE
    large = status.st_size > MAX_HASHED
    oid = f"{status.st_ino:040x}" if large else Repository.blob_id(file.read_bytes())
    return TreeItem(path, mode, oid, file.read_bytes, status.st_size)
