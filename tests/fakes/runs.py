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
    return begin_verb(repo, "run", "--model", model, *more, "x")


def begin_verb(repo: Git, *words: str) -> subprocess.Popen[bytes]:
    """The same for any verb."""
    return subprocess.Popen(
        [COMMAND, *words],
        cwd=repo.root,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
    )


def until_cell(logs: Logs, number: int = 1) -> None:
    """Until that cell runs: its record is written before it starts."""
    until_record(logs, "cell", number)
    time.sleep(0.5)


def until_record(logs: Logs, kind: str, number: int = 1) -> None:
    """Until a log holds that many records of a kind."""
    end = time.monotonic() + 60
    while time.monotonic() < end:
        for path in logs.state.glob("harnessctl/*/sessions/*/log.jsonl"):
            if path.read_bytes().count(f'"type":"{kind}"'.encode()) >= number:
                return
        time.sleep(0.01)
    raise AssertionError(f"no record of a {kind} was written")


def folder_of(logs: Logs) -> Path:
    """The newest session's folder."""
    return sorted(logs.state.glob("harnessctl/*/sessions/*"), key=lambda p: p.name)[-1]
