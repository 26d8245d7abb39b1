"""One suite for every model client: the scripted one, and litellm against a loopback server."""

from __future__ import annotations

import asyncio
import json
from collections.abc import AsyncIterator, Awaitable, Callable
from contextlib import AsyncExitStack
from typing import Any

import pytest

from harnessctl.domain.message import Message, ToolCall
from harnessctl.layers.l0_weights import ModelIdentity, Price
from harnessctl.models.litellm_client import LitellmClient
from harnessctl.models.port import Attempt, ModelClient, ModelReply, ModelRequest, ProviderError
from harnessctl.models.retry import RetryPolicy
from harnessctl.models.script import parse_script
from harnessctl.models.scripted import ScriptedClient
from tests.fakes.openai_server import Answer, Fail, FakeOpenAI, Say

ASK = (Message("system", "You act."), Message("user", "count the files"))
QUICK = RetryPolicy(tries=3, base_s=0.01)
PRICE = Price(2.0, 10.0, 0.5)

Make = Callable[..., Awaitable[ModelClient]]


def as_line(answer: Answer) -> dict[str, Any]:
    """The same answer as a script's line."""
    if isinstance(answer, Fail):
        return {
            "error": {"status": answer.status, "body": answer.message, "headers": dict(answer.headers)},
        }
    assert isinstance(answer, Say)
    line: dict[str, Any] = {"content": answer.content}
    if answer.code is not None:
        line["code"] = answer.code
    if answer.usage is not None:
        line["usage"] = dict(zip(("prompt", "completion", "cached"), answer.usage, strict=True))
    return line


@pytest.fixture(params=["scripted", "litellm"])
async def make(request: pytest.FixtureRequest) -> AsyncIterator[Make]:
    """Builds a client that gives these answers."""
    async with AsyncExitStack() as stack:

        async def scripted(*answers: Answer) -> ModelClient:
            price = {"prompt": PRICE.prompt, "completion": PRICE.completion, "cached": PRICE.cached}
            rows = [{"model": {"window": 8000, "price": price}}, *map(as_line, answers)]
            data = "\n".join(map(json.dumps, rows)).encode()
            return ScriptedClient(parse_script(data, "s"), policy=QUICK)

        async def litellm(*answers: Answer) -> ModelClient:
            server = stack.enter_context(FakeOpenAI(answers))
            client = LitellmClient(
                ModelIdentity("openai", "fake", 8000, price=PRICE),
                "openai/fake",
                api_base=server.base_url,
                api_key="test-key",
                policy=QUICK,
            )
            stack.push_async_callback(client.aclose)
            return client

        yield scripted if request.param == "scripted" else litellm


async def ask(client: ModelClient, place: int = 0, **more: Any) -> ModelReply:
    return await client.complete(ModelRequest(ASK, place=place), **more)


async def test_text_alone_is_an_answer(make: Make) -> None:
    """Content without a call, whole and streamed."""
    heard: list[str] = []
    reply = await ask(await make(Say("Forty-two files, says git.")), on_text=heard.append)
    assert (reply.content, reply.calls, reply.finish) == ("Forty-two files, says git.", (), "stop")
    assert "".join(heard) == reply.content


async def test_text_with_code_is_text_and_call(make: Make) -> None:
    """A call carries its code as argument text and an id."""
    reply = await ask(await make(Say("Look.", code="print('é')")))
    assert (reply.content, reply.finish) == ("Look.", "tool_calls")
    (call,) = reply.calls
    assert (call.name, json.loads(call.arguments)) == ("ipython", {"code": "print('é')"})
    assert call.id


async def test_usage_and_cost(make: Make) -> None:
    """Tokens as reported; cached ones at their own price; one call."""
    usage = (await ask(await make(Say("a", usage=(1000, 100, 400))))).usage
    assert (usage.prompt, usage.completion, usage.cached) == (1000, 100, 400)
    assert (usage.calls, usage.estimated) == (1, False)
    assert usage.cost_usd == pytest.approx((600 * 2.0 + 400 * 0.5 + 100 * 10.0) / 1e6)


