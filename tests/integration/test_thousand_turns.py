"""1,000 turns in a window of 8,000 tokens: scripted model, real kernel, real log, and a fact of turn 3."""

from __future__ import annotations

import json
import os
import sys
from pathlib import Path
from typing import Any

import pytest

from harnessctl.commands.run import RunPorts, RunSpec, run
from harnessctl.domain.limits import Limits
from harnessctl.domain.pin import Pin, PinSource
from harnessctl.domain.snapshot import Snapshot
from harnessctl.layers.l2_execution.python import PythonChoice
from harnessctl.models.port import ModelReply, ModelRequest
from harnessctl.models.script import read_script
from harnessctl.models.scripted import ScriptedClient
from harnessctl.rlm.clock import SystemClock
from harnessctl.rlm.interrupts import Interrupts
from harnessctl.rlm.log import read_trajectory
from tests.fakes.long_sessions import FACT, FACT_TURN, check_compactions
from tests.fakes.runtime import PlainTree, SeenWatcher, StillFence

pytestmark = pytest.mark.kernel

WINDOW = 8_000
PIN = Pin(PinSource.EMPTY, "harness", "", "", "sha256:0")
LOOK = """\
hits = history.search("which port does the staging database listen on", k=5)
found = next(h for h in hits if "54713" in h["text"])
text = history.expand(found["address"])
final(json.dumps([found["address"], text, found["turn"]]))"""


class Counted:
    """A scripted client that keeps what it was asked."""

    def __init__(self, client: ScriptedClient) -> None:
        self.client, self.identity = client, client.identity
        self.requests: list[ModelRequest] = []

    async def complete(self, request: ModelRequest, **more: Any) -> ModelReply:
        self.requests.append(request)
        return await self.client.complete(request, **more)

    def count_tokens(self, messages: Any) -> int:
        return self.client.count_tokens(messages)

    async def aclose(self) -> None:
        await self.client.aclose()


def script(path: Path, turns: int) -> Path:
    """Small outputs and large ones, one far larger than the window, and no summary after the first ten."""
    lines: list[dict[str, Any]] = [{"model": {"window": WINDOW}}]
    for number in range(1, turns):
        code = f"print('step {number}', 'x y z ' * {(number * 37) % 400})"
        if number == FACT_TURN:
            code = f"print('configuration read');print({FACT!r})"
        elif number % 250 == 0:
            code = f"print('a long line of words\\n' * 20_000, {number})"
        lines.append({"content": f"Step {number}.", "code": code})
    lines.append({"content": "I look it up.", "code": LOOK})
    summary = (
        "## Task\nsteps\n## State\non the way\n## Constraints\nnone\n## Decisions\nnone\n## Open work\nmore"
    )
    lines += [{"for": "summary", "content": summary}] * 10
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return path


@pytest.mark.parametrize("turns", [150, pytest.param(1_000, marks=pytest.mark.slow)])
async def test_a_fact_of_turn_three(tmp_path: Path, turns: int) -> None:
    model = Counted(ScriptedClient(read_script(script(tmp_path / "script.jsonl", turns))))
    python = PythonChoice(sys.executable, "harnessctl's own")
    spec = RunSpec(
        "read the configuration, then work", python, Limits(turns=None), variables=dict(os.environ)
    )
    root = tmp_path / "work"
    root.mkdir()
    ports = RunPorts(model, PlainTree(root), StillFence(), SystemClock(), SeenWatcher(), Interrupts())
    state = tmp_path / "state"
    outcome = await run(spec, Snapshot(), PIN, ports, state_dir=state / "repo", machine_dir=state)
    assert outcome.result.ending.answer is not None, outcome.result.ending
    address, text, turn = json.loads(outcome.result.ending.answer)
    events = read_trajectory(outcome.folder).events
    said = events[int(address[1:])]
    assert turn == FACT_TURN
    assert text == said.data["text"] == f"configuration read\n{FACT}\n"
    own = [r for r in model.requests if r.consumer == "root"]
    assert len(own) == turns
    assert FACT not in str(own[-1].messages), "it had left the view"
    for request in model.requests:
        assert model.count_tokens(request.messages) + (request.max_output or 0) <= WINDOW
    system = own[0].messages[0].content
    assert check_compactions(events, system, "tool") > turns / 60
    summaries = [e.data["by"] for e in events if e.type == "compaction" and e.data["what"] == "evict"]
    assert summaries[0] == "model"
    assert turns < 1_000 or "log" in summaries
