"""The owner's side of the fork server, against a server played by hand."""

from __future__ import annotations

import asyncio
import json
import os
import signal
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest

from harnessctl.layers.l2_execution.forks import ForkedProcess, ForkError, _descriptor


class Server:
    """Notes the signals that it is asked to send."""

    def __init__(self) -> None:
        self.signals: list[tuple[int, int]] = []

    def signal(self, pid: int, number: int) -> None:
        self.signals.append((pid, number))


class Played:
    """A kernel whose status a test writes."""

    def __init__(self) -> None:
        status, self.pipe = os.pipe()
        self.server = Server()
        self.kernel = ForkedProcess(self.server, status)  # type: ignore[arg-type]

    def tell(self, **message: object) -> None:
        os.write(self.pipe, json.dumps(message).encode() + b"\n")

    def hang_up(self) -> None:
        if self.pipe >= 0:
            os.close(self.pipe)
        self.pipe = -1


@pytest.fixture
def played() -> Iterator[Played]:
    one = Played()
    yield one
    one.hang_up()
    one.kernel.poll()


def test_runs_until_it_is_told_otherwise(played: Played) -> None:
    assert played.kernel.poll() is None
    played.tell(pid=12)
    assert played.kernel.poll() is None
    assert played.kernel.pid == 12


@pytest.mark.parametrize(
    ("end", "code"), [({"exit": 3, "signal": None}, 3), ({"exit": None, "signal": 11}, -11)]
)
def test_return_code(played: Played, end: dict[str, object], code: int) -> None:
    played.tell(pid=12)
    played.tell(**end)
    assert played.kernel.poll() == code
    assert not played.kernel.lost


def test_lines_arrive_in_pieces(played: Played) -> None:
    os.write(played.pipe, b'{"pid": 1')
    assert played.kernel.poll() is None
    os.write(played.pipe, b'2}\n{"exit": 0, "signal": null}\n')
    assert played.kernel.poll() == 0
    assert played.kernel.pid == 12


def test_a_pipe_that_ends_means_a_lost_server(played: Played) -> None:
    played.tell(pid=12)
    played.hang_up()
    assert played.kernel.poll() == -signal.SIGKILL
    assert played.kernel.lost


def test_signals_go_to_a_running_kernel_only(played: Played) -> None:
    """Once the end was told the number may be a stranger's."""
    played.kernel.send_signal(signal.SIGINT)
    assert played.server.signals == [], "not forked yet"
    played.tell(pid=12)
    played.kernel.send_signal(signal.SIGINT)
    played.kernel.terminate()
    played.kernel.kill()
    assert played.server.signals == [(12, 2), (12, 15), (12, 9)]
    played.tell(exit=None, signal=9)
    played.kernel.send_signal(signal.SIGINT)
    assert len(played.server.signals) == 3


def test_killed_before_it_was_forked(played: Played) -> None:
    """The server sees that nobody reads the pipe, and ends the kernel."""
    played.kernel.kill()
    assert played.kernel.poll() == -signal.SIGKILL
    with pytest.raises(BrokenPipeError):
        played.tell(pid=12)


async def test_started(played: Played) -> None:
    waiting = asyncio.create_task(played.kernel.started())
    await asyncio.sleep(0)
    played.tell(pid=12)
    await asyncio.sleep(0.01)
    assert not waiting.done()
    played.tell(ready=True)
    await waiting


async def test_why_it_did_not_start(played: Played) -> None:
    played.tell(failed="ModuleNotFoundError: no kernel here\n")
    with pytest.raises(ForkError, match="no kernel here"):
        await played.kernel.started()
    dead = Played()
    dead.tell(pid=12)
    dead.tell(exit=1, signal=None)
    with pytest.raises(ForkError, match="ended with 1"):
        await dead.kernel.started()
    dead.hang_up()


async def test_many_wait_and_one_looks(played: Played) -> None:
    """A look that reads the news does not take them from those who wait."""
    waiting = [asyncio.create_task(played.kernel.started()), asyncio.create_task(played.kernel.ended())]
    await asyncio.sleep(0)
    played.tell(ready=True)
    assert played.kernel.poll() is None
    await waiting[0]
    played.tell(exit=0, signal=None)
    assert played.kernel.poll() == 0
    assert await waiting[1] == 0


async def test_waiting_can_be_given_up(played: Played) -> None:
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.01):
            await played.kernel.ended()
    assert not asyncio.get_running_loop().remove_reader(played.kernel._status)


def test_one_loop_after_the_other(played: Played) -> None:
    async def wait_a_little() -> None:
        with pytest.raises(TimeoutError):
            async with asyncio.timeout(0.01):
                await played.kernel.ended()

    asyncio.run(wait_a_little())
    played.tell(exit=0, signal=None)
    assert asyncio.run(played.kernel.ended()) == 0


def test_descriptors_as_popen_takes_them(tmp_path: Path) -> None:
    assert _descriptor(None, 1, null=9) == 1
    assert _descriptor(subprocess.DEVNULL, 1, null=9) == 9
    assert _descriptor(7, 1, null=9) == 7
    with open(tmp_path / "log", "wb") as file:
        assert _descriptor(file, 1, null=9) == file.fileno()
    with pytest.raises(ValueError, match="a file or a descriptor"):
        _descriptor(subprocess.PIPE, 1, null=9)


def test_files_beside_the_server_hide_no_module_of_pythons() -> None:
    """The server takes its folder off the path first; a name of the library's would come before that."""
    folder = Path(sys.modules[ForkedProcess.__module__].__file__ or "").parent
    assert not {path.stem for path in folder.glob("*.py")} & sys.stdlib_module_names
