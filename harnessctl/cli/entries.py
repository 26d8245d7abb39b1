"""``harnessctl list | show | search | add | edit | remove``."""

from __future__ import annotations

import sys
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from harnessctl.bootstrap import opening
from harnessctl.cli.evidence import tell_evidence
from harnessctl.cli.landing import tell_landed
from harnessctl.cli.output import note, patch, print_json, say, table
from harnessctl.domain.errors import ExitCode, UsageError
from harnessctl.domain.ids import Kind
from harnessctl.domain.safe_text import visible_line
from harnessctl.domain.update import UpdateState

if TYPE_CHECKING:
    from collections.abc import Iterable

    from harnessctl.commands.show import ShownUpdate
    from harnessctl.domain.finding import Finding
    from harnessctl.layers.l3_durable.store import HarnessStore

At = Annotated[str, typer.Option("--at", metavar="REV", help="At this revision instead of the pin.")]
AsJson = Annotated[bool, typer.Option("--json", help="Print JSON.")]


def list_command(
    at: At = "",
    kind: Annotated[
        list[str] | None,
        typer.Option("--kind", help="Only memory, prompts, skills or subagents; may be given again."),
    ] = None,
    as_json: AsJson = False,
) -> None:
    """List entries at the pin, or at a revision.

    What cannot be read is named on stderr, and the exit code is then 1.

    REV: a full or short commit of the harness, a branch, REV~N, an update's id or its beginning.
    """
    from harnessctl.commands.list_entries import list_entries

    kinds = [Kind.parse(word) for word in kind or ()]
    listing = list_entries(opening.store(), at=at or None, kinds=kinds)
    if as_json:
        print_json(listing.to_json())
    else:
        rows = [(str(e.id), e.status.value if e.status else "", e.description) for e in listing.entries]
        if rows:
            table(("id", "status", "description"), rows)
        else:
            note("no entries" if not listing.commit else f"no entries at {listing.commit[:12]}")
    _tell_broken(listing.broken)


def show_command(
    what: Annotated[
        str, typer.Argument(metavar="ID", help="An entry's id, as in memory/build; or an update's.")
    ],
    at: At = "",
    evidence: Annotated[
        bool, typer.Option("--evidence", help="What it stands on: events, quotes, excerpts.")
    ] = False,
    as_json: AsJson = False,
) -> None:
    """Print one entry as it stands in git, or one update with its change.

    The entry is read at the pin, or at --at REV. An update is named by its id or the beginning of it.
    With --evidence: the session, cited events, quotes and excerpt behind the update, or behind each
    update of the entry that stands. Whether they hold: harnessctl verify.
    """
    from harnessctl.commands.show import show_update

    store = opening.store()
    if "/" in what:
        _show_entry(store, what, at, evidence=evidence, as_json=as_json)
        return
    update = show_update(store, what)
    if as_json:
        print_json(update.to_json())
        return
    _tell_update(update, evidence=evidence)


def _show_entry(store: HarnessStore, what: str, at: str, *, evidence: bool, as_json: bool) -> None:
    from harnessctl.commands.show import evidence_json, evidence_of, show_entry

    shown = show_entry(store, what, at=at or None)
    behind = evidence_of(store, what) if evidence else ()
    if as_json:
        print_json(shown.to_json() | ({"updates": list(map(evidence_json, behind))} if evidence else {}))
        return
    say(shown.text.rstrip("\n"))
    for path in (f.path for f in shown.entry.files if f is not shown.entry.main):
        note(f"also: {path}")
    for update in behind:
        say(f"\nupdate {update.id}" + (f", let in by {update.accepter.name}" if update.accepter else ""))
        if update.record:
            tell_evidence(update.record)


def add_command(
    entry: Annotated[str, typer.Argument(metavar="ID", help="The entry's id, as in memory/build-commands.")],
    file: Annotated[
        str, typer.Argument(metavar="FILE", help="A file, a skill's folder, or - for standard input.")
    ] = "-",
    message: Annotated[str, typer.Option("--message", "-m", help="One line: what changes.")] = "",
    why: Annotated[str, typer.Option("--why", help="Why, for the record.")] = "",
    as_json: AsJson = False,
) -> None:
    """Add or replace an entry from a file or standard input.

    The file is Markdown with YAML frontmatter, of which 'description' is needed:

    \b
        printf -- '---\\ndescription: how to build\\n---\\nmake all\\n' | harnessctl add memory/build

    In branch mode the entry lands as one commit with its record; in-tree both are written for you to
    commit, never over what is not committed yet. It is validated and scanned for secrets before anything
    is written.
    """
    from harnessctl.commands.add import add

    store = opening.store()
    landed = add(store, entry, _source(file), summary=message, why=why)
    if as_json:
        print_json(landed.to_json())
    else:
        tell_landed(landed, store, "added")