async def test_missing_usage_is_estimated_and_marked(make: Make) -> None:
    """No usage from the provider: an estimate that says so."""
    usage = (await ask(await make(Say("a longer answer of some words", usage=None)))).usage
    assert usage.estimated
    assert usage.prompt > 0
    assert usage.completion > 0


async def test_an_empty_reply_is_a_reply(make: Make) -> None:
    """Content null, no call: the caller decides what that means."""
    reply = await ask(await make(Say(None)))
    assert (reply.content, reply.calls, reply.finish) == (None, (), "stop")


async def test_rate_limit_is_waited_out(make: Make) -> None:
    """The wait is told before it happens and stands in the reply."""
    told: list[tuple[Attempt, float]] = []
    client = await make(Fail(429, headers={"Retry-After": "1"}), Say("back"))
    reply = await ask(client, on_wait=lambda a, s: told.append((a, s)))
    assert reply.content == "back"
    ((attempt, seconds),) = told
    assert (attempt.kind, attempt.status) == ("rate_limit", 429)
    assert seconds >= 1
    assert reply.attempts == (attempt,)


async def test_a_wait_can_be_cancelled(make: Make) -> None:
    """Cancelling the task ends a long wait at once."""
    waiting = asyncio.Event()
    client = await make(Fail(429, headers={"Retry-After": "200"}))
    task = asyncio.create_task(ask(client, on_wait=lambda *_: waiting.set()))
    await asyncio.wait_for(waiting.wait(), 60)
    task.cancel()
    with pytest.raises(asyncio.CancelledError):
        await asyncio.wait_for(task, 60)


@pytest.mark.parametrize(
    ("fail", "kind"),
    [
        (Fail(400, "you sent nonsense"), "bad_request"),
        (Fail(401, "no such key"), "auth"),
        (Fail(403, "not for you"), "auth"),
        (Fail(404, "no such model"), "not_found"),
        (Fail(400, "This model's maximum context length is 262144 tokens. However, …"), "overflow"),
        (Fail(413, "prompt is too long: 210000 tokens > 200000 maximum"), "overflow"),
        (Fail(429, "You exceeded your current quota, check your billing details"), "rate_limit"),
    ],
)
async def test_what_no_retry_cures(make: Make, fail: Fail, kind: str) -> None:
    """One try, then the error with its kind and status."""
    with pytest.raises(ProviderError) as caught:
        await ask(await make(fail, Say("never asked for")))
    assert (caught.value.kind, caught.value.status) == (kind, fail.status)
    assert len(caught.value.attempts) == 1
    assert fail.message in str(caught.value)


@pytest.mark.parametrize(
    ("fail", "kind"),
    [
        (Fail(400, "Throttling error: Too many tokens, please wait before trying again"), "rate_limit"),
        (Fail(408), "timeout"),
        (Fail(500), "unavailable"),
        (Fail(503), "unavailable"),
        (Fail(529, "overloaded"), "unavailable"),
    ],
)
async def test_what_a_retry_may_cure(make: Make, fail: Fail, kind: str) -> None:
    """Tried as often as the policy says, then the error with every try."""
    reply = await ask(await make(fail, Say("second time")))
    assert (reply.content, [a.kind for a in reply.attempts]) == ("second time", [kind])
    with pytest.raises(ProviderError, match="tried 3 times") as caught:
        await ask(await make(fail, fail, fail, Say("too late")))
    assert [a.kind for a in caught.value.attempts] == [kind] * 3


async def test_history_with_calls_is_accepted(make: Make) -> None:
    """A conversation with calls, results, odd arguments and lone surrogates can be sent."""
    history = (
        *ASK,
        Message(
            "assistant", "", (ToolCall("c1", "ipython", '{"code": "1"}'), ToolCall("c2", "ipython", "{bad"))
        ),
        Message("tool", "1", call_id="c1"),
        Message("tool", "broken \udc80 bytes", call_id="c2"),
    )
    client = await make(Say("fine"))
    assert (await client.complete(ModelRequest(history))).content == "fine"
    assert client.count_tokens(history) > client.count_tokens(ASK) > 0
