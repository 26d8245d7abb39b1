"""Files that something else may stand in place of: a pipe is waited for, a device never ends.

Code with the user's rights can put anything where a file of ours is expected. So files are opened without
waiting, and used only when they are plain ones; everything else is an :class:`OSError` like a missing right.
"""

from __future__ import annotations

import errno
import os
import stat
import time
from contextlib import suppress
from pathlib import Path
from typing import BinaryIO

#: Seconds that a program may take to write what a user hands over in a pipe: ``<(program)``, ``/dev/stdin``.
PATIENCE_S = 10.0
#: Bytes at a time from a pipe.
_PIECE = 64 * 1024
_KINDS = (
    (stat.S_ISFIFO, "it is a pipe, no plain file"),
    (stat.S_ISSOCK, "it is a socket, no plain file"),
    (stat.S_ISDIR, os.strerror(errno.EISDIR)),
)


class NotPlainError(OSError):
    """No plain file: a pipe, a device, a socket or a folder."""


def opened(path: str | Path, flags: int = os.O_RDONLY, mode: int = 0o600) -> int:
    """A descriptor of the plain file at ``path``, close-on-exec; never waits.

    :raises NotPlainError: something else is there.
    :raises OSError: it cannot be opened.
    """
    handle = _open(path, flags, mode)
    try:
        found = os.fstat(handle)
        if not stat.S_ISREG(found.st_mode):
            raise _not_plain(path, found)
    except BaseException:
        os.close(handle)
        raise
    return handle


def read_small(path: str | Path, most: int, *, patience: float = 0.0) -> bytes:
    """The content of a file that is to be small; of the null device, nothing.

    :param most: bytes that it may have.
    :param patience: seconds in which a pipe must have been filled and closed; 0.0 takes none.
    :raises NotPlainError: no plain file is there.
    :raises OSError: it cannot be read, has more bytes, or the pipe was not closed in time.
    """
    handle = _open(path, os.O_RDONLY)
    try:
        found = os.fstat(handle)
        if stat.S_ISREG(found.st_mode) and found.st_size > most:
            raise _too_large(path, found.st_size, most)
        if stat.S_ISREG(found.st_mode):
            with open(handle, "rb", closefd=False) as file:
                data = file.read(most + 1)
        elif stat.S_ISFIFO(found.st_mode) and patience:
            data = _piped(handle, most, time.monotonic() + patience, path)
        elif stat.S_ISCHR(found.st_mode) and found.st_rdev == os.stat(os.devnull).st_rdev:
            data = b""
        else:
            raise _not_plain(path, found)
        if len(data) > most:
            raise _too_large(path, len(data), most)
        return data
    finally:
        os.close(handle)


def make(path: Path, mode: int = 0o666) -> BinaryIO:
    """A new file at ``path``, for writing; what stood there goes, and is neither followed nor written into.

    :raises OSError: it cannot be made.
    """
    with suppress(FileNotFoundError):
        path.unlink()
    return open(os.open(path, os.O_WRONLY | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, mode), "wb")


def remove_folder(path: str | Path) -> None:
    """Remove a folder with all it holds, as far as it goes; what else stands there goes alone.

    :func:`shutil.rmtree` opens first and looks then: it would wait at a pipe.
    """
    if os.path.isdir(path) and not os.path.islink(path):
        import shutil  # compression and all, which readers of files need not pay for

        shutil.rmtree(path, ignore_errors=True)
    else:
        with suppress(OSError):
            os.unlink(path)


def _open(path: str | Path, flags: int, mode: int = 0o600) -> int:
    try:
        return os.open(path, flags | os.O_NONBLOCK | os.O_NOCTTY | os.O_CLOEXEC, mode)
    except OSError as error:
        # What sockets answer, and pipes that nobody reads; a folder is not to be written.
        if error.errno in (errno.ENXIO, errno.EISDIR):
            raise _not_plain(path, os.stat(path)) from error
        raise


def _too_large(path: str | Path, size: int, most: int) -> OSError:
    return OSError(errno.EFBIG, f"it is too large: {size} bytes, and {most} are read", str(path))


def _not_plain(path: str | Path, found: os.stat_result) -> NotPlainError:
    why = next((words for is_it, words in _KINDS if is_it(found.st_mode)), "it is a device, no plain file")
    number = errno.EISDIR if stat.S_ISDIR(found.st_mode) else errno.EINVAL
    return NotPlainError(number, why, str(path))


def _piped(handle: int, most: int, until: float, path: str | Path) -> bytes:
    """What is written into a pipe until all that write it have closed it, and a byte more than ``most``."""
    data = bytearray()
    while len(data) <= most:
        try:
            piece = os.read(handle, _PIECE)
        except BlockingIOError:  # somebody has it open to write
            piece = None
        if piece:
            data += piece
            continue
        if piece is not None and data:
            break
        left = until - time.monotonic()
        if left <= 0:
            raise TimeoutError(
                errno.ETIMEDOUT, "nothing more came from the pipe, and it stays open", str(path)
            )
        # Also where it looks closed: so does one that nobody has opened to write yet.
        time.sleep(min(left, 0.02))
    return bytes(data)
