"""What a kernel sends: bounded, valid, and no faster than it is read."""

from __future__ import annotations

import collections
import sys
import threading
from typing import Any

from .signs import SKIPPED_MIME

#: Characters of one stream that a cell may send at each end.
EACH = 32 * 1024 * 1024
#: Characters of a stream in one message.
PIECE = 1 << 18
#: Characters of one shown value at each end.
SHOWN = 500_000


class Limited:
    """One of the kernel's output streams, which lets a cell's first and last ``EACH`` characters through.

    The kernel sends faster than anyone can read, and what waits in between would fill the owner's
    memory. The last characters are sent when the cell has ended.
    """

    def __init__(self, name: str, stream: Any) -> None:
        self.name = name
        self.stream = stream
        self.original_write = stream.write
        self.unsent = 0
        self.lock = threading.Lock()
        self.start()

    def start(self) -> None:
        """A new cell."""
        self.room = EACH
        self.tail: collections.deque[str] = collections.deque()
        self.waiting = self.skipped = 0

    def write(self, text: str) -> int:
        """In place of the stream's own ``write``."""
        if not isinstance(text, str):
            raise TypeError(f"write() argument must be str, not {type(text).__name__}")
        if len(text) > self.room:
            with self.lock:
                self.keep(text)
        else:
            self.room -= len(text)
            self.through(text)
        return len(text)

    def through(self, text: str) -> None:
        """Hand on in pieces: one message of everything would be in memory several times over."""
        for start in range(0, len(text), PIECE):
            piece = text[start : start + PIECE]
            self.original_write(piece)
            self.unsent += len(piece)
            if self.unsent >= PIECE:
                self.stream.flush()
                self.unsent = 0

    def keep(self, text: str) -> None:
        """Text beyond the first ``EACH`` characters."""
        if self.room:
            self.through(text[: self.room])
            text, self.room = text[self.room :], 0
        if len(text) > EACH:
            self.skipped += len(text[:-EACH].encode("utf-8", "replace"))
            text = text[-EACH:]
        self.tail.append(text)
        self.waiting += len(text)
        while self.waiting - len(self.tail[0]) >= EACH:
            lost = self.tail.popleft()
            self.waiting -= len(lost)
            self.skipped += len(lost.encode("utf-8", "replace"))

    def end(self) -> None:
        """The cell has ended: say how much was skipped, send the rest."""
        from IPython.display import publish_display_data

        with self.lock:
            tail, skipped = "".join(self.tail), self.skipped
            self.start()
        if skipped:
            said = {"stream": self.name, "bytes": skipped}
            publish_display_data({SKIPPED_MIME: said})  # type: ignore[no-untyped-call]
        if tail:
            self.through(tail)


def limit_output(ip: Any) -> None:
    """Bound what a cell prints and what it shows. Not in the cell that calls :func:`install`."""
    for name in ("stdout", "stderr"):
        stream = getattr(sys, name)
        limited = Limited(name, stream)
        stream.write = limited.write
        ip.events.register("post_execute", limited.end)
    form = ip.display_formatter.format

    def bounded(*args: Any, **options: Any) -> Any:
        data, metadata = form(*args, **options)
        return {mime: shortened(value) for mime, value in data.items()}, metadata

    ip.display_formatter.format = bounded


def shortened(value: Any) -> Any:
    """Text of reasonable length; anything else as it is."""
    if not isinstance(value, str) or len(value) <= 2 * SHOWN:
        return value
    left_out = len(value) - 2 * SHOWN
    return f"{value[:SHOWN]}\n[... {left_out:,} characters left out ...]\n{value[-SHOWN:]}"


def keep_messages_valid(session: Any) -> None:
    r"""A lone surrogate in printed text must not lose the message: it is sent as ``\ud800``."""
    pack = session.pack

    def packed(content: Any) -> bytes:
        try:
            data: bytes = pack(content)
        except UnicodeEncodeError:
            data = pack(_escaped(content))
        return data

    session.pack = packed


def _escaped(content: Any) -> Any:
    if isinstance(content, str):
        return content.encode("utf-8", "backslashreplace").decode("utf-8")
    if isinstance(content, dict):
        return {_escaped(key): _escaped(value) for key, value in content.items()}
    if isinstance(content, list | tuple):
        return [_escaped(item) for item in content]
    return content


def wait_for_reader(ip: Any) -> None:
    """Let output wait in this process until it is read, and not in the reader's memory.

    A publishing socket would drop what a slow reader has no room for.
    """
    import zmq

    thread = ip.kernel.iopub_socket.io_thread
    thread.schedule(lambda: thread.socket.setsockopt(zmq.XPUB_NODROP, 1))
