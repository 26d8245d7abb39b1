"""``prompt``: the system message that a run would send now, and where each entry went in it."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping
from dataclasses import dataclass

from harnessctl.domain.finding import Finding
from harnessctl.domain.pin import Pin
from harnessctl.domain.snapshot import Snapshot
from harnessctl.layers.l1_context.harness import Rendered, render_harness
from harnessctl.layers.l1_context.repository_files import RepositoryText
from harnessctl.layers.l1_context.tokens import careful_tokens
from harnessctl.rlm.prompt import SessionFacts, sections


@dataclass(frozen=True)
class ShownPrompt:
    """A system message, taken apart.

    :ivar parts: text by name, in order.
    :ivar budget: tokens that the harness may take.
    :ivar notes: what was assumed, because it is not settled before a run.
    :ivar broken: what the revision holds that cannot be read; a run refuses it.
    """

    pin: Pin
    facts: SessionFacts
    parts: Mapping[str, str]
    harness: Rendered
    files: RepositoryText
    budget: int
    notes: tuple[str, ...] = ()
    broken: tuple[Finding, ...] = ()

    @property
    def text(self) -> str:
        """The message as it is sent."""
        return "\n\n".join(self.parts.values())

    @property
    def tokens(self) -> Mapping[str, int]:
        """Estimated tokens of each part."""
        return {name: careful_tokens(text) for name, text in self.parts.items()}

    @property
    def total(self) -> int:
        """Estimated tokens of all parts."""
        return sum(self.tokens.values())

    @property
    def places(self) -> Mapping[str, int]:
        """How many entries are where: ``full``, ``line``, ``search``."""
        return Counter(item.place.value for item in self.harness.items)

    def to_json(self) -> dict[str, object]:
        """As ``prompt --json`` prints it; token counts are estimates."""
        return {
            "pin": self.pin.to_json(),
            "protocol": self.facts.protocol,
            "python": self.facts.python,
            "text": self.text,
            "tokens": {**self.tokens, "total": self.total, "budget": self.budget},
            "entries": [item.to_json() for item in self.harness.items],
            "repository_files": [file.to_json() for file in self.files.files],
            "left_out": list(self.files.left_out),
            "notes": list(self.notes),
        }


def prompt(
    snapshot: Snapshot,
    pin: Pin,
    facts: SessionFacts,
    *,
    tokens: int,
    files: RepositoryText,
    notes: tuple[str, ...] = (),
) -> ShownPrompt:
    """The message for ``snapshot``.

    :param tokens: budget of the rendered harness.
    """
    rendered = render_harness(snapshot.entries.values(), tokens)
    parts = sections(facts, rendered.text, files.text)
    return ShownPrompt(pin, facts, parts, rendered, files, tokens, notes, snapshot.broken)
