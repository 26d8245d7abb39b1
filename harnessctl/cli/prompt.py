"""``harnessctl prompt``: print the system message of the next run, or say where each entry went."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated

import typer

from harnessctl.bootstrap import prompting
from harnessctl.cli.output import note, print_json, say, table
from harnessctl.domain.errors import ExitCode

if TYPE_CHECKING:
    from collections.abc import Iterator

    from harnessctl.commands.prompt import ShownPrompt


def command(
    explain: Annotated[
        bool, typer.Option("--explain", help="Where each entry went, what it takes, and why.")
    ] = False,
    at: Annotated[
        str, typer.Option("--at", metavar="REV", help="Entries of this revision, not the pin.")
    ] = "",
    tokens: Annotated[
        int | None, typer.Option("--tokens", min=0, help="Budget of the entries, in place of the setting.")
    ] = None,
    model: Annotated[str, typer.Option("--model", help="As for this model.")] = "",
    no_repository_files: Annotated[
        bool, typer.Option("--no-repository-files", help="Leave AGENTS.md and CLAUDE.md unread.")
    ] = False,
    as_json: Annotated[bool, typer.Option("--json", help="Print one JSON object.")] = False,
) -> None:
    """Print the system message that a run would send now.

    It holds the base prompt, facts of the session, AGENTS.md and CLAUDE.md, and the entries at the pin,
    within the budget of [prompt] tokens. With --explain: a line for every entry: in full, as one line, or by
    search only; the tokens that it takes there, those of its whole text, and the reason; then totals.
    Tokens are estimates. Exit code 1: entries that do not load, with which a run would be refused.
    """
    flags = {"prompt.tokens": tokens, "prompt.files_tokens": 0 if no_repository_files else None}
    shown = prompting.prompt(at=at or None, model=model or None, flags=flags)
    if as_json:
        print_json(shown.to_json())
    elif explain:
        _explain(shown)
    else:
        say(shown.text)
    for line in shown.notes:
        note(line)
    for finding in shown.broken:
        note(f"does not load: {finding.path}: {finding.rule}: {finding.message}")
    if shown.broken:
        raise typer.Exit(int(ExitCode.FAILED))


def _explain(shown: ShownPrompt) -> None:
    rows = [
        (i.id, i.place.value, str(i.tokens), str(i.whole), "; ".join((i.why, *i.flags)))
        for i in shown.harness.items
    ]
    if rows:
        table(("id", "shown", "tokens", "whole", "why"), rows)
        say()
    for line in _totals(shown):
        say(line)


def _totals(shown: ShownPrompt) -> Iterator[str]:
    for name, count in shown.tokens.items():
        yield f"{name}: about {count:,} tokens{_of_budget(shown) if name == 'harness' else ''}"
    for file in shown.files.files:
        cut = f" of {file.whole:,}, cut" if file.cut else ""
        yield f"  {file.path}: {file.tokens:,}{cut}{f', imported by {file.by}' if file.by else ''}"
    for line in shown.files.left_out:
        yield f"  not read: {line}"
    yield f"in all: about {shown.total:,} tokens"


def _of_budget(shown: ShownPrompt) -> str:
    places = shown.places
    where = f"{places['full']} in full, {places['line']} as a line, {places['search']} by search only"
    over = ""
    if shown.harness.tokens > shown.budget:
        over = "; heading and closing line always stand, and take more than the budget"
    return f" of {shown.budget:,}: {len(shown.harness.items)} entries, {where}{over}"
