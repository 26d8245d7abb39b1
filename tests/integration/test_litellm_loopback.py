"""litellm as it is, against a server on loopback: what providers do wrong, and what must never happen."""

from __future__ import annotations

import asyncio
import inspect
import os
import subprocess
import sys
from collections.abc import AsyncIterator, Callable
from datetime import UTC, datetime, timedelta
from email.utils import format_datetime
from pathlib import Path
from typing import Any

import pytest

from harnessctl.config import Settings, read_environment
from harnessctl.domain.message import Message
from harnessctl.layers.l0_weights import ModelIdentity
from harnessctl.models.catalogue import resolve
from harnessctl.models.litellm_client import LitellmClient, load_litellm
from harnessctl.models.litellm_errors import KINDS
from harnessctl.models.port import ModelReply, ModelRequest, ProviderError
from harnessctl.models.retry import RetryPolicy
from tests.fakes.openai_server import Answer, Fail, FakeOpenAI, Hang, Say, Seen

ASK = (Message("system", "You act."), Message("user", "count the files"))

Open = Callable[..., LitellmClient]


@pytest.fixture
async def connect() -> AsyncIterator[Open]:
    """Opens clients at a server; ``slept`` collects the waits instead of waiting."""
    clients: list[LitellmClient] = []

    def build(server: FakeOpenAI, *, slept: list[float] | None = None, **more: Any) -> LitellmClient:
        async def sleep(seconds: float) -> None:
            if slept is not None:
                slept.append(seconds)

        more.setdefault("policy", RetryPolicy(tries=3))
        identity = ModelIdentity("openai", "fake", 8000)
        client = LitellmClient(
            identity, "openai/fake", api_base=server.base_url, api_key="test-key", sleep=sleep, **more
        )
        clients.append(client)
        return client

    yield build
    for client in clients:
        await client.aclose()


async def ask(client: LitellmClient, **more: Any) -> ModelReply:
    return await client.complete(ModelRequest(ASK, **more))


@pytest.mark.parametrize(
    ("route", "variable"),
    [
        ("openai/gpt-4o", "OPENAI_API_KEY"),
        ("anthropic/claude-sonnet-4-5", "ANTHROPIC_API_KEY"),
        ("gemini/gemini-2.5-pro", "GEMINI_API_KEY"),
        ("azure/gpt-4o", "AZURE_OPENAI_API_KEY"),
    ],
)
async def test_without_a_key_no_try_is_repeated(
    monkeypatch: pytest.MonkeyPatch, route: str, variable: str
) -> None:
    """litellm reports it as an error of the server; it is one that no other try cures."""
    for name in list(os.environ):
        if name.endswith(("_API_KEY", "_TOKEN")):
            monkeypatch.delenv(name)
    slept: list[float] = []

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    provider, _, name = route.partition("/")
    # A server of nobody's: were there a request, it would fail in another way.
    base = None if provider == "gemini" else "http://127.0.0.1:9"
    client = LitellmClient(ModelIdentity(provider, name, 8000), route, api_base=base, sleep=sleep)
    with pytest.raises(ProviderError) as caught:
        await ask(client)
    await client.aclose()
    assert caught.value.kind == "auth", caught.value
    assert variable in str(caught.value)
    assert slept == []


async def test_a_server_that_is_not_there_is_named_without_a_key() -> None:
    """Where nothing answers, the user reads where it was looked for."""
    base = "http://user:k3y-of-mine@127.0.0.1:9/v1?key=k3y-of-mine"
    client = LitellmClient(
        ModelIdentity("openai", "fake", 8000),
        "openai/fake",
        api_base=base,
        api_key="test-key",
        policy=RetryPolicy(tries=1),
    )
    with pytest.raises(ProviderError) as caught:
        await ask(client)
    await client.aclose()
    assert caught.value.kind == "unavailable"
    assert "(asked http://127.0.0.1:9/v1)" in str(caught.value)
    assert "k3y-of-mine" not in str(caught.value)


