"""Limits over a whole tree, given on the command line: what a loopback server counted, what the logs say."""

from __future__ import annotations

import pytest

from harnessctl.rlm.log import read_trajectory
from tests.acceptance.conftest import Logs, Run
from tests.conftest import Git
from tests.fakes.openai_server import FakeOpenAI, Say
from tests.fakes.tills import Till, spender

pytestmark = pytest.mark.kernel


def booked(logs: Logs) -> list[int]:
    """Tokens of every reply of every session, in the order of booking.

    Of those within one millisecond, which no log puts into an order, the largest comes last.
    """
    events = [
        event
        for log in logs.state.glob("harnessctl/*/sessions/*/log.jsonl")
        for event in read_trajectory(log.parent).events
        if event.type == "reply"
    ]
    return [tokens for _, tokens in sorted((event.t, event.data["usage"]["tokens"]) for event in events)]


def test_a_limit_of_tokens_is_passed_by_the_last_call_at_most(harnessctl: Run, logs: Logs, repo: Git) -> None:
    """Eight children that never have enough; the provider counts half as much again as we do."""
    till, limit = Till(), 40_000
    with FakeOpenAI(spender(till, 1.5, repo.root.parent / "started")) as server:
        options = ("--json", "--max-tokens", str(limit), "--model", "openai/gpt-4o", "x")
        done = harnessctl("run", *options, cwd=repo.root, env=server.environment, code=None)
    result = done.json()
    assert (done.code, result["reason"]) in ((5, "tokens"), (0, "no_gates")), done
    counted = [prompt + completion for _, prompt, completion in till.counted]
    assert result["usage"]["total"]["tokens"] == sum(counted)
    for node, used in result["usage"]["nodes"].items():
        prompt, completion, calls = till.of(node)
        assert (used["prompt"], used["completion"], used["calls"]) == (prompt, completion, calls), node
    replies = booked(logs)
    assert sorted(replies) == sorted(counted)
    assert limit / 2 < sum(replies)
    assert sum(replies[:-1]) <= limit
    assert len({who for who, _, _ in till.counted}) == 9


def test_a_limit_of_cost_without_a_price_asks_nobody(harnessctl: Run, logs: Logs, repo: Git) -> None:
    with FakeOpenAI([Say("never")]) as server:
        options = ("--json", "--max-cost", "1", "--model", "openai/made-here", "x")
        done = harnessctl("run", *options, cwd=repo.root, env=server.environment, code=2)
        assert done.json()["error"]["id"] == "unknown_price"
        assert server.requests == []
        # The same without the limit does reach this server.
        harnessctl("run", "--json", *options[3:], cwd=repo.root, env=server.environment)
        assert len(server.requests) == 1
