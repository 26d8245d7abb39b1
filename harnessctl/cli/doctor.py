"""``harnessctl doctor``."""

from __future__ import annotations

from typing import Annotated

import typer

from harnessctl.bootstrap import opening
from harnessctl.cli.output import note, print_json, say
from harnessctl.config import read_environment
from harnessctl.domain.errors import ExitCode


def command(
    fix: Annotated[bool, typer.Option("--fix", help="Put right what can be.")] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON array.")] = False,
) -> None:
    """Look for what crashes and other tools leave behind, and say what would put it right.

    Pipes and the like in place of git's files (all else is looked at when those are gone), stale lock
    files, what killed processes left half-written, a damaged HEAD, a branch that lost its harness or cannot
    be read, missing objects, settings of the wrong form, a harness.toml or a pin that cannot be read or does
    not load, proposals that are decided already or cannot be read, refs of sessions that ended, damaged logs,
    kernels that outlived their session (by process id, start time and mark), run state that others can read,
    sockets of sessions that are gone.
    Without --fix nothing is changed. Exit code 1 while something is wrong. What may well be meant is
    listed and leaves it at 0: the ref of a proposal that was decided on elsewhere, a harness.branch without
    a harness.
    """
    from harnessctl.commands.doctor import doctor, strange_files

    environment = read_environment()
    found = strange_files(opening.here())
    if found is None:
        store = opening.store(environment, lenient=True)
        wrong = opening.wrong_settings(environment, store)
        found = doctor(store, fix=fix, machine=True, wrong=wrong)
        for line in opening.unread_settings(environment, store):
            note(f"note: {line}")
    if as_json:
        print_json(found.to_json())
    elif not found.found:
        say("nothing is wrong")
    else:
        for one in found.found:
            say(f"{one.repair.id}: {one.repair.what}")
            if one.fixed:
                say(f"    done: {one.repair.remedy}")
            elif one.failed:
                say(f"    could not {one.repair.remedy}: {one.failed}")
            elif one.repair.act is None:
                say(f"    for you: {one.repair.remedy}")
            else:
                say(f"    would: {one.repair.remedy}")
        if any(one.repair.act and not one.fixed and not one.failed for one in found.found):
            say("harnessctl doctor --fix does what is said after 'would'")
    if found.ill:
        raise typer.Exit(int(ExitCode.FAILED))
