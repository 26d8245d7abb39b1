"""One session a work tree: who works in it holds a lock in the state folder, named after its path.

Two agents in one work tree would each take the other's changes for their own. The lock goes with the
process that holds it, whatever its end.
"""

from __future__ import annotations

import fcntl
import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from harnessctl.domain.canonical import sha256_hex
from harnessctl.domain.errors import ConflictError
from harnessctl.domain.plain_files import NotPlainError, opened, read_small
from harnessctl.rlm.recorder import ASKING_S, StorageError

FOLDER = "occupied"
#: Bytes of a lock file: it holds a few words about its holder.
MOST = 64 * 1024


class OccupiedError(ConflictError):
    """Another session works in the same work tree."""

    def __init__(self, root: Path, holder: dict[str, object]) -> None:
        session, pid = holder.get("session", "unknown"), holder.get("pid", "unknown")
        super().__init__(
            f"session {session} (process {pid}) works in {root}",
            id="work_tree_occupied",
            hint="wait for its end, or add --worktree to work in a work tree of its own",
        )


@contextmanager
def occupied(state_dir: Path, root: Path, session: str) -> Iterator[None]:
    """Hold the work tree at ``root`` for ``session``.

    :raises OccupiedError: another session holds it; names it and its process.
    :raises StorageError: the lock file cannot be written.
    """
    path = lock_path(state_dir, root)
    fd = _opened(path)
    try:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            raise OccupiedError(root, _holder(path)) from None
        _write(fd, path, {"pid": os.getpid(), "session": session, "root": str(root)})
        yield
    finally:
        os.close(fd)


def is_written(log: Path) -> bool:
    """Whether a process holds the lock of the log file ``log``.

    To ask, the lock is held for a moment, shared: a writer that begins meanwhile tries again.
    """
    try:
        fd = opened(log)
    except NotPlainError:  # what stands in its place, no session writes
        return False
    try:
        fcntl.flock(fd, fcntl.LOCK_SH | fcntl.LOCK_NB)
    except OSError:
        return True
    finally:
        os.close(fd)
    return False


@contextmanager
def unwritten(log: Path) -> Iterator[bool]:
    """Whether no process writes a session's log; while this lasts none can begin to."""
    try:
        fd = opened(log)
    except NotPlainError:  # what stands in its place, no session writes
        yield True
        return
    try:
        fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
    except OSError:
        yield False
    else:
        yield True
    finally:
        os.close(fd)


def may_begin(log: Path) -> bool:
    """Whether a process may be about to write the first record of ``log``: it has it, or just made it."""
    return is_written(log) or abs(time.time() - log.stat().st_mtime) < ASKING_S


def lock_path(state_dir: Path, root: Path) -> Path:
    """Where the lock of the work tree at ``root`` stands."""
    return state_dir / FOLDER / sha256_hex(os.fsencode(root.resolve()))[:32]


def _opened(path: Path) -> int:
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        return opened(path, os.O_RDWR | os.O_CREAT)
    except OSError as error:
        raise StorageError(path, error) from error


def _holder(path: Path) -> dict[str, object]:
    try:
        found = json.loads(read_small(path, MOST))
    except (OSError, ValueError):
        return {}
    return found if isinstance(found, dict) else {}


def _write(fd: int, path: Path, holder: dict[str, object]) -> None:
    try:
        os.ftruncate(fd, 0)
        os.pwrite(fd, json.dumps(holder).encode(), 0)
    except OSError as error:
        raise StorageError(path, error) from error
