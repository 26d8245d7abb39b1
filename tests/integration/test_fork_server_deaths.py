"""Whoever is killed, nothing of a fork server outlives it, and those who are left learn of it."""
# ruff: noqa: ASYNC110, ASYNC220 - a test may wait

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
import threading
from pathlib import Path

import psutil
import pytest

from harnessctl.layers.l2_execution import forks
from harnessctl.layers.l2_execution.forks import ForkError, ForkServer, available
from tests.fakes.forking import (
    OPTIONS,
    Session,
    environment,
    family,
    fork_server,
    gone,
    kernel,
    running,
    short_folder,
)
from tests.integration.test_forked_kernels import DAEMON, connection

pytestmark = [pytest.mark.kernel, pytest.mark.skipif(not available(), reason="kernels are forked on Linux")]

#: Seconds in which everything must be gone, on a busy machine; nothing here ends by itself.
SOON_S = 20.0


def forking(server: ForkServer) -> psutil.Process:
    """The process that forks, below the keeper."""
    (process,) = psutil.Process(server.pid).children()
    return process


async def with_background(session: Session) -> None:
    """Give the kernel a child in its group and a process that has left group, session and parent."""
    assert await session.run(DAEMON) == "0"
    await session.run("import subprocess; child = subprocess.Popen(['sleep', '600'])")


async def seen_dead(session: Session) -> int:
    """The return code, once the manager sees the death."""
    async with asyncio.timeout(SOON_S):
        while await session.manager.is_alive():
            await asyncio.sleep(0.005)
    return int(await session.manager.provisioner.poll())


@pytest.mark.parametrize("victim", ["server", "keeper"])
@pytest.mark.parametrize("number", [signal.SIGKILL, signal.SIGTERM])
async def test_server_killed(victim: str, number: signal.Signals) -> None:
    """Kernels and all that they started end with it; the manager sees each death."""
    with fork_server() as server:
        async with kernel(server) as one, kernel(server) as two:
            await with_background(one)
            everything = family(server.pid)
            assert len(everything) == 2 + 2 + 2
            (forking(server) if victim == "server" else psutil.Process(server.pid)).send_signal(number)
            assert await seen_dead(one) == await seen_dead(two) == -signal.SIGKILL
            assert gone(everything, SOON_S)
            assert one.manager.provisioner.process.lost == (victim == "server" and number == signal.SIGKILL)
            with pytest.raises(ForkError, match="gone"):
                server.fork(["-f", "x"], environment(one.folder), one.folder)
        server.signal(one.pid, signal.SIGINT)
        assert not server.alive


async def test_server_and_keeper_killed_at_once() -> None:
    """The system itself ends a kernel, though it is in C code that holds the interpreter."""
    with fork_server() as server:
        async with kernel(server) as session:
            kernels = {psutil.Process(session.pid)}
            session.send("import ctypes; ctypes.PyDLL(None).sleep(600)")
            await asyncio.sleep(0.3)
            both = [psutil.Process(server.pid), forking(server)]
            for process in both:
                process.suspend()
            for process in both:
                process.kill()
            assert await seen_dead(session) == -signal.SIGKILL
            assert gone(kernels, SOON_S)


OWNER = """
import json, os, sys, time
from pathlib import Path
from harnessctl.layers.l2_execution import forks
import asyncio

async def main():
    folder, env, options = Path(sys.argv[1]), json.loads(sys.argv[2]), json.loads(sys.argv[3])
    forks._SERVER = Path(sys.argv[5])
    server = forks.ForkServer(sys.executable, env, options=options)
    if sys.argv[4] == "heir" and os.fork() == 0:
        time.sleep(600)  # holds our end of the server's socket open
    kernels = []
    for name in "ab":
        argv = ["-f", str(folder / name / "c.json")]
        kernels.append(server.fork(argv, env, folder, remove=folder / name))
        await kernels[-1].started()
    print(json.dumps([server.pid, *[k.pid for k in kernels]]), flush=True)
    time.sleep(600)

asyncio.run(main())
"""


@pytest.mark.parametrize("heir", ["none", "heir"])
async def test_owner_killed(heir: str) -> None:
    """Nothing is left: no process, no socket; also when a fork of the owner holds its sockets."""
    with short_folder() as folder:
        for name in "ab":
            (folder / name).mkdir()
            (folder / name / "c.json").write_text(json.dumps(connection(folder / name)))
        env = environment(folder, PYTHONPATH=os.pathsep.join(sys.path))
        arguments = [str(folder), json.dumps(env), json.dumps(OPTIONS), heir, str(forks._SERVER)]
        with subprocess.Popen([sys.executable, "-c", OWNER, *arguments], stdout=subprocess.PIPE) as owner:
            assert owner.stdout is not None
            pids = json.loads(owner.stdout.readline())
            everything = family(pids[0])
            assert {process.pid for process in everything} >= set(pids)
            heirs = family(owner.pid) - everything - {psutil.Process(owner.pid)}
            owner.kill()
            try:
                assert gone(everything, SOON_S)
                assert not [name for name in "ab" if (folder / name).exists()]
                assert len(running(heirs)) == (heir == "heir")
            finally:
                for process in heirs:
                    process.kill()


async def test_the_thread_that_started_the_server_may_end() -> None:
    """Linux sends the parent's death signal when the thread ends; the owner still lives."""
    found: list[ForkServer] = []
    with short_folder() as folder:
        thread = threading.Thread(
            target=lambda: found.append(ForkServer(sys.executable, environment(folder), options=OPTIONS))
        )
        thread.start()
        thread.join()
        with found[0] as server:
            async with kernel(server) as session:
                assert await session.run("1") == "1"
                psutil.Process(server.pid).send_signal(signal.SIGHUP)
                forking(server).send_signal(signal.SIGHUP)
                assert await session.run("2") == "2"


async def test_a_cell_that_ends_its_parent(tmp_path: Path) -> None:
    """A cell can kill the server; it ends itself and its siblings with it, and not the owner."""
    with fork_server() as server:
        async with kernel(server) as one, kernel(server) as two:
            one.send("import os, signal; os.kill(os.getppid(), signal.SIGKILL)")
            assert await seen_dead(one) == await seen_dead(two) == -signal.SIGKILL


def test_a_mark_is_needed(tmp_path: Path) -> None:
    """A server without the kernel's mark would fork kernels that count as people."""
    unmarked = {"PATH": os.environ["PATH"]}
    with pytest.raises(ValueError, match="HARNESSCTL_KERNEL"):
        ForkServer(sys.executable, unmarked)


def test_only_where_a_fork_is_safe(monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    monkeypatch.setattr(forks.sys, "platform", "darwin")
    assert not available()
    with pytest.raises(ForkError, match="Linux"):
        ForkServer(sys.executable, environment(tmp_path))


def test_a_python_that_does_not_run(tmp_path: Path) -> None:
    before = psutil.Process().num_fds()
    with pytest.raises(ForkError, match="No such file"):
        ForkServer(str(tmp_path / "python"), environment(tmp_path))
    assert psutil.Process().num_fds() == before
