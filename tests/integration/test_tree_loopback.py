"""What a tree of sessions spends, against what a server on loopback counted: real litellm, real kernels."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from harnessctl.commands.building import RunPorts, RunSpec
from harnessctl.commands.run import run
from harnessctl.domain.limits import Limits
from harnessctl.domain.pin import Pin, PinSource
from harnessctl.domain.snapshot import Snapshot
from harnessctl.layers.l0_weights import ModelIdentity, Price
from harnessctl.layers.l2_execution.python import PythonChoice
from harnessctl.models.litellm_client import LitellmClient
from harnessctl.models.port import ModelReply
from harnessctl.models.retry import RetryPolicy
from harnessctl.rlm.clock import SystemClock
from harnessctl.rlm.interrupts import Interrupts
from harnessctl.rlm.result import result_schema
from tests.fakes.openai_server import Answer, Fail, FakeOpenAI, Hang, Say, Seen
from tests.fakes.runtime import PlainTree, SeenWatcher, StillFence
from tests.fakes.sessions import scripted
from tests.fakes.tills import START_EIGHT, Till, spender

pytestmark = pytest.mark.kernel

PIN = Pin(PinSource.EMPTY, "harness", "", "", "sha256:0")
PRICE = Price(prompt=10.0, completion=100.0)


class Booking(LitellmClient):
    """The real client, which keeps what each call used, in the order in which calls ended."""

    ended: list[int]

    async def complete(self, *args: Any, **more: Any) -> ModelReply:
        reply = await super().complete(*args, **more)
        self.ended.append(reply.usage.tokens)
        return reply


async def result_of(
    folder: Path,
    server: FakeOpenAI,
    limits: Limits,
    price: Price | None,
    ended: list[int] | None = None,
    **more: Any,
) -> dict[str, Any]:
    identity = ModelIdentity("openai", "fake", price=price)
    client = Booking(
        identity, "openai/fake", api_base=server.base_url, api_key="k", policy=RetryPolicy(base_s=0.01)
    )
    client.ended = [] if ended is None else ended
    spec = RunSpec("do it", PythonChoice(sys.executable, "own"), limits, variables=dict(os.environ))
    root = folder / "work"
    root.mkdir()
    ports = RunPorts(
        client, PlainTree(root), StillFence(), SystemClock(), SeenWatcher(), Interrupts(), **more
    )
    try:
        outcome = await run(
            spec, Snapshot(), PIN, ports, state_dir=folder / "state" / "repo", machine_dir=folder / "state"
        )
    finally:
        await client.aclose()
    result = outcome.result.to_json()
    Draft202012Validator(result_schema()).validate(result)
    return result


async def test_eight_children_each_answer_and_pay(tmp_path: Path) -> None:
    """Started from one cell, all of them asking more than once: each node pays what the server counted."""
    till = Till()

    def choose(seen: Seen) -> Answer:
        who = till.who(seen)
        number = 0 if who == "root" else 1 + int(who[-1])
        calls = till.of(who)[2]
        usage = (200 + 10 * number + calls, 30 + number, 7)
        if who == "root":
            code = START_EIGHT if calls == 0 else None
        else:
            code = f"print({number})" if calls < number % 3 else None
        return till.answer(seen, Say(f"I am {who}.", code=code, usage=usage))

    with FakeOpenAI(choose) as server:
        result = await result_of(tmp_path, server, Limits(), PRICE)
        told = str(server.requests[-1].messages[-1]["content"])
    assert result["status"] == "success", result["detail"]
    # The root prints the answers in the order of starting; it asks last, with all of them in view.
    assert [f"I am root/n{i}." in told for i in range(8)] == [True] * 8
    nodes = result["usage"]["nodes"]
    assert set(nodes) == {"root", *(f"root/n{i}" for i in range(8))}
    for node, used in nodes.items():
        prompt, completion, calls = till.of(node)
        assert (used["prompt"], used["completion"], used["calls"]) == (prompt, completion, calls), node
        assert used["cost_usd"] == pytest.approx((prompt * 10 + completion * 100) / 1_000_000), node
        assert used["estimated"] is False
    total = result["usage"]["total"]
    assert total["tokens"] == sum(prompt + completion for _, prompt, completion in till.counted)
    assert total["calls"] == len(server.requests) == len(till.counted)
    assert total["cost_usd"] == pytest.approx(sum(n["cost_usd"] for n in nodes.values()))


EIGHT = """
import time
names = [f"n{i}" for i in range(8)]
h = {name: rlm(f"task {name}", name=name) for name in names}
for name in names[:4]:
    print(name, await h[name])
