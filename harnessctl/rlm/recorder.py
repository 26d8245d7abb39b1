"""The only writer of a session's event log.

One record is one ``write``; the count of bytes is checked, because a full disk answers with a short
count and no error. What a failed append left behind is cut off again, so that the log ends with a
whole record whatever happens. A torn tail that a kill left is moved aside into a file of its own
and said in one ``repair`` event; exactly that record is lost.
"""

from __future__ import annotations

import errno
import fcntl
import hashlib
import os
import time
from collections.abc import Iterable, Mapping
from contextlib import suppress
from pathlib import Path
from typing import Any

from harnessctl.domain.errors import ConflictError, HarnessError
from harnessctl.domain.event import GENESIS, Event, EventType
from harnessctl.domain.plain_files import NotPlainError, make, opened
from harnessctl.rlm.log import (
    BLOBS_NAME,
    LOG_NAME,
    LONGEST,
    DamagedLogError,
    LogContent,
    no_log,
    read_log,
)
from harnessctl.rlm.ports import Clock

#: Set-aside tails are named after the byte where they stood.
TORN_PREFIX = "torn-"
#: Seconds that the lock may be held by somebody who only asks whether it is held (``sessions list``).
ASKING_S = 0.5
#: Space held while the log is open: the end record and ``result.json`` fit when the disk is full.
SPARE_NAME = ".spare"
SPARE_BYTES = 64 * 1024
_PIECE = 1024 * 1024
#: Bytes that are kept of what stands behind the last record: it may be a sparse file's, of any size.
MOST_ASIDE = 64 * 1024 * 1024


#: What to do about a record that no reader would take.
_SHORTER = "keep what is longer than that in a file, and name it"
#: What says that space is lacking.
_FULL = (errno.ENOSPC, errno.EDQUOT, errno.EFBIG)


class StorageError(HarnessError):
    """The log could not be written: full disk, quota, file size limit, lost device, something in its place.

    :param reason: in words, of what lacks space; or the system's answer.
    :param hint: the next step, where it follows from neither.
    """

    def __init__(self, path: Path, reason: str | OSError, *, hint: str = "") -> None:
        if isinstance(reason, OSError):
            full = reason.errno in _FULL
            reason = reason.strerror or str(reason)
        else:
            full = True
        usual = "free some space, then try again" if full else "mend that, then try again"
        super().__init__(f"cannot write {path}: {reason}", id="storage", hint=hint or usual)