async def test_the_request_holds_what_was_set_and_nothing_else(connect: Open) -> None:
    """No sampling parameter unless set; the tool only when offered; the key as given."""
    with FakeOpenAI([Say("a"), Say("b")]) as server:
        client = connect(server)
        await ask(client)
        await ask(client, tool=False, max_output=77, params=(("temperature", 0.0),))
    first, second = server.requests
    assert first.body.keys() == {"model", "messages", "stream", "stream_options", "tools"}
    assert [t["function"]["name"] for t in first.body["tools"]] == ["ipython"]
    assert first.messages == [m.to_json() for m in ASK]
    assert first.headers["authorization"] == "Bearer test-key"
    assert second.body.keys() == {
        "model",
        "messages",
        "stream",
        "stream_options",
        "max_tokens",
        "temperature",
    }
    assert (second.body["max_tokens"], second.body["temperature"]) == (77, 0.0)


@pytest.mark.parametrize("how", ["drop", "end", "error"])
@pytest.mark.parametrize("after", [1, 2, 3, 4, 5])
async def test_a_cut_stream_never_yields_its_call(connect: Open, how: str, after: int) -> None:
    """Cut anywhere inside text or call: tried again, and the second reply is the only one."""
    cut = Say("Now:", code="print('rm everything')", cut_after=after, cut_how=how)
    with FakeOpenAI([cut, Say("whole")]) as server:
        reply = await ask(connect(server))
    assert (reply.content, reply.calls) == ("whole", ())
    assert {a.kind for a in reply.attempts} <= {"cut", "unavailable"}
    assert len(server.requests) == 2


async def test_a_cut_stream_costs_tokens(connect: Open) -> None:
    """What arrived before the cut is booked, estimated, with the error too."""
    cut = Say("some text that arrived before the line went dead", cut_after=4)
    with FakeOpenAI([cut, cut, cut]) as server, pytest.raises(ProviderError, match="reply was cut") as caught:
        await ask(connect(server))
    assert caught.value.kind == "cut"
    assert caught.value.usage.calls == 3
    assert caught.value.usage.estimated
    assert caught.value.usage.completion > 0


async def test_overflow_inside_a_stream_is_overflow(connect: Open) -> None:
    """An error event is read like an error body."""
    text = "This model's maximum context length is 8000 tokens."
    cut = Say("a", cut_after=1, cut_how="error", cut_message=text)
    with FakeOpenAI([cut]) as server, pytest.raises(ProviderError) as caught:
        await ask(connect(server))
    assert caught.value.kind == "overflow"


async def test_several_calls_keep_order_and_ids(connect: Open) -> None:
    """Two calls in one reply, one with arguments that are no JSON."""
    calls = (("ipython", '{"code": "1"}'), ("shell", '{"cmd": '))
    with FakeOpenAI([Say(calls=calls)]) as server:
        reply = await ask(connect(server))
    assert [(c.name, c.arguments) for c in reply.calls] == list(calls)
    assert len({c.id for c in reply.calls}) == 2


@pytest.mark.parametrize(
    ("header", "least", "most"),
    [
        ("3", 3.0, 3.5),
        ("0", 0.0, 0.5),
        ("-1", 0.5, 1.5),
        ("soon", 0.5, 1.5),
        ("86400", 300.0, 300.5),
        (None, 0.5, 1.5),
        ("date", 20.0, 31.5),
        ("past", 0.0, 0.5),
    ],
)
async def test_retry_after_is_honoured(connect: Open, header: str | None, least: float, most: float) -> None:
    """Seconds and HTTP dates; nonsense and negatives back off; a day is capped."""
    slept: list[float] = []

    def answer(_: Seen) -> Answer:
        if len(server.requests) > 1:
            return Say("ok")
        value = header
        if header in ("date", "past"):  # as of now: litellm takes seconds to load before it asks
            away = timedelta(seconds=30 if header == "date" else -500)
            value = format_datetime(datetime.now(UTC) + away, usegmt=True)
        return Fail(429, headers={} if value is None else {"Retry-After": value})

    with FakeOpenAI(answer) as server:
        assert (await ask(connect(server, slept=slept))).content == "ok"
    (seconds,) = slept
    assert least <= seconds <= most


