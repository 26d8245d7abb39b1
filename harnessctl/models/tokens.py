"""Estimated token counts, for reserves and for providers that report no usage. No network, no tokenizer."""

from __future__ import annotations

import math
import re
from functools import lru_cache

from harnessctl.domain.limits import MOST_TOKENS, Usage
from harnessctl.domain.message import Message
from harnessctl.layers.l0_weights import Price

#: Bytes of UTF-8 a token. Measured over this project's own code and prose with cl100k and o200k: 3.6 to
#: 4.4; the low end, since a reserve should rather be too large.
BYTES_PER_TOKEN = 3.5
#: What a tokenizer seldom goes beyond with one token: a word in one case, three digits, two signs, an indent,
#: a letter or sign that is not ASCII. In digests, identifiers, tables and other scripts there are more of
#: these than bytes would tell. A line's end goes with all white space after it; what begins one always
#: matches, so that no run of it is looked through twice.
_PIECE = re.compile(
    r"[A-Z]?[a-z]{1,9}|[A-Z]{1,3}|[0-9]{1,3}|[!-/:-@\[-`{-~]{1,2}|[ \t]{2,}"
    r"|[\n-\r\x1c-\x1f]\s*|[^\x00-\x7f]"
)
#: Beyond the Basic Multilingual Plane (emoji among others) a character takes two to three tokens.
_ASTRAL = re.compile("[\U00010000-\U0010ffff]")
#: Characters that are looked at; of longer texts a part speaks for the rest.
LOOKED_AT = 200_000
#: What a message costs beside its text: role and separators (OpenAI's cookbook says 3 to 4).
PER_MESSAGE = 4


def estimate_text(text: str) -> int:
    """Estimated tokens of ``text``: by its bytes, or by its pieces where there are more."""
    by_bytes = len(text.encode("utf-8", "surrogatepass")) / BYTES_PER_TOKEN
    return math.ceil(max(by_bytes, _pieces(text)))


@lru_cache(maxsize=1024)
def _pieces(text: str) -> float:
    """Cached: what leaves a view is counted again when it does."""
    if len(text) <= LOOKED_AT:
        return len(_PIECE.findall(text)) + 1.5 * len(_ASTRAL.findall(text))
    part, third = LOOKED_AT // 3, len(text) // 3
    parts = [text[at : at + part] for at in (0, third, len(text) - part)]
    return sum(map(_pieces, parts)) * len(text) / (3 * part)


@lru_cache(maxsize=4096)
def estimate_message(message: Message) -> int:
    """Estimated tokens of one message, calls included. Cached: a conversation only grows at its end."""
    calls = sum(estimate_text(c.name) + estimate_text(c.arguments) for c in message.calls)
    return PER_MESSAGE + estimate_text(message.content) + calls


def estimate_messages(messages: tuple[Message, ...]) -> int:
    """Estimated tokens of a request's messages."""
    return sum(estimate_message(m) for m in messages)


def cost(price: Price | None, prompt: int, completion: int, cached: int = 0) -> float | None:
    """US dollars of one call; ``cached`` is the part of ``prompt`` read from a cache. None: price unknown."""
    if price is None:
        return None
    cached_price = price.prompt if price.cached is None else price.cached
    dollars = (prompt - cached) * price.prompt + cached * cached_price + completion * price.completion
    return dollars / 1_000_000


def priced(
    price: Price | None, prompt: int, completion: int, *, cached: int = 0, estimated: bool = False
) -> Usage:
    """Usage of one call with its cost; a provider's count is taken as far as it can be one."""
    prompt, completion, cached = (min(max(count, 0), MOST_TOKENS) for count in (prompt, completion, cached))
    return Usage(prompt, completion, cached, 1, cost(price, prompt, completion, cached), estimated)
