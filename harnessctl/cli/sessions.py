"""``harnessctl sessions list | show | resume | export | prune``."""

from __future__ import annotations

import os
import sys
from collections.abc import Iterable
from enum import StrEnum
from pathlib import Path
from typing import Annotated

import typer

from harnessctl.bootstrap import opening, reading, running
from harnessctl.cli.output import note, print_json, say, table
from harnessctl.cli.streams import fading
from harnessctl.domain.errors import HarnessError, UsageError
from harnessctl.domain.plain_files import make

app = typer.Typer(
    rich_markup_mode=None,
    pretty_exceptions_enable=False,
    add_completion=False,
    no_args_is_help=True,
    help="List, read, resume, export and prune past sessions.",
)

AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]
#: Characters of a task in a list.
TASK_WIDTH = 60


@app.command("list")
def list_command(
    every: Annotated[bool, typer.Option("--all", help="Also those that another session started.")] = False,
    as_json: AsJson = False,
) -> None:
    """List this repository's sessions, newest first.

    A session's tokens are those of its whole tree. With --all each session below it is listed with its
    own tree's again: the numbers do not add up to what was used.
    """
    from harnessctl.commands.sessions import list_sessions

    sessions = list_sessions(reading.sessions_state_dir(), opening.mask(), children=every)
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
            f"{s.usage.get('tokens', 0):,}" if s.usage else "-",  # only the end says it
            _short(s.task if s.parent is None else f"{s.name}: {s.task}"),
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

    shown = show_session(reading.sessions_state_dir(), session, opening.mask())
    if as_json:
        print_json(shown.to_json())
        return
    for line in lines_of(shown):
        say(line)


class Format(StrEnum):
    """How a session is exported."""

    JSONL = "jsonl"
    HTML = "html"


@app.command("export")
def export_command(
    session: Annotated[
        str, typer.Argument(metavar="ID", help="Session id or its unique beginning; the newest by default.")
    ] = "",
    format: Annotated[  # noqa: A002 - the option's name
        Format, typer.Option("--format", help="JSON lines for programs, one HTML file for reading.")
    ] = Format.JSONL,
    output: Annotated[
        str, typer.Option("--output", "-o", metavar="FILE", help="Write here, not to stdout.")
    ] = "",
    raw: Annotated[
        bool, typer.Option("--raw", help="The log's own bytes, secrets included (jsonl).")
    ] = False,
    as_json: Annotated[
        bool, typer.Option("--json", help="With --output: say as one JSON object what was written.")
    ] = False,
) -> None:
    """Write a session out, with values that look like secrets masked.

    JSON lines hold the sessions that it started too, each after its own header; --raw is one log alone.
    """
    from harnessctl.commands import export
    from harnessctl.commands.sessions import find_session, refuse_unreadable, show_session

    state_dir, mask = reading.sessions_state_dir(), opening.mask()
    if raw and format is not Format.JSONL:
        raise UsageError("--raw goes with --format jsonl alone", id="usage", hint="leave --raw out")
    if as_json and output in ("", "-"):
        raise UsageError(
            "--json tells of the file that --output names",
            id="usage",
            hint="add --output FILE; --format jsonl on stdout is JSON already",
        )
    if format is Format.HTML:
        from harnessctl.cli.session_html import session_html

        page = export.page_of(show_session(state_dir, session, mask))
        pieces: Iterable[bytes] = [session_html(page).encode("utf-8", "backslashreplace")]
    elif raw:
        refuse_unreadable(folder := find_session(state_dir, session), copied=True)
        note("warning: these are the original bytes; whatever secret was said in the session is in them")
        pieces = export.original_bytes(folder)
    else:
        refuse_unreadable(folder := find_session(state_dir, session))
        pieces = export.masked_lines(folder, mask)
    write_out(pieces, output, quiet=as_json)
    if as_json:
        path = Path(output).absolute()
        name = find_session(state_dir, session).name
        told = {"session": name, "format": format.value, "path": str(path), "bytes": path.stat().st_size}
        print_json({**told, "masked": not raw})


def write_out(pieces: Iterable[bytes], output: str, *, quiet: bool = False) -> None:
    """To the file ``output``, by rename, readable by the user alone; to stdout when it is "" or "-"."""
    if output in ("", "-"):
        for piece in pieces:
            sys.stdout.buffer.write(piece)
        sys.stdout.buffer.flush()
        return
    target = Path(output)
    partial = target.with_name(f".{target.name}.{os.getpid()}")
    try:
        with make(partial, 0o600) as file:
            for piece in pieces:
                file.write(piece)
        partial.replace(target)
    except OSError as error:
        partial.unlink(missing_ok=True)
        raise HarnessError(f"cannot write {output}: {error.strerror}", id="storage") from error
    if not quiet:
        note(f"written to {output}")


