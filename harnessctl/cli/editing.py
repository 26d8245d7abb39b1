"""Edit, save, and edit again while what was saved is refused and somebody sits at the terminal."""

from __future__ import annotations

import os
import sys
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, TypeVar

import typer

from harnessctl.cli.failure import report_error
from harnessctl.cli.output import note
from harnessctl.commands.drafts import FINAL, Draft
from harnessctl.commands.review_edit import editor
from harnessctl.domain.errors import HarnessError

Saved = TypeVar("Saved")
STDERR = 2


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
    while True:
        with _screen() as screen:
            editor(command, screen)(paths())
        try:
            return save()
        except HarnessError as error:
            if error.id in FINAL or not sys.stdin.isatty():
                raise
            report_error(error, as_json=False)
            if not _again():
                raise


def _again() -> bool:
    try:
        return typer.confirm("edit again?", default=True, err=True)
    except OSError:  # the terminal was closed: the text is kept, and nobody is left to be asked
        return False


@contextmanager
def _screen() -> Iterator[int | None]:
    """Where an editor draws: not on a stdout that is no terminal, which is to hold our result alone."""
    if sys.stdout.isatty():
        yield None
        return
    try:
        terminal = os.open("/dev/tty", os.O_RDWR | os.O_NOCTTY | os.O_CLOEXEC)
    except OSError:  # none controls us
        yield STDERR
        return
    try:
        yield terminal
    finally:
        os.close(terminal)
