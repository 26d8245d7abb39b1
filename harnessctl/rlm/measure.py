"""How many tokens a request takes: our own count, set right by what the provider counted before."""

from __future__ import annotations

import json
import math
from collections.abc import Callable, Sequence
from functools import cache
from typing import Any

from harnessctl.domain.event import Event, EventType, is_aside
from harnessctl.domain.message import Message
from harnessctl.layers.l1_context.room import Meter
from harnessctl.models.tokens import estimate_text
from harnessctl.models.wire import TOOL
from harnessctl.rlm.journal import Journal
from harnessctl.rlm.parts import TurnParts

#: How far the provider's count may move ours. Fewer tokens are believed less than more: a count that
#: leaves out what came from a cache must not make a full view look empty.
LEAST_SCALE, MOST_SCALE = 0.8, 4.0

_Count = Callable[[tuple[Message, ...]], int]


def meter_of(parts: TurnParts) -> Meter:
    """Counts as the provider did for the last request of the session's own that it answered."""
    count = parts.model.count_tokens
    extra = _tool_tokens() if parts.protocol == "tool" else 0
    events = parts.journal.events
    reply = next((e for e in reversed(events) if _is_own_reply(e) and "error" not in e.data), None)
    theirs = _prompt_of(reply)
    ours = events[int(reply.data["request"])].data.get("counted") if reply is not None else None
    if not theirs or not ours:
        return Meter(count, 1.0, extra)
    scale = (theirs - extra) / int(ours)
    return Meter(count, min(MOST_SCALE, max(LEAST_SCALE, scale)), extra)


def counted(journal: Journal, messages: tuple[Message, ...], keep: int, count: _Count) -> int:
    """Our own count of ``messages``; only what is new is counted when the last request holds the rest."""
    last = journal.tally.last_request
    before = last.data.get("counted") if last is not None else None
    if before is None or keep != journal.view.asked:
        return count(messages)
    return int(before) + count(messages[keep:])


def estimate(journal: Journal, messages: tuple[Message, ...], keep: int, meter: Meter) -> int:
    """Prompt tokens of ``messages``, for the budget.

    What the provider counted for the last request stands for the ``keep`` messages it shares with
    this one; only what is new is counted. Where part of it left the view, all of it is.
    """
    theirs = _prompt_of(_last_reply(journal.events))
    asked = journal.view.asked
    if theirs and keep and keep >= asked - 1:
        return theirs + meter.count(messages[keep:])
    return math.ceil(counted(journal, messages, keep, meter.count) * max(1.0, meter.scale))


def _is_own_reply(event: Event) -> bool:
    return event.type is EventType.REPLY and not is_aside(event)


def _last_reply(events: Sequence[Event]) -> Event | None:
    return next((e for e in reversed(events) if _is_own_reply(e)), None)


def _prompt_of(reply: Event | None) -> int:
    """Prompt tokens as the provider counted them; 0 when it did not."""
    if reply is None or "error" in reply.data:
        return 0
    usage: dict[str, Any] = reply.data.get("usage") or {}
    return 0 if usage.get("estimated") else int(usage.get("prompt") or 0)


@cache
def _tool_tokens() -> int:
    return estimate_text(json.dumps(TOOL))
