"""``harnessctl sessions list | show``."""

from __future__ import annotations

from typing import Annotated

import typer

from harnessctl import bootstrap
from harnessctl.cli.output import note, print_json, say, table

app = typer.Typer(
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    no_args_is_help=True,
    help="List and read past sessions.",
)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
#: Characters of a task in a list.
TASK_WIDTH = 60


@app.command("list")
def list_command(as_json: AsJson = False) -> None:
    """List this repository's sessions, newest first."""
    from harnessctl.commands.sessions import list_sessions

    sessions = list_sessions(bootstrap.sessions_state_dir(), bootstrap.mask())
    if as_json:
        print_json([session.to_json() for session in sessions])
        return
    if not sessions:
        note("no sessions")
        return
    rows = [
        (
            s.id,
            s.status or s.reason,
            s.started[:19].replace("T", " "),
            f"{(s.usage or {}).get('tokens', 0):,}",
            _short(s.task),
        )
        for s in sessions
    ]
    table(("id", "status", "started (UTC)", "tokens", "task"), rows)


@app.command("show")
def show_command(
    session: Annotated[
        str, typer.Argument(metavar="ID", help="Session id or its unique beginning; the newest by default.")
    ] = "",
    as_json: AsJson = False,
) -> None:
    """Read one session: task, replies, cells with their results, how it ended.

    Values that look like secrets are masked; the log itself keeps what was said.
    """
    from harnessctl.commands.sessions import lines_of, show_session

    shown = show_session(bootstrap.sessions_state_dir(), session, bootstrap.mask())
    if as_json:
        print_json(shown.to_json())
        return
    for line in lines_of(shown):
        say(line)


def _short(task: str) -> str:
    line = " ".join(task.split())
    return line if len(line) <= TASK_WIDTH else f"{line[: TASK_WIDTH - 1]}…"
