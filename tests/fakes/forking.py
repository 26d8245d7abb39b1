"""What tests of forked kernels share: a server for them, kernels by a real manager, looking at processes."""

from __future__ import annotations

import asyncio
import contextlib
import os
import queue
import shutil
import sys
import tempfile
import time
from collections.abc import AsyncIterator, Iterator, Mapping
from contextlib import asynccontextmanager, contextmanager
from pathlib import Path
from typing import Any

import psutil

from harnessctl.config import KERNEL_MARK
from harnessctl.layers.l2_execution.forks import ForkServer
from harnessctl.layers.l2_execution.provisioner import fork_manager

#: As harnessctl starts its own kernels.
OPTIONS = (
    "--HistoryManager.enabled=False",
    "--InteractiveShell.colors=NoColor",
    "--IPKernelApp.log_level=40",
)
PATIENCE_S = 60.0


@contextmanager
def short_folder() -> Iterator[Path]:
    """A folder whose sockets' paths can be bound, whatever the test's own folder is called."""
    folder = Path(tempfile.mkdtemp(prefix="hk-", dir="/tmp"))
    try:
        yield folder
    finally:
        shutil.rmtree(folder, ignore_errors=True)


def environment(folder: Path, **more: str) -> dict[str, str]:
    """A kernel's environment: nothing of the process that runs the tests but its path."""
    return {
        "PATH": os.environ["PATH"],
        "HOME": str(folder),
        "LANG": "C.UTF-8",
        "IPYTHONDIR": str(folder / "ipython"),
        KERNEL_MARK: "session-of-the-root",
        **more,
    }


@contextmanager
def fork_server(python: str = sys.executable, **more: Any) -> Iterator[ForkServer]:
    """A fork server with a folder of its own; nothing of it may be left at the end."""
    with short_folder() as folder:
        variables = {**environment(folder), **more.pop("environment", {})}
        more.setdefault("options", OPTIONS)
        with ForkServer(python, variables, log=folder / "log", **more) as server:
            tree = family(server.pid)
            yield server
            tree |= family(server.pid)
        assert gone(tree, 30.0), "processes are left after the server was closed"
        said = (folder / "log").read_text()
    assert not said, f"the server printed:\n{said}"


class Session:
    """A started kernel and a client of it."""

    def __init__(self, manager: Any, client: Any, folder: Path) -> None:
        self.manager, self.client, self.folder = manager, client, folder

    @property
    def pid(self) -> int:
        """Process id of the kernel."""
        return int(self.manager.provisioner.pid)

    async def connect(self) -> None:
        """Wait until the kernel's output reaches the client, which a first or new connection loses."""
        asked: set[str] = set()
        async with asyncio.timeout(PATIENCE_S):
            while True:
                asked.add(self.client.kernel_info())
                with contextlib.suppress(queue.Empty):
                    while True:
                        heard = await self.client.get_iopub_msg(timeout=0.1)
                        if heard["parent_header"].get("msg_id") in asked:
                            return

    def send(self, code: str) -> str:
        """Start a cell; the id of its message."""
        return str(self.client.execute(code, allow_stdin=False))

    async def run(self, code: str) -> str:
        """Run a cell; what it printed or gave. An error's text for a cell that failed."""
        reply, text = await self.answer(self.send(code))
        return text if reply["status"] == "ok" else f"{reply['ename']}: {reply['evalue']}"

    async def answer(self, message: str) -> tuple[dict[str, Any], str]:
        """Reply and output of a cell that was sent."""
        parts: list[str] = []
        async with asyncio.timeout(PATIENCE_S):
            while True:
                heard = await self.client.get_iopub_msg()
                if heard["parent_header"].get("msg_id") != message:
                    continue
                content = heard["content"]
                parts.append(content.get("text") or content.get("data", {}).get("text/plain", ""))
                if content.get("execution_state") == "idle":
                    break
            while (reply := await self.client.get_shell_msg())["parent_header"]["msg_id"] != message:
                pass
        return reply["content"], "".join(parts).strip()


@asynccontextmanager
async def kernel(server: ForkServer, **kwargs: Any) -> AsyncIterator[Session]:
    """A forked kernel, killed at the end where it still runs."""
    with short_folder() as folder:
        manager = fork_manager(
            server, transport="ipc", ip=str(folder / "k"), connection_file=str(folder / "c.json")
        )
        env: Mapping[str, str] = kwargs.pop("env", environment(folder))
        await manager.start_kernel(env=env, cwd=kwargs.pop("cwd", folder), **kwargs)
        client = manager.client()
        client.start_channels(stdin=False, hb=False)
        session = Session(manager, client, folder)
        try:
            await session.connect()
            yield session
        finally:
            client.stop_channels()
            if await manager.is_alive():
                await manager.shutdown_kernel(now=True)
            else:
                await manager.cleanup_resources()


def family(pid: int) -> set[psutil.Process]:
    """A process and all below it. They compare by process id and start time."""
    try:
        parent = psutil.Process(pid)
        return {parent, *parent.children(recursive=True)}
    except psutil.NoSuchProcess:
        return set()


def sleeping(pid: int) -> set[psutil.Process]:
    """Those below a process that have become ``sleep``."""
    found = set()
    for process in psutil.Process(pid).children(recursive=True):
        with contextlib.suppress(psutil.NoSuchProcess):
            if process.name() == "sleep":
                found.add(process)
    return found


def running(processes: set[psutil.Process]) -> set[psutil.Process]:
    """Those that still run; a zombie does not."""
    found = set()
    for process in processes:
        try:
            if process.is_running() and process.status() != psutil.STATUS_ZOMBIE:
                found.add(process)
        except psutil.NoSuchProcess:
            pass
    return found


def gone(processes: set[psutil.Process], seconds: float) -> bool:
    """Whether all of them end within ``seconds``."""
    deadline = time.monotonic() + seconds
    while left := running(processes):
        if time.monotonic() > deadline:
            return False
        time.sleep(min(0.01, 0.001 * len(left) + 0.005))
    return True
