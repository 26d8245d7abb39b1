"""Runs of the installed command that go on while a test does something else."""

from __future__ import annotations

import subprocess
import time
from pathlib import Path

from tests.acceptance.conftest import COMMAND, Logs
from tests.conftest import Git

#: A cell that says that it has begun, and stays.
SLEEP = "import time\nprint('begun', flush=True)\ntime.sleep(60)"


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
    """Until that cell runs: its record is written before it starts."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        for path in logs.state.glob("harnessctl/*/sessions/*/log.jsonl"):
            if path.read_bytes().count(b'"type":"cell"') >= number:
                time.sleep(0.5)
                return
        time.sleep(0.05)
    raise AssertionError("no cell ran")


def folder_of(logs: Logs) -> Path:
    """The newest session's folder."""
    return sorted(logs.state.glob("harnessctl/*/sessions/*"), key=lambda p: p.name)[-1]
