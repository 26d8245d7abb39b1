"""Keeps keys out of what a model client says: some servers repeat the key that they refuse."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import replace

from harnessctl.domain.message import Message
from harnessctl.layers.l0_weights import ModelIdentity
from harnessctl.models.port import (
    Attempt,
    ModelClient,
    ModelReply,
    ModelRequest,
    OnText,
    OnWait,
    ProviderError,
)

#: Values shorter than this are words, not keys.
LEAST = 8
SHOWN = "[key]"


class DiscreetClient:
    """A client whose errors, notes and waits hold none of ``keys``. Replies stay as the model wrote them."""

    def __init__(self, client: ModelClient, keys: Iterable[str]) -> None:
        self._client = client
        self._keys = sorted({key for key in keys if len(key) >= LEAST}, key=len, reverse=True)

    @property
    def identity(self) -> ModelIdentity:
        """Who answers."""
        return self._client.identity

    async def complete(
        self, request: ModelRequest, *, on_text: OnText | None = None, on_wait: OnWait | None = None
    ) -> ModelReply:
        """Answer ``request``; errors as the client below, without keys."""
        told: OnWait | None = None
        if on_wait is not None:
            say = on_wait

            def told(attempt: Attempt, seconds: float) -> None:
                say(self._attempt(attempt), seconds)

        try:
            reply = await self._client.complete(request, on_text=on_text, on_wait=told)
        except ProviderError as error:
            raise ProviderError(
                self._clean(str(error)),
                kind=error.kind,
                status=error.status,
                attempts=tuple(map(self._attempt, error.attempts)),
                usage=error.usage,
            ) from None  # the cause holds the same text
        attempts = tuple(map(self._attempt, reply.attempts))
        return replace(reply, attempts=attempts, notes=tuple(map(self._clean, reply.notes)))

    def count_tokens(self, messages: tuple[Message, ...]) -> int:
        """Estimated tokens of ``messages``."""
        return self._client.count_tokens(messages)

    async def aclose(self) -> None:
        """Close the client below."""
        await self._client.aclose()

    def _attempt(self, attempt: Attempt) -> Attempt:
        return replace(attempt, message=self._clean(attempt.message))

    def _clean(self, text: str) -> str:
        for key in self._keys:
            text = text.replace(key, SHOWN)
        return text
