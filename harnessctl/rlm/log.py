"""Reading a session's event log and checking its chain.

A log is whole when every line is a record, numbers run from 0 without a gap, each ``prev`` is the
``hash`` before it, each ``hash`` is that of its own bytes, and the data is what readers rely on
(:mod:`harnessctl.rlm.shapes`). Bytes after the last LF are a *torn tail*: what a kill in mid-append
leaves. Anything else that does not fit is damage, and reading stops there: what follows a broken link
proves nothing.
"""

from __future__ import annotations

import gc
import io
import json
import re
from collections.abc import Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import Any, BinaryIO

from harnessctl.domain.canonical import sha256_hex
from harnessctl.domain.errors import HarnessError, NotFoundError
from harnessctl.domain.event import GENESIS, Event, EventType
from harnessctl.domain.plain_files import NotPlainError, opened, read_small
from harnessctl.domain.trajectory import Trajectory
from harnessctl.rlm.shapes import fault_of

LOG_NAME = "log.jsonl"
BLOBS_NAME = "blobs"
#: Bytes that a record may have: what is longer may be the zeros of a sparse file, of any size.
LONGEST = 64 * 1024 * 1024
#: Bytes at a time from a log.
_PIECE = 1024 * 1024

#: The end of a canonical line. ``data`` sorts before ``hash``, so everything else stands here, and
#: the hashed bytes are the line without this one member: no need to write the JSON a second time.
_TAIL = re.compile(
    rb',"hash":"([0-9a-f]{64})"(,"n":(\d+),"prev":"([0-9a-f]{64})","t":"([^"\\]*)","turn":(\d+),"type":"([a-z]+)"})\n?\Z'
)
_HEAD = b'{"data":'
_TYPES = {kind.value.encode(): kind for kind in EventType}
#: json's own scanner; typeshed does not name it. Its result is (value, index after it).
_scan = json.JSONDecoder().scan_once  # type: ignore[attr-defined]
#: More than the matched end can take, so that a long line is not searched from its beginning.
_TAIL_BYTES = 400


class DamagedLogError(HarnessError):
    """A log that does not fit together somewhere before its end, or no file at all.

    :ivar damage: what is wrong, and where.
    """

    def __init__(self, path: Path, damage: str) -> None:
        super().__init__(
            f"{path}: {damage}",
            id="log_damaged",
            hint="the log was changed after it was written, or the disk lost parts of it; it can be read "
            "up to that place, not continued: put a copy back if there is one, or start anew: harnessctl run",
        )
        self.damage = damage


@dataclass(frozen=True)
class LogContent:
    """What a log file holds.

    :ivar size: bytes of the whole records; a torn tail starts here.
    :ivar tail: bytes after the last LF that are no whole record; b"" for a cleanly ended log.
    :ivar unended: the last record is whole and only its LF is missing.
    :ivar damage: "" or what is wrong and where.
    """

    events: tuple[Event, ...]
    size: int
    tail: bytes = b""
    unended: bool = False
    damage: str = ""


def read_log(path: Path) -> LogContent:
    """Read and check the log file at ``path``.

    :raises NotFoundError: no such file.
    """
    try:
        with open_log(path) as file:
            return _read(file)
    except DamagedLogError as error:
        return LogContent((), 0, damage=error.damage)


def open_log(path: Path) -> BinaryIO:
    """The log file at ``path``, to read.

    :raises NotFoundError: no such file.
    :raises DamagedLogError: a pipe, a device, a socket or a folder stands in its place.
    """
    try:
        return open(opened(path), "rb", buffering=_PIECE)
    except (FileNotFoundError, NotADirectoryError) as error:
        raise no_log(path) from error
    except NotPlainError as error:
        raise DamagedLogError(path, str(error.strerror)) from error


def no_log(path: Path) -> NotFoundError:
    """The error for a log that is not there."""
    return NotFoundError(
        f"no event log at {path}", id="no_log", hint="harnessctl sessions list shows what there is"
    )


def parse_log(data: bytes) -> LogContent:
    """The same over bytes."""
    return _read(io.BytesIO(data))


def _read(file: BinaryIO) -> LogContent:
    with no_collection():
        return _parse(file)


@contextmanager
def no_collection() -> Iterator[None]:
    """Without the collector of cycles: records hold none, and looking for some doubles a long log's time."""
    was = gc.isenabled()
    gc.disable()
    try:
        yield
    finally:
        if was:
            gc.enable()


