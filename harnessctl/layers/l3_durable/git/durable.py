"""Many files to the disk at one go.

A landing writes about ten small objects. Waiting for the disk after each of them, and after each
folder, takes ten to fifteen times as long as handing all of them over first and waiting once: the
file system writes them together (measured on ext4: 88 ms one by one, 5 ms together).
"""

from __future__ import annotations

import fcntl
import os
from collections.abc import Iterable
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

#: Files waited for at once.
AT_ONCE = 16

#: On macOS fsync stops at the drive's cache, and this command goes through it.
_FULL = getattr(fcntl, "F_FULLFSYNC", None)


def sync_objects(objects: Path, ids: Iterable[str]) -> None:
    """Wait until the loose objects among ``ids``, and their names, are on the disk.

    One that is in a pack, or in another repository's store, was there before.

    :raises OSError: the disk did not take one; whoever wrote it must not let a ref name it.
    """
    loose = {objects / oid[:2] / oid[2:] for oid in ids}
    folders = {path.parent for path in loose}
    sync_files([*loose, *folders, objects])


def sync_files(paths: Iterable[Path]) -> None:
    """Wait until files' contents, or folders' names, are on the disk; absent ones are passed over."""
    with ThreadPoolExecutor(AT_ONCE) as pool:
        for _ in pool.map(_sync, paths):
            pass


def _sync(path: Path) -> None:
    try:
        handle = os.open(path, os.O_RDONLY | os.O_CLOEXEC)
    except FileNotFoundError:
        return
    try:
        if _FULL is None:
            os.fsync(handle)
        else:
            fcntl.fcntl(handle, _FULL)
    finally:
        os.close(handle)
