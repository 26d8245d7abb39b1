"""A pseudo-terminal with the installed command on it."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import subprocess
import termios
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from pathlib import Path

from tests.acceptance.conftest import COMMAND

#: Seconds without any output after which a command is given up.
SILENCE_S = 120
#: Colours, and where the cursor goes.
_CONTROL = re.compile(r"\x1b\[[0-9;?]*[A-Za-z]")


@contextmanager
def pseudo_terminal() -> Iterator[tuple[int, int]]:
    """Both ends of a terminal, for one stream of a command: (ours, the command's)."""
    ours, theirs = pty.openpty()
    try:
        yield ours, theirs
    finally:
        os.close(ours)
        os.close(theirs)


class Terminal:
    """Runs a command whose three streams are one terminal, 100 columns wide.

    :param controlling: make it the command's controlling terminal, as a shell does.
    :ivar shown: what has come so far.
    """

    def __init__(
        self, command: Sequence[str | Path], cwd: Path, *, controlling: bool = False, **env: str
    ) -> None:
        self._ours, theirs = pty.openpty()
        self.shown = b""
        self.process = subprocess.Popen(
            list(map(str, command)),
            cwd=cwd,
            stdin=theirs,
            stdout=theirs,
            stderr=theirs,
            env={**os.environ, "TERM": "xterm-256color", "COLUMNS": "100", **env},
            start_new_session=controlling,
            preexec_fn=(lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0)) if controlling else None,
        )
        os.close(theirs)

    def type(self, text: str) -> None:
        """As from a keyboard."""
        os.write(self._ours, text.encode())

    def until_end(self, meanwhile: Callable[[], object] = lambda: None) -> int:
        """Read until the command has ended, with ``meanwhile`` before each look; its exit code."""
        while True:
            meanwhile()
            if not select.select([self._ours], [], [], SILENCE_S)[0]:
                self.process.kill()
                raise AssertionError(f"nothing for {SILENCE_S} s after: {self.text}")
            try:
                piece = os.read(self._ours, 65536)
            except OSError:  # how Linux says that nobody holds the other end
                break
            if not piece:
                break
            self.shown += piece
        os.close(self._ours)
        return self.process.wait(120)

    @property
    def text(self) -> str:
        """What was shown, control sequences and all."""
        return self.shown.decode(errors="replace")

    @property
    def plain(self) -> str:
        """The same as a person reads it."""
        return _CONTROL.sub("", self.text)


def run_on_terminal(folder: Path, model: str, **env: str) -> Terminal:
    """A run that has ended well; what it showed."""
    terminal = Terminal([COMMAND, "run", "--model", model, "x"], folder, **env)
    assert terminal.until_end() == 0, terminal.text
    return terminal
