"""The session's kernel: started early, started again when it died, closed once."""

from __future__ import annotations

import asyncio
import contextlib
import shutil
from collections.abc import Awaitable, Callable, Mapping, Sequence
from pathlib import Path
from typing import Protocol

from harnessctl.domain.cell import CellRun
from harnessctl.domain.errors import HarnessError
from harnessctl.domain.plain_files import remove_folder
from harnessctl.layers.l2_execution.process import GuardedProcess, Launch
from harnessctl.rlm import kernel_api
from harnessctl.rlm.door import Door
from harnessctl.rlm.kernel_api import signs
from harnessctl.rlm.recorder import StorageError

#: Bytes that a kernel writes into the session's folder at its start, generously.
KERNEL_SPACE = 32 * 1024
#: What cells can call, by the name that it has in a kernel.
PACKAGES = {"harnessctl_kernel": Path(kernel_api.__file__).parent}
#: A forked kernel has the package already.
_LOAD = """\
import importlib.util, sys
if "harnessctl_kernel" not in sys.modules:
    _spec = importlib.util.spec_from_file_location("harnessctl_kernel", {path!r})
    _module = sys.modules["harnessctl_kernel"] = importlib.util.module_from_spec(_spec)
    _spec.loader.exec_module(_module)
    del _spec, _module
importlib.import_module("harnessctl_kernel.install").install(get_ipython(), {entries!r}, {door!r})
"""
_LIMIT = 'sys.modules["harnessctl_kernel.output"].limit_output(get_ipython()); del sys, importlib'


class RunningKernel(Protocol):
    """What the loop needs of a kernel; :class:`harnessctl.layers.l2_execution.kernel.Kernel` is one."""

    @property
    def alive(self) -> bool:
        """Whether it still runs."""
        ...

    async def execute(
        self, code: str, *, limit_s: float, on_output: Callable[[str, str], None] | None = None
    ) -> CellRun:
        """Run one cell."""
        ...

    def interrupt(self) -> None:
        """Interrupt the running cell."""
        ...

    async def close(self) -> None:
        """End it and everything it started."""
        ...


#: A command and a folder that it must reach -> the command to start instead.
Wrap = Callable[[Sequence[str], Path], Sequence[str]]
#: Starts a kernel; raises :class:`HarnessError` when it does not come up.
StartKernel = Callable[[], Awaitable[RunningKernel]]


def kernel_starter(
    python: str,
    cwd: Path,
    folder: Path,
    environment: Mapping[str, str],
    entries: Path,
    door: Door,
    wrap: Wrap | None = None,
    launch: Launch = GuardedProcess.start,
    command: tuple[str, ...] = (),
) -> StartKernel:
    """A starter of real kernels that know ``final`` and the rules of cells.

    :param entries: JSON file with the pinned entries, for ``harness.show`` in a cell.
    :param door: answers what cells ask of the host.
    :param wrap: puts the kernel's command into a sandbox that shows the folder given beside it.
    :param launch: starts the kernel's process.
    :param command: an installed kernel's command line; () for that of ``python``'s ipykernel.
    """

    async def start() -> RunningKernel:
        # jupyter_client takes 0.4 s to import; a run that fails before its first cell need not.
        from harnessctl.layers.l2_execution.kernel import Kernel, KernelSpec
        from harnessctl.layers.l2_execution.messages import KernelSigns
        from harnessctl.layers.l2_execution.sockets import short_folder

        known = KernelSigns(signs.FINAL_MIME, signs.FINAL_NAME, signs.SKIPPED_MIME, signs.VARIABLES_MIME)
        sockets = short_folder((environment.get("XDG_RUNTIME_DIR", ""),))
        try:
            path = await door.listen(sockets)
        except BaseException:  # also when nobody wants the kernel any more
            remove_folder(sockets)
            raise
        try:
            load = _LOAD.format(path=kernel_api.__file__, entries=str(entries), door=str(path))
            setup = (load, _LIMIT)
            spec = KernelSpec(python, cwd, folder, environment, setup, wrap, known, launch, command, sockets)
            return await Kernel.start(spec)
        except OSError:
            remove_folder(sockets)
            raise
        except HarnessError as error:
            if _full(folder):
                raise StorageError(folder, "no space is left for a kernel") from error
            raise

    return start


def _full(folder: Path) -> bool:
    """Whether too little space is left for what a kernel writes at its start."""
    with contextlib.suppress(OSError):
        return shutil.disk_usage(folder).free < KERNEL_SPACE
    return False


class Kernels:
    """Hands out a live kernel."""

    def __init__(self, start: StartKernel) -> None:
        self._start = start
        self._starting: asyncio.Task[RunningKernel | HarnessError] | None = None
        self._kernel: RunningKernel | None = None

    def begin(self, group: asyncio.TaskGroup) -> None:
        """Start the first kernel while the model thinks."""
        self._starting = group.create_task(self._try_start())

    async def get(self) -> tuple[RunningKernel, bool]:
        """A live kernel, and whether it replaces one that was lost.

        :raises HarnessError: it does not come up.
        """
        if self._kernel is not None and self._kernel.alive:
            return self._kernel, False
        lost = self._kernel is not None
        if self._kernel is not None:
            await self._kernel.close()
        started = await (self._starting or self._try_start())
        self._starting = None
        if isinstance(started, HarnessError):
            raise started
        self._kernel = started
        return started, lost

    def give_up_starting(self) -> None:
        """The work is over: a kernel that is still starting is not needed."""
        if self._starting is not None:
            self._starting.cancel()

    async def close(self) -> None:
        """End the kernel, also one that is still starting."""
        if self._starting is not None:
            self.give_up_starting()
            started = (await asyncio.gather(self._starting, return_exceptions=True))[0]
            if not isinstance(started, BaseException):
                await started.close()
        if self._kernel is not None:
            await self._kernel.close()
        self._starting = self._kernel = None

    async def _try_start(self) -> RunningKernel | HarnessError:
        try:
            return await self._start()
        except OSError as error:
            where = Path(error.filename) if error.filename else Path("the kernel's folder")
            return StorageError(where, error)
        except HarnessError as error:
            return error  # said when a cell needs the kernel; a task that raised would end the session now
