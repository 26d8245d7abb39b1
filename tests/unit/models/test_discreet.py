"""Keys that a server repeats go no further."""

from __future__ import annotations

import pytest

from harnessctl.domain.message import Message
from harnessctl.layers.l0_weights import ModelIdentity
from harnessctl.models.discreet import DiscreetClient
from harnessctl.models.port import Attempt, ModelReply, ModelRequest, OnText, OnWait, ProviderError

KEY = "planted-key-4711"


class Talkative:
    """Repeats the key in everything but its reply's text."""

    identity = ModelIdentity("x", "y")

    def __init__(self, *, fails: bool) -> None:
        self.fails = fails

    async def complete(
        self, request: ModelRequest, *, on_text: OnText | None = None, on_wait: OnWait | None = None
    ) -> ModelReply:
        attempt = Attempt("rate_limit", 429, f"slow down, {KEY}", 1.0)
        if on_wait is not None:
            on_wait(attempt, 1.0)
        if self.fails:
            raise ProviderError(f"bad key {KEY}", kind="auth", status=401, attempts=(attempt,))
        return ModelReply("hi", attempts=(attempt,), notes=(f"left out for {KEY}",))

    def count_tokens(self, messages: tuple[Message, ...]) -> int:
        return 7

    async def aclose(self) -> None:
        return None


async def test_errors_attempts_notes_and_waits_hold_no_key() -> None:
    heard: list[str] = []
    wait: OnWait = lambda attempt, _: heard.append(attempt.message)  # noqa: E731
    reply = await DiscreetClient(Talkative(fails=False), [KEY, "short"]).complete(
        ModelRequest(()), on_wait=wait
    )
    assert (reply.content, reply.notes, reply.attempts[0].message) == (
        "hi",
        ("left out for [key]",),
        "slow down, [key]",
    )
    with pytest.raises(ProviderError) as caught:
        await DiscreetClient(Talkative(fails=True), [KEY]).complete(ModelRequest(()), on_wait=wait)
    assert (str(caught.value), caught.value.kind, caught.value.status) == ("bad key [key]", "auth", 401)
    assert caught.value.attempts[0].message == "slow down, [key]"
    assert caught.value.__suppress_context__
    assert heard == ["slow down, [key]"] * 2


async def test_a_client_of_its_own_would_tell() -> None:
    with pytest.raises(ProviderError, match=KEY):
        await Talkative(fails=True).complete(ModelRequest(()))
