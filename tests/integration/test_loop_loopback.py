"""Whole runs against a server on loopback: the real litellm, a real kernel, what providers do wrong."""

from __future__ import annotations

import asyncio
import itertools
import json
import os
import sys
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harnessctl.commands.run import RunOutcome, RunPorts, RunSpec, run
from harnessctl.domain.event import Event
from harnessctl.domain.limits import Limits
from harnessctl.domain.pin import Pin, PinSource
from harnessctl.domain.snapshot import Snapshot
from harnessctl.layers.l0_weights import ModelIdentity
from harnessctl.layers.l2_execution.python import PythonChoice
from harnessctl.models.litellm_client import LitellmClient
from harnessctl.models.retry import RetryPolicy
from harnessctl.rlm.clock import SystemClock
from harnessctl.rlm.interrupts import Interrupts
from harnessctl.rlm.log import read_trajectory
from tests.fakes.openai_server import Fail, FakeOpenAI, Say
from tests.fakes.runtime import PlainTree, SeenWatcher, StillFence

pytestmark = pytest.mark.kernel

PIN = Pin(PinSource.EMPTY, "harness", "", "", "sha256:0")
OVERFLOW = Fail(
    400,
    "This model's maximum context length is 262144 tokens. However, you requested 0 output tokens and your "
    "prompt contains at least 262145 input tokens, for a total of at least 262145 tokens.",
)


