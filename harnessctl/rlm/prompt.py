"""The system message: base prompt, facts of the session, rendered harness."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from harnessctl.domain.canonical import sha256_hex


@cache
def base_prompt() -> str:
    """The base prompt that ships with the package. Nothing rewrites it."""
    return files("harnessctl.rlm").joinpath("base_prompt.md").read_text(encoding="utf-8").strip()


def base_prompt_digest() -> str:
    """``sha256:`` digest of the base prompt, as it stands in every header."""
    return f"sha256:{sha256_hex(base_prompt().encode())}"


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """What the model is told about where it works."""

    root: str
    python: str
    protocol: str


def system_message(facts: SessionFacts, harness: str) -> str:
    """The whole system message; ``harness`` is the rendered section, "" for an empty harness."""
    way = (
        "You have the tool ipython."
        if facts.protocol == "tool"
        else "You have no tool: write one ```python block to run code."
    )
    session = f"# Session\nRepository: {facts.root}\nPython: {facts.python}\n{way}"
    return "\n\n".join(part for part in (base_prompt(), session, harness) if part)
