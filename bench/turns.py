"""What the host adds: ``python bench/turns.py [--turns 1000] [--cold] [turn cell start]``.

Ratios and differences within one run hold; times change with the machine from minute to minute.

- *turn*: wall time of a turn of a session (real log with fsync, real litellm, a loopback server in a
  process of its own, a kernel that answers at once) less twice that of the same call made directly with
  litellm, which follows each of the session's own: near the beginning and at the end.
- *cell*: round trip of ``1`` through our kernel against a bare ``jupyter_client`` on the same kernel.
- *start*: from the command's start to the arrival of its first request, against ``import litellm``; with
  ``--cold`` also with the page cache dropped before each (root on Linux; slows everybody else down).
"""

from __future__ import annotations

import argparse
import asyncio
import contextlib
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from harnessctl.domain.cell import CellRun, CellStatus, Output  # noqa: E402
from harnessctl.domain.event import EventType  # noqa: E402
from harnessctl.domain.limits import Limits  # noqa: E402
from harnessctl.layers.l0_weights import ModelIdentity  # noqa: E402
from harnessctl.layers.l1_context.view import View  # noqa: E402
from harnessctl.layers.l2_execution.kernel import Kernel, KernelSpec  # noqa: E402
from harnessctl.models.litellm_client import LitellmClient, load_litellm  # noqa: E402
from harnessctl.models.port import ModelReply, ModelRequest  # noqa: E402
from harnessctl.models.wire import TOOL, outgoing  # noqa: E402
from harnessctl.rlm.budget import Budget  # noqa: E402
from harnessctl.rlm.clock import NoPin, SilentWatcher, SystemClock  # noqa: E402
from harnessctl.rlm.door import Door  # noqa: E402
from harnessctl.rlm.inbox import Inbox  # noqa: E402
from harnessctl.rlm.interrupts import Interrupts  # noqa: E402
from harnessctl.rlm.journal import Journal  # noqa: E402
from harnessctl.rlm.kernels import Kernels, RunningKernel  # noqa: E402
from harnessctl.rlm.loop import run_turn  # noqa: E402
from harnessctl.rlm.parts import TurnParts  # noqa: E402
from harnessctl.rlm.recorder import Recorder  # noqa: E402

SERVER = """
import sys, time
sys.path.insert(0, {root!r})
from tests.fakes.openai_server import FakeOpenAI, Say
first = []
def answer(seen):
    if not first:
        first.append(1)
        print(time.time(), flush=True)
    return Say("I look.", code="print(1)") if not {final} else Say("Done.")
with FakeOpenAI(answer) as server:
    print(server.base_url, flush=True)
    sys.stdin.read()
"""
#: What each cell prints, and so what the conversation grows by.
SHOWN = "a line of what a cell printed, with numbers 12345\n" * 6


@contextlib.contextmanager
def server(*, final: bool = False) -> Iterator[tuple[str, Callable[[], float]]]:
    """A loopback server in a process of its own: its address, and when its first request came."""
    code = SERVER.format(root=str(ROOT), final=final)
    process = subprocess.Popen(
        [sys.executable, "-c", code], stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True
    )
    assert process.stdin is not None
    assert process.stdout is not None
    out = process.stdout
    try:
        yield out.readline().strip(), lambda: float(out.readline())
    finally:
        process.stdin.close()
        process.wait()


def now() -> tuple[float, float]:
    """Wall clock and CPU time of this process, seconds."""
    return time.perf_counter(), time.process_time()


def since(began: tuple[float, float]) -> tuple[float, float]:
    """What passed of both."""
    wall, cpu = now()
    return wall - began[0], cpu - began[1]


class QuickKernel:
    """Answers at once: what is left of a turn is the host's."""

    alive = True

    async def execute(self, code: str, *, limit_s: float, on_output: Any = None) -> CellRun:  # noqa: ARG002
        return CellRun(CellStatus.OK, (Output("stdout", SHOWN, len(SHOWN)),), 1)

    def interrupt(self) -> None:
        """Nothing runs."""

    async def close(self) -> None:
        """Nothing to end."""


class Twice:
    """A client that makes each call a second time directly, and remembers what both took."""

    def __init__(self, client: LitellmClient, base: str) -> None:
        self.client, self.base = client, base
        self.identity = client.identity
        self.direct: list[tuple[float, float]] = []

    async def complete(self, request: ModelRequest, **more: Any) -> ModelReply:
        reply = await self.client.complete(request, **more)
        began = now()
        await self.straight(request)
        self.direct.append(since(began))
        return reply

    async def straight(self, request: ModelRequest) -> None:
        stream = await load_litellm().acompletion(
            model="openai/gpt-4o",
            messages=outgoing(request.messages),
            tools=[TOOL],
            stream=True,
            stream_options={"include_usage": True},
            api_base=self.base,
            api_key="sk-test",
            max_retries=0,
        )
        async for _ in stream:
            pass

    def count_tokens(self, messages: Any) -> int:
        return self.client.count_tokens(messages)

    async def aclose(self) -> None:
        await self.client.aclose()


