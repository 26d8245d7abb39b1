"""``harnessctl run``: options in; live progress, then the answer, out."""

from __future__ import annotations

import json
import sys
from typing import TYPE_CHECKING, Annotated, Any, NoReturn

import typer

from harnessctl.bootstrap import opening, running
from harnessctl.cli import watching
from harnessctl.cli.output import note, print_json, say
from harnessctl.cli.steering import TypedLines
from harnessctl.cli.streams import Fading, fading, silence
from harnessctl.commands.safety import SafetyOptions
from harnessctl.commands.sessions import masked_value
from harnessctl.config import gate_command
from harnessctl.domain.errors import ExitCode, UsageError
from harnessctl.domain.safe_text import visible_line

if TYPE_CHECKING:
    from collections.abc import Mapping, Sequence

    from harnessctl.commands.run import RunOutcome

#: Changed files named in the summary; the rest is counted.
SHOWN_FILES = 12


def command(
    task: Annotated[str, typer.Argument(metavar="TASK", help="What to do; '-' reads it from stdin.")],
    model: Annotated[
        str, typer.Option("--model", help="provider/name, local, local:FILE.gguf or scripted:FILE.")
    ] = "",
    at: Annotated[
        str, typer.Option("--at", metavar="REV", help="Entries of this revision, not the pin.")
    ] = "",
    python: Annotated[str, typer.Option("--python", help="Python that the kernel runs on.")] = "",
    kernel: Annotated[
        str, typer.Option("--kernel", metavar="NAME", help="Installed Jupyter kernel to run instead.")
    ] = "",
    protocol: Annotated[
        str, typer.Option("--protocol", help="tool, fence, or auto: what the model can do.")
    ] = "",
    max_turns: Annotated[int | None, typer.Option("--max-turns", min=1, help="Limit of model turns.")] = None,
    max_tokens: Annotated[
        int | None, typer.Option("--max-tokens", min=1, help="Limit of prompt and completion tokens.")
    ] = None,
    max_cost: Annotated[
        float | None, typer.Option("--max-cost", min=0, help="Limit of cost in US dollars.")
    ] = None,
    max_time: Annotated[
        float | None, typer.Option("--max-time", min=0, help="Limit of wall clock in seconds.")
    ] = None,
    cell_time: Annotated[
        float | None, typer.Option("--cell-time", min=0, help="Limit of one cell in seconds.")
    ] = None,
    max_depth: Annotated[
        int | None, typer.Option("--max-depth", min=0, help="Levels of children; 0 allows none.")
    ] = None,
    max_children: Annotated[
        int | None, typer.Option("--max-children", min=0, help="Children over the whole tree.")
    ] = None,
    skip_broken: Annotated[
        bool, typer.Option("--skip-broken", help="Leave out entries that do not load.")
    ] = False,
    allow_revoked: Annotated[
        bool, typer.Option("--allow-revoked", help="Run a pin that holds an update taken back later.")
    ] = False,
    gate: Annotated[
        list[str] | None,
        typer.Option("--gate", metavar="CMD", help="Must pass after the answer; repeatable."),
    ] = None,
    gate_input: Annotated[
        list[str] | None,
        typer.Option("--gate-input", metavar="GLOB", help="Files that gates judge by, beside their own."),
    ] = None,
    allow_gate_input: Annotated[
        list[str] | None,
        typer.Option("--allow-gate-input", metavar="GLOB", help="Gate inputs that the run may change."),
    ] = None,
    no_gates: Annotated[
        bool, typer.Option("--no-gates", help="Run without the gates of harness.toml.")
    ] = False,
    sandbox: Annotated[
        bool, typer.Option("--sandbox", help="Run kernel and gates in a sandbox (bubblewrap).")
    ] = False,
    sandbox_network: Annotated[
        bool | None,
        typer.Option(
            "--sandbox-network/--no-sandbox-network",
            help="Whether the sandbox has a network; by default yes.",
        ),
    ] = None,
    trust: Annotated[
        bool, typer.Option("--trust", help="Let the gates and the Python of harness.toml run from now on.")
    ] = False,
    worktree: Annotated[
        bool, typer.Option("--worktree", help="Work in a new work tree of HEAD beside this one.")
    ] = False,
    no_repository_files: Annotated[
        bool, typer.Option("--no-repository-files", help="Leave AGENTS.md and CLAUDE.md unread.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print the result as one JSON object.")] = False,
    json_events: Annotated[
        bool, typer.Option("--json-events", help="Print each event as a JSON line, the result last.")
    ] = False,
) -> None:
    """Run the agent on a task, with the pinned harness.

    The model works by running code in an IPython kernel, with your rights. Ctrl-C interrupts what runs now, a
    second one ends the session in order. Exit codes: 0 answered, 1 failed, 4 a gate did not pass, 5 budget
    exhausted, 6 refused or harness state moved, 130 interrupted.
    """
    flags = {
        "budgets.turns": max_turns,
        "budgets.tokens": max_tokens,
        "budgets.cost_usd": max_cost,
        "budgets.wall_s": max_time,
        "budgets.cell_s": cell_time,
        "budgets.depth": max_depth,
        "budgets.children": max_children,
        "run.protocol": protocol or None,
        "prompt.files_tokens": 0 if no_repository_files else None,
    }
    with fading("stdout") as out:
        with watcher_for(as_json=as_json, json_events=json_events) as watcher:
            outcome = running.run_session(
                task=_task(task),
                model=model or None,
                at=at or None,
                **kernel_choice(python, kernel),
                flags=flags,
                skip_broken=skip_broken,
                allow_revoked=allow_revoked,
                safety=SafetyOptions(
                    gates=_gates(gate or ()),
                    gate_inputs=tuple(gate_input or ()),
                    allow_gate_inputs=tuple(allow_gate_input or ()),
                    no_gates=no_gates,
                    sandbox=sandbox,
                    network=_network(sandbox_network, sandbox=sandbox),
                    trust=trust,
                    ask=watcher.ask if sys.stdin.isatty() and sys.stderr.isatty() and not as_json else None,
                ),
                worktree=worktree,
                watcher=watcher,
                steering=steering_for(watcher),
                on_progress=watcher.progress,
            )
        conclude(outcome, watcher, out, as_json=as_json, json_events=json_events)


