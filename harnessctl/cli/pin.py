"""``harnessctl pin | rollback``."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from harnessctl.bootstrap import opening
from harnessctl.cli.landing import tell_landed
from harnessctl.cli.output import note, print_json, say

if TYPE_CHECKING:
    from harnessctl.commands.rollback import RolledBack
    from harnessctl.layers.l3_durable.store import HarnessStore

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]


def pin_command(
    rev: Annotated[str, typer.Argument(metavar="[REV]", help="A landed revision; by default the tip.")] = "",
    resolve: Annotated[
        bool, typer.Option("--resolve", help="Settle merge-conflict markers in harness.lock.")
    ] = False,
    allow_revoked: Annotated[
        bool, typer.Option("--allow-revoked", help="Pin a revision that holds an update taken back later.")
    ] = False,
    skip_broken: Annotated[
        bool, typer.Option("--skip-broken", help="Pin a revision with entries that do not load.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Move harness.lock, the revision that runs read.

    Without REV: to the landed tip, or to the newest that is shared where [review] require_shared wants that.
    Only landed revisions can be pinned, and none that holds an update which was taken back since or an entry
    that does not load, unless told so. Where the pin is now: harnessctl status.
    """
    from harnessctl.commands.pin import pin

    store = opening.store()
    done = pin(
        store,
        rev or None,
        resolve=resolve,
        allow_revoked=allow_revoked,
        skip_broken=skip_broken,
    )
    if as_json:
        print_json(done.to_json())
        return
    before = f" (was {done.before.commit[:12]})" if done.before else ""
    needed = [
        flag for flag, why in (("--allow-revoked", done.revoked), ("--skip-broken", done.skipped)) if why
    ]
    read = f"runs refuse it without {' and '.join(needed)}" if needed else "the next run reads it"
    say(f"harness.lock pins {done.lock.commit[:12]} of '{done.lock.branch}'{before}: {read}")
    if done.waits:
        note(f"it is the newest that is shared; what has landed since is not: {store.place.sharing}")
    if done.revoked:
        note(f"warning: it holds {', '.join(done.revoked)}, which was taken back since")
    if done.skipped:
        note(f"warning: these do not load, and are left out then: {', '.join(done.skipped)}")


def rollback_command(
    rev: Annotated[str, typer.Argument(metavar="REV", help="A commit, REV~N, or an update's id.")],
    only: Annotated[
        bool, typer.Option("--only", help="Take back the one update REV names; keep what came later.")
    ] = False,
    entry: Annotated[
        list[str] | None, typer.Option("--entry", metavar="ID", help="Only this entry; may be given again.")
    ] = None,
    include: Annotated[
        list[str] | None,
        typer.Option(
            "--include", metavar="ID", help="Take this entry back although a person edited it since."
        ),
    ] = None,
    dry_run: Annotated[
        bool, typer.Option("--dry-run", "-n", help="Say what would change; change nothing.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Take entries back to what they were at REV, by a new commit; the lock moves to it.

    REV is the last good state. To take back one bad update and keep what came later, name it:

        harnessctl rollback --only 01J...

    History is never rewritten, so a rollback can be undone like any other update: rollback --only with
    the rollback's own id. Entries that a human owns, policy, gates and records stay as they are today;
    a person's later edit blocks unless named. Listed are the changes, what depends on them, updates
    that may have been learned from them, and the sessions on this machine that read them.
    """
    from harnessctl.commands.rollback import rollback

    store = opening.store()
    done = rollback(store, rev, only=only, entries=entry or (), include=include or (), dry_run=dry_run)
    if as_json:
        print_json(done.to_json())
    else:
        _tell(done, store)


def _tell(done: RolledBack, store: HarnessStore) -> None:
    count = len(done.takes_back)
    said = "would take back" if done.dry_run else "took back"
    say(f"{said} {count} update{'' if count == 1 else 's'}")
    for update in done.takes_back:
        say(f"  {update}")
    if done.dry_run:
        for change in done.landed.record.entries if done.landed.record else ():
            say(f"  {change.action} {change.id}")
    else:
        tell_landed(done.landed, store)
    for entry in done.kept:
        say(f"stays as it is, a human owns it: {entry}")
    for entry in done.dependants:
        say(f"depends on what changed: {entry}")
    for one in done.derived:
        why = f"from session {one.read_by}, which read it" if one.read_by else "proposed on top of it"
        say(f"may rest on what went: {one.update} ({one.state}; {why})")
    for reader in done.readers:
        running = ", and runs: it stops at its next turn" if reader.running else ""
        say(f"read by session {reader.session}{running}")
