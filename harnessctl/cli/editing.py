"""Edit, save, and edit again while what was saved is refused and somebody sits at the terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable, Collection
from pathlib import Path
from typing import TypeVar

import typer

from harnessctl.cli.output import note
from harnessctl.commands.review_edit import editor
from harnessctl.domain.errors import HarnessError

Saved = TypeVar("Saved")


def edit_until_saved(
    command: str, paths: Callable[[], tuple[Path, ...]], save: Callable[[], Saved], *, final: Collection[str]
) -> Saved:
    """What ``save`` gives once it takes what the editor left.

    :param command: the user's editor.
    :param final: ids of errors that another edit would not mend.
    :raises HarnessError: what ``save`` raised last, when there is nobody to ask or they had enough.
    """
    open_editor = editor(command)
    while True:
        open_editor(paths())
        try:
            return save()
        except HarnessError as error:
            if error.id in final or not sys.stdin.isatty():
                raise
            note(f"error: {error.message}")
            if not typer.confirm("edit again?", default=True, err=True):
                raise
