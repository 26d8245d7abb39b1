"""How a record's evidence is told; the same words in ``review show`` and ``show --evidence``."""

from __future__ import annotations

from typing import TYPE_CHECKING

from harnessctl.cli.output import say

if TYPE_CHECKING:
    from harnessctl.domain.update import Record


def tell_evidence(record: Record) -> None:
    """Cited events by address, the log's head, quotes and excerpts; a line that says so for none."""
    if not record.evidence:
        say("\nno evidence: a person's own" if record.actor.kind == "human" else "\nno evidence")
    for evidence in record.evidence:
        cited = ", ".join(f"{evidence.session}#{n}" for n in evidence.events)
        say(f"\nevidence {cited}")
        say(f"  log head {evidence.head_n} sha256:{evidence.head_hash}")
        for quote in evidence.quotes:
            say(f'  quote: "{quote}"')
        for event in evidence.excerpt:
            say(f"  #{event.n}" + (" (cut)" if event.cut else ""))
            say("\n".join(f"    {line}" for line in event.text.rstrip("\n").split("\n")))
