"""What an error's status and text mean."""

from __future__ import annotations

import pytest

from harnessctl.models.failures import classify, is_overflow

OVERFLOWS = [
    "This model's maximum context length is 262144 tokens. However, you requested 0 output tokens and your "
    "prompt contains at least 262145 input tokens, for a total of at least 262145 tokens.",
    "context_length_exceeded",
    "Your input exceeds the context window of this model.",
    "prompt is too long: 213462 tokens > 200000 maximum",
    "Input is too long for requested model.",
    "The input token count (1196265) exceeds the maximum number of tokens allowed (1048575).",
    "This model's maximum prompt length is 131072 but the request contains 537812 tokens.",
    "Please reduce the length of the messages or completion.",
    "the request exceeds the available context size, try increasing it",
    "The number of tokens to keep from the initial prompt is greater than the context length.",
    "Prompt contains 40000 tokens, too large for model with 32768 maximum context length",
    "Your request exceeded model token limit: 262144",
    "`inputs` tokens + `max_new_tokens` must be <= 4096",
]
NOT_OVERFLOWS = [
    "Throttling error: Too many tokens, please wait before trying again.",
    "Rate limit reached for gpt-4o: maximum context length is not the matter, tokens per min are",
    "max_tokens is too large: 5000. This model supports at most 4096 completion tokens.",
    "Invalid 'messages': empty array.",
    "Too many tokens",
]


@pytest.mark.parametrize("text", OVERFLOWS)
def test_overflow_is_recognised(text: str) -> None:
    """Each provider's own words."""
    assert classify(400, text) == ("overflow", False)


@pytest.mark.parametrize("text", NOT_OVERFLOWS)
def test_other_talk_of_tokens_is_not_overflow(text: str) -> None:
    """Shortening the conversation would not help."""
    assert not is_overflow(text)


def test_a_429_is_never_overflow() -> None:
    """Whatever it says about lengths."""
    assert classify(429, "maximum context length is 8 tokens; slow down") == ("rate_limit", True)


@pytest.mark.parametrize(
    ("status", "text", "kind", "again"),
    [
        (429, "slow down", "rate_limit", True),
        (429, "You exceeded your current quota", "rate_limit", False),
        (400, "Throttling error: Too many tokens", "rate_limit", True),
        (402, "pay", "auth", False),
        (404, "no model", "not_found", False),
        (409, "conflict", "unavailable", True),
        (422, "odd", "bad_request", False),
        (500, "oops", "unavailable", True),
        (None, "connection refused", "unavailable", True),
    ],
)
def test_kinds(status: int | None, text: str, kind: str, again: bool) -> None:
    """Status first, text where providers misuse it."""
    assert classify(status, text) == (kind, again)
