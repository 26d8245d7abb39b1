"""``harnessctl pin | rollback``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from harnessctl import bootstrap
from harnessctl.cli.landing import tell_landed
from harnessctl.cli.output import print_json, say

if TYPE_CHECKING:
    from harnessctl.commands.rollback import RolledBack

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def pin_command(
    rev: Annotated[str, typer.Argument(metavar="[REV]", help="A landed revision; by default the tip.")] = "",
    resolve: Annotated[
        bool, typer.Option("--resolve", help="Settle merge-conflict markers in harness.lock.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Move harness.lock, the revision that runs read.

    Without REV: to the landed tip. Only landed revisions can be pinned. Where the pin is now: harnessctl
    status.
    """
    from harnessctl.commands.pin import pin

    done = pin(bootstrap.store(), rev or None, resolve=resolve)
    if as_json:
        print_json(done.to_json())
        return
    before = f" (was {done.before.commit[:12]})" if done.before else ""
    say(f"harness.lock pins {done.lock.commit[:12]} of '{done.lock.branch}'{before}: the next run reads it")


def rollback_command(
    rev: Annotated[str, typer.Argument(metavar="REV", help="The revision to go back to.")],
    include: Annotated[
        list[str] | None,
        typer.Option(
            "--include", metavar="ID", help="Take this entry back although a person edited it since."
        ),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """Take entries back to what they were at REV, by a new commit; the lock moves to it.

    History is never rewritten, so a rollback can be undone like any other update. Entries that a human
    owns, policy, gates and records stay as they are today; a person's later edit blocks unless named.
    """
    from harnessctl.commands.rollback import rollback

    store = bootstrap.store()
    done = rollback(store, rev, include=include or ())
    if as_json:
        print_json(done.to_json())
    else:
        _tell(done, store.branch)


def _tell(done: RolledBack, branch: str) -> None:
    count = len(done.takes_back)
    say(f"took back {count} update{'' if count == 1 else 's'}")
    for update in done.takes_back:
        say(f"  {update}")
    tell_landed(done.landed, branch)
    for entry in done.kept:
        say(f"stays as it is, a human owns it: {entry}")
    for entry in done.dependants:
        say(f"depends on what went: {entry}")
    for session in done.sessions:
        say(f"a running session read what went, and stops at its next turn: {session}")
