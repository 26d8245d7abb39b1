"""``harnessctl log | blame | diff``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from harnessctl.bootstrap import opening, reading
from harnessctl.cli.output import note, patch, print_json, say

if TYPE_CHECKING:
    from harnessctl.commands.diff import EntryDifference
    from harnessctl.layers.l3_durable.history.blaming import Line, Origin
    from harnessctl.layers.l3_durable.history.updates import Update


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

    found = log(opening.store(), entry=entry or None, session=session or None, states=state or ())
    updates = found.updates[:number] if number else found.updates
    if as_json:
        print_json([update.to_json() for update in updates])
        return
    if not updates:
        note("no updates")
    for update in updates:
        _tell(update)


def blame_command(
    entry: Annotated[str, typer.Argument(metavar="ENTRY", help="An entry's id, as in memory/build.")],
    at: Annotated[str, typer.Option("--at", metavar="REV", help="At this revision instead of the pin.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Where each line of an entry came from: update, session and events, model, who let it in.

    Commits are those that git blame names. A line that a rollback brought back is told with the update
    it came from at first. The events are read with harnessctl sessions show, or show --evidence UPDATE.
    """
    from harnessctl.commands.blame import blame

    found = blame(opening.store(), entry, at=at or None)
    if as_json:
        print_json(found.to_json())
        return
    rows = [_blamed(line) for line in found.lines]
    widths = [max((len(row[n]) for row in rows), default=0) for n in range(3)]
    for row in rows:
        say("  ".join([*(row[n].ljust(widths[n]) for n in range(3)), row[3]]).rstrip())
    seen = {o.commit.id: o for line in found.lines for o in (line.restored, line.origin) if o}
    if seen:
        say()
    for origin in seen.values():
        _tell_origin(origin)


def _blamed(line: Line) -> tuple[str, str, str, str]:
    origin = line.restored or line.origin
    name = " ".join(record.id for record in origin.records) or f"(commit {origin.commit.id[:12]})"
    return name, origin.accepter.name, str(line.n), line.text


def _tell_origin(origin: Origin) -> None:
    from harnessctl.commands.blame import events_of

    names = ", ".join(record.id for record in origin.records) or "by hand, without a record"
    cut = " (history ends here: a shallow clone)" if origin.cut else ""
    say(f"{origin.commit.id[:12]} {names}{cut}")
    for record in origin.records:
        say(f"    {record.summary}")
        if record.model:
            say(f"    model {record.model}")
    for address in events_of(origin):
        say(f"    {address}")
    say(f"    {origin.commit.author.name}, let in by {origin.accepter.name}")


def diff_command(
    before: Annotated[str, typer.Argument(metavar="[BEFORE]", help="A revision; by default the pin.")] = "",
    after: Annotated[
        str, typer.Argument(metavar="[AFTER]", help="A revision; by default the landed tip.")
    ] = "",
    entry: Annotated[str, typer.Option("--entry", help="Only this entry.")] = "",
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """What differs between two revisions' entries, and what that does to the prompt.

    Without arguments: from the pin to the landed tip, which is what the next run does not read yet.
    Each entry with its estimated tokens and where the prompt has it: full, line (its description), or
    search. Then the unified diff, which git apply takes.
    """
    found = reading.diff(before or None, after or None, entry or None)
    if as_json:
        print_json(found.to_json())
        return
    if not found.files:
        note("no difference")
        return
    for change in found.changes:
        say(_changed(change))
    prompt = found.prompt
    say(f"rendered harness: {prompt[0]} -> {prompt[1]} tokens ({prompt[1] - prompt[0]:+d})\n")
    patch(found.patch.decode("utf-8", "replace"))


def _changed(change: EntryDifference) -> str:
    before, after = change.before or 0, change.after or 0
    places = [place.value for place in (change.shown_before, change.shown_after) if place]
    shown = f", shown {' -> '.join(dict.fromkeys(places))}" if places else ""
    return f"{change.action} {change.id}: {before} -> {after} tokens ({after - before:+d}){shown}"


def _tell(update: Update) -> None:
    record = update.record
    state = update.state.value if update.state else "unrecorded"
    say(f"{update.commit.id[:12]} {state:<10} {update.id or ''}".rstrip())
    # One line each: text of a record must not look like lines of ours.
    say(f"    {' '.join((record.summary if record else update.commit.subject).split())}")
    if update.entries:
        say("    " + ", ".join(update.entries))
    for evidence in record.evidence if record else ():
        say(f"    from {evidence.session}" + (f" by {record.model}" if record and record.model else ""))
    who = f"    {update.commit.author.name}"
    if update.accepter and update.accepter.name != update.commit.author.name:
        rejected = state == "rejected"
        who += f", {'rejected' if rejected else 'let in'} by {update.accepter.name}"
    say(who)