async def test_two_limits_in_a_row_then_a_reply(connect: Open) -> None:
    """Retries happen here and nowhere below: three requests, two waits."""
    slept: list[float] = []
    limited = Fail(429, headers={"Retry-After": "3"})
    with FakeOpenAI([limited, limited, Say("ok")]) as server:
        reply = await ask(connect(server, slept=slept))
    assert len(server.requests) == 3
    assert all(3 <= s <= 3.5 for s in slept)
    assert [a.status for a in reply.attempts] == [429, 429]


@pytest.mark.parametrize(
    ("refusal", "set_params", "gone"),
    [
        (
            Fail(
                400, "Unsupported value: 'temperature' does not support 0", "unsupported_value", "temperature"
            ),
            {"params": (("temperature", 0.0),)},
            "temperature",
        ),
        (
            Fail(
                400,
                "Unsupported parameter: use 'max_completion_tokens'",
                "unsupported_parameter",
                "max_tokens",
            ),
            {"max_output": 50},
            "max_tokens",
        ),
        (Fail(400, "stream_options is not supported by this server"), {}, "stream_options"),
    ],
)
async def test_a_refused_parameter_is_left_out_once_and_noted(
    connect: Open, refusal: Fail, set_params: dict[str, Any], gone: str
) -> None:
    """Dropped on the first refusal, noted in that reply, not sent again; no wait."""
    slept: list[float] = []
    with FakeOpenAI([refusal, Say("ok"), Say("again")]) as server:
        client = connect(server, slept=slept)
        first, second = await ask(client, **set_params), await ask(client, **set_params)
    assert (first.content, second.content) == ("ok", "again")
    assert gone in server.requests[0].body
    assert all(gone not in r.body for r in server.requests[1:])
    assert len(first.notes) == 1
    assert gone in first.notes[0]
    assert second.notes == ()
    assert slept == []


async def test_max_output_survives_its_old_name(connect: Open) -> None:
    """A model that refuses max_tokens gets the limit under the new name."""
    refusal = Fail(400, "Unsupported parameter", code="unsupported_parameter", param="max_tokens")
    with FakeOpenAI([refusal, Say("ok")]) as server:
        await ask(connect(server), max_output=50)
    assert server.requests[1].body["max_completion_tokens"] == 50


async def test_the_same_refusal_without_the_parameter_is_an_error(connect: Open) -> None:
    """Nothing to leave out: one try, no loop."""
    refusal = Fail(400, "Unsupported value: 'temperature'", code="unsupported_value", param="temperature")
    with FakeOpenAI([refusal, Say("no")]) as server, pytest.raises(ProviderError) as caught:
        await ask(connect(server))
    assert caught.value.kind == "bad_request"


@pytest.mark.parametrize("head", [False, True])
async def test_silence_is_a_timeout(connect: Open, head: bool) -> None:
    """A server that says nothing, before or after the head, is given up and tried again."""
    with FakeOpenAI([Hang(head), Say("awake")]) as server:
        reply = await ask(connect(server, timeout_s=3))
    assert reply.content == "awake"
    assert [a.kind for a in reply.attempts] == ["timeout"]


async def test_nobody_there_is_unavailable(connect: Open) -> None:
    """Connection refused: no invented status."""
    with FakeOpenAI([]) as server:
        client = connect(server)
    with pytest.raises(ProviderError) as caught:
        await ask(client)
    assert (caught.value.kind, caught.value.status) == ("unavailable", None)
    assert len(caught.value.attempts) == 3


async def test_cancelling_ends_a_silent_call(connect: Open) -> None:
    """The call goes when its task does."""
    with FakeOpenAI([Say("slow", chunk_delay_s=30)]) as server:
        task = asyncio.create_task(ask(connect(server)))
        assert await asyncio.to_thread(server.asked.wait, 60)
        task.cancel()
        with pytest.raises(asyncio.CancelledError):
            await asyncio.wait_for(task, 20)


