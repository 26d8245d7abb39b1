"""The owner's side of the fork server: start it, ask it for kernels, hear how they end.

Nothing here waits for the server: requests are small messages, and each kernel has a pipe of its own
on which its status arrives (:mod:`.forkserver` says what). So a kernel's death is read where it is
asked for, without a watching task, and a server serves one event loop after the other.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import signal
import socket
import subprocess
import sys
import time
import weakref
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import IO, Any, Self

from harnessctl.config import KERNEL_MARK
from harnessctl.domain.errors import HarnessError

_SERVER = Path(__file__).with_name("forkserver.py")
#: Seconds the server may take to end every kernel and itself; its own patience is 2 s, twice.
END_S = 6.0

#: Where a kernel's stream goes: a descriptor, an open file, ``subprocess.DEVNULL``; None: where ours goes.
Stream = int | IO[bytes] | IO[str] | None


class ForkError(HarnessError):
    """No kernel could be forked; a stock kernel may still start."""

    def __init__(self, reason: str) -> None:
        super().__init__(
            f"no kernel could be forked: {reason}",
            id="kernel_fork",
            hint="a stock kernel needs no preloaded process",
        )


def available() -> bool:
    """Whether kernels can be forked here: on Linux, see :mod:`.forkserver`."""
    return sys.platform == "linux"


class ForkedProcess:
    """A kernel that was asked for; has what :class:`subprocess.Popen` has where it can.

    :ivar pid: its process id, which is its group's and session's too; 0 until the server has told it.
    :ivar returncode: None while it runs; else its exit code, or minus the signal that ended it.
    :ivar lost: the server ended first, and the system killed the kernel with it (``returncode`` -9).
    """

    stdin = stdout = stderr = None

    def __init__(self, server: ForkServer, status: int) -> None:
        os.set_blocking(status, False)
        self._server = server
        self._status = open(status, "rb", buffering=0)  # noqa: SIM115 - closed when it ends
        self._partial = b""
        self._ready = False
        self._failure = ""
        self._waiters: set[asyncio.Future[None]] = set()
        self._loop: asyncio.AbstractEventLoop | None = None
        self.pid = 0
        self.returncode: int | None = None
        self.lost = False

    def poll(self) -> int | None:
        """``returncode``, as of now."""
        while not self._status.closed and (data := self._status.read(65_536)) is not None:
            *lines, self._partial = (self._partial + data).split(b"\n")
            for line in lines:
                self._hear(json.loads(line))
            if not data or self.returncode is not None:
                self._end()
            for waiter in self._waiters:
                if not waiter.done():
                    waiter.set_result(None)
        return self.returncode

    def _hear(self, message: Mapping[str, object]) -> None:
        match message:
            case {"pid": int(pid)}:
                self.pid = pid
            case {"ready": True}:
                self._ready = True
            case {"failed": str(why)}:
                self._failure = why.strip()
            case {"exit": int(code)}:
                self.returncode = code
            case {"signal": int(number)}:
                self.returncode = -number

    def _end(self) -> None:
        """The pipe has ended: with the kernel, with the server, or because none was forked."""
        self._unwatch()
        self._status.close()
        if self.returncode is None:
            self.lost = not self._failure
            self.returncode = -signal.SIGKILL if self.lost else 1

    def _unwatch(self) -> None:
        if self._loop is not None:
            with contextlib.suppress(RuntimeError):  # the loop is closed
                self._loop.remove_reader(self._status)
            self._loop = None

    async def _news(self) -> None:
        """Wait until something has arrived on the pipe."""
        if self._loop is None:
            self._loop = asyncio.get_running_loop()
            self._loop.add_reader(self._status, self.poll)
        waiter: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        self._waiters.add(waiter)
        try:
            await waiter
        finally:
            self._waiters.discard(waiter)
            if not self._waiters:
                self._unwatch()

    async def started(self) -> None:
        """Wait until the kernel's sockets are bound.

        :raises ForkError: it was not forked, or failed on its way.
        """
        while self.poll() is None and not self._ready and not self._failure:
            await self._news()
        if not self._ready:
            self.kill()
            code = await self.ended()
            raise ForkError(self._failure or f"it ended with {code} while it started")

    async def ended(self) -> int:
        """Wait for the end of the kernel and of all processes below it; ``returncode``."""
        while (code := self.poll()) is None:
            await self._news()
        return code

    def send_signal(self, number: int) -> None:
        """Send a signal to the kernel's process group; to nobody once the kernel has ended.

        It goes through the server, which knows whether the number is the kernel's still.
        """
        if self.poll() is None and self.pid:
            self._server.signal(self.pid, number)

    def terminate(self) -> None:
        """SIGTERM to the group."""
        self.send_signal(signal.SIGTERM)

    def kill(self) -> None:
        """SIGKILL to the group; a kernel that is still to be forked ends at its birth."""
        self.send_signal(signal.SIGKILL)
        if self.returncode is None and not self.pid:
            # The server ends a kernel whose pipe nobody reads when it tells the process id.
            self.returncode = -signal.SIGKILL
            self._end()


class ForkServer:
    """A running fork server. Its kernels end when it is closed, and when we end.

    :param python: the kernels' interpreter; it needs ipykernel, and nothing of ours.
    :param environment: what the server starts with: without keys, with the kernel's mark. The system
        shows it as the start environment of every forked kernel, whatever their own is, and what an
        interpreter reads at its start (``PYTHONHASHSEED``, ``PYTHONUTF8``, ``LANG``, …) counts from it.
    :param options: ``--Class.trait=value`` options of every kernel.
    :param packages: name -> folder of packages that kernels find imported.
    :param log: a file for what the server may print, which is nothing as a rule.
    :raises ForkError: not on this system, or ``python`` does not run.
    """

    def __init__(
        self,
        python: str,
        environment: Mapping[str, str],
        *,
        options: Sequence[str] = (),
        packages: Mapping[str, Path] | None = None,
        log: Path | None = None,
    ) -> None:
        if not available():
            raise ForkError("that needs Linux")
        if not environment.get(KERNEL_MARK):
            raise ValueError(f"the environment of a fork server needs {KERNEL_MARK}")
        self.python = python
        self.options = tuple(options)
        preloaded = [f"--package={name}={folder}" for name, folder in (packages or {}).items()]
        self._kernels: weakref.WeakSet[ForkedProcess] = weakref.WeakSet()
        self._control, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        self._control.setblocking(False)
        try:
            with theirs, open(log or os.devnull, "ab") as output:
                self._process = subprocess.Popen(
                    [python, str(_SERVER), str(theirs.fileno()), *preloaded, *options],
                    stdin=subprocess.DEVNULL,
                    stdout=output,
                    stderr=output,
                    env=dict(environment),
                    cwd="/",
                    pass_fds=[theirs.fileno()],
                    start_new_session=True,
                )
        except OSError as error:
            self._control.close()
            raise ForkError(f"{python}: {error.strerror}") from error

    @property
    def pid(self) -> int:
        """Process id of the keeper: parent of the process that forks, leader of their session."""
        return self._process.pid

    @property
    def alive(self) -> bool:
        """Whether the server still runs."""
        return self._process.poll() is None

    def fork(
        self,
        argv: Sequence[str],
        environment: Mapping[str, str],
        cwd: Path,
        *,
        stdout: Stream = None,
        stderr: Stream = None,
        remove: Path | None = None,
    ) -> ForkedProcess:
        """Ask for a kernel; the first may be asked for while the server still imports.

        :param argv: ``-f``, a connection file, and options beyond those of the server.
        :param environment: the kernel's whole environment, to which only ``JPY_PARENT_PID`` is added.
        :param remove: a folder to remove when the kernel has ended, be it because we were killed.
        :raises ForkError: the server is gone.
        """
        message = json.dumps({"do": "fork", "remove": str(remove or "")}).encode()
        if sys.platform != "linux":
            raise ForkError("that needs Linux")
        wanted = {"argv": list(argv), "environment": dict(environment), "cwd": str(cwd)}
        status, theirs = os.pipe()
        with contextlib.ExitStack() as stack:
            stack.callback(os.close, theirs)
            null = os.open(os.devnull, os.O_WRONLY)
            stack.callback(os.close, null)
            request = os.memfd_create("kernel")
            stack.callback(os.close, request)
            with open(request, "wb", closefd=False) as file:
                file.write(json.dumps(wanted).encode())
            os.lseek(request, 0, os.SEEK_SET)
            out = _descriptor(stdout, 1, null)
            err = out if stderr == subprocess.STDOUT else _descriptor(stderr, 2, null)
            try:
                socket.send_fds(self._control, [message], [request, out, err, theirs])
            except OSError as error:
                os.close(status)
                raise ForkError(f"the preloaded process is gone ({error.strerror})") from error
        kernel = ForkedProcess(self, status)
        self._kernels.add(kernel)
        return kernel

    def signal(self, pid: int, number: int) -> None:
        """Signal the process group of a kernel; no error when it or the server is gone."""
        with contextlib.suppress(OSError):
            self._control.send(json.dumps({"do": "signal", "pid": pid, "signal": int(number)}).encode())

    def close(self) -> None:
        """End the server and every kernel, and wait for it: milliseconds, :data:`END_S` at most."""
        self._control.close()
        try:
            self._process.wait(END_S)
        except subprocess.TimeoutExpired:
            self.destroy()
        for kernel in list(self._kernels):
            kernel.poll()

    def destroy(self) -> None:
        """End everything at once and without the server's help: a cell may have stopped it."""
        import psutil  # 40 ms that only this needs to pay

        deadline = time.monotonic() + END_S
        while (below := _below(self._process.pid)) and time.monotonic() < deadline:
            for process in below:
                with contextlib.suppress(psutil.Error):
                    process.kill()
            psutil.wait_procs(below, timeout=0.1)
        self._process.kill()
        self._process.wait()
        for kernel in list(self._kernels):
            kernel.poll()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def _below(pid: int) -> list[Any]:
    """Processes below ``pid`` that run, stopped ones among them."""
    import psutil

    with contextlib.suppress(psutil.Error):
        return [process for process in psutil.Process(pid).children(recursive=True) if _runs(process)]
    return []


def _runs(process: Any) -> bool:
    import psutil

    with contextlib.suppress(psutil.Error):
        return bool(process.status() != psutil.STATUS_ZOMBIE)
    return False


def _descriptor(stream: Stream, own: int, null: int) -> int:
    """The descriptor that a stream argument as :class:`subprocess.Popen` takes it stands for."""
    if stream is None:
        return own
    if stream == subprocess.DEVNULL:
        return null
    number = stream if isinstance(stream, int) else stream.fileno()
    if number < 0:
        raise ValueError("a kernel's stream is a file or a descriptor")
    return number
