"""``harnessctl refine``: options in, the proposal or its absence out."""

from __future__ import annotations

import sys
from typing import Annotated, Any, Self

import typer

from harnessctl.bootstrap import refining
from harnessctl.cli.output import note, print_json, say
from harnessctl.commands.refine import RefineOutcome
from harnessctl.domain.safe_text import visible


def command(
    session: Annotated[
        str, typer.Argument(help="Session id or its unique beginning; the newest run by default.")
    ] = "",
    model: Annotated[
        str, typer.Option("--model", help="Model that reads the log; by default the configured one.")
    ] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Turn a session's log into a proposal.

    One model call reads the log, a second one only mends a reply that cannot be used. The proposal
    waits for review; nothing that runs read changes. Exit 6: a cited event holds a secret.
    """
    with Steps(live=not as_json and sys.stderr.isatty(), silent=as_json) as steps:
        outcome = refining.refine(
            session=session or None, model=model or None, on_progress=steps.progress, tell=steps.tell
        )
    if as_json:
        print_json(outcome.to_json())
    else:
        _tell(outcome)


class Steps:
    """What goes on meanwhile: one line that changes on a terminal, a line for each step elsewhere."""

    def __init__(self, *, live: bool, silent: bool) -> None:
        self._live, self._silent = live, silent
        self._over: set[str] = set()

    def __enter__(self) -> Self:
        self._line: Any = None
        if self._live:
            from rich.console import Console

            self._line = Console(stderr=True, highlight=False).status("", spinner="dots")
            self._line.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._line is not None:
            self._line.stop()

    def tell(self, text: str) -> None:
        """A step has begun."""
        if self._line is not None:
            from rich.text import Text

            self._line.update(Text(visible(text), style="dim"))
        elif not self._silent:
            note(text)

    def progress(self, what: str, done: int, total: int) -> None:
        """How far something long is, such as loading a model; elsewhere than on a terminal, its end."""
        if self._line is not None:
            self.tell(f"{what} {100 * done // total} %" if total else what)
        elif total and done >= total and what not in self._over:
            self._over.add(what)
            self.tell(f"{what}: done")


def _tell(outcome: RefineOutcome) -> None:
    for line in outcome.notes:
        note(line)
    record = outcome.record
    if record is None:
        say(f"nothing to learn from session {outcome.session}")
        return
    say(f"proposed {record.id}: {record.summary}")
    for change in record.entries:
        say(f"  {change.action} {change.id}")
    cited = sum(len(evidence.events) for evidence in record.evidence)
    say(f"  evidence: {cited} event{'' if cited == 1 else 's'} of session {outcome.session}")
    say(
        f"  risk: {record.risk.level}"
        + (f" ({', '.join(record.risk.reasons)})" if record.risk.reasons else "")
    )
    say(f"read it: harnessctl review show {record.id}")
