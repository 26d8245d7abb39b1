"""The one place where a model call is tried again.

Libraries below are told not to retry, so that every wait is known, shown, counted and can be
cancelled (cancelling the awaiting task ends it).
"""

from __future__ import annotations

import asyncio
import math
import random
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from email.utils import parsedate_to_datetime

from harnessctl.domain.limits import Usage
from harnessctl.models.failures import TryError
from harnessctl.models.port import Attempt, ModelReply, OnWait, ProviderError

Sleep = Callable[[float], Awaitable[object]]


@dataclass(frozen=True, slots=True)
class RetryPolicy:
    """How often and how long.

    :ivar tries: tries in all, the first included.
    :ivar base_s: mean of the first wait without a header; doubles with each try.
    :ivar backoff_cap_s: longest wait without a header.
    :ivar header_cap_s: longest wait a ``Retry-After`` header may cause.
    """

    tries: int = 6
    base_s: float = 1.0
    backoff_cap_s: float = 30.0
    header_cap_s: float = 300.0

    def wait(self, failed: int, retry_after: float | None, jitter: float) -> float:
        """Seconds to wait after try number ``failed`` (from 1); ``jitter`` is from [0, 1).

        At least what the header asks, up to the cap; a little more, so that clients that were
        turned away together do not come back together.
        """
        if retry_after is not None and retry_after >= 0:
            return min(retry_after, self.header_cap_s) + 0.25 * self.base_s * jitter
        return min(self.base_s * 2.0 ** (failed - 1), self.backoff_cap_s) * (0.5 + jitter)


def parse_retry_after(headers: Mapping[str, str], now: datetime | None = None) -> float | None:
    """Seconds asked for by ``Retry-After`` (RFC 9110: seconds or an HTTP date) or ``retry-after-ms``.

    None when absent, unreadable or negative. A date in the past is 0.
    """
    folded = {name.lower(): value.strip() for name, value in headers.items()}
    for name, scale in (("retry-after-ms", 0.001), ("retry-after", 1.0)):
        try:
            seconds = float(folded[name]) * scale
        except (KeyError, ValueError):
            continue
        return seconds if math.isfinite(seconds) and seconds >= 0 else None
    try:
        when = parsedate_to_datetime(folded["retry-after"])
    except (KeyError, ValueError):
        return None
    if when.tzinfo is None:
        when = when.replace(tzinfo=UTC)
    return max(0.0, (when - (now or datetime.now(UTC))).total_seconds())


async def with_retries(
    attempt: Callable[[], Awaitable[ModelReply]],
    *,
    policy: RetryPolicy,
    on_wait: OnWait | None = None,
    sleep: Sleep = asyncio.sleep,
    jitter: Callable[[], float] = random.random,
) -> ModelReply:
    """Call ``attempt`` until it replies, fails for good, or the tries are used up.

    The reply carries the failed tries and their usage.

    :raises ProviderError: with every try in ``attempts``.
    :raises asyncio.CancelledError: cancelled; in a wait, with the usage of the failed tries as its argument.
    """
    attempts: list[Attempt] = []
    spent = Usage()
    while True:
        try:
            reply = await attempt()
        except TryError as failure:
            spent = spent + (failure.usage or Usage())
            last = not failure.retryable or len(attempts) + 1 >= policy.tries
            wait = 0.0 if last else policy.wait(len(attempts) + 1, failure.retry_after, jitter())
            attempts.append(Attempt(failure.kind, failure.status, failure.message, round(wait, 3)))
            if last:
                raise _given_up(failure, attempts, spent) from failure
            if on_wait is not None:
                on_wait(attempts[-1], wait)
            try:
                await sleep(wait)
            except asyncio.CancelledError as error:
                # A class of its own would be no cancelling for asyncio's timeouts and task groups.
                raise asyncio.CancelledError(spent) from error
        else:
            return replace(reply, attempts=(*attempts, *reply.attempts), usage=reply.usage + spent)


def _given_up(failure: TryError, attempts: list[Attempt], spent: Usage) -> ProviderError:
    message = failure.message
    if failure.retryable:
        message = f"{message} (tried {len(attempts)} times)"
    return ProviderError(
        message, kind=failure.kind, status=failure.status, attempts=tuple(attempts), usage=spent
    )
