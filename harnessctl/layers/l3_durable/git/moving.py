"""One ref move at a time among our processes, and lock files that a killed one left behind.

git and libgit2 guard a ref with a file ``<ref>.lock`` that names nobody: whoever is killed while it
exists leaves a ref that nobody can move. git asks a person to remove it. Here the moves of our own
processes are told apart from everybody else's:

- A move holds the file ``harnessctl.moving`` in the git directory, which the kernel releases with the
  process. So whoever has it knows that no other process of ours is in the middle of a move.
- Under it, and only when no lock file stands there yet, the move is announced in that file; the
  announcement goes when the move is over. One that is found at the start is a dead process's.
- A lock file is taken for that dead process's, and removed, when it holds the very commit that was
  announced, or when it was made within a second after the announcement, has stayed as it is since,
  and is two seconds old. (libgit2 holds an empty lock file for a few milliseconds, while it writes
  the reflog.) Any other lock file is somebody else's and is never touched.

What is left to chance: another program takes the lock of the same ref in the second after one of our
processes died between its announcement and its own lock, and then holds it, empty, for two seconds.
"""

from __future__ import annotations

import errno
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from pathlib import Path

from harnessctl.layers.l3_durable.git.lost_race import HeldError, LostRaceError
from harnessctl.layers.l3_durable.git.turns import NotYoursError, holding

ANNOUNCED = "harnessctl.moving"
PACKED = "packed-refs"

#: Seconds to wait for another of our processes; a move takes milliseconds.
PATIENCE = 1.0
#: Seconds after the announcement within which a dead process has made its lock file.
MADE_WITHIN = 1.0
#: Seconds after which an unwritten lock file is not in the middle of being written.
STALE = 2.0


@dataclass(frozen=True, slots=True)
class Announcement:
    """A move that somebody began: of which ref, to which commit ("": away), at which time (ns)."""

    ref: str
    new: str
    at: int


@contextmanager
def moving(common_dir: Path, ref: str, new: str | None) -> Iterator[None]:
    """Be the one process of ours that moves a ref of this repository.

    :raises LostRaceError: somebody else is at it; nothing moved.
    :raises HeldError: a lock file that is not ours stands in the way.
    """
    try:
        with holding(common_dir / ANNOUNCED, PATIENCE) as handle:
            heal(common_dir, handle)
            for lock in _locks(common_dir, ref, new or ""):
                if lock.exists():
                    raise HeldError(lock)
            _announce(handle, f"{ref} {new or '-'}\n")
            try:
                yield
            finally:
                os.ftruncate(handle, 0)
    except NotYoursError as error:
        raise LostRaceError("another harnessctl is in the middle of moving a ref") from error


def _announce(handle: int, text: str) -> None:
    if os.pwrite(handle, text.encode(), 0) != len(text.encode()):
        os.ftruncate(handle, 0)
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))


def _announced(handle: int) -> Announcement | None:
    """What a dead process had begun; a torn announcement is none, as its lock file would come after it."""
    text = os.pread(handle, 4096, 0).decode("utf-8", "surrogateescape")
    ref, _, new = text.rstrip("\n").rpartition(" ")
    if not ref or not text.endswith("\n"):
        return None
    return Announcement(ref, new.replace("-", ""), os.fstat(handle).st_mtime_ns)


def heal(common_dir: Path, handle: int) -> None:
    """Take away the lock files of a process of ours that died in the middle of a move.

    :param handle: the held file with announcements.
    :raises LostRaceError: it is too early to tell; try again.
    """
    begun = _announced(handle)
    for lock in _locks(common_dir, begun.ref, begun.new) if begun else ():
        if begun is not None and _is_left_by(lock, begun):
            lock.unlink(missing_ok=True)
    os.ftruncate(handle, 0)


def _is_left_by(lock: Path, begun: Announcement) -> bool:
    try:
        made = lock.stat()
        written = lock.read_bytes() if made.st_size <= 64 else b"other"
    except FileNotFoundError:
        return False
    if begun.new and written.decode("ascii", "replace").strip() == begun.new:
        return True
    if written and lock.name != f"{PACKED}.lock":
        return False
    if not 0 <= made.st_mtime_ns - begun.at <= MADE_WITHIN * 1e9:
        return False
    if time.time_ns() - made.st_mtime_ns < STALE * 1e9:
        raise LostRaceError(f"{lock} was left by a process that died; waiting until that is certain")
    return True


def _locks(common_dir: Path, ref: str, new: str) -> Iterator[Path]:
    """Lock files that a move of ``ref`` makes: its own, and for a removal that of the packed refs."""
    yield common_dir / f"{ref}.lock"
    if not new:
        yield common_dir / f"{PACKED}.lock"


def lock_age(path: Path) -> float | None:
    """Seconds since ``path`` was last written, None when it is gone."""
    with suppress(FileNotFoundError):
        return max(0.0, time.time() - path.stat().st_mtime)
    return None
