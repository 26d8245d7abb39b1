"""Files that one process at a time holds; the kernel lets go of them when that process ends, however."""

from __future__ import annotations

import fcntl
import os
import random
import stat
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

#: Longest pause between two looks, in seconds, for who has just come; it shrinks with waiting
#: (to a tenth after a second), so that who has waited longest looks most often and is next.
PAUSE = 0.005


class NotYoursError(Exception):
    """Somebody else held the file all the time."""


@contextmanager
def holding(path: Path, patience: float) -> Iterator[int]:
    """Hold ``path`` against other processes that ask for it; an open descriptor of it.

    :param patience: seconds to wait.
    :raises NotYoursError: not in that time.
    :raises OSError: the file cannot be opened or made.
    """
    handle = _opened(path)
    try:
        began = time.monotonic()
        while not _taken(handle):
            waited = time.monotonic() - began
            if waited > patience:
                raise NotYoursError(str(path))
            # Spreads those who wait, guards nothing.
            time.sleep(random.uniform(0, PAUSE / (1 + 9 * waited)))  # noqa: S311
        yield handle
    finally:
        os.close(handle)


def _opened(path: Path) -> int:
    """A descriptor open for writing, as locks over NFS need; a new file is for all who share the folder."""
    try:
        return os.open(path, os.O_RDWR | os.O_CLOEXEC)
    except FileNotFoundError:
        handle = os.open(path, os.O_RDWR | os.O_CREAT | os.O_CLOEXEC, 0o600)
        os.fchmod(handle, 0o600 | stat.S_IMODE(path.parent.stat().st_mode) & 0o066)
        return handle


def _taken(handle: int) -> bool:
    try:
        fcntl.flock(handle, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except BlockingIOError:
        return False
    return True
