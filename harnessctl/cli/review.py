"""``harnessctl review list | show | accept | edit | reject | rebase | pr``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from harnessctl.bootstrap import opening
from harnessctl.cli.evidence import tell_evidence
from harnessctl.cli.landing import tell_landed, tell_unsigned
from harnessctl.cli.output import note, patch, print_json, say, table

if TYPE_CHECKING:
    from harnessctl.layers.l3_durable.landing.reworking import Reworked
    from harnessctl.review.case import ReviewCase

app = typer.Typer(
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    no_args_is_help=True,
    help="List, read, accept, edit, rebase or reject proposals; offer one as a pull request.\n\n"
    "An update drawn from a session waits here until a person decides.",
)

Id = Annotated[str, typer.Argument(metavar="ID", help="The proposal's id, or a unique beginning of it.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


@app.command("list")
def list_command(as_json: AsJson = False) -> None:
    """List open proposals, oldest first."""
    from harnessctl.commands.review_list import review_list

    waiting = review_list(opening.store())
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

    case = review_show(opening.store(), proposal)
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

    store = opening.store()
    landed = accept(store, proposal, pin=pin)
    if as_json:
        print_json(landed.to_json())
        return
    tell_landed(landed, store, "accepted")
    if pin and landed.lock is None:
        note("there is no harness.lock to move: unpinned runs follow the branch's tip")


@app.command("reject")
def reject_command(
    proposal: Id,
    why: Annotated[str, typer.Option("--why", help="For the record: why not.")] = "",
    as_json: AsJson = False,
) -> None:
    """Decide against a proposal; the decision is kept as a record on the harness branch."""
    from harnessctl.commands.reject import reject

    store = opening.store()
    landed = reject(store, proposal, why=why)
    if as_json:
        print_json(landed.to_json())
        return
    say(f"rejected; the decision is kept as {landed.commit[:12]}")
    tell_unsigned(store)


@app.command("edit")
def edit_command(proposal: Id, as_json: AsJson = False) -> None:
    """Change what a proposal proposes, in $VISUAL or $EDITOR, before it lands.

    The result is checked as a landing would be. What is wrong with it is said, the text is kept, and it
    can be edited again. Where the branch changed the same entry meanwhile, the lines of both stand between
    <<<<<<< and >>>>>>>, and what you make of them is put on the branch's tip; what the proposal deletes is
    there as the branch has it, and goes if you take the file away. The record then says that you edited it;
    the evidence stays, and it stays the agent's update: 'status: verified' wants a passed gate in its
    evidence, or your own edit after landing.
    """
    from harnessctl.cli.editing import edit_until_saved, tell_draft
    from harnessctl.commands.review_edit import editing_draft, save_draft, settles
    from harnessctl.commands.review_rebase import reworked_json

    store = opening.store()
    with editing_draft(store, proposal) as draft:
        tell_draft(draft)
        if settles(draft):
            note("the branch changed the same entries: choose where lines of both stand between marks, and")
            note("take away the files of what shall be deleted all the same")
        done = edit_until_saved(store.place.environment.editor, draft.paths, lambda: save_draft(store, draft))
    if as_json:
        print_json(reworked_json(done))
    else:
        _tell_reworked(done, "edited")


@app.command("rebase")
def rebase_command(proposal: Id, as_json: AsJson = False) -> None:
    """Put a proposal on the landed tip, after the branch moved on.

    Entries that only one side changed are taken as they are. In an entry that both changed, lines are
    merged where they don't overlap, and the entry is named, so that you read it again; where they do,
    nothing is changed and the files are named.
    """
    from harnessctl.commands.review_rebase import review_rebase, reworked_json

    done = review_rebase(opening.store(), proposal)
    if as_json:
        print_json(reworked_json(done))
    else:
        _tell_reworked(done, "rebased")


@app.command("pr")
def pr_command(proposal: Id, as_json: AsJson = False) -> None:
    """Push a proposal as branch harness-proposals/ID, to be reviewed as a pull request.

    With your git and your credentials. However it is merged there, squashed or not, the next sync or
    fetch shows it as landed: the record travels with it.
    """
    from harnessctl.commands.review_pr import review_pr

    done = review_pr(opening.store(), proposal)
    if as_json:
        print_json(done.to_json())
        return
    say(f"pushed {done.commit[:12]} to {done.remote} as {done.branch}")
    say(f"open a pull request from {done.branch} into {done.into}" + (f": {done.url}" if done.url else ""))


def _tell_reworked(done: Reworked, how: str) -> None:
    say(f"{how} {done.proposal.id}: now {done.proposal.commit[:12]} on {done.proposal.base[:12]}")
    for change in done.proposal.record.entries:
        say(f"  {change.action} {change.id}")
    for entry in done.settled:
        say(f"on the branch already, left out: {entry}")
    for entry in done.merged:
        say(f"lines of both sides were merged, read it again: {entry}")


def _tell(case: ReviewCase) -> None:
    from harnessctl.layers.l3_durable.rules.catalogue import RISKS

    record = case.record
    say(f"proposal {record.id}  ({case.proposal.state.value})")
    say(f"by       {case.author}" + (f", model {record.model}" if record.model else ""))
    say(f"base     {case.proposal.base[:12]}")
    say(f"risk     {record.risk.level}")
    for reason in record.risk.reasons:
        say(f"         {reason}" + (f": {RISKS[reason].text}" if reason in RISKS else ""))
    say()
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
