"""The scripted model: lines checked, consumers apart, places from the log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harnessctl.domain.errors import UsageError
from harnessctl.domain.message import Message
from harnessctl.layers.l0_weights import Price
from harnessctl.models.port import Attempt, ModelReply, ModelRequest, ProviderError
from harnessctl.models.retry import RetryPolicy
from harnessctl.models.script import parse_script
from harnessctl.models.scripted import ScriptedClient, fenced, open_script

ASK = (Message("system", "You act."), Message("user", "count the files"))


def client(*rows: dict[str, Any], slept: list[float] | None = None, tries: int = 3) -> ScriptedClient:
    async def sleep(seconds: float) -> None:
        if slept is not None:
            slept.append(seconds)

    data = b"\n".join(json.dumps(row).encode() for row in rows)
    return ScriptedClient(parse_script(data, "s.jsonl"), policy=RetryPolicy(tries=tries), sleep=sleep)


async def ask(model: ScriptedClient, place: int = 0, **more: Any) -> ModelReply:
    return await model.complete(ModelRequest(ASK, place=place, **more))


async def test_content_with_code_is_text_plus_call() -> None:
    """`content` with `code` is text and one call of the tool; alone it is a final answer."""
    model = client({"content": "Let me look.", "code": "print(1)"}, {"content": "It is 1."})
    first, last = await ask(model), await ask(model, 1)
    assert (first.content, first.finish) == ("Let me look.", "tool_calls")
    assert [(c.name, json.loads(c.arguments)) for c in first.calls] == [("ipython", {"code": "print(1)"})]
    assert (last.content, last.calls, last.finish) == ("It is 1.", (), "stop")


async def test_without_the_tool_code_is_a_fenced_block() -> None:
    """A model that is not offered the tool writes its code as a block."""
    reply = await ask(client({"content": "Look.", "code": "print(1)"}), tool=False)
    assert reply.content == "Look.\n\n```python\nprint(1)\n```"
    assert reply.calls == ()


def test_a_block_survives_backticks_in_its_code() -> None:
    """The fence is longer than any run of backticks inside."""
    assert fenced(None, 'x = """\n```\n"""') == '````python\nx = """\n```\n"""\n````'


async def test_each_consumer_plays_its_own_lines() -> None:
    """Lines for others do not move a consumer's place."""
    model = client({"content": "a"}, {"content": "x", "for": "refine"}, {"content": "b"})
    assert (await ask(model, 1)).content == "b"
    assert (await ask(model, 0, consumer="refine")).content == "x"


async def test_running_out_names_consumer_and_count() -> None:
    """The error says who asked, how many lines there were and for which answer."""
    with pytest.raises(ProviderError, match=r"'refine'.*holds 1 line with .*, and answer 2 was") as caught:
        await ask(client({"content": "x", "for": "refine"}), 1, consumer="refine")
    assert caught.value.kind == "script"


async def test_usage_is_taken_or_estimated_and_priced() -> None:
    """Given usage is priced from the model line; missing usage is estimated and marked."""
    price = {"prompt": 2.0, "completion": 10.0, "cached": 0.5}
    model = client(
        {"model": {"window": 8000, "price": price}},
        {"content": "a", "usage": {"prompt": 1000, "completion": 100, "cached": 400}},
        {"content": "twelve bytes"},
    )
    assert (model.identity.window, model.identity.price) == (8000, Price(2.0, 10.0, 0.5))
    given, guessed = (await ask(model)).usage, (await ask(model, 1)).usage
    assert (given.prompt, given.completion, given.cached, given.estimated) == (1000, 100, 400, False)
    assert given.cost_usd == pytest.approx((600 * 2.0 + 400 * 0.5 + 100 * 10.0) / 1e6)
    assert guessed.estimated
    assert guessed.prompt == model.count_tokens(ASK)
    assert guessed.completion == 4


