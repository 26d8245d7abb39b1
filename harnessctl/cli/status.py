"""``harnessctl status``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from harnessctl.bootstrap import opening
from harnessctl.cli.landing import tell_pushed
from harnessctl.cli.output import note, print_json, say
from harnessctl.config import read_environment
from harnessctl.domain.pin import Mode

if TYPE_CHECKING:
    from harnessctl.commands.status import Status
    from harnessctl.layers.l3_durable.store import HarnessStore


def command(as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False) -> None:
    """Mode, pin, tip, open proposals, last session: where the harness of this repository stands."""
    from harnessctl.commands.status import status

    environment = read_environment()
    store = opening.store(environment)
    found = status(store, opening.wrong_settings(environment, store))
    for line in opening.unread_settings(environment, store, found.pin.commit if found.pin else ""):
        note(f"note: {line}")
    if as_json:
        print_json(found.to_json())
    elif found.lost:
        _tell_wrong(found)
    else:
        _tell(found, store)


def _tell(found: Status, store: HarnessStore) -> None:
    if found.mode is None:
        say("no harness here: runs work with an empty one; harnessctl init starts one")
        _tell_wrong(found)
        return
    where = (
        f"branch '{found.branch}'"
        if found.mode is Mode.BRANCH
        else f".harness/ in-tree, lands on '{found.branch}'"
    )
    say(f"harness: {where}, tip {found.tip[:12] or '(nothing landed)'}")
    tell_pushed(found.pushed, store)
    if found.pin:
        commit = found.pin.commit[:12] or "nothing"
        pinned = found.pinned or "nothing is committed yet"
        say(f"{pinned}: runs read {commit}, {_count(found.entries, 'entry', 'entries')}")
        if found.pin.note:
            say(f"  {found.pin.note}")
    elif found.problem:
        say(f"the pin cannot be read: {found.problem.message}")
        say(f"  {found.problem.hint}")
    if found.unread:
        read_it = f"git merge {found.branch}" if found.pinned == "at HEAD" else "harnessctl pin"
        if not found.pushed and found.pinned != "at HEAD" and store.require_shared:
            read_it = store.place.sharing + (f", then {read_it}" if found.pinned == "pinned" else "")
        say(f"{_count(found.unread, 'landed update')} that the next run does not read: {read_it}")
    _tell_wrong(found)
    for finding in found.broken:
        if finding.path.endswith("harness.toml") and found.wrong:
            continue  # said above, with what to do
        say(f"broken: {finding.path}: {finding.rule}: {finding.message}")
    conflicts = f", {found.conflicts} in conflict" if found.conflicts else ""
    say(f"{_count(found.proposals, 'open proposal')}{conflicts}")
    for place in found.in_use:
        if found.mode is Mode.IN_TREE:
            say(f"'{found.branch}' is {place}: what is accepted lands there by your own git merge")
        else:
            say(f"in use: {place}; nothing lands there meanwhile")
    if found.session:
        say(f"last session: {found.session.id}, {found.session.state}, {found.session.started}")


def _tell_wrong(found: Status) -> None:
    for one in found.wrong:
        say(f"wrong: {one.what}")
        say(f"  {one.remedy}")


def _count(number: int, one: str, many: str = "") -> str:
    return f"{number} {one if number == 1 else many or one + 's'}"
