"""Standard streams that may go away while a verb works: a pipe's reader, a terminal, a full disk.

Whoever stops to look must not end what is looked at. So stderr falls silent in every verb, and stdout in
those that work on whether or not somebody reads.
"""

from __future__ import annotations

import errno
import os
import sys
from collections.abc import Iterator
from contextlib import contextmanager, suppress
from typing import Any, Literal, TextIO

#: How the system says that nobody is left at the other end.
_LEFT = (errno.EPIPE, errno.EIO)


class Fading:
    """A text stream that is silent from the first write on that the system refuses.

    :ivar lost: why it is silent, None while it is not.
    """

    def __init__(self, stream: TextIO) -> None:
        self.lost: OSError | None = None
        self._stream = stream

    def write(self, text: str) -> int:
        """Write, or lose, ``text``."""
        try:
            return self._stream.write(text)
        except OSError as error:
            self._fall_silent(error)
            return len(text)

    def flush(self) -> None:
        """Bring out, or lose, what was written."""
        try:
            self._stream.flush()
        except OSError as error:
            self._fall_silent(error)

    @property
    def unwritten(self) -> OSError | None:
        """Why not all was written, although somebody may still wait for it; None where they went away."""
        return self.lost if self.lost is not None and self.lost.errno not in _LEFT else None

    def _fall_silent(self, error: OSError) -> None:
        self.lost = self.lost or error
        silence(self._stream)

    def __getattr__(self, name: str) -> Any:
        return getattr(self._stream, name)


def silence(stream: TextIO) -> None:
    """Point ``stream`` elsewhere: then neither its buffer nor the interpreter's flush at exit fails."""
    with suppress(OSError):  # a stream without a file behind it holds nothing that could fail later
        nowhere = os.open(os.devnull, os.O_WRONLY)
        try:
            os.dup2(nowhere, stream.fileno())
        finally:
            os.close(nowhere)


@contextmanager
def fading(name: Literal["stdout", "stderr"]) -> Iterator[Fading]:
    """While this runs, what the standard stream does not take is lost.

    Remarks on stderr never end a verb; stdout is for verbs whose work is not what they print.
    """
    before: TextIO = getattr(sys, name)
    stream = Fading(before)
    setattr(sys, name, stream)
    try:
        yield stream
    finally:
        stream.flush()
        setattr(sys, name, before)
