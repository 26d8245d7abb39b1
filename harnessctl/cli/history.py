"""``harnessctl log | diff``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from harnessctl import bootstrap
from harnessctl.cli.output import note, patch, print_json, say

if TYPE_CHECKING:
    from harnessctl.layers.l3_durable.updates import Update


def log_command(
    entry: Annotated[str, typer.Argument(metavar="[ENTRY]", help="Only updates of this entry.")] = "",
    session: Annotated[str, typer.Option("--session", help="Only updates drawn from this session.")] = "",
    state: Annotated[
        list[str] | None,
        typer.Option(
            "--state",
            help="Only these: open, conflict, landed, rejected, taken_back, unrecorded; may be given again.",
        ),
    ] = None,
    number: Annotated[int, typer.Option("-n", "--number", min=0, help="At most so many; 0: all.")] = 0,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON array.")] = False,
) -> None:
    """Updates with their state: open proposals first, then newest first.

    Each says from which session and model it was drawn, and who let it in. States are derived from refs
    and records, so they hold after squash merges and reverts too.
    """
    from harnessctl.commands.log import log

    found = log(bootstrap.store(), entry=entry or None, session=session or None, states=state or ())
    updates = found.updates[:number] if number else found.updates
    if as_json:
        print_json([update.to_json() for update in updates])
        return
    if not updates:
        note("no updates")
    for update in updates:
        _tell(update)


def diff_command(
    before: Annotated[str, typer.Argument(metavar="[BEFORE]", help="A revision; by default the pin.")] = "",
    after: Annotated[
        str, typer.Argument(metavar="[AFTER]", help="A revision; by default the landed tip.")
    ] = "",
    entry: Annotated[str, typer.Option("--entry", help="Only this entry.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """What differs between two revisions' entries, as a unified diff.

    Without arguments: from the pin to the landed tip, which is what the next run does not read yet.
    """
    from harnessctl.commands.diff import diff

    found = diff(bootstrap.store(), before or None, after or None, entry=entry or None)
    if as_json:
        print_json(found.to_json())
    elif found.files:
        patch(found.patch.decode("utf-8", "replace"))
    else:
        note("no difference")


def _tell(update: Update) -> None:
    record = update.record
    state = update.state.value if update.state else "unrecorded"
    say(f"{update.commit.id[:12]} {state:<10} {update.id or ''}".rstrip())
    say(f"    {record.summary if record else update.commit.subject}")
    if update.entries:
        say("    " + ", ".join(update.entries))
    for evidence in record.evidence if record else ():
        say(f"    from {evidence.session}" + (f" by {record.model}" if record and record.model else ""))
    who = f"    {update.commit.author.name}"
    if update.accepter and update.accepter.name != update.commit.author.name:
        rejected = state == "rejected"
        who += f", {'rejected' if rejected else 'let in'} by {update.accepter.name}"
    say(who)
