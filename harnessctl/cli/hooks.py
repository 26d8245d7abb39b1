"""``harnessctl hooks install|status|uninstall``."""

from __future__ import annotations

import sys
from typing import Annotated

import typer

from harnessctl.bootstrap.opening import here
from harnessctl.cli.output import note, print_json, say
from harnessctl.commands.hooks import hooks_status, install_hooks, uninstall_hooks
from harnessctl.config import read_environment
from harnessctl.domain.errors import ExitCode
from harnessctl.hooks.install import BYPASS

AsJson = Annotated[bool, typer.Option("--json", help="Print one JSON object.")]
app = typer.Typer(
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    no_args_is_help=True,
    help="Git hooks that check .harness/, for those who use no hook framework.",
)


@app.command()
def install(
    chain: Annotated[
        bool, typer.Option("--chain", help="Keep a hook that is there and run it first.")
    ] = False,
    into_hooks_path: Annotated[
        bool, typer.Option("--into-hooks-path", help="Write where core.hooksPath points.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Write pre-commit, pre-merge-commit, commit-msg and pre-push hooks."""
    _refuse_agents("hooks install")
    done = install_hooks(here(), sys.executable, chain=chain, into_hooks_path=into_hooks_path)
    if as_json:
        print_json(done.to_json())
        return
    say(f"installed {', '.join(done.written)} in {done.folder}")
    for name in done.chained:
        say(f"the {name} hook that was there runs first")
    note(BYPASS)


@app.command()
def status(as_json: AsJson = False) -> None:
    """Say which hooks are there; exits 1 when ours are not where git looks."""
    found = hooks_status(here())
    if as_json:
        print_json(found.to_json())
    elif found.place.folder is None:
        say("core.hooksPath is set to an empty value, so git runs no hook here")
    else:
        say(f"git looks in {found.place.folder}")
        for name, owner in found.owners.items():
            say(f"  {name}: {'not there' if owner.value == 'nobody' else f'written by {owner}'}")
    if not found.installed:
        raise typer.Exit(int(ExitCode.FAILED))


@app.command()
def uninstall(as_json: AsJson = False) -> None:
    """Remove our hooks and put back what they ran first."""
    _refuse_agents("hooks uninstall")
    done = uninstall_hooks(here())
    if as_json:
        print_json(done.to_json())
        return
    say(
        f"removed {', '.join(done.written)} from {done.folder}"
        if done.written
        else "no hook of ours was there"
    )
    for name in done.chained:
        say(f"the {name} hook that was there before is back")


def _refuse_agents(verb: str) -> None:
    from harnessctl.layers.l3_durable.places.actor import refuse_agents

    refuse_agents(read_environment(), verb)
