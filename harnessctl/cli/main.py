"""Entry point: a table of verbs, each imported only when it is called.

``--help`` is printed from the table alone; a verb's module, and what it needs, is loaded when the
verb runs. Every failure ends here: an expected one as a sentence with a hint, an internal one as a
report file ready to be pasted into an issue.
"""

from __future__ import annotations

import errno
import importlib
import os
import signal
import sys
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import typer
from typer.core import TyperGroup

from harnessctl.cli.failure import report_denied, report_error, report_internal, report_usage
from harnessctl.cli.streams import fading, silence
from harnessctl.domain.errors import ExitCode, HarnessError, UsageError
from harnessctl.domain.ids import suggestion

if TYPE_CHECKING:
    from collections.abc import Sequence


@dataclass(frozen=True, slots=True)
class Verb:
    """One line of ``--help``: where the verb lives (``module:attribute``) and what it does."""

    target: str
    help: str


SECTIONS: dict[str, dict[str, Verb]] = {
    "Set up": {
        "init": Verb("harnessctl.cli.init:command", "Start a harness in this repository."),
        "hooks": Verb("harnessctl.cli.hooks:app", "Git hooks that check .harness/, without a framework."),
        "doctor": Verb("harnessctl.cli.doctor:command", "Find what crashes left behind, and put it right."),
        "sync": Verb("harnessctl.cli.sync:command", "Fetch and push the harness branch; never forced."),
        "status": Verb("harnessctl.cli.status:command", "Mode, pin, tip, open proposals, last session."),
    },
    "Entries": {
        "list": Verb("harnessctl.cli.entries:list_command", "List entries at the pin, or at a revision."),
        "show": Verb("harnessctl.cli.entries:show_command", "Print one entry."),
        "add": Verb("harnessctl.cli.entries:add_command", "Add or replace an entry from a file or stdin."),
        "edit": Verb("harnessctl.cli.entries:edit_command", "Change an entry in your editor."),
        "remove": Verb("harnessctl.cli.entries:remove_command", "Remove an entry; its history stays."),
        "search": Verb("harnessctl.cli.entries:search_command", "Find entries by words."),
        "check": Verb("harnessctl.cli.check:command", "Validate: staged, a revision, a range or files."),
    },
    "Work and learn": {
        "run": Verb("harnessctl.cli.run:command", "Run the agent on a task, with the pinned harness."),
        "prompt": Verb("harnessctl.cli.prompt:command", "The system message of the next run, explained."),
        "sessions": Verb("harnessctl.cli.sessions:app", "List and read past sessions."),
        "refine": Verb("harnessctl.cli.refine:command", "Turn a session's log into a proposal."),
        "review": Verb("harnessctl.cli.review:app", "List, read, edit, accept, reject proposals."),
    },
    "History and undo": {
        "log": Verb("harnessctl.cli.history:log_command", "Updates, from which evidence, let in by whom."),
        "blame": Verb("harnessctl.cli.history:blame_command", "Where each line of an entry came from."),
        "verify": Verb("harnessctl.cli.verify:command", "Recompute what records say; four answers."),
        "diff": Verb("harnessctl.cli.history:diff_command", "What differs between two revisions' entries."),
        "pin": Verb("harnessctl.cli.pin:pin_command", "Move the revision that runs read."),
        "rollback": Verb("harnessctl.cli.pin:rollback_command", "Take entries back to an earlier revision."),
    },
}


class VerbGroup(TyperGroup):
    """The root group; looks verbs up in :data:`SECTIONS`."""

    def list_commands(self, ctx: typer.Context) -> list[str]:  # type: ignore[override]  # noqa: ARG002
        """All verbs, in the order of the table."""
        return [name for section in SECTIONS.values() for name in section]

    def get_command(self, ctx: typer.Context, cmd_name: str) -> Any:  # type: ignore[override]  # noqa: ARG002
        """Import the verb's module and build its command; None for an unknown name."""
        verb = next((section[cmd_name] for section in SECTIONS.values() if cmd_name in section), None)
        return _load(cmd_name, verb) if verb else None

    def resolve_command(self, ctx: typer.Context, args: list[str]) -> Any:  # type: ignore[override]
        """As typer does it; a word that is no verb is answered with the nearest ones."""
        name = args[0] if args else ""
        if name and not name.startswith("-") and name not in self.list_commands(ctx):
            near = suggestion(name, self.list_commands(ctx)) or "harnessctl --help lists them. "
            raise UsageError(f"there is no verb '{name}'", id="usage", hint=near.strip())
        return super().resolve_command(ctx, args)

    def format_commands(self, ctx: typer.Context, formatter: Any) -> None:  # type: ignore[override]  # noqa: ARG002
        """Write the table without importing any verb."""
        for title, section in SECTIONS.items():
            with formatter.section(title):
                formatter.write_dl([(name, verb.help) for name, verb in section.items()])


