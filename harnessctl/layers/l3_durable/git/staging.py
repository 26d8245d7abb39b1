"""Objects of one landing, kept apart until they are on the disk.

Waiting for the disk after each of ten small objects, and after each of their folders, takes ten to
fifteen times as long as handing all of them over first and waiting once (measured on ext4: 88 ms one
by one, 5 ms together). But an object that has its name and not yet its content would be taken for
good by whoever writes the same content after a power cut. So they are written into a folder of their
own first, and get their names when their contents are on the disk, as git's own batches do.
A folder that a killed process leaves is one that ``git gc`` clears away.
"""

from __future__ import annotations

import fcntl
import os
import shutil
import tempfile
from collections.abc import Iterable, Iterator
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from pathlib import Path

import pygit2
from pygit2.enums import Option

#: ``git prune`` removes old entries of the objects folder whose names begin with ``tmp_``.
PREFIX = "tmp_objdir-harnessctl-"
#: Files waited for at once.
AT_ONCE = 16

#: On macOS fsync stops at the drive's cache, and this command goes through it.
_FULL = getattr(fcntl, "F_FULLFSYNC", None)


@contextmanager
def staged(raw: pygit2.Repository, objects: Path, written: Iterable[str]) -> Iterator[None]:
    """Objects written inside reach the disk, then the object store, when the context ends well.

    :param objects: the repository's objects folder.
    :param written: ids of what was written, complete at the end; what was in the store before is
        read once more, since a damaged object there would otherwise become part of a new commit.
    :raises OSError, pygit2.GitError: something did not reach the disk, or is damaged; no ref may name it.
    """
    # libgit2 asks for the option when it first looks at refs; those are always synced.
    raw.lookup_reference("HEAD")
    before = raw.odb
    folder = Path(tempfile.mkdtemp(prefix=PREFIX, dir=objects))
    try:
        pygit2.option(Option.ENABLE_FSYNC_GITDIR, False)
        try:
            apart = pygit2.Odb(str(folder))
            apart.add_disk_alternate(str(objects))
            raw.set_odb(apart)
            yield
        finally:
            raw.set_odb(before)
            pygit2.option(Option.ENABLE_FSYNC_GITDIR, True)
        # The pool is the landing's own: threads would not survive a fork of the process.
        with ThreadPoolExecutor(AT_ONCE) as pool:
            new = _keep(folder, objects, pool)
            ids = set(written)
            for oid in ids - new:
                raw.odb.read(oid)
            sync([*(objects / oid[:2] for oid in ids), objects], pool)
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def _keep(folder: Path, objects: Path, pool: ThreadPoolExecutor) -> set[str]:
    """Give the objects in ``folder`` their names in ``objects`` once they are on the disk; their ids."""
    files = [Path(top) / name for top, _, names in os.walk(folder) for name in names]
    loose = [file for file in files if len(file.parent.name) == 2]
    sync(loose, pool)
    for file in loose:
        target = objects / file.parent.name
        target.mkdir(exist_ok=True)
        file.replace(target / file.name)
    return {file.parent.name + file.name for file in loose}


def sync(paths: Iterable[Path], pool: ThreadPoolExecutor) -> None:
    """Wait until files' contents, or folders' names, are on the disk; absent ones are passed over."""
    for _ in pool.map(_sync, dict.fromkeys(paths)):
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