def _network(wanted: bool | None, *, sandbox: bool) -> bool:
    """:raises UsageError: the network of a sandbox is spoken of, and there is none."""
    if wanted is not None and not sandbox:
        raise UsageError(
            "without a sandbox the network is there in any case", id="usage", hint="add --sandbox"
        )
    return wanted is not False


def kernel_choice(python: str, kernel: str) -> dict[str, str | None]:
    """What the kernel runs on, as the command line has it.

    :raises UsageError: both are given.
    """
    if python and kernel:
        raise UsageError(
            "--python and --kernel both say what the kernel runs on", id="usage", hint="give one of them"
        )
    return {"python": python or None, "kernel": kernel or None}


def conclude(
    outcome: RunOutcome, watcher: watching.Notes, out: Fading, *, as_json: bool, json_events: bool
) -> NoReturn:
    """Print the result as it was asked for, and exit with the run's code.

    :param out: stdout. Where it could not take everything, success is no longer what a caller should read.
    """
    from harnessctl.rlm.signals import let_go  # the run has loaded it

    try:
        let_go()
        result = masked_value(outcome.result.to_json(), opening.mask())
        if json_events:
            print(json.dumps({"type": "result", **result}, ensure_ascii=True), flush=True)
        elif as_json:
            print_json(result)
        else:
            _tell(outcome, seen=watcher.said if sys.stdout.isatty() else "")
        out.flush()
    except KeyboardInterrupt:
        silence(sys.stdout)  # what its reader has not taken would be waited for once more
        session = outcome.result.session
        note(f"interrupted before all was printed: harnessctl sessions show {session}; {outcome.folder}")
        raise typer.Exit(int(ExitCode.INTERRUPTED)) from None
    code = int(outcome.exit_code)
    if out.unwritten is not None:
        note(f"stdout could not be written ({out.unwritten.strerror}); the result is in {outcome.folder}")
        code = code or int(ExitCode.FAILED)
    raise typer.Exit(code)


