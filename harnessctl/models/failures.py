"""What a failed try means: one table for every provider, whoever reported it.

The kinds are those of :class:`harnessctl.models.port.ProviderError`.
"""

from __future__ import annotations

import re
from dataclasses import dataclass

from harnessctl.domain.limits import Usage

#: Texts by which providers say that a request does not fit the window (they share no code).
_OVERFLOW = re.compile(
    r"context[_ ]length[_ ]exceeded"  # OpenAI's error code
    r"|maximum context length"  # OpenAI, vLLM, OpenRouter, Mistral, DeepSeek
    r"|exceeds? the context window|context window exceeds|context[_ ]window[_ ]exceeded"
    r"|prompt is too long|request_too_large"  # Anthropic
    r"|input is too long for (the )?requested model"  # Bedrock
    r"|input token count.{0,40}exceeds the maximum"  # Gemini
    r"|maximum prompt length is \d"  # xAI
    r"|reduce the length of (the|your) (messages|prompt|input)"  # Groq
    r"|exceeds? the available context size|exceed_context_size"  # llama.cpp
    r"|(greater than|exceeds) the( maximum)? context length"  # LM Studio, Ollama
    r"|exceeded model token limit"  # Kimi
    r"|total number of tokens in the prompt cannot exceed"  # Cohere
    r"|`?inputs`? tokens \+ `?max_new_tokens`? must be <=",  # Text Generation Inference
    re.IGNORECASE,
)
#: Texts that talk about tokens but mean "slower", not "shorter".
_THROTTLED = re.compile(
    r"throttl|rate[_ ]limit|too many requests|tokens per (min|day|hour)|please wait", re.IGNORECASE
)
#: A 429 that waiting does not cure.
_SPENT = re.compile(r"insufficient_quota|exceeded your current quota|billing", re.IGNORECASE)

#: Kinds another try may cure.
RETRIED = frozenset({"rate_limit", "unavailable", "timeout", "cut"})

_BY_STATUS = {401: "auth", 402: "auth", 403: "auth", 404: "not_found", 408: "timeout", 409: "unavailable"}


@dataclass(eq=False)
class TryError(Exception):
    """One try failed.

    :ivar retry_after: seconds the provider asked to wait, None when it did not say.
    :ivar usage: tokens the try cost all the same.
    """

    kind: str
    message: str
    status: int | None = None
    retryable: bool = False
    retry_after: float | None = None
    usage: Usage | None = None

    def __str__(self) -> str:
        return self.message


def is_overflow(text: str) -> bool:
    """Whether an error's text says that the request does not fit the model's window."""
    return bool(_OVERFLOW.search(text)) and not _THROTTLED.search(text)


def classify(status: int | None, text: str) -> tuple[str, bool]:
    """(kind, whether another try may help) of an HTTP error with ``status`` and body ``text``."""
    if status != 429 and is_overflow(text):
        return "overflow", False
    if status == 429 or (status is not None and status < 500 and _THROTTLED.search(text)):
        return "rate_limit", not _SPENT.search(text)
    kind = _BY_STATUS.get(status or 0)
    if kind is None:
        kind = "unavailable" if status is None or status >= 500 else "bad_request"
    return kind, kind in RETRIED
