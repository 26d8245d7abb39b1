"""The local model's process: started, asked, ended, with a stand-in for the library that holds weights."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import psutil
import pytest

from harnessctl.config import read_environment
from harnessctl.domain.errors import HarnessError
from harnessctl.domain.message import Message
from harnessctl.models.local import LocalClient, local_identity
from harnessctl.models.port import ModelRequest

FAKE = Path(__file__).parents[1] / "fakes" / "llama"
ASK = ModelRequest((Message("user", "hi"),), tool=False)

Make = Callable[..., LocalClient]


@pytest.fixture
def make(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Make:
    """Builds clients whose process finds the stand-in; ``heard`` collects progress."""
    monkeypatch.setenv("PYTHONPATH", str(FAKE))
    monkeypatch.setenv("OPENAI_API_KEY", "planted-in-the-environment")

    def build(content: bytes = b"GGUF fine", heard: list[str] | None = None) -> LocalClient:
        weights = tmp_path / "small.gguf"
        weights.write_bytes(content)
        environment = read_environment()

        def told(what: str, done: int, total: int) -> None:
            if heard is not None:
                heard.append(what)

        return LocalClient(
            local_identity(weights, 4096),
            cache=environment.cache_home,
            variables=environment.variables,
            weights=weights,
            on_progress=told,
        )

    return build


def children() -> list[psutil.Process]:
    """Processes of local models below this one."""
    return [
        p
        for p in psutil.Process().children(recursive=True)
        if "harnessctl.models.local_server" in p.cmdline()
    ]


async def test_it_answers_as_ordered_and_ends_with_its_client(make: Make) -> None:
    """Greedy, on a port of its own, with window and output limit; gone after closing."""
    client = make()
    reply = await client.complete(ASK)
    assert reply.content == "window 4096, output 1024, temperature 0.0, port 0"
    assert reply.usage.cost_usd == 0.0
    assert reply.model == "local/small"
    (process,) = children()
    again = await client.complete(ASK)
    assert again.content == reply.content
    assert children() == [process]
    await client.aclose()
    assert children() == []


async def test_neither_its_key_nor_the_users_stand_in_the_process_table(make: Make) -> None:
    """Any program of the same user can read arguments and environment."""
    client = make()
    await client.complete(ASK)
    (process,) = children()
    shown = " ".join(process.cmdline()) + str(process.environ())
    key = client._client._endpoint["api_key"]  # type: ignore[union-attr]
    assert len(key) > 20
    assert key not in shown
    assert "planted-in-the-environment" not in shown
    await client.aclose()


async def test_the_library_prints_into_the_log(
    make: Make, home: Path, capfd: pytest.CaptureFixture[str]
) -> None:
    """Nothing of it reaches the user's terminal."""
    client = make()
    await client.complete(ASK)
    await client.aclose()
    assert capfd.readouterr() == ("", "")
    assert "talks a lot" in (home / "cache/harnessctl/logs/local-model.log").read_text()


async def test_a_process_that_died_is_started_again(make: Make) -> None:
    """The next request brings a new one."""
    client = make()
    await client.complete(ASK)
    (process,) = children()
    process.kill()
    await asyncio.to_thread(process.wait, 60)
    await asyncio.sleep(0.1)
    assert (await client.complete(ASK)).content
    assert children() != [process]
    await client.aclose()


async def test_weights_that_do_not_load(make: Make) -> None:
    """The library's reason and the log's place, and no process left."""
    with pytest.raises(HarnessError, match="did not start: RuntimeError: failed to load") as caught:
        await make(b"GGUF fail").complete(ASK)
    assert caught.value.hint.endswith("local-model.log")
    assert children() == []


async def test_a_missing_system_library_is_named(make: Make) -> None:
    """A slim image has no OpenMP runtime; the hint says which package brings it."""
    with pytest.raises(HarnessError, match=r"libgomp\.so\.1") as caught:
        await make(b"GGUF gomp").complete(ASK)
    assert "libgomp1" in caught.value.hint


async def test_loading_shows_and_can_be_cancelled(make: Make) -> None:
    """Seconds are told while it loads; cancelling ends the process."""
    heard: list[str] = []
    task = asyncio.create_task(make(b"GGUF slow", heard).complete(ASK))
    async with asyncio.timeout(60):
        while not heard:  # noqa: ASYNC110 - no event is set
            await asyncio.sleep(0.02)
    assert set(heard) == {"loading the local model"}
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 60)
    assert children() == []


async def test_a_repository_cannot_stand_in_for_the_library(
    make: Make, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """A module of that name in the current folder is not imported."""
    folder = tmp_path / "clone"
    folder.mkdir()
    (folder / "xllamacpp.py").write_text("open('ran', 'w')")
    (folder / "harnessctl.py").write_text("open('ran', 'w')")
    monkeypatch.chdir(folder)
    client = make()
    await client.complete(ASK)
    await client.aclose()
    assert not (folder / "ran").exists()


PARENT = """
import asyncio, os, sys, time
from pathlib import Path
from harnessctl.config import read_environment
from harnessctl.domain.message import Message
from harnessctl.models.local import LocalClient, local_identity
from harnessctl.models.port import ModelRequest

async def main():
    env = read_environment()
    weights = Path(sys.argv[1])
    client = LocalClient(local_identity(weights), cache=env.cache_home, variables=env.variables,
                         weights=weights, on_progress=lambda *_: None)
    await client.complete(ModelRequest((Message("user", "hi"),), tool=False))
    print(client._server.pid, flush=True)
    time.sleep(600)

asyncio.run(main())
"""


def test_it_dies_with_its_parent(tmp_path: Path) -> None:
    """Even when the parent is killed."""
    weights = tmp_path / "w.gguf"
    weights.write_bytes(b"GGUF fine")
    parent = subprocess.Popen(
        [sys.executable, "-c", PARENT, str(weights)],
        stdout=subprocess.PIPE,
        env={**os.environ, "PYTHONPATH": str(FAKE)},
    )
    assert parent.stdout is not None
    with parent:
        process = psutil.Process(int(parent.stdout.readline()))
        assert process.is_running()
        os.kill(parent.pid, signal.SIGKILL)
    deadline = time.monotonic() + 60
    while process.is_running() and process.status() != psutil.STATUS_ZOMBIE and time.monotonic() < deadline:
        time.sleep(0.05)
    assert not process.is_running() or process.status() == psutil.STATUS_ZOMBIE
