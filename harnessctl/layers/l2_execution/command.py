"""One command, run to its end: a process group of its own, a time limit, bounded output, nothing left behind.

It runs below the same guard process as a kernel (:mod:`.guard`): what the command puts in the background
ends with it, and all of it ends when harnessctl does.
"""

from __future__ import annotations

import asyncio
import codecs
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import tempfile
import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from harnessctl.layers.l2_execution.output import Stream

_GUARD = Path(__file__).with_name("guard.py")
#: Seconds between asking a command that passed its limit to end, and ending it.
PATIENCE_S = 2.0
#: Seconds that output may still come after everything has ended (a process that escaped holds the pipe).
DRAIN_S = 1.0
#: Bytes of one read.
CHUNK = 65_536


@dataclass(frozen=True, slots=True)
class CommandRun:
    """What came of a command.

    :ivar exit: its exit code as a shell says it (128 + n for signal n); None when it passed its limit.
    :ivar text: stdout and stderr together as a terminal would show them, head and tail when long.
    :ivar bytes: raw bytes it printed.
    """

    exit: int | None
    ms: int
    text: str
    bytes: int


async def run_command(
    command: Sequence[str], cwd: Path, environment: Mapping[str, str], *, limit_s: float
) -> CommandRun:
    """Run ``command``. Cancelling ends it and everything below it."""
    begun = time.monotonic()
    stream = Stream("stdout", Path(tempfile.gettempdir()))
    reading, writing = os.pipe()
    ours, theirs = socket.socketpair()
    with theirs:
        arguments = [str(theirs.fileno()), "", f"/dev/fd/{writing}", "--", *command]
        guard = subprocess.Popen(  # noqa: ASYNC220 - waits until the guard's exec only
            [sys.executable, "-I", "-S", str(_GUARD), *arguments],
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            cwd=cwd,
            env=dict(environment),
            pass_fds=[theirs.fileno(), writing],
            start_new_session=True,
        )
    os.close(writing)
    output = asyncio.create_task(_collect(reading, stream))
    try:
        code = await _watch(ours, limit_s)
    finally:
        await asyncio.shield(asyncio.to_thread(guard.wait))
        await _finish(output)
    shown = stream.output()
    if shown.raw is not None:
        shown.raw.close()
    return CommandRun(code, round((time.monotonic() - begun) * 1000), shown.text, shown.bytes)


async def _watch(ours: socket.socket, limit_s: float) -> int | None:
    """The exit code that the guard tells; None past the limit. The guard ends with the connection."""
    reader, writer = await asyncio.open_connection(sock=ours)
    try:
        async with asyncio.timeout(limit_s):
            return await _exit_code(reader)
    except TimeoutError:
        writer.write(json.dumps({"signal": int(signal.SIGTERM)}).encode() + b"\n")
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(_exit_code(reader), PATIENCE_S)
        return None
    finally:
        writer.close()


async def _exit_code(reader: asyncio.StreamReader) -> int:
    while line := await reader.readline():
        message = json.loads(line)
        if "exit" in message:
            return int(message["exit"]) if message["signal"] is None else 128 + int(message["signal"])
    return 126  # the guard could not start it


async def _collect(fd: int, stream: Stream) -> None:
    decoder = codecs.getincrementaldecoder("utf-8")("replace")
    reader = asyncio.StreamReader(limit=CHUNK)
    protocol = asyncio.StreamReaderProtocol(reader)
    transport, _ = await asyncio.get_running_loop().connect_read_pipe(
        lambda: protocol, os.fdopen(fd, "rb", buffering=0)
    )
    try:
        while data := await reader.read(CHUNK):
            stream.feed(decoder.decode(data))
    finally:
        transport.close()


async def _finish(output: asyncio.Task[None]) -> None:
    await asyncio.wait({output}, timeout=DRAIN_S)
    output.cancel()
    await asyncio.gather(output, return_exceptions=True)
