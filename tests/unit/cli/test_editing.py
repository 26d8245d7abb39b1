"""Edit again, or not: what happens where nobody is left to be asked."""

from __future__ import annotations

import errno
import io
from pathlib import Path

import pytest

from harnessctl.cli.editing import edit_until_saved
from harnessctl.domain.errors import HarnessError


def test_a_terminal_that_closes_at_the_question_keeps_the_refusal(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    class Closed(io.StringIO):
        def isatty(self) -> bool:
            return True

    def closed(*_: object, **__: object) -> bool:
        raise OSError(errno.EIO, "Input/output error")

    def save() -> None:
        raise HarnessError("the text is refused", id="invalid_entry")

    monkeypatch.setattr("sys.stdin", Closed())
    monkeypatch.setattr("typer.confirm", closed)
    with pytest.raises(HarnessError, match="the text is refused"):
        edit_until_saved("true", lambda: (tmp_path / "text",), save)
