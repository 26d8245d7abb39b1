"""One IPython kernel: start, run cells, interrupt, see it die, end it. The runtime's way to jupyter_client.

The process behind it (:mod:`.process`) ends with its owner, with everything below it, and says how the
kernel ended: waiting for the kernel's answer alone would never see its death.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import signal
import time
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import zmq
import zmq.asyncio
from jupyter_client.asynchronous.client import AsyncKernelClient

from harnessctl.domain.cell import CellRun, CellStatus
from harnessctl.domain.plain_files import opened, remove_folder
from harnessctl.layers.l2_execution.messages import Cell, KernelSigns, OnOutput
from harnessctl.layers.l2_execution.output import Streams
from harnessctl.layers.l2_execution.process import (
    LAUNCHER,
    OPTIONS,
    Death,
    GuardedProcess,
    KernelProcess,
    KernelStartError,
    Launch,
    Program,
)
from harnessctl.layers.l2_execution.registration import Registration, forget, same_process, start_time
from harnessctl.layers.l2_execution.sockets import bound, connection, short_folder, write_connection
from harnessctl.layers.l2_execution.terminal import valid

#: Seconds a kernel may take from its start to its first answer.
START_S = 60.0
#: Seconds between interrupt, terminate and kill of a cell that passed its limit.
PATIENCE_S = 5.0
#: Seconds without any output after the kernel's reply, after which its last output counts as lost.
IDLE_S = 10.0
#: Seconds an idle kernel may take to leave by itself, so that open files are flushed.
LEAVE_S = 2.0

#: Messages of a kernel's output that wait here to be read.
MOST_WAITING = 16

#: Bytes at the end of a kernel's log that are looked at for why it did not start.
_LAST_WORDS = 64 * 1024

#: A sandbox tells a signal as a shell does: this much more than its number.
SHELL_SIGNAL = 128


@dataclass(frozen=True)
class KernelSpec:
    """What a kernel is started with.

    :ivar folder: the session's folder, where the registration and the kernel's own log stand.
    :ivar wrap: puts the command into a sandbox that shows the folder with its sockets; None: as it is.
    :ivar launch: starts the process.
    :ivar setup: cells run before the first one; IPython does not count them.
    :ivar command: the kernel's command line with ``{connection_file}``; (): that of ``python``'s ipykernel.
    :ivar sockets: a short folder private to the user, removed with the kernel; None makes one.
    """

    python: str
    cwd: Path
    folder: Path
    environment: Mapping[str, str]
    setup: tuple[str, ...] = ()
    wrap: Callable[[Sequence[str], Path], Sequence[str]] | None = None
    signs: KernelSigns = field(default_factory=KernelSigns)
    launch: Launch = GuardedProcess.start
    command: tuple[str, ...] = ()
    sockets: Path | None = None


class Kernel:
    """A started kernel. One cell at a time.

    :ivar pid: the kernel's process id, also its process group.
    :ivar death: how it ended, None while it lives.
    """

    def __init__(self, spec: KernelSpec) -> None:
        self.pid = 0
        self.death: Death | None = None
        self._spec = spec
        self._sockets = spec.sockets or short_folder((spec.environment.get("XDG_RUNTIME_DIR", ""),))
        self._process: KernelProcess | None = None
        self._started = 0.0
        self._client: Any = None
        self._tasks: list[asyncio.Task[None]] = []
        self._dead, self._heard = asyncio.Event(), asyncio.Event()
        self._cell = self._next_cell()
        self._busy = self._interrupted = False

    @classmethod
    async def start(cls, spec: KernelSpec) -> Kernel:
        """Start a kernel and run the setup cells.

        :raises KernelStartError: it ended at once, did not answer in time, or a setup cell failed.
        """
        kernel = cls(spec)
        try:
            async with asyncio.timeout(START_S):
                await kernel._launch()
                await kernel._connect()
            for code in spec.setup:
                run = await kernel.execute(code, limit_s=START_S, counted=False)
                if run.status is not CellStatus.OK:
                    said = "\n".join(o.text.strip() for o in run.outputs)
                    raise KernelStartError(spec.python, said or run.status)
        except TimeoutError:
            await kernel.close()
            raise KernelStartError(spec.python, f"no answer within {START_S:.0f} s") from None
        except BaseException:
            await kernel.close()
            raise
        return kernel

    async def execute(
        self, code: str, *, limit_s: float, on_output: OnOutput | None = None, counted: bool = True
    ) -> CellRun:
        """Run one cell.

        Past ``limit_s`` it is interrupted; when that has no effect the kernel is terminated, then
        killed. What arrived since the last cell (from threads and the like) counts as this one's.
        """
        begun = time.monotonic()
        cell, self._interrupted, self._busy = self._cell, False, True
        cell.on_output = on_output
        if self.alive:
            cell.message = self._client.execute(
                valid(code), store_history=counted, allow_stdin=False, stop_on_error=False
            )
        reply = asyncio.create_task(self._reply(cell))
        timed_out = False
        try:
            if not await self._ended(reply, limit_s):
                timed_out = True
                await self._stop(reply)
        finally:
            reply.cancel()
            self._cell, self._busy = self._next_cell(), not reply.done()
        content = reply.result() if reply.done() and not reply.cancelled() else None
        status, error = cell.status(content, interrupted=self._interrupted, timed_out=timed_out)
        return CellRun(
            status=status,
            outputs=cell.streams.outputs(),
            ms=round((time.monotonic() - begun) * 1000),
            error=error,
            final=cell.final if status is CellStatus.FINAL else None,
            signal=self.death.signal_name if self.death else None,
            exit_code=self.death.exit_code if self.death else None,
            kernel_lost=not self.alive,
            variables=cell.variables,
        )

    @property
    def alive(self) -> bool:
        """Whether the kernel still runs, as far as is known."""
        return self.death is None

    def interrupt(self) -> None:
        """Interrupt the running cell and the processes it started; one that is about to begin when it has."""
        self._interrupted = True
        if self._cell.begun.is_set():
            self._signal(signal.SIGINT)
        else:
            self._tasks.append(asyncio.create_task(self._interrupt_begun(self._cell)))

    async def _interrupt_begun(self, cell: Cell) -> None:
        """A kernel ignores interrupts until it has the cell."""
        await cell.begun.wait()
        if self._cell is cell:
            self._signal(signal.SIGINT)

    async def close(self) -> None:
        """End the kernel and everything it started. Closing twice is harmless."""
        if self._process is not None:
            if self.alive and not self._busy and self._heard.is_set():
                self._client.shutdown()
                await self._until_dead(LEAVE_S)
            self._process.release()
            await self._until_dead(PATIENCE_S + 1)
            await self._process.reap()
        # What ends a kernel does this too, where it lives to the end: it is there when we are not.
        remove_folder(self._sockets)
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        if self._client is not None:
            self._client.stop_channels()
            self._client.context.destroy(linger=0)
            self._client = None
        forget(self._spec.folder)

    def _next_cell(self) -> Cell:
        return Cell(Streams(self._spec.folder), self._spec.signs)

    async def _launch(self) -> None:
        info = connection(self._sockets)
        file = write_connection(self._sockets, info)
        usual = (self._spec.python, *LAUNCHER, "-f", "{connection_file}")
        command = tuple(
            part.replace("{connection_file}", str(file))
            for part in (*(self._spec.command or usual), *OPTIONS)
        )
        if self._spec.wrap is not None:
            command = tuple(self._spec.wrap(command, self._sockets))
        # A cell of an earlier kernel may have left a pipe there, and who opens it next would wait.
        os.close(opened(self._log, os.O_WRONLY | os.O_CREAT))
        process = await self._spec.launch(
            Program(command, self._spec.environment, self._spec.cwd, self._sockets, self._log)
        )
        self._process, self.pid, keeper = process, process.pid, process.keeper
        self._tasks.append(asyncio.create_task(self._watch(process)))
        self._started = start_time(self.pid)
        known = Registration(self.pid, self._started, keeper, start_time(keeper), str(self._sockets))
        known.write(self._spec.folder)
        self._client = AsyncKernelClient(context=_context())
        self._client.load_connection_info(info)

    async def _connect(self) -> None:
        """Until the kernel has answered and its output reaches us."""
        while not bound(self._sockets):
            self._raise_if_dead()
            await asyncio.sleep(0.01)
        self._client.start_channels(stdin=False, hb=False)
        self._tasks.append(asyncio.create_task(self._pump()))
        while not self._heard.is_set():
            self._raise_if_dead()
            self._client.kernel_info()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(self._heard.wait(), 0.1)

    def _raise_if_dead(self) -> None:
        if not self.alive:
            lines = self._last_words().decode(errors="replace").strip().splitlines()
            raise KernelStartError(self._spec.python, lines[-1] if lines else "it ended at once")

    def _last_words(self) -> bytes:
        with contextlib.suppress(OSError), open(opened(self._log), "rb") as file:
            file.seek(max(0, os.fstat(file.fileno()).st_size - _LAST_WORDS))
            return file.read(_LAST_WORDS)
        return b""

    @property
    def _log(self) -> Path:
        return self._spec.folder / "kernel.log"

    async def _watch(self, process: KernelProcess) -> None:
        """Until it has ended, or what should say so is gone itself."""
        death = await process.ended()
        if self._spec.wrap is not None and (death.exit_code or 0) > SHELL_SIGNAL:
            death = Death(None, (death.exit_code or 0) - SHELL_SIGNAL)
        if death == Death():
            self._kill_orphan()
        self.death = death
        self._dead.set()

    def _kill_orphan(self) -> None:
        """The guard was killed: nobody else would end the kernel."""
        if same_process(self.pid, self._started):
            with contextlib.suppress(ProcessLookupError, PermissionError):
                os.killpg(self.pid, signal.SIGKILL)

    async def _pump(self) -> None:
        """Hand every output message to the cell that runs, as fast as it comes."""
        channel, session = self._client.iopub_channel, self._client.session
        while True:
            parts = await channel.socket.recv_multipart()
            with contextlib.suppress(ValueError):  # a message that is not signed with our key
                message = session.deserialize(session.feed_identities(parts)[1])
                self._heard.set()
                self._cell.hear(message)

    async def _reply(self, cell: Cell) -> Mapping[str, Any]:
        """The kernel's reply to the cell's request, after its last output."""
        while True:
            message = await self._client.get_shell_msg()
            if message["parent_header"].get("msg_id") == cell.message:
                await _drained(cell)
                content: Mapping[str, Any] = message["content"]
                return content

    async def _ended(self, reply: asyncio.Task[Mapping[str, Any]], seconds: float) -> bool:
        """Wait until the reply is there or the kernel is dead; False when neither came in time."""
        dead = asyncio.create_task(self._dead.wait())
        done, _ = await asyncio.wait({reply, dead}, timeout=seconds, return_when=asyncio.FIRST_COMPLETED)
        dead.cancel()
        return bool(done)

    async def _stop(self, reply: asyncio.Task[Mapping[str, Any]]) -> None:
        """Interrupt, terminate, kill."""
        for number in (signal.SIGINT, signal.SIGTERM, signal.SIGKILL):
            self._signal(number)
            if await self._ended(reply, PATIENCE_S):
                return

    def _signal(self, number: signal.Signals) -> None:
        if self._process is not None and self.alive:
            self._process.signal(number)

    async def _until_dead(self, seconds: float) -> None:
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(self._dead.wait(), seconds)


async def _drained(cell: Cell) -> None:
    """Until the kernel has said that all output was sent, or nothing has come for a while."""
    heard = -1
    while not cell.idle.is_set() and heard != cell.heard:
        heard = cell.heard
        with contextlib.suppress(TimeoutError):
            await asyncio.wait_for(cell.idle.wait(), IDLE_S)


def _context() -> zmq.asyncio.Context:
    """Sockets that hold few messages: a kernel that prints faster than it is read waits for its reader.

    The other half is ``wait_for_reader`` in :mod:`harnessctl.rlm.kernel_api.output`: without it a kernel
    drops messages instead.
    """
    context = zmq.asyncio.Context()
    context.setsockopt(zmq.RCVHWM, MOST_WAITING)
    return context
