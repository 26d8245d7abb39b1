"""What a kernel holds, by name, type and size, and how a model is told that it is lost."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

#: Names that a model is told when a kernel is lost; the rest is counted.
MOST_TOLD = 40


class Variables:
    """The names in a kernel's namespace, kept up by the changes that each cell's result tells.

    A change is ``{"set": {name: [type, size]}, "gone": [name…], "more": n}``; ``size`` is text and may be
    empty, ``more`` counts names beyond those that are listed.
    """

    def __init__(self) -> None:
        self.known: dict[str, tuple[str, str]] = {}
        self.more = 0

    def change(self, change: Mapping[str, Any] | None) -> None:
        """Take in what one cell changed; None for nothing. A name set again moves to the end."""
        if not change:
            return
        for name in change.get("gone") or ():
            self.known.pop(name, None)
        for name, value in (change.get("set") or {}).items():
            self.known.pop(name, None)
            self.known[name] = (str(value[0]), str(value[1]))
        self.more = int(change.get("more") or 0)

    def forget(self) -> None:
        """The kernel is gone."""
        self.known.clear()
        self.more = 0

    def to_json(self) -> dict[str, list[str]]:
        """``{name: [type, size]}``, as ``repair`` events hold it."""
        return {name: list(value) for name, value in self.known.items()}

    def told(self) -> str:
        """``x (int), df (DataFrame, 3×2)``, newest first; "" when nothing is known."""
        newest = list(reversed(self.known.items()))
        said = [f"{name} ({kind}, {size})" if size else f"{name} ({kind})" for name, (kind, size) in newest]
        left = len(said) - MOST_TOLD + self.more if len(said) > MOST_TOLD else self.more
        more = [f"and {left:,} more"] if left else []
        return ", ".join([*said[:MOST_TOLD], *more])

    def loss(self) -> str:
        """The sentence for a model whose kernel is gone; "" when it held nothing."""
        told = self.told()
        return f"Lost with it: {told}." if told else ""
