"""Budgets and usage: what a run may spend and what it spent."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, fields
from typing import Any

#: What a setting may be at most. Event logs hold no larger number: arithmetic with floats would fail.
MOST = 2**53
#: Tokens of one request at most, whatever a provider or a script says: sums stay below :data:`MOST`.
MOST_TOKENS = 10**12


@dataclass(frozen=True, slots=True)
class Limits:
    """Limits of one run over its whole tree of sessions; None means no limit.

    :ivar turns: model turns of one session.
    :ivar tokens: prompt + completion tokens, cached ones included, over the tree.
    :ivar cost_usd: US dollars over the tree.
    :ivar wall_s: seconds of wall clock.
    :ivar depth: levels of children below the root.
    :ivar children: children over the tree.
    :ivar cell_s: seconds one cell may run.
    """

    turns: int | None = 50
    tokens: int | None = None
    cost_usd: float | None = None
    wall_s: float | None = None
    depth: int = 2
    children: int | None = 16
    cell_s: float = 600.0

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Limits:
        """Limits as a session's header states them; unknown keys of later versions are left out."""
        known = {field.name for field in fields(cls)}
        return cls(**{key: value for key, value in data.items() if key in known})


@dataclass(frozen=True, slots=True)
class Usage:
    """Tokens and cost, addable.

    :ivar estimated: at least one part was estimated because the provider gave no usage.
    :ivar cost_usd: None when the price is unknown for at least one call.
    """

    prompt: int = 0
    completion: int = 0
    cached: int = 0
    calls: int = 0
    cost_usd: float | None = 0.0
    estimated: bool = False

    def __add__(self, other: Usage) -> Usage:
        cost = None if self.cost_usd is None or other.cost_usd is None else self.cost_usd + other.cost_usd
        return Usage(
            self.prompt + other.prompt,
            self.completion + other.completion,
            self.cached + other.cached,
            self.calls + other.calls,
            cost,
            self.estimated or other.estimated,
        )

    @property
    def tokens(self) -> int:
        """Prompt + completion: what the token budget counts."""
        return self.prompt + self.completion

    def to_json(self) -> dict[str, object]:
        """Usage as it stands in events and in ``result.json``."""
        return {
            "prompt": self.prompt,
            "completion": self.completion,
            "cached": self.cached,
            "calls": self.calls,
            "tokens": self.tokens,
            "cost_usd": self.cost_usd,
            "estimated": self.estimated,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Usage:
        """Inverse of :meth:`to_json`; what is missing counts as nothing."""
        cost = data.get("cost_usd", 0.0)
        return cls(
            prompt=int(data.get("prompt") or 0),
            completion=int(data.get("completion") or 0),
            cached=int(data.get("cached") or 0),
            calls=int(data.get("calls") or 0),
            cost_usd=None if cost is None else float(cost),
            estimated=bool(data.get("estimated")),
        )
