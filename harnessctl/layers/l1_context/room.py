"""How much of a model's window a request may take, and when the view must shrink."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass, replace

from harnessctl.domain.message import Message

#: Share of the window kept for the reply, and tokens that are enough for any.
REPLY_SHARE = 4
USUAL_REPLY = 8_192
#: What is kept for the reply when there is no other way.
LEAST_REPLY_SHARE = 8
LEAST_REPLY = 1_024
#: Share of the window that a provider may count more than we do.
MARGIN_SHARE = 20
#: Of the tokens at which the view must shrink: what it shrinks to, and what folding alone must reach.
LOW, MIDDLE = 0.6, 0.8
#: Share of the window, and tokens, that a summary may take.
SUMMARY_SHARE = 16
LEAST_SUMMARY, MOST_SUMMARY = 150, 1_500
#: Tokens of a summary for a model whose window nobody knows.
USUAL_SUMMARY = 1_000

#: Estimated tokens of messages, as the model's client counts them.
Count = Callable[[tuple[Message, ...]], int]


@dataclass(frozen=True, slots=True)
class Room:
    """Tokens of a request's messages; None where no window sets a limit.

    :ivar high: beyond this the view shrinks before it is sent.
    :ivar most: beyond this a request is not sent at all unless the active request leaves no choice.
    :ivar middle: when folding leaves more than this, turns leave too.
    :ivar low: what the view shrinks to.
    :ivar summary: what a summary may take.
    """

    high: int | None = None
    most: int | None = None
    middle: int | None = None
    low: int | None = None
    summary: int = USUAL_SUMMARY

    def at_most(self, low: int) -> Room:
        """The same, shrinking at least to ``low``."""
        low = min(low, self.low or low)
        return replace(self, low=low, middle=min(low, self.middle or low), most=min(low, self.most or low))


def room_of(window: int | None, max_output: int | None) -> Room:
    """What a model with ``window`` tokens leaves for messages.

    :param max_output: tokens that one reply may take, None when nothing says.
    """
    if window is None:
        return Room()
    reply = min(max_output or USUAL_REPLY, USUAL_REPLY, window // REPLY_SHARE)
    margin = window // MARGIN_SHARE
    high = window - reply - margin
    most = window - min(reply, LEAST_REPLY, window // LEAST_REPLY_SHARE) - margin
    summary = min(MOST_SUMMARY, max(LEAST_SUMMARY, window // SUMMARY_SHARE))
    return Room(high, most, int(high * MIDDLE), int(high * LOW), summary)


@dataclass(frozen=True, slots=True)
class Meter:
    """Tokens as the provider will count them, as far as its earlier counts tell.

    :ivar scale: the provider's count of the last request in parts of ours.
    :ivar extra: tokens beside the messages, for the tool.
    """

    count: Count
    scale: float = 1.0
    extra: int = 0

    def all(self, messages: tuple[Message, ...]) -> int:
        """Tokens of a request with ``messages``."""
        return math.ceil(self.count(messages) * self.scale) + self.extra

    def text(self, text: str) -> int:
        """Tokens of a piece of text inside a message."""
        return math.ceil(self.count((Message("user", text),)) * self.scale)
