"""The preloaded process of a session's kernels: one, whatever happens to it."""

from __future__ import annotations

import asyncio
import time
from pathlib import Path
from typing import Any

import pytest

from harnessctl.layers.l2_execution import process
from harnessctl.layers.l2_execution.process import Forking, KernelStartError, Program


class PlayedServer:
    """Forks at once, or never; closing takes a moment, as the real one's does."""

    made: list[PlayedServer]
    slow = False

    def __init__(self, *_: Any, **__: Any) -> None:
        self.alive = True
        self.closed = False
        self.made.append(self)

    def fork(self, *_: Any, **__: Any) -> PlayedFork:
        return PlayedFork(slow=self.slow)

    def close(self) -> None:
        time.sleep(0.02)
        self.closed = True


class PlayedFork:
    pid = 1

    def __init__(self, *, slow: bool) -> None:
        self.slow = slow

    async def started(self) -> None:
        await asyncio.sleep(60 if self.slow else 0)

    def kill(self) -> None:
        pass


@pytest.fixture
def server(monkeypatch: pytest.MonkeyPatch) -> type[PlayedServer]:
    PlayedServer.made, PlayedServer.slow = [], False
    monkeypatch.setattr(process, "ForkServer", PlayedServer)
    return PlayedServer


@pytest.fixture
def program(tmp_path: Path) -> Program:
    return Program(("py", *process.LAUNCHER), {}, tmp_path, tmp_path, tmp_path / "log")


async def test_all_kernels_come_back_from_one_new_server(
    server: type[PlayedServer], program: Program
) -> None:
    forking = Forking("py", {})
    await forking.launch(program)
    server.made[0].alive = False
    await asyncio.gather(*(forking.launch(program) for _ in range(8)))
    await forking.close()
    assert [one.closed for one in server.made] == [True, True]


async def test_a_fork_that_takes_too_long_is_given_up_for_good(
    server: type[PlayedServer], program: Program, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A program of its own in the same folder would lose its sockets when the server comes to the request."""
    server.slow = True
    monkeypatch.setattr(process, "FORK_S", 0.01)
    forking = Forking("py", {})
    with pytest.raises(KernelStartError, match="no fork within"):
        await forking.launch(program)
    await forking.close()