class Recorder:
    """Appends records to one log. Holds an exclusive lock on it as long as it is open.

    :ivar events: every record so far, in order.
    """

    def __init__(self, folder: Path, fd: int, clock: Clock, content: LogContent) -> None:
        self.folder = folder
        self.events: list[Event] = list(content.events)
        self._fd = fd
        self._clock = clock
        self._size = content.size

    @classmethod
    def create(cls, folder: Path, clock: Clock) -> Recorder:
        """Start a log in ``folder``, which is made with mode 0700.

        :raises ConflictError: there is a log already.
        :raises StorageError: it cannot be made.
        """
        path = folder / LOG_NAME
        try:
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
            fd = os.open(path, os.O_RDWR | os.O_CREAT | os.O_EXCL | os.O_APPEND | os.O_CLOEXEC, 0o600)
        except FileExistsError as error:
            raise ConflictError(f"{path} exists already", id="log_exists") from error
        except OSError as error:
            raise StorageError(path, error) from error
        recorder = cls(folder, fd, clock, LogContent((), 0))
        try:
            _lock(fd, path)
            recorder._set_space_aside()
            _sync_folder(folder)
        except BaseException:
            recorder.close()
            path.unlink()  # an empty log is none
            with suppress(OSError):  # there was something in it before
                folder.rmdir()
            raise
        return recorder

    @classmethod
    def open(cls, folder: Path, clock: Clock) -> Recorder:
        """Open the log in ``folder`` to go on, repairing a torn tail.

        :raises NotFoundError: no log there.
        :raises DamagedLogError: the log is damaged before its end; nothing was changed.
        :raises ConflictError: another process writes it.
        """
        path = folder / LOG_NAME
        try:
            fd = opened(path, os.O_RDWR | os.O_APPEND)
        except (FileNotFoundError, NotADirectoryError) as error:
            raise no_log(path) from error
        except NotPlainError as error:
            raise DamagedLogError(path, str(error.strerror)) from error
        except OSError as error:
            raise StorageError(path, error) from error
        try:
            _lock(fd, path)
            content = read_log(path)
            if content.damage:
                raise DamagedLogError(path, content.damage)
            recorder = cls(folder, fd, clock, content)
            recorder._repair(content)
            recorder._set_space_aside()
        except BaseException:
            os.close(fd)
            raise
        return recorder

    def append(self, type: EventType, data: Mapping[str, Any], *, turn: int = 0) -> Event:  # noqa: A002 - the record's key
        """Write one record and return it.

        :raises StorageError: it did not reach the file whole; the log is as it was before.
        """
        self._refuse_strangers()
        event = Event.make(
            n=len(self.events),
            t=self._clock.utc(),
            type=type,
            turn=turn,
            data=data,
            prev=self.events[-1].hash if self.events else GENESIS,
        )
        line = event.to_line()
        if len(line) > LONGEST:
            path = self.folder / LOG_NAME
            raise StorageError(path, f"a record of {len(line)} bytes, and {LONGEST} are read", hint=_SHORTER)
        self._write(line)
        self.events.append(event)
        return event

    def sync(self) -> None:
        """Bring what was written onto the disk: at the end of a turn, before eviction, before a proposal."""
        try:
            os.fsync(self._fd)
        except OSError as error:
            raise StorageError(self.folder / LOG_NAME, error) from error

    def blob(self, chunks: Iterable[bytes]) -> str:
        """Keep a payload beside the log; its SHA-256, 64 hex digits.

        :raises StorageError: it cannot be written; nothing is left behind.
        """
        folder = self.folder / BLOBS_NAME
        partial = folder / f".partial-{os.getpid()}"
        digest = hashlib.sha256()
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            with make(partial) as file:
                for chunk in chunks:
                    digest.update(chunk)
                    file.write(chunk)
                file.flush()
                os.fsync(file.fileno())
            partial.replace(folder / digest.hexdigest())
            _sync_folder(folder)
        except OSError as error:
            with suppress(OSError):
                partial.unlink()
            raise StorageError(folder, error) from error
        return digest.hexdigest()

    def relieve(self) -> None:
        """Make way for the end where nothing more could be written.

        The space that was held is freed, for a full disk; what something else appended is moved aside.
        """
        self._free_space()
        with suppress(OSError, StorageError):  # then the end cannot be written either, and says why
            if os.fstat(self._fd).st_size > self._size:
                self._set_tail_aside()

    def close(self) -> None:
        """Let go of the log. Closing twice is harmless."""
        if self._fd >= 0:
            self._free_space()
            os.close(self._fd)
            self._fd = -1

    def _free_space(self) -> None:
        with suppress(OSError):  # a folder may stand there
            (self.folder / SPARE_NAME).unlink()

    def _set_space_aside(self) -> None:
        path = self.folder / SPARE_NAME
        try:
            # Not zeros: some file systems keep those without taking space.
            with make(path) as file:
                file.write(os.urandom(SPARE_BYTES))
        except OSError as error:
            self._free_space()
            raise StorageError(path, error) from error

    def _refuse_strangers(self) -> None:
        """A cell has the user's rights, and this file is the user's: what it did to it is no evidence."""
        try:
            found = os.fstat(self._fd)
        except OSError as error:
            raise StorageError(self.folder / LOG_NAME, error) from error
        if found.st_size != self._size or found.st_nlink == 0:
            raise StorageError(
                self.folder / LOG_NAME,
                "something else changed or removed it during the session",
                hint="leave it alone while the session runs; harnessctl sessions show says what it holds",
            )

    def _write(self, line: bytes) -> None:
        path = self.folder / LOG_NAME
        try:
            count = os.write(self._fd, line)
        except OSError as error:
            raise StorageError(path, error) from error
        if count != len(line):
            os.ftruncate(self._fd, self._size)
            raise StorageError(path, f"only {count} of {len(line)} bytes were taken (no space left)")
        self._size += count

    def _repair(self, content: LogContent) -> None:
        if content.unended:
            self._write(b"\n")
        if content.tail:
            self._set_tail_aside()
        # A kill between setting aside and saying so leaves a file that no event names.
        named = {e.data.get("file") for e in self.events if e.type is EventType.REPAIR}
        for file in sorted(self.folder.glob(f"{TORN_PREFIX}*")):
            if file.name not in named:
                size = file.stat().st_size
                self.append(
                    EventType.REPAIR,
                    {
                        "what": "torn_tail",
                        "text": f"The log ended in {size} bytes that are no whole record of it; they stand "
                        "aside, and what was being written is lost.",
                        "bytes": size,
                        "file": file.name,
                    },
                )
                self.sync()

    def _set_tail_aside(self) -> None:
        """Move what stands behind the last whole record, or its first :data:`MOST_ASIDE` bytes."""
        target = self.folder / f"{TORN_PREFIX}{self._size}"
        try:
            with make(target) as file:
                for at in range(self._size, self._size + MOST_ASIDE, _PIECE):
                    file.write(os.pread(self._fd, _PIECE, at))
                file.flush()
                os.fsync(file.fileno())
            _sync_folder(self.folder)
            os.ftruncate(self._fd, self._size)
            os.fsync(self._fd)
        except OSError as error:
            with suppress(OSError):
                target.unlink()
            raise StorageError(target, error) from error


def _lock(fd: int, path: Path) -> None:
    """:raises ConflictError: another process holds it, longer than those that only ask whether it is held."""
    end = time.monotonic() + ASKING_S
    while True:
        try:
            fcntl.flock(fd, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError as error:
            if time.monotonic() >= end:
                raise ConflictError(
                    f"{path} is being written by another process",
                    id="session_running",
                    hint="wait for that run to end, or end it",
                ) from error
            time.sleep(ASKING_S / 100)
        else:
            return


def _sync_folder(folder: Path) -> None:
    """A new name in a folder is on the disk only when the folder is."""
    fd = os.open(folder, os.O_RDONLY | os.O_CLOEXEC)
    try:
        os.fsync(fd)
    finally:
        os.close(fd)
