"""``harnessctl review list | show | accept | reject``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from harnessctl import bootstrap
from harnessctl.cli.evidence import tell_evidence
from harnessctl.cli.landing import tell_landed
from harnessctl.cli.output import note, patch, print_json, say, table

if TYPE_CHECKING:
    from harnessctl.review.case import ReviewCase

app = typer.Typer(
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    no_args_is_help=True,
    help="List, read, accept or reject proposals.\n\n"
    "An update drawn from a session waits here until a person decides.",
)

Id = Annotated[str, typer.Argument(metavar="ID", help="The proposal's id, or a unique beginning of it.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command("list")
def list_command(as_json: AsJson = False) -> None:
    """List open proposals, oldest first."""
    from harnessctl.commands.review_list import review_list

    waiting = review_list(bootstrap.store())
    if as_json:
        print_json(waiting.to_json())
        return
    if not waiting.proposals:
        note("no open proposals")
        return
    rows = [(p.id, p.state.value, p.record.risk.level, p.record.summary) for p in waiting.proposals]
    table(("id", "state", "risk", "summary"), rows)


@app.command("show")
def show_command(proposal: Id, as_json: AsJson = False) -> None:
    """Read one proposal: what it says, its evidence with excerpts, its risk and its diff."""
    from harnessctl.commands.review_show import review_show

    case = review_show(bootstrap.store(), proposal)
    if as_json:
        print_json(case.to_json())
    else:
        _tell(case)


@app.command("accept")
def accept_command(
    proposal: Id,
    pin: Annotated[
        bool, typer.Option("--pin", help="Move harness.lock too, so that the next run reads it.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Land a proposal: a new commit on the tip, by its author, committed by you.

    What the harness branch changed in the same entry meanwhile is never overwritten: the proposal then
    stays open and says so.
    """
    from harnessctl.commands.accept import accept

    store = bootstrap.store()
    landed = accept(store, proposal, pin=pin)
    if as_json:
        print_json(landed.to_json())
        return
    say(f"accepted {landed.record.id if landed.record else proposal}")
    tell_landed(landed, store.branch)


@app.command("reject")
def reject_command(
    proposal: Id,
    why: Annotated[str, typer.Option("--why", help="For the record: why not.")] = "",
    as_json: AsJson = False,
) -> None:
    """Decide against a proposal; the decision is kept as a record on the harness branch."""
    from harnessctl.commands.reject import reject

    landed = reject(bootstrap.store(), proposal, why=why)
    if as_json:
        print_json(landed.to_json())
        return
    say(f"rejected; the decision is kept as {landed.commit[:12]}")


def _tell(case: ReviewCase) -> None:
    record = case.record
    say(f"proposal {record.id}  ({case.proposal.state.value})")
    say(f"by       {case.author}" + (f", model {record.model}" if record.model else ""))
    say(f"base     {case.proposal.base[:12]}")
    reasons = f" ({', '.join(record.risk.reasons)})" if record.risk.reasons else ""
    say(f"risk     {record.risk.level}{reasons}\n")
    say(f"{record.summary}\n")
    for title, text in (
        ("why", record.why),
        ("expected", record.expected_outcome),
        ("how to see", record.how_to_see),
    ):
        if text:
            say(f"{title}: {text}")
    if case.proposal.conflicts:
        say("conflict: changed on the branch meanwhile: " + ", ".join(case.proposal.conflicts))
    tell_evidence(record)
    say()
    patch(case.patch.decode("utf-8", "replace"))
