"""``harnessctl refine``: options in, the proposal or its absence out."""

from __future__ import annotations

from typing import Annotated

import typer

from harnessctl import bootstrap
from harnessctl.cli.output import note, print_json, say
from harnessctl.commands.refine import RefineOutcome


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
    outcome = bootstrap.refine(session=session or None, model=model or None)
    if as_json:
        print_json(outcome.to_json())
    else:
        _tell(outcome)


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
