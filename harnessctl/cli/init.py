"""``harnessctl init``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from harnessctl.bootstrap import opening
from harnessctl.cli.landing import tell_pushed, tell_unsigned, tell_written
from harnessctl.cli.output import print_json, say
from harnessctl.commands.init import Initialised, init
from harnessctl.domain.pin import Mode

if TYPE_CHECKING:
    from harnessctl.layers.l3_durable.store import HarnessStore


def command(
    in_tree: Annotated[
        bool,
        typer.Option(
            "--in-tree", help="Keep .harness/ beside the code, reviewed with it, and not on a branch."
        ),
    ] = False,
    unpinned: Annotated[
        bool, typer.Option("--unpinned", help="Write no harness.lock: runs follow the branch's tip.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Start a harness in this repository.

    By default an orphan branch 'harness' is made, which holds .harness/ and nothing of the code; HEAD,
    index and work tree stay as they are. The one new file is harness.lock, the pin: commit it, so that
    a checkout of old code runs with the harness of its day, or ignore it.

    An init that was stopped half-way is finished by the next one.

    Another branch name: git config harness.branch NAME.
    """
    store = opening.store()
    done = init(store, in_tree=in_tree, unpinned=unpinned)
    if as_json:
        print_json(done.to_json())
        return
    _tell(done, store)
    if done.mode is Mode.BRANCH:  # in-tree nothing is committed yet, and the user's git does it
        tell_unsigned(store)


def _tell(done: Initialised, store: HarnessStore) -> None:
    landed = done.landed
    if done.mode is Mode.IN_TREE:
        say("started a harness in-tree, under .harness/")
        if landed.written:
            tell_written(landed.written, store.root)
        return
    if landed.finished:
        say(f"finished what an earlier init began on branch '{done.branch}' ({landed.commit[:12]})")
    else:
        say(f"started a harness on branch '{done.branch}' ({landed.commit[:12]})")
    if landed.lock:
        say("wrote harness.lock, the revision that runs read: commit it with the code, or ignore it")
    elif not landed.pinned:
        say("unpinned: runs follow the branch's tip")
    tell_pushed(landed.pushed, store)
    where = "" if store.repository.root else "in a clone that has a work tree, "
    say(f'next: {where}harnessctl run "..."; harnessctl refine; harnessctl review list')
