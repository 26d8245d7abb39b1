"""``history`` in cells: a real kernel, the real door, a log beside them."""

from __future__ import annotations

import os
import sys
from collections.abc import AsyncIterator
from pathlib import Path

import pytest
import pytest_asyncio

from harnessctl.layers.l2_execution.environment import kernel_environment
from harnessctl.rlm.compaction_wish import CompactionWish
from harnessctl.rlm.door import Door
from harnessctl.rlm.kernels import RunningKernel, kernel_starter
from tests.fakes.recalling import Session

pytestmark = [pytest.mark.kernel, pytest.mark.asyncio(loop_scope="module")]

BLOB = b"first \xff " + b"middle\n" * 400_000 + b"last"


class Stage:
    def __init__(self, kernel: RunningKernel, session: Session, wish: CompactionWish) -> None:
        self.kernel, self.session, self.wish = kernel, session, wish

    async def said(self, code: str) -> str:
        run = await self.kernel.execute(code, limit_s=30)
        return "".join(output.text for output in run.outputs)


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def stage(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[Stage]:
    folder = tmp_path_factory.mktemp("recall")
    session = Session(folder)
    session.turn(1, "the port is 54713\n")
    session.turn(2, 'two lines\nwith "quotes" and é\n')
    session.turn(3, "first … last", BLOB)
    session.record("request", 4, consumer="root", digest="")
    entries = folder / "entries.json"
    entries.write_text("[]")
    environment = kernel_environment({"PATH": os.environ["PATH"], "HOME": "/tmp"}, "S", ipython_folder=folder)
    door, wish = Door(), CompactionWish()
    door.admit(session.recall)
    door.admit(wish)
    kernel = await kernel_starter(sys.executable, folder, folder, environment, entries, door)()
    yield Stage(kernel, session, wish)
    await kernel.close()
    await door.close()
    await session.recall.aclose()
    session.recorder.close()


async def test_a_search_shows_as_lines_and_is_a_list(stage: Stage) -> None:
    assert (
        await stage.said('history.search("port 54713")')
        == "#5 turn 1, stdout: the port is 54713\n#1 turn 0, task: find the port\n"
    )
    assert (
        await stage.said('h = history.search("port 54713", k=1)\nprint(len(h), h[0]["address"])') == "1 #5\n"
    )
    assert await stage.said("history.search('nowhere xyz')") == "nothing\n"


async def test_an_event_comes_back_to_the_character(stage: Stage) -> None:
    assert await stage.said('history.expand("#10")') == 'two lines\nwith "quotes" and é\n'
    assert (
        await stage.said('print(history.expand(10) == "two lines\\nwith \\"quotes\\" and é\\n")') == "True\n"
    )
    assert await stage.said('print([r["type"] for r in history.expand("#2-6", raw=True)])') == (
        "['request', 'reply', 'cell', 'output', 'result']\n"
    )


async def test_output_beside_the_log_comes_whole(stage: Stage, tmp_path: Path) -> None:
    blob = tmp_path / "blob"
    blob.write_bytes(BLOB)
    code = (
        f"raw = open({str(blob)!r}, 'rb').read()\n"
        'print(history.blob("#15") == raw, history.expand("#15").encode("utf-8", "surrogateescape") == raw)'
    )
    assert await stage.said(code) == "True True\n"


async def test_an_outline_and_what_is_not_there(stage: Stage) -> None:
    assert (await stage.said("history.outline()")).splitlines()[1] == "#2-6 turn 1: Step 1. look() [1 ok]"
    assert "no event #99; the log has 18 events" in await stage.said('history.expand("#99")')
    assert "is no address" in await stage.said('history.expand("page 3")')


async def test_a_compaction_is_asked_for(stage: Stage) -> None:
    assert not stage.wish.take()
    assert "Before your next reply" in await stage.said("history.compact()")
    assert stage.wish.take()
