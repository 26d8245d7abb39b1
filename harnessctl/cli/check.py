"""``harnessctl check``."""

from __future__ import annotations

import sys
from enum import StrEnum
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harnessctl.cli import findings as render
from harnessctl.config import read_environment
from harnessctl.domain.contents import MOST_READ
from harnessctl.domain.errors import ExitCode, NotFoundError, UsageError
from harnessctl.domain.plain_files import PATIENCE_S, read_small

if TYPE_CHECKING:
    from harnessctl.layers.l3_durable.checking.checker import CheckReport


class Format(StrEnum):
    """Forms of the report."""

    TEXT = "text"
    JSON = "json"
    GITHUB = "github"
    SARIF = "sarif"
    GITLAB = "gitlab"


def command(
    paths: Annotated[
        list[Path] | None, typer.Argument(help="Files below .harness/; all of the work tree's by default.")
    ] = None,
    staged: Annotated[bool, typer.Option("--staged", help="What `git commit` would commit now.")] = False,
    rev: Annotated[str | None, typer.Option("--rev", metavar="REV", help="Everything at a revision.")] = None,
    commits: Annotated[
        str | None, typer.Option("--range", metavar="A..B", help="Commits in B that are not in A.")
    ] = None,
    stdin_refs: Annotated[
        bool, typer.Option("--stdin-refs", help="A push, as pre-receive and pre-push read it from stdin.")
    ] = False,
    message: Annotated[
        Path | None, typer.Option("--commit-msg", metavar="FILE", help="Trailers of a commit message.")
    ] = None,
    form: Annotated[Format, typer.Option("--format", help="Form of the report.")] = Format.TEXT,
    as_json: Annotated[bool, typer.Option("--json", help="Same as --format json.")] = False,
) -> None:
    """Validate entries, records and policy: in hooks, CI, a server's pre-receive, or at the prompt.

    Exits 1 when something is refused; warnings let pass. docs/rules.md explains each rule.
    """
    from harnessctl.bootstrap.opening import allowed_by_user, here
    from harnessctl.commands.check import CheckRequest, check, fails

    chosen = [bool(paths), staged, rev is not None, commits is not None, stdin_refs, message is not None]
    if sum(chosen) > 1:
        raise UsageError(
            "more than one thing to check was named",
            id="usage",
            hint="name files, or one of --staged, --rev, --range, --stdin-refs, --commit-msg",
        )
    request = CheckRequest(
        staged=staged,
        rev=rev,
        range=commits,
        paths=tuple(paths or ()),
        pushed=_stdin() if stdin_refs else None,
        message=_read(message) if message else None,
    )
    environment = read_environment()
    report = check(request, here(), environment, allowed_by_user(environment))
    _print(report, Format.JSON if as_json else form)
    if fails(report):
        raise typer.Exit(int(ExitCode.FAILED))


def _stdin() -> tuple[str, ...]:
    data = sys.stdin.buffer.read() if not sys.stdin.isatty() else b""
    return tuple(data.decode("utf-8", "surrogateescape").splitlines())


def _read(path: Path) -> str:
    try:
        return read_small(path, MOST_READ, patience=PATIENCE_S).decode("utf-8", "surrogateescape")
    except OSError as error:
        raise NotFoundError(
            f"cannot read {path}: {error.strerror}", id="no_such_file", hint="name the message's file"
        ) from error


def _print(report: CheckReport, form: Format) -> None:
    found = report.findings
    if form is Format.TEXT:
        sys.stdout.write(render.as_text(found))
        sys.stdout.flush()
        print(render.summary(found, report.what), file=sys.stderr)
    elif form is Format.SARIF:
        sys.stdout.write(_sarif(report))
    else:
        forms = {
            Format.JSON: render.as_json,
            Format.GITHUB: render.as_github,
            Format.GITLAB: render.as_gitlab,
        }
        sys.stdout.write(forms[form](found))


def _sarif(report: CheckReport) -> str:
    from importlib.metadata import version

    from harnessctl.layers.l3_durable.rules.catalogue import RULES

    titles = {rule.id: (rule.title, rule.fix) for rule in RULES.values()}
    return render.as_sarif(report.findings, titles, version("harnessctl"))
