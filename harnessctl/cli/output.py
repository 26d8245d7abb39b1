"""What verbs print: one JSON value for scripts, tables and plain lines for people.

Everything that an agent or a repository wrote goes through :func:`visible`, and rich is told to
interpret no markup.
"""

from __future__ import annotations

import json
import sys
from collections.abc import Iterable, Sequence
from typing import Any

from harnessctl.domain.safe_text import visible


def print_json(value: Any) -> None:
    """One JSON value on stdout, two spaces of indent."""
    print(json.dumps(value, indent=2, ensure_ascii=False))


def say(text: str = "") -> None:
    """One or more lines on stdout, made safe to look at."""
    print("\n".join(visible(line) for line in text.split("\n")))


def note(text: str) -> None:
    """A remark on stderr, so that stdout stays for results."""
    print("\n".join(visible(line) for line in text.split("\n")), file=sys.stderr)


def table(head: Sequence[str], rows: Iterable[Sequence[str]]) -> None:
    """Rows in columns: a rich table on a terminal, tab-separated lines elsewhere."""
    clean = [[visible(cell).replace("\t", " ") for cell in row] for row in rows]
    if not sys.stdout.isatty():
        for row in clean:
            print("\t".join(row))
        return
    from rich.console import Console
    from rich.table import Table
    from rich.text import Text

    grid = Table(box=None, pad_edge=False, header_style="bold")
    for number, title in enumerate(head):
        grid.add_column(title, overflow="fold", no_wrap=number == 0)
    for row in clean:
        grid.add_row(*(Text(cell) for cell in row))
    Console(highlight=False).print(grid)


def patch(text: str) -> None:
    """A unified diff, coloured on a terminal."""
    if not sys.stdout.isatty():
        say(text.rstrip("\n"))
        return
    from rich.console import Console
    from rich.text import Text

    console = Console(highlight=False)
    for line in text.rstrip("\n").split("\n"):
        console.print(Text(visible(line), style=_patch_style(line)), soft_wrap=True)


def _patch_style(line: str) -> str:
    if line.startswith(("+++", "---", "diff ")):
        return "bold"
    return {"+": "green", "-": "red", "@": "cyan"}.get(line[:1], "")
