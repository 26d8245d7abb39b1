"""``harnessctl verify``."""

from __future__ import annotations

from typing import Annotated

import typer

from harnessctl.bootstrap import reading
from harnessctl.cli.output import note, print_json, say
from harnessctl.domain.errors import ExitCode, UsageError

_WORDS = {"ok": "ok", "excerpt_only": "excerpt only", "mismatch": "mismatch", "no_log": "no log"}


def command(
    update: Annotated[
        str, typer.Argument(metavar="[UPDATE]", help="An update's id, the beginning of it, or its commit.")
    ] = "",
    everything: Annotated[bool, typer.Option("--all", help="Every update and decision.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON array.")] = False,
) -> None:
    """Recompute what an update's record says, and hold it against trees and logs.

    Entry digests before and after, the record's form and whether it was changed since it landed, the
    log's hash chain and its head, the cited events, quotes and excerpts. One answer for each:

    \b
        ok            everything stands
        excerpt only  the session's log is not on this machine; the record's own excerpt is what there is
        no log        neither log nor excerpt
        mismatch      something differs; the event or the record's field is named, and the exit code is 1
    """
    if bool(update) == everything:
        raise UsageError("name an update, or --all", id="usage", hint="harnessctl log lists updates")
    found = reading.verify(update or None)
    if as_json:
        print_json(found.to_json())
    elif not found.answers:
        note("no updates")
    else:
        for one in found.answers:
            say(f"{one.update}  {_WORDS[one.answer.value]}" + (f"  ({one.note})" if one.note else ""))
            for problem in one.problems:
                say(f"    {problem}")
    if found.failed:
        raise typer.Exit(int(ExitCode.FAILED))
