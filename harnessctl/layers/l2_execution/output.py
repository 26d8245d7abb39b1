"""A cell's output, bounded: head and tail in memory, raw bytes in a file of fixed size."""

from __future__ import annotations

import contextlib
import tempfile
from collections import deque
from collections.abc import Iterator
from pathlib import Path

from harnessctl.domain.cell import Output
from harnessctl.layers.l2_execution.terminal import Terminal, valid

#: Characters of one stream's shown form that an event holds at each end.
TEXT_EACH = 16_384
#: Raw bytes of a stream that are kept at each end: 64 MiB together (CONTRACT 3).
RAW_EACH = 32 * 1024 * 1024
#: Raw output longer than this is kept in a file even when its shown form is whole.
RAW_WORTH = 65_536
#: Bytes in one read of the raw file.
CHUNK = 1 << 20


class HeadTail:
    """The first and the last ``each`` characters of a text of any length."""

    def __init__(self, each: int = TEXT_EACH) -> None:
        self._each = each
        self._head: list[str] = []
        self._room = each
        self._tail: deque[str] = deque()
        self._tail_length = 0
        self._dropped = 0

    def add(self, text: str) -> None:
        """Some more text."""
        if self._room:
            self._head.append(text[: self._room])
            text, self._room = text[self._room :], max(0, self._room - len(text))
        if len(text) > self._each:
            self._dropped += len(text[: -self._each].encode())
            text = text[-self._each :]
        if text:
            self._tail.append(text)
            self._tail_length += len(text)
            self._shrink()

    def skip(self, count: int) -> None:
        """``count`` bytes that never arrived stood here."""
        self._dropped += count

    def _shrink(self) -> None:
        while self._tail_length > self._each:
            first = self._tail.popleft()
            excess = self._tail_length - self._each
            lost = first[:excess]
            self._dropped += len(lost.encode())
            self._tail_length -= len(lost)
            if len(lost) < len(first):
                self._tail.appendleft(first[excess:])

    def text(self) -> str:
        """Head and tail, with a line between them that counts what is missing."""
        head, tail = "".join(self._head), "".join(self._tail)
        if not self._dropped:
            return head + tail
        return f"{head}\n[... {self._dropped:,} bytes left out ...]\n{tail}"

    @property
    def cut(self) -> int:
        """Bytes left out."""
        return self._dropped


class Spool:
    """The raw bytes of one stream on disk: a head, then a ring that holds the tail.

    :param folder: where the nameless file is made.
    """

    def __init__(self, folder: Path, each: int = RAW_EACH) -> None:
        self._each = each
        self._file = tempfile.TemporaryFile(dir=folder)  # noqa: SIM115 - closed by close()
        self.size = 0
        self.skipped = 0

    def add(self, data: bytes) -> None:
        """Some more bytes."""
        room = max(0, self._each - self.size)
        if room:
            self._file.seek(self.size)
            self._file.write(data[:room])
        rest = memoryview(data)[room:]
        start = self.size + room
        if len(rest) > self._each:
            start += len(rest) - self._each
            rest = rest[-self._each :]
        while rest:
            place = start % self._each
            piece = rest[: self._each - place]
            self._file.seek(self._each + place)
            self._file.write(piece)
            rest, start = rest[len(piece) :], start + len(piece)
        self.size += len(data)

    def chunks(self) -> Iterator[bytes]:
        """The bytes in order; a line in the middle counts what was left out."""
        yield from self._read(0, min(self.size, self._each))
        over = max(0, self.size - 2 * self._each) + self.skipped
        if over:
            yield f"\n[... {over:,} bytes left out ...]\n".encode()
        if self.size <= 2 * self._each:
            yield from self._read(self._each, self.size - self._each)
            return
        place = self.size % self._each
        yield from self._read(self._each + place, self._each - place)
        yield from self._read(self._each, place)

    def _read(self, offset: int, count: int) -> Iterator[bytes]:
        while count > 0:
            self._file.seek(offset)
            data = self._file.read(min(count, CHUNK))
            if not data:
                return
            yield data
            offset, count = offset + len(data), count - len(data)

    def close(self) -> None:
        """Free the disk space."""
        self._file.close()

    def abandon(self) -> None:
        """As :meth:`close`, where what is still buffered cannot be written either."""
        with contextlib.suppress(OSError):
            self._file.close()


class Stream:
    """One stream of one cell."""

    def __init__(self, name: str, folder: Path) -> None:
        self.name = name
        self._folder = folder
        self._shown = HeadTail()
        self._terminal = Terminal(self._shown.add)
        self._start: list[bytes] = []
        self._bytes = 0
        self._spool: Spool | None = None
        self._full = False

    def feed(self, text: str) -> None:
        """Some more text from the kernel."""
        text = valid(text)
        self._terminal.feed(text)
        data = text.encode()
        self._bytes += len(data)
        if self._spool is None and self._bytes <= RAW_WORTH:
            self._start.append(data)
        elif not self._full:
            self._keep(data)

    def _keep(self, data: bytes) -> None:
        """Raw bytes go to the disk; where that is full the shown form stays, and the cell goes on."""
        try:
            if self._spool is None:
                self._spool = Spool(self._folder)
                self._spool.add(b"".join(self._start))
                self._start.clear()
            self._spool.add(data)
        except OSError:
            self._full = True
            self._start.clear()
            if self._spool is not None:
                self._spool.abandon()
                self._spool = None

    def skip(self, count: int) -> None:
        """The kernel did not send ``count`` bytes here."""
        self._bytes += count
        self._shown.skip(count)
        if self._spool is not None:
            self._spool.skipped += count

    def clear(self) -> None:
        """What was shown is to be replaced by what follows; the raw bytes stay."""
        self._shown = HeadTail()
        self._terminal = Terminal(self._shown.add)

    def output(self) -> Output:
        """The whole stream, ended."""
        self._terminal.flush()
        return Output(self.name, self._shown.text(), self._bytes, self._shown.cut, self._spool)


class Streams:
    """Everything one cell printed, a stream at a time in the order of first appearance."""

    def __init__(self, folder: Path) -> None:
        self._folder = folder
        self._streams: dict[str, Stream] = {}

    def feed(self, name: str, text: str) -> None:
        """Some more text on stream ``name``."""
        if name not in self._streams:
            self._streams[name] = Stream(name, self._folder)
        self._streams[name].feed(text)

    def skip(self, name: str, count: int) -> None:
        """The kernel did not send ``count`` bytes of stream ``name``."""
        if name in self._streams:
            self._streams[name].skip(count)

    def clear(self) -> None:
        """The kernel asked to clear its output."""
        for stream in self._streams.values():
            stream.clear()

    def outputs(self) -> tuple[Output, ...]:
        """Every stream that said something."""
        return tuple(o for o in (s.output() for s in self._streams.values()) if o.bytes)