async def test_closing_one_client_leaves_the_others(connect: Open) -> None:
    """litellm keeps connections for the whole process; the last client closes them."""
    with FakeOpenAI([Say("1"), Say("2"), Say("3")]) as server:
        one, two = connect(server), connect(server)
        await ask(one)
        await ask(two)
        await one.aclose()
        await one.aclose()
        assert (await ask(two)).content == "3"


async def test_an_endpoint_of_ones_own_needs_no_key() -> None:
    """Named by the user, without a key anywhere: the request goes out."""
    with FakeOpenAI([Say("hello")]) as server:
        settings = Settings(model="my-own", api_base=server.base_url)
        client = resolve(None, settings, read_environment()).build()
        assert (await client.complete(ModelRequest(ASK))).content == "hello"
        await client.aclose()
    assert server.requests[0].body["model"] == "my-own"


def test_every_exception_of_litellm_is_known() -> None:
    """Fails when litellm grows an exception class that nobody has thought about."""
    module = sys.modules[load_litellm().__name__ + ".exceptions"]
    grown = {
        name
        for name, value in vars(module).items()
        if inspect.isclass(value) and issubclass(value, Exception) and value.__module__ == module.__name__
    }
    assert grown - KINDS.keys() == set()


PROBE = """
import asyncio, sys
from harnessctl.domain.message import Message
from harnessctl.layers.l0_weights import ModelIdentity
from harnessctl.models.litellm_client import LitellmClient
from harnessctl.models.port import ModelRequest

def watch(event, args):
    if event == "socket.connect" and args[1][0] != "127.0.0.1" or event == "socket.getaddrinfo":
        if args[0] != "127.0.0.1":
            sys.stderr.write(f"network: {args}\\n")
sys.addaudithook(watch)

async def main():
    client = LitellmClient(ModelIdentity("openai", "fake"), "openai/fake")
    reply = await client.complete(ModelRequest((Message("user", "hi"),)))
    await client.aclose()
    return reply.content

assert asyncio.run(main()) == "from the user's endpoint"
"""


def test_a_repositorys_env_file_changes_nothing(tmp_path: Path) -> None:
    """Endpoints and keys come from the user. A `.env` here redirects neither; nothing is printed,
    and no other address is asked."""
    with FakeOpenAI([]) as hostile, FakeOpenAI([Say("from the user's endpoint")]) as mine:
        redirect = "".join(
            f"{name}={hostile.base_url}\n"
            for name in ("OPENAI_API_BASE", "OPENAI_BASE_URL", "LITELLM_PROXY_API_BASE", "HTTP_PROXY")
        )
        (tmp_path / ".env").write_text(
            f"{redirect}OPENAI_API_KEY=planted\nLITELLM_MODE=DEV\nUSE_LITELLM_PROXY=True\n"
        )
        (tmp_path / "litellm_config.yaml").write_text(f"api_base: {hostile.base_url}\n")
        user = {"OPENAI_BASE_URL": mine.base_url, "OPENAI_API_KEY": "users-own"}
        done = subprocess.run(
            [sys.executable, "-c", PROBE],
            cwd=tmp_path,
            env={**os.environ, **user},
            capture_output=True,
            text=True,
            check=False,
        )
    assert (done.returncode, done.stdout, done.stderr) == (0, "", "")
    assert hostile.requests == []
    assert mine.requests[0].headers["authorization"] == "Bearer users-own"


def test_without_our_setting_the_env_file_would_win(tmp_path: Path) -> None:
    """The guard is what holds: with LITELLM_MODE left alone, the planted endpoint gets the user's key."""
    unguarded = PROBE.replace(
        "async def main",
        "import harnessctl.models.litellm_client as m; m.IMPORT_SETTINGS.pop('LITELLM_MODE')\nasync def main",
    )
    with FakeOpenAI([Say("from the user's endpoint")]) as hostile:
        (tmp_path / ".env").write_text(f"OPENAI_BASE_URL={hostile.base_url}\n")
        subprocess.run(
            [sys.executable, "-c", unguarded],
            cwd=tmp_path,
            env={**os.environ, "OPENAI_API_KEY": "users-own"},
            capture_output=True,
            check=False,
        )
    assert [r.headers["authorization"] for r in hostile.requests] == ["Bearer users-own"]
