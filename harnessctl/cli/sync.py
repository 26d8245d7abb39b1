"""``harnessctl sync``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from harnessctl.bootstrap import opening
from harnessctl.cli.output import print_json, say

if TYPE_CHECKING:
    from harnessctl.layers.l3_durable.landing.syncing import Synced


def command(as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False) -> None:
    """Fetch the harness branch from its remote, then fast-forward it or push it.

    With your git and your credentials; programs that the repository's own configuration names do not
    run. Nothing is forced: where both sides have commits of their own, it says so and moves nothing.
    Open proposals stay here (harnessctl review pr offers one). In-tree, your branch is only fetched
    and compared.
    """
    from harnessctl.commands.sync import sync

    done = sync(opening.store())
    if as_json:
        print_json(done.to_json())
    else:
        _tell(done)


def _tell(done: Synced) -> None:
    if done.waiting is not None:
        behind, ahead = done.waiting
        if not behind and not ahead:
            say(f"'{done.branch}' is as on {done.remote}")
        if behind:
            say(f"{_commits(behind)} on {done.remote} to take in: git pull")
        if ahead:
            say(f"{_commits(ahead)} here to send: git push")
        return
    if done.taken:
        say(f"took {_commits(done.taken)} from {done.remote}: '{done.branch}' is at {done.tip[:12]}")
    if done.given:
        say(f"pushed {_commits(done.given)} to {done.remote}: '{done.branch}' is at {done.tip[:12]}")
    if not done.taken and not done.given:
        say(f"'{done.branch}' is as on {done.remote}, at {done.tip[:12]}")


def _commits(count: int) -> str:
    return f"{count} commit{'' if count == 1 else 's'}"