def _load(name: str, verb: Verb) -> Any:
    module, _, attribute = verb.target.partition(":")
    found = getattr(importlib.import_module(module), attribute)
    if not isinstance(found, typer.Typer):
        single = _typer()
        single.command(name, help=found.__doc__ or verb.help)(found)
        command: Any = typer.main.get_command(single)
    else:
        command = typer.main.get_command(found)
    command.name = name
    return command


def _typer(**options: Any) -> typer.Typer:
    # rich's markup in help costs half a second of start-up and would interpret text that is not ours.
    return typer.Typer(rich_markup_mode=None, pretty_exceptions_enable=False, add_completion=False, **options)


def _print_version(asked: bool) -> None:
    if asked:
        from importlib.metadata import version as installed

        typer.echo(f"harnessctl {installed('harnessctl')}")
        raise typer.Exit


def _root() -> Any:
    app = _typer(cls=VerbGroup, no_args_is_help=True)

    @app.callback()
    def harnessctl(
        version: bool = typer.Option(  # noqa: ARG001 - its callback acts before a verb is looked for
            False, "--version", is_eager=True, callback=_print_version, help="Print the version and exit."
        ),
        directory: str = typer.Option("", "-C", metavar="DIR", help="Run as if started in DIR."),
    ) -> None:
        """git for what an agent has learned.

        Durable agent state (memories, skills, prompt notes, subagents) as typed files on a git
        branch: every learned update is a commit that names its evidence, runs read one pinned
        revision, and a bad update is taken back with ordinary git.

        Exit codes: 0 done, 1 expected failure, 2 usage, 3 internal error, 4 gate failed, 5 budget
        exhausted, 6 refused for safety, 130 interrupted.
        """
        if directory:
            try:
                os.chdir(directory)
            except OSError as error:
                raise HarnessError(
                    f"cannot work in {directory}: {error.strerror}", id="bad_directory", hint="name a folder"
                ) from error

    return typer.main.get_command(app)


def main(argv: Sequence[str] | None = None) -> None:
    """Run the command line and exit with its code."""
    code = run(list(sys.argv[1:] if argv is None else argv))
    if argv is None:
        # The outcome stands: a Ctrl-C while Python shuts down would put the signal's code in its place.
        signal.signal(signal.SIGINT, signal.SIG_IGN)
    try:
        sys.stdout.flush()
    except OSError:  # said already, or nobody is left to be told
        silence(sys.stdout)
        code = code or int(ExitCode.FAILED)
    sys.exit(code)


def run(argv: list[str]) -> int:
    """Run the command line on ``argv`` (without the program's name); the exit code."""
    _open_missing_streams()
    with fading("stderr"):
        return _run(argv)


def _run(argv: list[str]) -> int:
    as_json = any(word in ("--json", "--json-events") for word in argv[: _end_of_options(argv)])
    try:
        if sys.platform == "win32":
            raise HarnessError(
                "harnessctl does not run on Windows",
                id="platform",
                hint="use it in WSL, or on Linux or macOS",
            )
        code = _root().main(args=argv, prog_name="harnessctl", standalone_mode=False)
        sys.stdout.flush()
    except HarnessError as error:
        return report_error(error, as_json=as_json)
    except (KeyboardInterrupt, typer.Abort):
        return int(ExitCode.INTERRUPTED)
    except BrokenPipeError:
        silence(sys.stdout)  # the reader went away: `harnessctl log | head`
        return int(ExitCode.FAILED)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            return report_denied(error, argv, as_json=as_json)
        where = f" ({error.filename})" if error.filename else ""
        full = HarnessError(f"no space left{where}", id="storage", hint="free some space, then try again")
        return report_error(full, as_json=as_json)
    except Exception as error:
        if hasattr(error, "format_message") and hasattr(error, "show"):
            return report_usage(error, as_json=as_json)
        return report_internal(error, argv, as_json=as_json)
    return code if isinstance(code, int) else 0


def _open_missing_streams() -> None:
    """Python has None where a caller closed a standard stream; read nothing there, write nowhere."""
    for name, mode in (("stdin", "r"), ("stdout", "w"), ("stderr", "w")):
        if getattr(sys, name) is None:
            setattr(sys, name, open(os.devnull, mode))  # noqa: SIM115 - lives as long as the process


def _end_of_options(argv: list[str]) -> int:
    return argv.index("--") if "--" in argv else len(argv)


if __name__ == "__main__":
    main()
