"""``scripted:FILE``: a model that answers from a file, for demonstrations and tests.

Each consumer (``root``, a child's name, ``refine``, ``llm``, ``summary``) plays its own lines. Where
it stands follows from ``request.place``, the count of answers it has in the log, so that a resumed
session goes on with the line that would have come. One answer may take several lines: errors that
are tried again, then what the tries ended with.
"""

from __future__ import annotations

import asyncio
import json
import re
from pathlib import Path

from harnessctl.domain.limits import Usage
from harnessctl.domain.message import TOOL_NAME, Message, ToolCall
from harnessctl.layers.l0_weights import ModelIdentity
from harnessctl.models.failures import TryError, classify
from harnessctl.models.port import ModelReply, ModelRequest, OnText, OnWait
from harnessctl.models.retry import RetryPolicy, Sleep, parse_retry_after, with_retries
from harnessctl.models.script import Script, ScriptedError, ScriptedReply, read_script
from harnessctl.models.tokens import estimate_messages, estimate_text, priced


class ScriptedClient:
    """A :class:`harnessctl.models.port.ModelClient` over a script."""

    def __init__(
        self, script: Script, *, policy: RetryPolicy | None = None, sleep: Sleep = asyncio.sleep
    ) -> None:
        self._script = script
        self._policy = policy or RetryPolicy()
        self._sleep = sleep

    @property
    def identity(self) -> ModelIdentity:
        """Who answers: ``scripted/<file name>``."""
        return self._script.identity

    async def complete(
        self, request: ModelRequest, *, on_text: OnText | None = None, on_wait: OnWait | None = None
    ) -> ModelReply:
        """Play the answer at ``request.place`` of ``request.consumer``.

        :raises ProviderError: an ``error`` line that another try does not cure, or (kind ``script``)
            no line is left.
        """
        lines = self._script.of(request.consumer)
        at = answer_start(lines, request.place, self._policy.tries)

        async def attempt() -> ModelReply:
            nonlocal at
            if at >= len(lines):
                raise TryError("script", self._ran_out(request, len(lines)))
            line, at = lines[at], at + 1
            await self._sleep(line.delay_ms / 1000)
            if line.error is not None:
                raise as_failure(line.error)
            return self._reply(line, request, on_text)

        return await with_retries(attempt, policy=self._policy, on_wait=on_wait, sleep=self._sleep)

    def _ran_out(self, request: ModelRequest, count: int) -> str:
        lines = "1 line" if count == 1 else f"{count} lines"
        return (
            f"{self._script.name} has no reply left for {request.consumer!r}: "
            f'it holds {lines} with "for": "{request.consumer}", and answer {request.place + 1} was asked for'
        )

    def _reply(self, line: ScriptedReply, request: ModelRequest, on_text: OnText | None) -> ModelReply:
        content = line.content
        calls: tuple[ToolCall, ...] = ()
        if line.code is not None and request.tool:
            calls = (ToolCall(f"call_{request.place}", TOOL_NAME, json.dumps({"code": line.code})),)
        elif line.code is not None:
            content = fenced(line.content, line.code)
        if content and on_text is not None:
            on_text(content)
        return ModelReply(
            content=content,
            calls=calls,
            finish="tool_calls" if calls else "stop",
            usage=self._usage(line, request),
            model=str(self.identity),
            ms=round(line.delay_ms),
        )

    def _usage(self, line: ScriptedReply, request: ModelRequest) -> Usage:
        if line.usage is not None:
            prompt, completion, cached = line.usage
            return priced(self.identity.price, prompt, completion, cached=cached)
        said = estimate_text(line.content or "") + estimate_text(line.code or "")
        prompt = estimate_messages(request.messages)
        return priced(self.identity.price, prompt, max(1, said), estimated=True)

    def count_tokens(self, messages: tuple[Message, ...]) -> int:
        """Estimated tokens of ``messages``."""
        return estimate_messages(messages)

    async def aclose(self) -> None:
        """Nothing to free."""


def open_script(path: Path) -> ScriptedClient:
    """A client that plays the file at ``path``.

    :raises UsageError: not readable, or a line is off.
    """
    return ScriptedClient(read_script(path))


def as_failure(error: ScriptedError) -> TryError:
    """A scripted error as the failed try it stands for."""
    kind, retryable = classify(error.status, error.body)
    message = f"HTTP {error.status}: {error.body or 'no body'}"
    return TryError(kind, message, error.status, retryable, parse_retry_after(dict(error.headers)))


def answer_start(lines: tuple[ScriptedReply, ...], place: int, tries: int) -> int:
    """Index of the line where answer number ``place`` (from 0) begins.

    An answer ends with a reply, with an error that is not tried again, or when the tries are used up.
    """
    at = 0
    for _ in range(place):
        used = 1
        while at < len(lines) and used < tries and _tried_again(lines[at]):
            at, used = at + 1, used + 1
        at += 1
    return at


def _tried_again(line: ScriptedReply) -> bool:
    return line.error is not None and as_failure(line.error).retryable


def fenced(content: str | None, code: str) -> str:
    """Text with ``code`` as one Python block, as a model without tool calls writes it."""
    longest = max((len(run) for run in re.findall(r"`{3,}", code)), default=2)
    fence = "`" * (longest + 1)
    block = f"{fence}python\n{code.rstrip()}\n{fence}"
    return f"{content.rstrip()}\n\n{block}" if content else block
