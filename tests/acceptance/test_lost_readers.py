"""Somebody who stops looking: pipes without a reader, terminals that are closed, a full stdout.

The session is not what they closed: it goes on to its end, and its exit code is that of the end.
"""

from __future__ import annotations

import contextlib
import json
import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.acceptance.conftest import COMMAND, Logs, Run, Script, outside_pytest
from tests.conftest import Git
from tests.fakes.killing import until
from tests.fakes.runs import BEGUN, SLEEP

pytestmark = pytest.mark.kernel

CELL = {"content": "go", "code": "print('a\\n' * 50)"}
DONE = {"content": "Done."}
NO_FULL = pytest.mark.skipif(not Path("/dev/full").exists(), reason="there is no /dev/full here")


def shell(repo: Git, line: str, *words: str) -> subprocess.CompletedProcess[str]:
    """``line`` with the installed command as ``$h``; bash, so that a pipe's own exit code can be told."""
    return subprocess.run(
        ["bash", "-c", line, "bash", *words],
        cwd=repo.root,
        env={**outside_pytest(), "h": str(COMMAND)},
        capture_output=True,
        text=True,
        check=False,
        timeout=120,
    )


def ended_well(logs: Logs) -> None:
    """The newest session has its end, and nothing was taken for a defect."""
    end = logs.newest()[-1]
    assert (end["type"], end["data"]["status"]) == ("end", "success")
    assert not list(logs.state.glob("harnessctl/crashes/*"))


@pytest.mark.parametrize(
    "line",
    [
        '$h run --model "$1" --json-events hi | head -1; echo "code ${PIPESTATUS[0]}"',
        '$h run --model "$1" --json hi | true; echo "code ${PIPESTATUS[0]}"',
        '$h run --model "$1" hi 2>&1 | head -1; echo "code ${PIPESTATUS[0]}"',
        pytest.param('$h run --model "$1" hi 2>/dev/full; echo "code $?"', marks=NO_FULL),
    ],
)
def test_a_reader_that_goes_away_ends_no_run(script: Script, repo: Git, logs: Logs, line: str) -> None:
    done = shell(repo, line, script(CELL, DONE))
    ended_well(logs)
    assert done.stdout.endswith("code 0\n"), done
    assert "Traceback" not in done.stderr


def test_nor_one_that_is_picked_up_again(harnessctl: Run, script: Script, repo: Git, logs: Logs) -> None:
    harnessctl("run", "--model", script(DONE), "hi", cwd=repo.root)
    line = '$h sessions resume --task more --model "$1" 2>&1 | head -1; echo "code ${PIPESTATUS[0]}"'
    done = shell(repo, line, script(DONE, CELL, DONE))
    ended_well(logs)
    assert done.stdout.endswith("code 0\n"), done


@NO_FULL
@pytest.mark.parametrize("options", ["--json-events", "--json", ""])
def test_a_result_that_finds_no_room_is_said(script: Script, repo: Git, logs: Logs, options: str) -> None:
    done = shell(repo, f'$h run --model "$1" {options} hi >/dev/full', script(CELL, DONE))
    ended_well(logs)
    assert done.returncode == 1
    assert "No space left on device); the result is in" in done.stderr
    assert "Traceback" not in done.stderr


@NO_FULL
@pytest.mark.parametrize("unbuffered", ["", "1"])
def test_an_error_that_finds_no_room_is_said_on_stderr(repo: Git, unbuffered: str) -> None:
    line = f"export PYTHONUNBUFFERED={unbuffered}; $h init >/dev/null; $h status --json >/dev/full"
    done = shell(repo, line)
    assert done.returncode == 1
    assert json.loads(done.stderr.splitlines()[-1])["error"]["id"] == "storage"
    assert "Traceback" not in done.stderr


def on_a_terminal_that_closes(repo: Git, logs: Logs, model: str, before: Callable[[], object]) -> int:
    """A run that watches live, whose terminal goes while a cell runs; its exit code."""
    ours, theirs = pty.openpty()
    process = subprocess.Popen(
        [sys.executable, "-c", TAKE_OVER, COMMAND, "run", "--model", model, "hi"],
        cwd=repo.root,
        stdin=theirs,
        stdout=theirs,
        stderr=theirs,
        env={**outside_pytest(), "TERM": "xterm-256color"},
        start_new_session=True,
        preexec_fn=before,
    )
    os.close(theirs)
    os.set_blocking(ours, False)
    begun = logs.state.parent / "begun"
    assert until(lambda: drained(ours) and begun.exists())
    os.close(ours)
    return process.wait(120)


def drained(ours: int) -> bool:
    """Take what has come: a terminal that nobody reads is full after some seconds, and holds up the run."""
    with contextlib.suppress(BlockingIOError):
        while os.read(ours, 65536):
            pass
    return True


TAKE_OVER = """
import fcntl, os, sys, termios
fcntl.ioctl(0, termios.TIOCSCTTY, 0)
os.execv(sys.argv[1], sys.argv[1:])
"""


def test_a_closed_terminal_hangs_up(script: Script, repo: Git, logs: Logs) -> None:
    model = script({"content": "go", "code": SLEEP}, DONE)
    heard = lambda: signal.signal(signal.SIGHUP, signal.SIG_DFL)  # noqa: E731 - also where nohup runs the tests
    assert on_a_terminal_that_closes(repo, logs, model, heard) == 130
    end = logs.newest()[-1]
    assert (end["type"], end["data"]["reason"]) == ("end", "terminated")
    assert not list(logs.state.glob("harnessctl/crashes/*"))


def test_one_that_the_run_is_to_outlive_does_not(script: Script, repo: Git, logs: Logs) -> None:
    code = f"{BEGUN}\nimport time\nfor n in range(30):\n    print(n, flush=True)\n    time.sleep(0.1)"
    model = script({"content": "go", "code": code}, CELL, DONE)
    ignored = lambda: signal.signal(signal.SIGHUP, signal.SIG_IGN)  # noqa: E731 - as nohup does
    assert on_a_terminal_that_closes(repo, logs, model, ignored) == 0
    ended_well(logs)