@app.command("prune")
def prune_command(
    older_than: Annotated[
        str,
        typer.Option("--older-than", metavar="AGE", help="Sessions last written longer ago: 30d, 12h, 2w."),
    ] = "",
    keep: Annotated[int | None, typer.Option("--keep", min=0, help="All but the newest N sessions.")] = None,
    yes: Annotated[bool, typer.Option("--yes", help="Remove them; without it they are only listed.")] = False,
    force: Annotated[
        bool, typer.Option("--force", help="Also those that proposals or unpushed records cite.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Say which old sessions would go, and with --yes remove them.

    With both options a session must be old and not among the newest. A running session stays; so does one
    that an open proposal or a record not yet on the remote cites as evidence: its log could no longer be
    checked.
    """
    pruned = reading.prune_sessions(older_than=older_than, keep=keep, remove=yes, force=force)
    if as_json:
        print_json(pruned.to_json())
        return
    for session in pruned.going:
        say(f"{session.id}  {session.bytes:>12,} bytes")
        if session.work_tree:
            note(f"  the work tree made for it stays: {session.work_tree}; {session.removal}")
    for session in pruned.staying:
        note(f"{session.id} stays: {session.why}")
    size = sum(session.bytes for session in pruned.going)
    did = "removed" if yes else "would be removed; --yes does it"
    note(f"{len(pruned.going)} sessions, {size:,} bytes, {did}")


@app.command("resume")
def resume_command(
    session: Annotated[
        str, typer.Argument(metavar="ID", help="Session id or its unique beginning; the newest by default.")
    ] = "",
    task: Annotated[str, typer.Option("--task", help="More to do; needed where there is an answer.")] = "",
    model: Annotated[str, typer.Option("--model", help="Go on with another model.")] = "",
    python: Annotated[str, typer.Option("--python", help="Python that the new kernel runs on.")] = "",
    kernel: Annotated[
        str, typer.Option("--kernel", metavar="NAME", help="Installed Jupyter kernel to run instead.")
    ] = "",
    max_turns: Annotated[
        int | None, typer.Option("--max-turns", min=1, help="New limit of turns, those before included.")
    ] = None,
    max_tokens: Annotated[
        int | None, typer.Option("--max-tokens", min=1, help="New limit of tokens, those before included.")
    ] = None,
    max_cost: Annotated[
        float | None, typer.Option("--max-cost", min=0, help="New limit of cost in US dollars.")
    ] = None,
    max_time: Annotated[
        float | None, typer.Option("--max-time", min=0, help="New limit of seconds in which it runs.")
    ] = None,
    max_depth: Annotated[
        int | None, typer.Option("--max-depth", min=0, help="New limit of levels of children.")
    ] = None,
    max_children: Annotated[
        int | None, typer.Option("--max-children", min=0, help="New limit of children over the whole tree.")
    ] = None,
    allow_revoked: Annotated[
        bool, typer.Option("--allow-revoked", help="Go on with a pin that holds what was taken back later.")
    ] = False,
    trust: Annotated[
        bool, typer.Option("--trust", help="Let harness.toml name programs inside this clone.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as one JSON object.")] = False,
    json_events: Annotated[
        bool, typer.Option("--json-events", help="Print each new event as a JSON line, the result last.")
    ] = False,
) -> None:
    """Go on with a session that stopped: interrupted, killed, out of budget, or with more to do.

    Nothing that ran is run again. The kernel is new: the model is told which variables are lost, and for a
    call that was cut off that its effects are unknown. Pin, limits and what was used count on.
    """
    from harnessctl.cli.run import conclude, kernel_choice, steering_for, watcher_for

    flags = {
        "budgets.turns": max_turns,
        "budgets.tokens": max_tokens,
        "budgets.cost_usd": max_cost,
        "budgets.wall_s": max_time,
        "budgets.depth": max_depth,
        "budgets.children": max_children,
    }
    with fading("stdout") as out:
        with watcher_for(as_json=as_json, json_events=json_events) as watcher:
            outcome = running.resume_session(
                session=session,
                task=task,
                model=model or None,
                **kernel_choice(python, kernel),
                flags=flags,
                allow_revoked=allow_revoked,
                trust=trust,
                watcher=watcher,
                steering=steering_for(watcher),
                on_progress=watcher.progress,
            )
        conclude(outcome, watcher, out, as_json=as_json, json_events=json_events)


def _short(task: str) -> str:
    line = " ".join(task.split())
    return line if len(line) <= TASK_WIDTH else f"{line[: TASK_WIDTH - 1]}…"