class Place:
    """A folder, a model on loopback, and what a run there left."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "work"
        self.root.mkdir()
        self.watcher = SeenWatcher()
        self.interrupts = Interrupts()
        self.outcome: RunOutcome

    async def run(self, server: FakeOpenAI, **more: Any) -> dict[str, Any]:
        """The result of a run whose replies ``server`` gives."""
        client = LitellmClient(
            ModelIdentity("openai", "fake", window=more.pop("window", None)),
            "openai/fake",
            api_base=server.base_url,
            api_key="test-key",
            policy=more.pop("policy", RetryPolicy()),
        )
        python = PythonChoice(sys.executable, "harnessctl's own")
        spec = RunSpec("do it", python, more.pop("limits", Limits()), variables=dict(os.environ), **more)
        tree = PlainTree(self.root)
        ports = RunPorts(client, tree, StillFence(), SystemClock(), self.watcher, self.interrupts)
        state = self.folder / "state"
        try:
            self.outcome = await run(
                spec, Snapshot(), PIN, ports, state_dir=state / "repo", machine_dir=state
            )
        finally:
            await client.aclose()
        return self.outcome.result.to_json()

    def of(self, kind: str) -> list[Event]:
        return [e for e in read_trajectory(self.outcome.folder).events if e.type == kind]


@pytest.fixture
def place(tmp_path: Path) -> Place:
    return Place(tmp_path)


def big(number: int) -> Say:
    return Say(f"Step {number}.", code=f"print('{number}' * 3000)")


async def test_overflow_folds_old_outputs_and_asks_once_more(place: Place) -> None:
    """loop-02."""
    with FakeOpenAI([big(1), big(2), big(3), OVERFLOW, Say("Done.")]) as server:
        result = await place.run(server)
    assert (result["status"], result["answer"]) == ("success", "Done.")
    assert len(server.requests) == 5
    refused, again = server.requests[3].messages, server.requests[4].messages
    assert [m["role"] for m in refused] == [m["role"] for m in again]
    assert "1" * 3000 in json.dumps(refused)
    texts = json.dumps(again)
    assert "1" * 3000 not in texts
    assert "2" * 3000 not in texts
    assert "3" * 3000 in texts
    assert texts.count("output left out to fit the window") == 2
    (fold,) = place.of("compaction")
    results = place.of("result")
    assert fold.data["folded"] == [results[0].n, results[1].n]
    assert "1" * 3000 in results[0].data["text"]


async def test_a_second_overflow_is_the_end(place: Place) -> None:
    """loop-02: not six equal tries."""
    with FakeOpenAI([big(1), big(2), OVERFLOW, OVERFLOW, Say("never")]) as server:
        result = await place.run(server)
    assert (result["status"], result["reason"]) == ("failed", "provider_error")
    assert result["detail"].startswith("overflow: ")
    assert len(server.requests) == 4


async def test_an_overflow_with_nothing_to_fold_is_the_end(place: Place) -> None:
    """loop-02."""
    with FakeOpenAI([OVERFLOW, Say("never")]) as server:
        result = await place.run(server)
    assert (result["reason"], len(server.requests)) == ("provider_error", 1)


async def test_throttling_that_speaks_of_tokens_is_no_overflow(place: Place) -> None:
    """loop-02."""
    limited = Fail(429, "Throttling error: Too many tokens, please wait before trying again.")
    with FakeOpenAI([big(1), limited, Say("Done.")]) as server:
        result = await place.run(server, policy=RetryPolicy(base_s=0.01))
    assert result["answer"] == "Done."
    assert place.of("compaction") == []
    assert place.watcher.waits


async def test_one_empty_reply_is_asked_again(place: Place) -> None:
    """loop-03."""
    with FakeOpenAI([Say(None, finish="stop"), Say("Here I am.")]) as server:
        result = await place.run(server)
    assert (result["answer"], result["turns"]) == ("Here I am.", 2)
    assert "Your reply was empty" in json.dumps(server.requests[1].messages)


async def test_three_empty_replies_are_no_success(place: Place) -> None:
    """loop-03."""
    with FakeOpenAI([Say(None, finish="stop")] * 4) as server:
        result = await place.run(server)
    assert (result["status"], result["reason"], result["answer"]) == ("incomplete", "empty_reply", None)
    assert len(server.requests) == 3
    assert place.outcome.exit_code == 1


async def test_an_empty_reply_after_a_good_cell_is_a_normal_end(place: Place) -> None:
    """loop-03."""
    with FakeOpenAI([Say(code="print(6 * 7)"), Say(None, finish="stop")]) as server:
        result = await place.run(server)
    assert (result["status"], result["answer"].split("\n")[0]) == ("success", "42")


async def test_the_waits_a_provider_asks_for_are_kept_shown_and_logged(place: Place) -> None:
    """loop-05."""
    limited = Fail(429, headers={"Retry-After": "3"})
    with FakeOpenAI([limited, limited, Say("Done.")]) as server:
        result = await place.run(server)
    assert result["answer"] == "Done."
    times = [seen.at for seen in server.requests]
    assert all(3.0 <= late - early < 30.0 for early, late in itertools.pairwise(times))
    assert all(3.0 <= seconds <= 3.3 for seconds in place.watcher.waits)
    (reply,) = place.of("reply")
    assert [a["status"] for a in reply.data["attempts"]] == [429, 429]
    assert all(a["waited_s"] >= 3.0 for a in reply.data["attempts"])


async def test_a_wait_counts_in_the_wall_clock(place: Place) -> None:
    """loop-05."""
    begun = time.monotonic()
    with FakeOpenAI([Fail(429, headers={"Retry-After": "86400"})] * 2) as server:
        result = await place.run(server, limits=Limits(wall_s=2.0))
    assert (result["status"], result["reason"]) == ("budget_exhausted", "wall")
    assert time.monotonic() - begun < 100
    assert place.watcher.waits[0] >= 300
    assert "by the user" not in place.of("reply")[0].data["error"]["message"]


@pytest.mark.parametrize("presses", [1, 2])
async def test_ctrl_c_ends_a_wait(place: Place, presses: int) -> None:
    """loop-05: the first ends the wait and the model is asked at once, the second the session."""
    limited = Fail(429, headers={"Retry-After": "200"})
    with FakeOpenAI([limited, limited if presses == 2 else Say("Done."), Say("never")]) as server:
        task = asyncio.create_task(place.run(server))
        for count in range(1, presses + 1):
            await until(lambda count=count: len(place.watcher.waits) >= count)
            place.interrupts.press()
        result = await asyncio.wait_for(task, 100)
    if presses == 1:
        assert (result["answer"], len(server.requests)) == ("Done.", 2)
    else:
        assert (result["status"], result["reason"]) == ("interrupted", "interrupted")
    error = place.of("reply")[0].data["error"]
    assert error["kind"] == "interrupted"
    assert error["message"] == "interrupted by the user"


async def until(done: Callable[[], bool]) -> None:
    async with asyncio.timeout(60):
        while not done():  # noqa: ASYNC110 - what it waits for sets no event
            await asyncio.sleep(0.02)


async def test_a_refused_parameter_is_dropped_noted_and_the_run_goes_on(place: Place) -> None:
    """loop-07."""
    refusal = Fail(400, "Unsupported value: 'temperature'", code="unsupported_value", param="temperature")
    with FakeOpenAI([refusal, Say(code="1"), Say("Done.")]) as server:
        result = await place.run(server, params=(("temperature", 0.0),))
    assert result["answer"] == "Done."
    assert ["temperature" in r.body for r in server.requests] == [True, False, False]
    assert "temperature" in place.of("reply")[0].data["notes"][0]


async def test_no_sampling_parameter_unless_it_is_set(place: Place) -> None:
    """loop-07."""
    with FakeOpenAI([Say("Done.")]) as server:
        await place.run(server)
    assert not {"temperature", "top_p", "max_tokens"} & server.requests[0].body.keys()


async def test_final_with_a_value_and_with_a_name_that_is_not_there(place: Place) -> None:
    """loop-10."""
    with FakeOpenAI([Say(code="final(missing)"), Say(code="answer = [1, 2]\nfinal(answer)")]) as server:
        result = await place.run(server)
    assert (result["status"], result["answer"]) == ("success", "[1, 2]")
    assert "NameError" in json.dumps(server.requests[1].messages)


async def test_missing_usage_is_estimated_and_marked(place: Place) -> None:
    with FakeOpenAI([Say("Done.", usage=None)]) as server:
        result = await place.run(server)
    usage = result["usage"]["total"]
    assert usage["estimated"] is True
    assert usage["prompt"] > 100
    assert usage["cost_usd"] is None


async def test_usage_that_is_told_counts_cached_tokens_too(place: Place) -> None:
    with FakeOpenAI([Say(code="1", usage=(100, 20, 60)), Say("Done.", usage=(130, 5, 100))]) as server:
        result = await place.run(server)
    usage = result["usage"]["total"]
    assert (usage["prompt"], usage["completion"], usage["cached"], usage["tokens"]) == (230, 25, 160, 255)
    assert usage["estimated"] is False


async def test_several_calls_in_one_reply_run_in_order(place: Place) -> None:
    calls = tuple(("ipython", json.dumps({"code": code})) for code in ("x = 1", "x += 1", "print(x)"))
    with FakeOpenAI([Say("Three.", calls=calls), Say("Done.")]) as server:
        await place.run(server)
    tools = [m for m in server.requests[1].messages if m["role"] == "tool"]
    ids = [c["id"] for c in server.requests[1].messages[-4]["tool_calls"]]
    assert [m["tool_call_id"] for m in tools] == ids
    assert tools[2]["content"].startswith("2\n")


async def test_malformed_calls_are_answered_and_never_run(place: Place) -> None:
    calls = (("ipython", "{\"code\": \"open('made', 'w')\""), ("shell", '{"cmd": "touch made"}'))
    with FakeOpenAI([Say("I try.", calls=calls), Say("Done.")]) as server:
        result = await place.run(server)
    assert result["cells"] == 0
    assert not (place.root / "made").exists()
    told = [m["content"] for m in server.requests[1].messages if m["role"] == "tool"]
    assert told[0].startswith("Not run: the arguments must be a JSON object")
    assert told[1].startswith("Not run: there is no tool 'shell'")
    sent = [c["function"]["arguments"] for c in server.requests[1].messages[-3]["tool_calls"]]
    assert all(isinstance(json.loads(arguments), dict) for arguments in sent)


@pytest.mark.parametrize("how", ["drop", "end", "error"])
async def test_a_stream_cut_inside_a_call_never_runs_it(place: Place, how: str) -> None:
    code = "open('made', 'w').write('x')\n" + "#" * 60
    cut = Say("Now.", code=code, cut_after=7, cut_how=how)
    with FakeOpenAI([cut, Say("Done.")]) as server:
        result = await place.run(server, policy=RetryPolicy(base_s=0.01))
    assert (result["answer"], result["cells"], len(server.requests)) == ("Done.", 0, 2)
    assert not (place.root / "made").exists()
    (reply,) = place.of("reply")
    assert len(reply.data["attempts"]) == 1


async def test_a_call_cut_at_the_output_limit_never_runs(place: Place) -> None:
    with FakeOpenAI(
        [Say(calls=(("ipython", '{"code": "open(\'ma'),), finish="length"), Say("Done.")]
    ) as server:
        result = await place.run(server)
    assert result["cells"] == 0
    assert "cut off at the output limit" in json.dumps(server.requests[1].messages)


@pytest.mark.parametrize(
    ("failure", "kind", "requests"),
    [
        (Fail(401, "bad key"), "auth", 1),
        (Fail(403, "not yours"), "auth", 1),
        (Fail(404, "no such model"), "not_found", 1),
        (Fail(400, "odd"), "bad_request", 1),
        (Fail(429, "You exceeded your current quota", code="insufficient_quota"), "rate_limit", 1),
        (Fail(500, "broken"), "unavailable", 3),
        (Fail(503, "overloaded"), "unavailable", 3),
    ],
)
async def test_a_provider_that_refuses_ends_the_run_with_its_kind(
    place: Place, failure: Fail, kind: str, requests: int
) -> None:
    with FakeOpenAI([failure] * 4) as server:
        result = await place.run(server, policy=RetryPolicy(tries=3, base_s=0.01))
    assert (result["status"], result["reason"]) == ("failed", "provider_error")
    assert result["detail"].startswith(f"{kind}: ")
    assert len(server.requests) == requests
    assert place.of("reply")[0].data["error"]["status"] == failure.status
