"""The process behind a kernel: its own program under a guard, or a fork of a preloaded one.

Either way it ends with its owner, with everything it started, and says how it ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
import signal
import socket
import subprocess
import sys
from collections.abc import Awaitable, Callable, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from harnessctl.domain.errors import HarnessError
from harnessctl.layers.l2_execution.forks import ForkedProcess, ForkError, ForkServer

_GUARD = Path(__file__).with_name("guard.py")
#: What a preloaded process can become.
LAUNCHER = ("-m", "ipykernel_launcher")
#: Options of every kernel.
OPTIONS = ("--HistoryManager.enabled=False", "--InteractiveShell.colors=NoColor", "--log-level=ERROR")
#: Seconds a forked kernel may take to bind its sockets; the first waits for the imports of its server.
FORK_S = 30.0

#: Seconds a guard may take to end everything; its own patience is 5 s.
END_S = 7.0


class KernelStartError(HarnessError):
    """The kernel did not come up."""

    def __init__(self, python: str, reason: str) -> None:
        super().__init__(
            f"the kernel did not start with {python}: {reason}",
            id="kernel_start",
            hint=f"try: {python} -m ipykernel_launcher --version; or choose another Python with --python",
        )


@dataclass(frozen=True, slots=True)
class Death:
    """How a kernel ended: an exit code or a signal number; neither when its guard was killed too."""

    exit_code: int | None = None
    signal: int | None = None

    @property
    def signal_name(self) -> str | None:
        """``SIGKILL``, …; None when no signal ended it."""
        if self.signal is None:
            return None
        known = {s.value: s.name for s in signal.Signals}
        return known.get(self.signal, f"signal {self.signal}")


@dataclass(frozen=True)
class Program:
    """What is to be started.

    :ivar command: the kernel's command line, its connection file in place.
    :ivar sockets: folder with its sockets, removed when it has ended.
    :ivar log: file that takes what it prints past its sockets.
    """

    command: tuple[str, ...]
    environment: Mapping[str, str]
    cwd: Path
    sockets: Path
    log: Path


class KernelProcess(Protocol):
    """A started kernel."""

    @property
    def pid(self) -> int:
        """Its process id, also its process group."""
        ...

    @property
    def keeper(self) -> int:
        """Process id of what ends it when its owner is gone."""
        ...

    async def ended(self) -> Death:
        """Wait until it and everything below it has ended."""
        ...

    def signal(self, number: int) -> None:
        """Signal its process group; nobody once it has ended."""
        ...

    def release(self) -> None:
        """Have it ended, now and without asking."""
        ...

    async def reap(self) -> None:
        """Leave no zombie, once it has ended or could not be ended otherwise."""
        ...


#: Starts a program; raises :class:`KernelStartError`.
Launch = Callable[[Program], Awaitable[KernelProcess]]


class GuardedProcess:
    """A kernel of its own program, below a guard process (:mod:`.guard`)."""

    def __init__(self, guard: subprocess.Popen[bytes], control: socket.socket) -> None:
        self._guard = guard
        self._socket = control
        self._reader: asyncio.StreamReader
        self._control: asyncio.StreamWriter | None = None
        self.pid = 0

    @classmethod
    async def start(cls, program: Program) -> GuardedProcess:
        """Start ``program``.

        :raises KernelStartError: there is no such program, or it may not be run.
        """
        ours, theirs = socket.socketpair()
        with theirs:
            arguments = [str(theirs.fileno()), str(program.sockets), str(program.log), "--"]
            # Popen waits only until the guard's exec, some milliseconds.
            guard = subprocess.Popen(  # noqa: ASYNC220
                [sys.executable, "-I", "-S", str(_GUARD), *arguments, *program.command],
                stdin=subprocess.DEVNULL,
                stdout=subprocess.DEVNULL,
                stderr=subprocess.DEVNULL,
                cwd=program.cwd,
                env=dict(program.environment),
                pass_fds=[theirs.fileno()],
                start_new_session=True,
            )
        process = cls(guard, ours)
        try:
            await process._meet(program.command[0])
        except BaseException:
            # Also when nobody waits for it any more: the guard ends what it started.
            process.release()
            await process.reap()
            raise
        return process

    async def _meet(self, name: str) -> None:
        self._reader, self._control = await asyncio.open_connection(sock=self._socket)
        line = await self._reader.readline()
        if not line:
            raise KernelStartError(name, "no such program, or it may not be run")
        self.pid = int(json.loads(line)["pid"])

    @property
    def keeper(self) -> int:
        """The guard."""
        return self._guard.pid

    async def ended(self) -> Death:
        """How it ended; nothing is known of that when the guard was killed too."""
        death = Death()
        with contextlib.suppress(ConnectionError):
            while line := await self._reader.readline():
                message = json.loads(line)
                death = Death(message["exit"], message["signal"])
        return death

    def signal(self, number: int) -> None:
        """Through the guard, which knows whether the number is the kernel's still."""
        if self._control is not None:
            self._control.write(json.dumps({"signal": int(number)}).encode() + b"\n")

    def release(self) -> None:
        """The guard ends everything when it hears nobody."""
        with contextlib.suppress(OSError):
            (self._control or self._socket).close()

    async def reap(self) -> None:
        """Wait for the guard; one that does not end by itself is killed."""
        try:
            await asyncio.to_thread(self._guard.wait, END_S)
        except subprocess.TimeoutExpired:
            self._guard.kill()
            await asyncio.to_thread(self._guard.wait)