def edit_command(
    entry: Annotated[str, typer.Argument(metavar="ID", help="The entry's id; a new one is begun.")],
    message: Annotated[str, typer.Option("--message", "-m", help="One line: what changes.")] = "",
    why: Annotated[str, typer.Option("--why", help="Why, for the record.")] = "",
    as_json: AsJson = False,
) -> None:
    """Change an entry in $VISUAL or $EDITOR.

    A new one is begun; of a skill, SKILL.md is opened. In branch mode the landed text is opened and the
    result lands as one commit with its record; in-tree the text at HEAD is opened, and both are written
    for you to commit, never over what is not committed yet.

    What is wrong with the result is said, the text is kept, and it can be edited again. What somebody else
    changed meanwhile is never overwritten. To give up, leave the text as it was.
    """
    from harnessctl.cli.editing import edit_until_saved, tell_draft
    from harnessctl.commands.edit import editing, entry_path, save_entry

    store = opening.store()
    with editing(store, entry) as draft:
        tell_draft(draft)
        landed = edit_until_saved(
            store.place.environment.editor,
            lambda: (entry_path(draft),),
            lambda: save_entry(store, draft, summary=message, why=why),
        )
    if as_json:
        print_json(landed.to_json())
    else:
        tell_landed(landed, store, "edited")


def remove_command(
    entry: Annotated[str, typer.Argument(metavar="ID", help="The entry's id.")],
    message: Annotated[str, typer.Option("--message", "-m", help="One line: what changes.")] = "",
    why: Annotated[str, typer.Option("--why", help="Why, for the record.")] = "",
    as_json: AsJson = False,
) -> None:
    """Remove an entry; its history stays.

    In branch mode the removal lands as one commit with its record; in-tree the files are taken away and
    the record is written, for you to commit. Refused while another entry depends on it, and in-tree while
    its files hold what is not committed yet.
    """
    from harnessctl.commands.remove import remove

    store = opening.store()
    landed = remove(store, entry, summary=message, why=why)
    if as_json:
        print_json(landed.to_json())
    else:
        tell_landed(landed, store, "removed")


def search_command(
    words: Annotated[list[str], typer.Argument(metavar="WORD...", help="All of them must occur.")],
    at: At = "",
    as_json: AsJson = False,
) -> None:
    """Find entries by the words in their head and text, at the pin or at a revision.

    Letter case does not matter. Entries with every word in id, title, description or tags come first.
    """
    from harnessctl.commands.search import search

    store = opening.store()
    found = search(store, " ".join(words), at=at or None)
    if as_json:
        print_json([hit.to_json() for hit in found.hits])
    elif found.hits:
        table(
            ("id", "description", "line"),
            [(str(h.entry.id), h.entry.description, h.line) for h in found.hits],
        )
    else:
        note("no entry holds all of these words")
        if found.since:
            more = " and others" if found.since[1:] else ""
            note(f"{found.since[0]}{more} landed since the pin: say --at {store.branch} to search there")
    _tell_broken(found.broken)


def _source(file: str) -> Path | bytes:
    if file != "-":
        return Path(file)
    if sys.stdin.isatty():
        raise UsageError(
            "nothing to read: standard input is a terminal",
            id="no_input",
            hint="harnessctl add ID FILE, or pipe the text in",
        )
    from harnessctl.commands.add import ENOUGH

    return sys.stdin.buffer.read(ENOUGH)


def _tell_update(shown: ShownUpdate, *, evidence: bool) -> None:
    update = shown.update
    say(f"update {update.id or '(unrecorded)'}" + (f"  ({update.state.value})" if update.state else ""))
    record = update.record
    if record:
        say(f"{record.summary}\n\n{record.why}".rstrip())
    if record and evidence:
        tell_evidence(record)
    patch(shown.patch.decode("utf-8", "replace"))
    if update.state is UpdateState.REJECTED and not shown.patch:
        note("the proposed change is not kept: the harness branch has the decision and its reason alone")


def _tell_broken(broken: Iterable[Finding]) -> None:
    """Name what cannot be read, and end with 1 when there is any."""
    count = 0
    for finding in broken:
        path = visible_line(finding.path)
        place = f"{path}:{finding.line}:{finding.column}" if finding.line else path
        note(
            f"broken: {place}: {finding.rule}: {finding.message}"
            + (f" ({finding.hint})" if finding.hint else "")
        )
        count += 1
    if count:
        raise typer.Exit(int(ExitCode.FAILED))
