"""The system message: base prompt, facts of the session, rendered harness, how to act without a tool."""

from __future__ import annotations

from dataclasses import dataclass
from functools import cache
from importlib.resources import files

from harnessctl.domain.canonical import sha256_hex


@cache
def base_prompt() -> str:
    """The base prompt that ships with the package. Nothing rewrites it."""
    return _text("base_prompt.md")


@cache
def fence_prompt() -> str:
    """How a model without tool calls acts. Last, since a small model heeds best what it read last."""
    return _text("fence_prompt.md")


def _text(name: str) -> str:
    return files("harnessctl.rlm").joinpath(name).read_text(encoding="utf-8").strip()


def base_prompt_digest() -> str:
    """``sha256:`` digest of the base prompt, as it stands in every header."""
    return f"sha256:{sha256_hex(base_prompt().encode())}"


@dataclass(frozen=True, slots=True)
class SessionFacts:
    """What the model is told about where it works."""

    root: str
    python: str
    protocol: str


def sections(facts: SessionFacts, harness: str, files: str = "", role: str = "") -> dict[str, str]:
    """The parts of the system message by name, in their order; parts with nothing in them are left out.

    :param harness: the rendered section, "" for an empty harness.
    :param files: the section on the repository's own files, "" for none.
    :param role: what a child is told of its place, with the subagent that it works as.
    """
    tool = facts.protocol == "tool"
    session = f"# Session\nRepository: {facts.root}\nPython: {facts.python}"
    if tool:
        session += "\nYou have the tool ipython."
    parts = {
        "base prompt": base_prompt(),
        "session": session,
        "role": role,
        "repository files": files,
        "harness": harness,
        "how to act": "" if tool else fence_prompt(),
    }
    return {name: text for name, text in parts.items() if text}


def system_message(facts: SessionFacts, harness: str, files: str = "", role: str = "") -> str:
    """The whole system message; parameters as :func:`sections`."""
    return "\n\n".join(sections(facts, harness, files, role).values())
