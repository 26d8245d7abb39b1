"""The seam to language models: one method and close."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from dataclasses import dataclass, field
from typing import Protocol

from harnessctl.domain.limits import Usage
from harnessctl.domain.message import Message, ToolCall
from harnessctl.layers.l0_weights import ModelIdentity


@dataclass(frozen=True, slots=True)
class ModelRequest:
    """One request.

    :ivar tool: offer the ``ipython`` tool.
    :ivar max_output: tokens the reply may take, None for the provider's default.
    :ivar consumer: who asks: ``root``, a child's name, ``refine``, ``llm`` or ``summary``.
    :ivar place: how many replies this consumer has had before, derived from the log, so that a
        scripted model goes on where it was.
    :ivar params: sampling parameters the user set; none are sent unless set.
    """

    messages: tuple[Message, ...]
    tool: bool = True
    max_output: int | None = None
    consumer: str = "root"
    place: int = 0
    params: tuple[tuple[str, float], ...] = ()


@dataclass(frozen=True, slots=True)
class Attempt:
    """One try that did not give the reply: kind of failure, HTTP status, seconds waited after it."""

    kind: str
    status: int | None
    message: str
    waited_s: float


@dataclass(frozen=True, slots=True)
class ModelReply:
    """One whole reply. A stream that was cut never becomes one: its calls must not run.

    :ivar usage: with ``calls=1``; ``estimated`` when the provider gave none.
    :ivar finish: ``stop``, ``length``, ``tool_calls`` or what the provider said.
    """

    content: str | None
    calls: tuple[ToolCall, ...] = ()
    finish: str = "stop"
    usage: Usage = field(default_factory=Usage)
    model: str = ""
    ms: int = 0
    attempts: tuple[Attempt, ...] = ()
    notes: tuple[str, ...] = ()


class ProviderError(Exception):
    """A call that gave no reply, after whatever retries its kind deserves.

    :ivar kind: ``overflow``, ``rate_limit``, ``auth``, ``bad_request``, ``not_found``, ``cut``,
        ``unavailable``, ``timeout``, ``script`` or ``other``.
    :ivar usage: tokens booked for the failed tries.
    """

    def __init__(
        self,
        message: str,
        *,
        kind: str,
        status: int | None = None,
        attempts: tuple[Attempt, ...] = (),
        usage: Usage | None = None,
    ) -> None:
        super().__init__(message)
        self.kind = kind
        self.status = status
        self.attempts = attempts
        self.usage = usage or Usage()


def used_when_cancelled(error: asyncio.CancelledError, otherwise: Usage) -> Usage:
    """What a cancelled call used: with a request under way nobody knows, and it is ``otherwise``.

    In a wait between two tries it is known; ``error``, of the usual class, has it among its arguments.
    """
    return next((known for known in error.args if isinstance(known, Usage)), otherwise)


#: Receives text as it streams: (delta). Called on the event loop.
OnText = Callable[[str], None]
#: Told before a wait: (attempt, seconds that will be waited).
OnWait = Callable[[Attempt, float], None]


class ModelClient(Protocol):
    """A model that answers requests. Cancelling the awaiting task ends the call and any wait.

    :func:`used_when_cancelled` tells what was used until then.
    """

    @property
    def identity(self) -> ModelIdentity:
        """Who answers."""
        ...

    async def complete(
        self, request: ModelRequest, *, on_text: OnText | None = None, on_wait: OnWait | None = None
    ) -> ModelReply:
        """Answer ``request``.

        :raises ProviderError: no reply, and no further retry makes sense.
        """
        ...

    def count_tokens(self, messages: tuple[Message, ...]) -> int:
        """Estimated tokens of ``messages``; never needs the network."""
        ...

    async def aclose(self) -> None:
        """Free connections and processes."""
        ...
