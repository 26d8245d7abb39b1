"""Runs of the installed command that go on while a test does something else."""

from __future__ import annotations

import subprocess
from pathlib import Path

from tests.acceptance.conftest import COMMAND, Logs
from tests.conftest import Git
from tests.fakes.killing import until

#: Told to the test by a cell that runs; a sandbox lets no cell write there.
BEGUN = (
    "import contextlib, pathlib\n"
    "with contextlib.suppress(OSError): pathlib.Path.home().joinpath('begun').touch()"
)
#: A cell that says that it has begun, and stays.
SLEEP = f"print('begun', flush=True)\n{BEGUN}\nimport time\ntime.sleep(60)"
#: One that goes on when the test has put ``go-on`` beside ``begun``.
WAIT = f"{BEGUN}\nimport time\nwhile not pathlib.Path.home().joinpath('go-on').exists(): time.sleep(0.02)"
#: One that no interrupt ends.
STUBBORN = (
    "import pathlib, time\nwhile 1:\n  try:\n    pathlib.Path.home().joinpath('begun').touch()\n"
    "    time.sleep(60)\n  except KeyboardInterrupt:\n    pass"
)


def begin(repo: Git, model: str, *more: str) -> subprocess.Popen[bytes]:
    """A run that goes on; its stderr and stdout are pipes."""
    return subprocess.Popen(
        [COMMAND, "run", "--model", model, *more, "x"],
        cwd=repo.root,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
    )


def until_cell(logs: Logs, number: int = 1) -> None:
    """Until that cell, which says so itself, runs: its record is written before it starts."""
    assert until(lambda: cells_begun(logs) >= number), "no record of the cell was written"
    mark = logs.state.parent / "begun"
    assert until(mark.exists), "the cell did not begin"
    mark.unlink()


def cells_begun(logs: Logs) -> int:
    """Records of cells in the logs of all sessions."""
    found = logs.state.glob("harnessctl/*/sessions/*/log.jsonl")
    return sum(path.read_bytes().count(b'"type":"cell"') for path in found)


def folder_of(logs: Logs) -> Path:
    """The newest session's folder."""
    return sorted(logs.state.glob("harnessctl/*/sessions/*"), key=lambda p: p.name)[-1]