def steering_for(watcher: watching.Notes) -> TypedLines | None:
    """Listens to the terminal of somebody who watches live; to nothing else."""
    if isinstance(watcher, watching.Screen) and sys.stdin.isatty():
        return TypedLines(sys.stdin.fileno(), watcher.note)
    return None


def _gates(commands: Sequence[str]) -> tuple[str, ...]:
    """:raises UsageError: a command with nothing to run, as an unset variable of a script leaves it."""
    try:
        return tuple(gate_command(command) for command in commands)
    except ValueError as error:
        raise UsageError(f"--gate: {error}", id="empty_gate", hint="is a variable unset?") from error


def _task(text: str) -> str:
    if text != "-":
        return text
    try:
        return sys.stdin.read()
    except UnicodeDecodeError as error:
        raise UsageError(f"the task on stdin is not UTF-8: {error.reason}", id="bad_task") from error


def watcher_for(*, as_json: bool, json_events: bool) -> watching.Notes:
    """How the run is shown."""
    mask = opening.mask()
    if json_events:
        return watching.EventLines(mask)
    if as_json:
        return watching.Notes(mask)
    return watching.Screen(mask) if sys.stderr.isatty() else watching.PlainLines(mask)


def _proposed(made: Mapping[str, Any]) -> str:
    """What became of a wish for one entry."""
    if made["update"]:
        return f"proposed: {made['entry']}: {made['summary']} (harnessctl review show {made['update']})"
    return f"not proposed: {made['entry']}: {made['refused'] or 'the session took its wish back'}"


def _tell(outcome: RunOutcome, seen: str) -> None:
    """The answer on stdout, the rest on stderr; an answer that is on the screen is not said twice."""
    from harnessctl.cli.next_step import next_step  # what it needs, the run has loaded

    result, mask = outcome.result, opening.mask()
    if result.ending.answer and result.ending.answer.strip() != seen.strip():
        say(mask(result.ending.answer.rstrip("\n")))
    reason = f" ({result.ending.reason})" if result.ending.reason else ""
    verified = "verified" if result.verified else "not verified"
    note("")
    note(f"{result.ending.status}{reason}, {verified}")
    if result.ending.detail:
        note(mask(f"  {result.ending.detail}"))
    step = next_step(result.ending, result.session)
    if step and not result.moved:
        note(f"  {step}")
    for gate in result.gates:
        status = str(gate["status"]).replace("_", " ")
        note(mask(f"  gate {gate['name']}: {status}, {gate['ms'] / 1000:.1f} s"))
    for path in result.allowed_inputs["changed"]:
        note(f"  gate input changed, as allowed: {path}")
    for change in result.changes[:SHOWN_FILES]:
        size = "binary" if change.binary else f"+{change.added} -{change.removed}"
        note(f"  {change.status} {visible_line(change.path)}  {size}")
    if len(result.changes) > SHOWN_FILES:
        note(f"  and {len(result.changes) - SHOWN_FILES} more files")
    for made in result.proposals:
        note(mask(f"  {_proposed(made)}"))
    for copy in result.changed_skills:
        note(f"  the copy of {copy['entry']} was changed: {', '.join(copy['files'][:SHOWN_FILES])}")
    for move in result.moved:
        old, new = move.before_commit or move.before, move.after_commit or move.after
        note(f"  {move.name}: {old or 'absent'} -> {new or 'absent'}")
    if result.moved:
        note("  who moved it: git reflog show REF; what now stands there: git log, harnessctl status")
    total = result.total
    cost = watching.cost_words(total.cost_usd)
    about = "about " if total.estimated else ""
    work = f"{watching.counted(result.turns, 'turn')}, {watching.counted(result.cells, 'cell')}"
    if result.children:
        work += f", {result.children} {'child' if result.children == 1 else 'children'}"
    note(f"  {work}, {about}{total.tokens:,} tokens{cost}")
    note(f"  session {result.session}: harnessctl sessions show {result.session}")
    note(f"  log and result.json: {outcome.folder}")