def _parse(file: BinaryIO) -> LogContent:
    events: list[Event] = []
    prev, start, ended = GENESIS, 0, True
    # Two bytes more than a record may have: its LF, and one too many.
    while line := file.readline(LONGEST + 2):
        ended = line.endswith(b"\n")
        if len(line) - ended > LONGEST:
            event, problem = None, f"longer than any record, in a file of {file.seek(0, io.SEEK_END)} bytes"
        else:
            event, problem = _checked(line, len(events), prev)
            if event is None and not ended:
                return LogContent(tuple(events), start, tail=line)
        if event is None or (problem := fault_of(event)):
            return LogContent(
                tuple(events), start, damage=f"line {len(events) + 1} (byte {start}): {problem}"
            )
        events.append(event)
        prev = event.hash
        start += len(line)
        if not ended:  # nor is what a writer appends from now on looked at
            break
    return LogContent(tuple(events), start, unended=not ended)


def read_trajectory(session_dir: Path) -> Trajectory:
    """The trajectory of the session kept in ``session_dir``, its chain checked.

    A torn tail (also a record that a live session is writing at this moment) and damage both show
    in :attr:`Trajectory.damage`; the events are those before it.

    :raises NotFoundError: the folder holds no log.
    """
    content = read_log(session_dir / LOG_NAME)
    damage: list[str] = []
    if content.tail:
        damage.append(f"torn tail: {len(content.tail)} bytes after event {len(content.events) - 1}")
    if content.damage:
        damage.append(content.damage)
    header = content.events[0].data if content.events else {}
    return Trajectory(str(header.get("session") or session_dir.name), content.events, tuple(damage))


def first_events(session_dir: Path, count: int) -> tuple[Event, ...]:
    """The first ``count`` events of a log that may be long; only those before one that cannot be read."""
    found: list[Event] = []
    with suppress(OSError, ValueError, HarnessError), open_log(session_dir / LOG_NAME) as log:
        while len(found) < count:
            found.append(read_line(log.readline(LONGEST)))
    return tuple(found)


def read_line(line: bytes) -> Event:
    """One line alone, its chain not checked.

    :raises ValueError: not a record.
    """
    event = Event.from_line(line)
    if fault := fault_of(event):
        raise ValueError(fault)
    return event


def header_of_log(session_dir: Path) -> Mapping[str, Any]:
    """Data of a log's first event, {} where it cannot be read; the chain is not checked."""
    first = first_events(session_dir, 1)
    return first[0].data if first else {}


def read_blob(session_dir: Path, digest: str) -> bytes:
    """The payload ``digest`` (64 hex digits) kept beside the log, checked.

    :raises NotFoundError: not there.
    :raises DamagedLogError: it cannot be read, or its bytes are not those of its name.
    """
    path = session_dir / BLOBS_NAME / digest
    try:
        data = read_small(path, 2 * LONGEST)
    except FileNotFoundError as error:
        raise NotFoundError(f"no blob {digest} beside the log", id="no_blob") from error
    except OSError as error:
        raise DamagedLogError(path, str(error.strerror)) from error
    if sha256_hex(data) != digest:
        raise DamagedLogError(path, "the content does not have the digest of its name")
    return data


def _checked(line: bytes, n: int, prev: str) -> tuple[Event | None, str]:
    """The record of ``line``, or why it is not record ``n`` after ``prev``."""
    match = _TAIL.search(line, max(0, len(line) - _TAIL_BYTES))
    if match is None or not line.startswith(_HEAD):
        return None, "not a record"
    stated, rest, number, before, t, turn, kind = match.groups()
    digest = sha256(before)
    digest.update(line[: match.start()])
    digest.update(rest)
    if digest.hexdigest().encode() != stated:
        return None, "the hash is not that of the record"
    if int(number) != n:
        return None, f"numbered {int(number)}, expected {n}"
    if before.decode() != prev:
        return None, "does not follow the record before it"
    try:
        # Only the value of ``data``: everything else stands in the matched end.
        data, end = _scan(line.decode("ascii"), len(_HEAD))
        type_ = _TYPES[kind]
    except (ValueError, KeyError, StopIteration, RecursionError):
        return None, "not a record"
    if end != match.start() or not isinstance(data, dict):
        return None, "not a record"
    return Event(n, t.decode(), type_, int(turn), data, prev, stated.decode()), ""
