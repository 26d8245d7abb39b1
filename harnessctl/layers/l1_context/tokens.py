"""A rough count of tokens that needs no model and no file, for budgets that must be deterministic."""

from __future__ import annotations

#: Bytes of UTF-8 a token takes in English prose and code, by the tokenizers of 2023 and later.
BYTES_A_TOKEN = 4


def rough_tokens(text: str) -> int:
    """Estimated tokens of ``text``, rounded up."""
    return -(-len(text.encode("utf-8", "surrogatepass")) // BYTES_A_TOKEN)