while not os.path.exists(FILE) or len(open(FILE).readlines()) < 3: time.sleep(0.05)
print([h[name].cancel() for name in names[4:7]])
try:
    await h["n7"]
except ChildError as error:
    print(error)
"""


async def test_eight_children_cost_what_the_server_counted(tmp_path: Path) -> None:
    till = Till()
    file = tmp_path / "hung"

    def choose(seen: Seen) -> Answer:
        who = till.who(seen)
        number = int(who[-1]) if who != "root" else -1
        if 4 <= number <= 6:
            with file.open("a") as hung:
                hung.write(f"{who}\n")
            return Hang(head=number == 4)
        if number == 7:
            return Fail(400, "no")
        if who == "root" and till.of("root")[2] == 0:
            begin = EIGHT.replace("FILE", repr(str(file)))
            return till.answer(seen, Say("I start eight.", code=begin, usage=(100, 20, 0)))
        return till.answer(seen, Say(f"I am {who}.", usage=(200 + 10 * number, 30 + number, 7)))

    with FakeOpenAI(choose) as server:
        result = await result_of(tmp_path, server, Limits(), PRICE)
    assert result["status"] == "success", result["detail"]
    nodes = result["usage"]["nodes"]
    assert set(nodes) == {"root", *(f"root/n{i}" for i in range(8))}
    for number in (-1, 0, 1, 2, 3):
        node = "root" if number < 0 else f"root/n{number}"
        used = nodes[node]
        assert (used["prompt"], used["completion"], used["calls"]) == till.of(node)
        assert used["estimated"] is False
    for number in (4, 5, 6):
        used = nodes[f"root/n{number}"]
        assert (used["calls"], used["completion"], used["estimated"]) == (1, 0, True)
        assert used["prompt"] > 100
        assert used["cost_usd"] == pytest.approx(used["prompt"] * 10 / 1_000_000)
    assert nodes["root/n7"]["tokens"] == 0
    total, cut = result["usage"]["total"], sum(nodes[f"root/n{i}"]["tokens"] for i in (4, 5, 6))
    assert total["tokens"] - cut == sum(prompt + completion for _, prompt, completion in till.counted)
    assert total["cost_usd"] == pytest.approx(sum(n["cost_usd"] for n in nodes.values()))


@pytest.mark.parametrize("factor", [0.5, 1.0, 1.9])
async def test_a_limit_of_tokens_is_passed_by_one_call_at_most(tmp_path: Path, factor: float) -> None:
    """Eight children ask at once; what they are told they used is off the estimate by ``factor``."""
    till, ended, limit = Till(), list[int](), 30_000
    with FakeOpenAI(spender(till, factor, tmp_path / "started")) as server:
        async with asyncio.timeout(240):
            result = await result_of(tmp_path, server, Limits(tokens=limit), None, ended)
    counted = [prompt + completion for _, prompt, completion in till.counted]
    assert sorted(ended) == sorted(counted)
    assert result["usage"]["total"]["tokens"] == sum(counted)
    # Before the last call ended, nothing had passed the limit.
    assert sum(ended[:-1]) <= limit
    assert sum(counted) > limit / 2
    assert result["reason"] in ("tokens", "no_gates")
    assert len({who for who, _, _ in till.counted}) == 9
    asked = [request.body.get("max_tokens") for request in server.requests]
    assert all(asked)


async def test_a_child_with_an_unpriced_model_is_refused_under_a_limit_of_cost(tmp_path: Path) -> None:
    other = tmp_path / "other"
    other.mkdir()
    unpriced = scripted(other, {"for": "alice", "content": "never"})
    till = Till()
    code = (
        "try:\n    rlm('x', name='alice', model='free/one')\n"
        "except HostError as error:\n    print(error.id, error)"
    )

    def choose(seen: Seen) -> Answer:
        first = not till.counted
        return till.answer(seen, Say("-", code=code if first else None))

    with FakeOpenAI(choose) as server:
        limits = Limits(cost_usd=1.0)
        result = await result_of(tmp_path, server, limits, PRICE, model_named=lambda name: (unpriced, name))
    assert result["status"] == "success"
    assert "unknown_price" in str(server.requests[1].messages[-1])
    assert set(result["usage"]["nodes"]) == {"root"}