class ForkedKernelProcess:
    """A kernel that a fork server made."""

    def __init__(self, process: ForkedProcess, server: ForkServer) -> None:
        self._process = process
        self._server = server

    @property
    def pid(self) -> int:
        """Its process id."""
        return self._process.pid

    @property
    def keeper(self) -> int:
        """The fork server's own keeper, which all its kernels share."""
        return self._server.pid

    async def ended(self) -> Death:
        """How it ended."""
        code = await self._process.ended()
        return Death(code, None) if code >= 0 else Death(None, -code)

    def signal(self, number: int) -> None:
        """Through the server."""
        self._process.send_signal(number)

    def release(self) -> None:
        """The server ends what it started with it."""
        self._process.kill()

    async def reap(self) -> None:
        """That is the server's business; one that a cell has stopped is ended with all its kernels."""
        if self._process.poll() is None:
            await asyncio.to_thread(self._server.destroy)


class Forking:
    """Starts kernels as forks of one preloaded process, made with the first of them.

    Where that does not work (another system, a Python whose libraries start threads) each kernel is
    a program of its own.

    :param python: the kernels' interpreter.
    :param environment: of the preloaded process, see :class:`ForkServer`.
    :param packages: name -> folder of packages that kernels find imported.
    :ivar forked: kernels that were forked.
    """

    def __init__(
        self, python: str, environment: Mapping[str, str], packages: Mapping[str, Path] | None = None
    ) -> None:
        self._python = python
        self._environment = environment
        self._packages = packages
        self._server: ForkServer | None = None
        self._making = asyncio.Lock()
        self.forked = 0

    async def launch(self, program: Program) -> KernelProcess:
        """A :data:`Launch`."""
        head = (self._python, *LAUNCHER)
        if program.command[: len(head)] != head:
            return await GuardedProcess.start(program)
        try:
            return await self._fork(program, program.command[len(head) :])
        except ForkError as error:
            if not program.sockets.exists():
                raise KernelStartError(self._python, error.message) from error
            return await GuardedProcess.start(program)

    async def close(self) -> None:
        """End the preloaded process, and with it every kernel that still runs."""
        server, self._server = self._server, None
        if server is not None:
            await asyncio.to_thread(server.close)

    async def _serving(self) -> ForkServer:
        """The preloaded process, a new one where there is none or it has died."""
        async with self._making:  # all children may find at once that it has
            if self._server is None or not self._server.alive:
                await self.close()
                self._server = ForkServer(
                    self._python, self._environment, options=OPTIONS, packages=self._packages
                )
            return self._server

    async def _fork(self, program: Program, options: Sequence[str]) -> KernelProcess:
        server = await self._serving()
        with open(program.log, "ab") as log:  # noqa: ASYNC230 - a local file, to hand on
            process = server.fork(
                options,
                program.environment,
                program.cwd,
                stdout=log,
                stderr=subprocess.STDOUT,
                remove=program.sockets,
            )
        try:
            async with asyncio.timeout(FORK_S):
                await process.started()
        except BaseException as error:
            process.kill()
            if isinstance(error, TimeoutError):
                # None of another kind either: the server clears the folder of sockets away when it comes
                # to the request that we gave up.
                raise KernelStartError(self._python, f"no fork within {FORK_S:.0f} s") from None
            raise
        self.forked += 1
        return ForkedKernelProcess(process, server)