async def test_price_is_unknown_unless_given() -> None:
    """No price line: the cost is None, not zero."""
    assert (await ask(client({"content": "a"}))).usage.cost_usd is None


async def test_delay_is_waited() -> None:
    """`delay_ms` is slept before the answer."""
    slept: list[float] = []
    await ask(client({"content": "a", "delay_ms": 250}, slept=slept))
    assert slept == [0.25]


async def test_errors_follow_the_retry_rules() -> None:
    """A 429 is waited out and tried again with the next line, within one answer."""
    slept: list[float] = []
    waits: list[tuple[Attempt, float]] = []
    limited = {"error": {"status": 429, "headers": {"Retry-After": "3"}}}
    model = client(limited, limited, {"content": "at last"}, {"content": "next"}, slept=slept)
    reply = await model.complete(ModelRequest(ASK), on_wait=lambda a, s: waits.append((a, s)))
    assert reply.content == "at last"
    assert [a.kind for a in reply.attempts] == ["rate_limit", "rate_limit"]
    assert all(3 <= s < 3.5 for _, s in waits)
    assert len(waits) == 2
    assert (await ask(model, 1)).content == "next"


async def test_an_error_that_no_retry_cures_is_one_answer() -> None:
    """An overflow ends the answer at once; the next place is the next line."""
    body = "This model's maximum context length is 8000 tokens."
    model = client({"error": {"status": 400, "body": body}}, {"content": "shorter"})
    with pytest.raises(ProviderError) as caught:
        await ask(model)
    assert (caught.value.kind, caught.value.status) == ("overflow", 400)
    assert (await ask(model, 1)).content == "shorter"


async def test_place_after_used_up_tries() -> None:
    """Three failed tries are one answer when three are allowed."""
    down = {"error": {"status": 503}}
    model = client(down, down, down, {"content": "up"}, tries=3)
    with pytest.raises(ProviderError, match="tried 3 times"):
        await ask(model)
    assert (await ask(model, 1)).content == "up"


async def test_streamed_text_is_handed_on() -> None:
    """`on_text` gets the content."""
    heard: list[str] = []
    await client({"content": "hello"}).complete(ModelRequest(ASK), on_text=heard.append)
    assert heard == ["hello"]


async def test_an_empty_reply_can_be_scripted() -> None:
    """`content` null plays a provider's blank answer."""
    reply = await ask(client({"content": None}))
    assert (reply.content, reply.calls) == (None, ())


@pytest.mark.parametrize(
    ("line", "reason"),
    [
        ("nonsense", "not JSON"),
        ("[1]", "not a JSON object"),
        ("{}", "needs 'content', 'code' or 'error'"),
        ('{"contents": "x"}', "unknown key 'contents'"),
        ('{"content": 3}', "'content' in a reply must be str or NoneType, not int"),
        ('{"content": "x", "delay_ms": -1}', "must be from 0 to"),
        ('{"content": "x", "usage": {"prompt": true}}', "'prompt' in 'usage' must be int, not bool"),
        ('{"error": {"body": "x"}}', "needs a 'status' from 400 to 599"),
        ('{"error": {"status": 500}, "content": "x"}', "'error' excludes"),
        ('{"model": {"window": 8000}}', "unknown key 'model'"),
    ],
)
def test_a_bad_line_is_named_with_its_number(line: str, reason: str) -> None:
    """Every line is checked before the first is played; the model line comes first or never."""
    with pytest.raises(UsageError) as caught:
        parse_script(f'{{"content": "fine"}}\n\n{line}\n'.encode(), "demo.jsonl")
    assert caught.value.message.startswith("demo.jsonl:3: ")
    assert reason in caught.value.message


def test_a_missing_file_is_named(tmp_path: Path) -> None:
    """No file: a usage error with the path."""
    with pytest.raises(UsageError, match=r"gone\.jsonl: No such file"):
        open_script(tmp_path / "gone.jsonl")
