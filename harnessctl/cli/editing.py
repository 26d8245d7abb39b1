"""Edit, save, and edit again while what was saved is refused and somebody sits at the terminal."""

from __future__ import annotations

import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any, TypeVar

import typer

from harnessctl.cli.failure import report_error
from harnessctl.cli.output import note
from harnessctl.commands.drafts import FINAL, Draft
from harnessctl.commands.review_edit import editor
from harnessctl.domain.errors import HarnessError

Saved = TypeVar("Saved")


def tell_draft(draft: Draft[Any]) -> None:
    """Say what an earlier call left of the same text."""
    if draft.resumed:
        note(f"going on with the text left in {draft.named}")
    if draft.aside:
        note(f"the text of an earlier call was not begun from what stands now; it is kept in {draft.aside}")


def edit_until_saved(command: str, paths: Callable[[], tuple[Path, ...]], save: Callable[[], Saved]) -> Saved:
    """What ``save`` gives once it takes what the editor left.

    :param command: the user's editor.
    :raises HarnessError: what ``save`` raised last, when there is nobody to ask or they had enough.
    """
    open_editor = editor(command)
    while True:
        open_editor(paths())
        try:
            return save()
        except HarnessError as error:
            if error.id in FINAL or not sys.stdin.isatty():
                raise
            report_error(error, as_json=False)
            if not typer.confirm("edit again?", default=True, err=True):
                raise