async def turns(count: int, folder: Path) -> None:
    """Print what the host adds to a turn at the beginning and at the end."""

    async def kernel() -> RunningKernel:
        return QuickKernel()

    with server() as (base, _):
        identity = ModelIdentity("openai", "gpt-4o")
        model = Twice(LitellmClient(identity, "openai/gpt-4o", api_base=base, api_key="sk-test"), base)
        recorder = Recorder.create(folder / "session", SystemClock())
        parts = TurnParts(
            journal=Journal(recorder, View("system " * 500, "tool"), SilentWatcher()),
            model=model,
            kernels=Kernels(kernel),
            budget=Budget(Limits()),
            limits=Limits(turns=None),
            interrupts=Interrupts(),
            watcher=SilentWatcher(),
            clock=SystemClock(),
            protocol="tool",
            inbox=Inbox(),
            pin=NoPin(),
            door=Door(),
        )
        parts.journal.record(EventType.HEADER, {"harness_state": {}})
        parts.journal.record(EventType.TASK, {"text": "do it"})
        whole: list[tuple[float, float]] = []
        for turn in range(1, count + 1):
            began = now()
            await run_turn(parts, turn)
            whole.append(since(began))
        await model.aclose()
        recorder.close()
    for name, part in (("turns 5-55", slice(5, 55)), (f"last 50 of {count}", slice(-50, None))):
        pairs = list(zip(whole[part], model.direct[part], strict=True))
        for which, what in enumerate(("wall", "CPU")):
            direct = statistics.median(d[which] for _, d in pairs) * 1000
            added = statistics.median(t[which] - 2 * d[which] for t, d in pairs) * 1000
            print(f"{name}, {what}: direct call {direct:.1f} ms, the host adds {added:.1f} ms")


async def cells(folder: Path, rounds: int = 300) -> None:
    """Print a cell's round trip against bare jupyter_client."""
    environment = {**os.environ, "IPYTHONDIR": str(folder / "ipython"), "HARNESSCTL_KERNEL": "bench"}
    kernel = await Kernel.start(KernelSpec(sys.executable, folder, folder, environment))
    ours: list[float] = []
    bare: list[float] = []
    client = type(kernel._client)(context=kernel._client.context)
    client.load_connection_info(json.loads((kernel._sockets / "connection.json").read_text()))
    client.start_channels(stdin=False, hb=False)
    await asyncio.sleep(0.5)
    for number in range(rounds + 20):
        for how in ("ours", "bare") if number % 2 else ("bare", "ours"):
            began = time.perf_counter()
            if how == "ours":
                await kernel.execute("1", limit_s=10)
            else:
                await _bare(client)
            if number >= 20:
                (ours if how == "ours" else bare).append((time.perf_counter() - began) * 1000)
    client.stop_channels()
    await kernel.close()
    one, other = statistics.median(ours), statistics.median(bare)
    print(f"cell round trip: ours {one:.1f} ms, bare jupyter_client {other:.1f} ms = {one / other:.2f}")


async def _bare(client: Any) -> None:
    """As ``execute_interactive`` does it: until the reply and the idle message are there."""
    sent = client.execute("1", allow_stdin=False)
    while True:
        message = await client.get_iopub_msg()
        own = message["parent_header"].get("msg_id") == sent
        if own and message["content"].get("execution_state") == "idle":
            break
    while (await client.get_shell_msg())["parent_header"].get("msg_id") != sent:
        pass


def starts(folder: Path, rounds: int = 5, *, cold: bool = False) -> None:
    """Print the time from start to first request against litellm's import."""
    repo = folder / "repo"
    repo.mkdir()
    subprocess.run(["git", "init", "-q"], cwd=repo, check=True)
    drop = Path("/proc/sys/vm/drop_caches")
    for name in ("cold", "warm"):
        if name == "cold" and not (cold and os.access(drop, os.W_OK)):
            continue
        times = [
            (_once(drop, name, _import), _once(drop, name, lambda: _first(repo, folder)))
            for _ in range(2 if name == "cold" else rounds)
        ]
        base, ours = (statistics.median(column) for column in zip(*times, strict=True))
        print(
            f"{name} start to first request {ours:.2f} s, import litellm alone {base:.2f} s: "
            f"{ours - base:+.2f} s"
        )


def _once(drop: Path, name: str, action: Callable[[], float]) -> float:
    if name == "cold":
        with contextlib.suppress(OSError):
            os.sync()
            drop.write_text("3")
    return action()


def _import() -> float:
    environment = {**os.environ, "LITELLM_LOCAL_MODEL_COST_MAP": "True", "LITELLM_MODE": "PRODUCTION"}
    began = time.time()
    subprocess.run([sys.executable, "-c", "import litellm"], check=True, env=environment)
    return time.time() - began


def _first(repo: Path, folder: Path) -> float:
    with server(final=True) as (base, first):
        environment = {
            **os.environ,
            "OPENAI_API_KEY": "sk-test",
            "HARNESSCTL_API_BASE": base,
            "XDG_STATE_HOME": str(folder / "state"),
        }
        began = time.time()
        run = subprocess.Popen(
            [sys.executable, "-m", "harnessctl.cli.main", "run", "--model", "openai/gpt-4o", "x"],
            cwd=repo,
            env={**environment, "PYTHONPATH": str(ROOT)},
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        came = first()
        run.wait()
        return came - began


def main() -> None:
    """What was asked for; all three by default."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="*", default=["cell", "start", "turn"])
    parser.add_argument("--turns", type=int, default=1000)
    parser.add_argument("--cold", action="store_true")
    chosen = parser.parse_args()
    with tempfile.TemporaryDirectory() as place:
        folder = Path(place)
        if "cell" in chosen.what:
            asyncio.run(cells(folder))
        if "start" in chosen.what:
            starts(folder, cold=chosen.cold)
        if "turn" in chosen.what:
            asyncio.run(turns(chosen.turns, folder))


if __name__ == "__main__":
    main()
