"""A stream that the system refuses is silent from then on, and says why."""

from __future__ import annotations

import errno
import io
import os
import sys

import pytest

from harnessctl.cli.streams import Fading, fading


def pipe_without_reader() -> io.TextIOWrapper:
    reader, writer = os.pipe()
    os.close(reader)
    return open(writer, "w")


class Refusing(io.StringIO):
    """Has no room, and no file behind it."""

    def write(self, text: str) -> int:
        raise OSError(errno.ENOSPC, "No space left on device")


def test_a_pipe_without_a_reader() -> None:
    with pipe_without_reader() as stream:
        fading = Fading(stream)
        print("one", file=fading, flush=True)
        assert fading.lost is not None
        assert fading.lost.errno == errno.EPIPE
        assert fading.unwritten is None  # nobody waits for it
        print("two", file=fading, flush=True)
        stream.write("three")  # what goes past it, such as the interpreter's flush, fails no more
        stream.flush()


def test_no_room_is_told_apart_from_nobody_there() -> None:
    fading = Fading(Refusing())
    assert fading.write("one") == 3
    assert fading.unwritten is fading.lost is not None
    assert fading.encoding is None  # the rest is the stream's own


def test_the_streams_are_put_back(monkeypatch: pytest.MonkeyPatch) -> None:
    out, err = Refusing(), io.StringIO()
    monkeypatch.setattr(sys, "stdout", out)
    monkeypatch.setattr(sys, "stderr", err)
    with fading("stderr"), fading("stdout") as stream:
        print("lost")
        print("said", file=sys.stderr)
    assert stream.lost is not None
    assert (sys.stdout, sys.stderr, err.getvalue()) == (out, err, "said\n")
