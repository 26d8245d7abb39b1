"""Cells that ask the host: a real kernel, the real door."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import sys
import threading
import time
from collections.abc import AsyncIterator, Mapping
from pathlib import Path
from typing import Any

import pytest
import pytest_asyncio

from harnessctl.domain.cell import CellRun
from harnessctl.domain.errors import NotFoundError
from harnessctl.layers.l2_execution.environment import kernel_environment
from harnessctl.rlm.door import Door, Handler
from harnessctl.rlm.kernels import RunningKernel, kernel_starter

pytestmark = [pytest.mark.kernel, pytest.mark.asyncio(loop_scope="module")]

_HOST = "from harnessctl_kernel.host import Host, HostError\nhost = Host({path!r})"


class Echo:
    """A room that answers, refuses, breaks and waits."""

    def __init__(self) -> None:
        self.cancelled = asyncio.Event()
        self.begun = asyncio.Event()

    def handlers(self) -> Mapping[str, Handler]:
        return {"echo": self.echo, "refuse": self.refuse, "break": self.crash, "wait": self.wait}

    async def echo(self, what: Mapping[str, Any]) -> Any:
        await asyncio.sleep(what.get("delay", 0))
        return what["value"]

    async def refuse(self, what: Mapping[str, Any]) -> Any:
        raise NotFoundError(f"no {what['name']}", id="no_entry", hint="look again")

    async def crash(self, what: Mapping[str, Any]) -> Any:
        raise ZeroDivisionError("a defect")

    async def wait(self, what: Mapping[str, Any]) -> Any:
        self.begun.set()
        try:
            await asyncio.sleep(60)
        except asyncio.CancelledError:
            self.cancelled.set()
            raise


@pytest_asyncio.fixture(scope="module", loop_scope="module")
async def asking(tmp_path_factory: pytest.TempPathFactory) -> AsyncIterator[tuple[RunningKernel, Echo, Door]]:
    folder = tmp_path_factory.mktemp("door")
    entries = folder / "entries.json"
    entries.write_text("[]")
    environment = kernel_environment({"PATH": os.environ["PATH"], "HOME": "/tmp"}, "S", ipython_folder=folder)
    door, echo = Door(), Echo()
    door.admit(echo)
    kernel = await kernel_starter(sys.executable, folder, folder, environment, entries, door)()
    path = str(kernel._sockets / "door")  # type: ignore[attr-defined]
    await kernel.execute(_HOST.format(path=path), limit_s=20)
    yield kernel, echo, door
    await kernel.close()
    await door.close()


async def said(kernel: RunningKernel, code: str) -> str:
    run = await kernel.execute(code, limit_s=20)
    return text_of(run)


def text_of(run: CellRun) -> str:
    return "".join(output.text for output in run.outputs)


async def test_values_come_back_as_they_were(asking: tuple[RunningKernel, Echo, Door]) -> None:
    kernel, _, _ = asking
    code = "v = {'a': [1, None, 'é\\ud800'], 'b': 'x' * 3_000_000}\nprint(host.call('echo', value=v) == v)"
    assert await said(kernel, code) == "True\n"


async def test_answers_come_in_any_order(asking: tuple[RunningKernel, Echo, Door]) -> None:
    kernel, _, _ = asking
    code = (
        "import asyncio\n"
        "ask = lambda n: asyncio.wrap_future(host.submit('echo', value=n, delay=(3 - n) / 10))\n"
        "done = []\n"
        "async def one(n): done.append(await ask(n))\n"
        "await asyncio.gather(*map(one, range(4)))\nprint(done)"
    )
    assert await said(kernel, code) == "[3, 2, 1, 0]\n"


@pytest.mark.parametrize(
    ("call", "words"),
    [
        ("'refuse', name='such'", "no_entry no such; look again"),
        ("'break'", "internal break: ZeroDivisionError: a defect"),
        ("'nothing'", "bad_request there is nothing called 'nothing'"),
        ("'echo'", "internal echo: KeyError: 'value'"),
        ("'echo', value='x' * 17_000_000", "too_large"),
    ],
)
async def test_words_of_a_refusal_reach_the_cell(
    asking: tuple[RunningKernel, Echo, Door], call: str, words: str
) -> None:
    kernel, _, _ = asking
    code = f"try:\n    host.call({call})\nexcept HostError as error:\n    print(error.id, error)"
    assert words in await said(kernel, code)
    assert await said(kernel, "print(host.call('echo', value='still here'))") == "still here\n"


async def test_an_interrupt_takes_the_request_back(asking: tuple[RunningKernel, Echo, Door]) -> None:
    kernel, echo, _ = asking
    running = asyncio.create_task(kernel.execute("host.call('wait')", limit_s=20))
    await asyncio.wait_for(echo.begun.wait(), 60)
    kernel.interrupt()
    run = await asyncio.wait_for(running, 15)
    assert run.status == "interrupted"
    await asyncio.wait_for(echo.cancelled.wait(), 60)


async def test_a_forked_copy_asks_on_a_line_of_its_own(asking: tuple[RunningKernel, Echo, Door]) -> None:
    kernel, _, _ = asking
    code = (
        "import warnings, os\nwarnings.simplefilter('ignore')\nr, w = os.pipe()\npid = os.fork()\n"
        "if pid == 0:\n"
        "    os.write(w, str(host.call('echo', value='from the copy')).encode()); os._exit(0)\n"
        "os.waitpid(pid, 0); print(os.read(r, 100).decode(), host.call('echo', value='and from here'))"
    )
    assert await said(kernel, code) == "from the copy and from here\n"


async def test_what_is_no_message_ends_its_connection_alone(
    asking: tuple[RunningKernel, Echo, Door],
) -> None:
    kernel, _, _ = asking
    path = kernel._sockets / "door"  # type: ignore[attr-defined]
    odd = (b"[" * 200_000 + b"\n", b'{"v": 1, "id": 1e999}\n', b'{"cancel": []}\n')
    for line in (*odd, b"\xff\n", b"{}\n", b"[]\n", b'{"v": 1, "id": "x"}\n', b"x" * 17_000_000 + b"\n"):
        reader, writer = await asyncio.open_unix_connection(path)
        writer.write(line)
        with contextlib.suppress(ConnectionResetError):  # closed with bytes of ours unread
            assert await reader.read() == b""
        writer.close()
    reader, writer = await asyncio.open_unix_connection(path)
    writer.write(b'{"v": 2, "id": 1, "do": "echo", "with": {"value": 1}}\n')
    answer = json.loads(await reader.readline())
    assert answer["error"]["id"] == "bad_request"
    writer.close()
    assert await said(kernel, "print(host.call('echo', value=1))") == "1\n"


async def test_a_closed_door_is_said(tmp_path: Path) -> None:
    door = Door()
    path = await door.listen(tmp_path)
    await door.close()
    from harnessctl.rlm.kernel_api.host import Host, HostError

    with pytest.raises(HostError, match="does not answer"):
        Host(str(path)).call("echo", value=1)


async def test_a_refusal_is_told_without_the_frames_behind_it(
    asking: tuple[RunningKernel, Echo, Door],
) -> None:
    """Each line of a traceback is paid for by the model that reads it."""
    kernel, _, _ = asking
    for call in ("rlm('x')", "await rlm.get('x')", "harness.show('memory/none')"):
        shown = await said(kernel, f"y = 1\n{call}")
        assert call in shown
        assert len(shown.strip().splitlines()) <= 9, shown
        assert "harnessctl_kernel" not in shown.replace("/", "")
        assert "concurrent" not in shown


class PressedError(BaseException):
    """In the place of KeyboardInterrupt, which would end the event loop of the test."""


async def test_an_interrupt_right_after_the_sending_takes_the_request_back_too(tmp_path: Path) -> None:
    from harnessctl.rlm.kernel_api.host import Host, Line

    begun = threading.Event()

    class Waiting(Echo):
        async def wait(self, what: Mapping[str, Any]) -> Any:
            begun.set()
            return await super().wait(what)

    class Interrupted(Line):
        """The user's interrupt comes between the sending and the waiting."""

        def send(self, message: dict[str, Any]) -> None:
            super().send(message)
            if "do" in message:
                assert begun.wait(60)
                raise PressedError

    def asked(ask: Any, host: Any) -> str:
        try:
            ask(host, "wait")
        except PressedError:
            return "pressed"
        return "answered"

    door, echo = Door(), Waiting()
    door.admit(echo)
    path = str(await door.listen(tmp_path))
    for ask in (Host.call, Host.submit):
        begun.clear()
        echo.cancelled.clear()
        host = Host(path)
        host._line = Interrupted(path)
        assert await asyncio.to_thread(asked, ask, host) == "pressed"
        await asyncio.wait_for(echo.cancelled.wait(), 60)
    await door.close()
    assert await asyncio.to_thread(lambda: wait_closed(host))


def wait_closed(host: Any) -> bool:
    end = time.monotonic() + 60
    while not host._line.closed and time.monotonic() < end:
        time.sleep(0.01)
    return bool(host._line.closed)
