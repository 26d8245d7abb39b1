"""State layer L0: the model's weights, known here only by their identity. Recorded, never changed."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Price:
    """US dollars for a million tokens."""

    prompt: float
    completion: float
    cached: float | None = None


@dataclass(frozen=True, slots=True)
class ModelIdentity:
    """Who answers.

    :ivar provider: ``openai``, ``anthropic``, ``local``, ``scripted``, …
    :ivar name: the provider's name for the model.
    :ivar window: tokens a request and its reply may take together, None when unknown.
    :ivar max_output: tokens one reply may take, None when unknown.
    :ivar price: None when unknown.
    :ivar tools: whether the model is offered the ``ipython`` tool; without it, it answers with one
        fenced Python block.
    """

    provider: str
    name: str
    window: int | None = None
    max_output: int | None = None
    price: Price | None = None
    tools: bool = True

    def __str__(self) -> str:
        return f"{self.provider}/{self.name}"

    def to_json(self) -> dict[str, object]:
        """The identity as it stands in a session's header."""
        return {
            "provider": self.provider,
            "name": self.name,
            "window": self.window,
            "max_output": self.max_output,
            "price": None
            if self.price is None
            else {
                "prompt": self.price.prompt,
                "completion": self.price.completion,
                "cached": self.price.cached,
            },
            "tools": self.tools,
        }
