"""When to try again, and after how long."""

from __future__ import annotations

import asyncio
from datetime import UTC, datetime

import pytest

from harnessctl.domain.limits import Usage
from harnessctl.models.failures import TryError
from harnessctl.models.port import ModelReply, ProviderError, used_when_cancelled
from harnessctl.models.retry import RetryPolicy, parse_retry_after, with_retries

NOW = datetime(2026, 3, 1, 12, 0, 0, tzinfo=UTC)


@pytest.mark.parametrize(
    ("headers", "seconds"),
    [
        ({"Retry-After": "3"}, 3.0),
        ({"retry-after": " 2.5 "}, 2.5),
        ({"Retry-After": "0"}, 0.0),
        ({"Retry-After": "-1"}, None),
        ({"Retry-After": "nan"}, None),
        ({"Retry-After": "inf"}, None),
        ({"Retry-After": "soon"}, None),
        ({"Retry-After": "86400"}, 86400.0),
        ({"Retry-After": "Sun, 01 Mar 2026 12:00:07 GMT"}, 7.0),
        ({"Retry-After": "Sun, 01 Mar 2026 11:00:00 GMT"}, 0.0),
        ({"retry-after-ms": "250", "retry-after": "9"}, 0.25),
        ({}, None),
    ],
)
def test_retry_after(headers: dict[str, str], seconds: float | None) -> None:
    """Seconds or an HTTP date (RFC 9110), OpenAI's milliseconds before either."""
    assert parse_retry_after(headers, NOW) == seconds


@pytest.mark.parametrize(
    ("failed", "asked", "least", "most"),
    [
        (1, None, 0.5, 1.5),
        (3, None, 2.0, 6.0),
        (9, None, 15.0, 45.0),
        (1, 3.0, 3.0, 3.25),
        (1, 86400.0, 300.0, 300.25),
    ],
)
def test_waits(failed: int, asked: float | None, least: float, most: float) -> None:
    """Doubling with jitter, or at least what was asked for; both capped."""
    policy = RetryPolicy()
    assert policy.wait(failed, asked, 0.0) == least
    assert policy.wait(failed, asked, 1.0) == most


async def test_usage_of_failed_tries_is_booked() -> None:
    """A cut reply cost tokens: they are in the reply's usage."""
    failures = iter([TryError("cut", "cut", None, True, usage=Usage(10, 5, 0, 1, 0.5, True))])

    async def attempt() -> ModelReply:
        for failure in failures:
            raise failure
        return ModelReply("ok", usage=Usage(10, 7, 0, 1, 0.25))

    async def sleep(_: float) -> None:
        pass

    reply = await with_retries(attempt, policy=RetryPolicy(), sleep=sleep)
    assert reply.usage == Usage(20, 12, 0, 2, 0.75, True)


@pytest.mark.parametrize("used", [None, Usage(10, 5, 0, 1, 0.5, True)])
async def test_a_cancelled_wait_knows_what_was_used(used: Usage | None) -> None:
    """What the failed tries used, and no more; it is a plain cancelling all the same."""
    waiting = asyncio.Event()

    async def attempt() -> ModelReply:
        raise TryError("unavailable", "down", None, True, usage=used)

    async def call() -> ModelReply:
        return await with_retries(attempt, policy=RetryPolicy(base_s=99), on_wait=lambda *_: waiting.set())

    task = asyncio.create_task(call())
    await waiting.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError) as caught:
        await task
    assert type(caught.value) is asyncio.CancelledError
    assert used_when_cancelled(caught.value, Usage(1000, calls=1)) == (used or Usage())


async def test_a_cancelled_request_may_have_used_anything() -> None:
    begun = asyncio.Event()

    async def attempt() -> ModelReply:
        begun.set()
        await asyncio.sleep(60)
        raise AssertionError

    task = asyncio.ensure_future(with_retries(attempt, policy=RetryPolicy()))
    await begun.wait()
    task.cancel()
    with pytest.raises(asyncio.CancelledError) as caught:
        await task
    assert used_when_cancelled(caught.value, Usage(1000, calls=1)) == Usage(1000, calls=1)


async def test_nothing_is_waited_after_the_last_try() -> None:
    """The last failure is an error at once; each wait before it was told and taken."""
    told: list[float] = []
    slept: list[float] = []

    async def attempt() -> ModelReply:
        raise TryError("unavailable", "down", 503, True)

    async def sleep(seconds: float) -> None:
        slept.append(seconds)

    with pytest.raises(ProviderError, match=r"down \(tried 4 times\)") as caught:
        await with_retries(
            attempt,
            policy=RetryPolicy(tries=4),
            sleep=sleep,
            jitter=lambda: 0.5,
            on_wait=lambda _, seconds: told.append(seconds),
        )
    assert told == slept == [1.0, 2.0, 4.0]
    assert [a.waited_s for a in caught.value.attempts] == [1.0, 2.0, 4.0, 0.0]
