"""Signals between a session's end and its result: the outcome stands, and what is left is short."""

from __future__ import annotations

import json
import signal
import subprocess
from contextlib import suppress

import pytest
from jsonschema import Draft202012Validator

from harnessctl.rlm.result import result_schema
from tests.acceptance.conftest import Logs, Run, Script
from tests.conftest import Git
from tests.fakes.runs import begin, begin_verb, folder_of, until_record

pytestmark = pytest.mark.kernel

SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
#: The patch of so many files takes longer than the log is polled.
MANY = "for n in range(2000):\n    open(f'f{n}', 'w').write('x\\n' * 50)"
DONE = {"content": "Done."}


def hit(process: subprocess.Popen[bytes], folder_logs: Logs, ends: int, *numbers: signal.Signals) -> None:
    """Send the signals once the log has that many ends; there is no result yet."""
    until_record(folder_logs, "end", ends)
    assert not (folder_of(folder_logs) / "result.json").exists()
    for number in numbers:
        process.send_signal(number)


@pytest.mark.parametrize("number", SIGNALS, ids=lambda s: s.name)
def test_a_signal_after_the_end_takes_nothing_away(
    script: Script, repo: Git, logs: Logs, number: signal.Signals
) -> None:
    process = begin(repo, script({"content": "-", "code": MANY}, DONE), "--json")
    hit(process, logs, 1, number)
    out, err = process.communicate(timeout=60)
    assert process.returncode == 0, err
    result = json.loads(out)
    Draft202012Validator(result_schema()).validate(result)
    assert len(result["changes"]["files"]) == 2000
    assert json.loads((folder_of(logs) / "result.json").read_bytes()) == result


def test_nor_one_that_is_picked_up_again(harnessctl: Run, script: Script, repo: Git, logs: Logs) -> None:
    model = script({"content": "-", "code": MANY}, {"content": "-", "code": "1"}, DONE)
    harnessctl("run", "--model", model, "--max-turns", "1", "x", cwd=repo.root, code=5)
    (folder_of(logs) / "result.json").unlink()
    process = begin_verb(repo, "sessions", "resume", "--max-turns", "9")
    hit(process, logs, 2, *SIGNALS)
    out, err = process.communicate(timeout=60)
    assert (process.returncode, out) == (0, b"Done.\n"), err
    assert json.loads((folder_of(logs) / "result.json").read_bytes())["answer"] == "Done."


def test_a_printing_that_is_interrupted_says_where_the_result_is(
    script: Script, repo: Git, logs: Logs
) -> None:
    """Nobody takes what is printed: the pipe is full, and Ctrl-C is the way out."""
    process = begin(repo, script({"content": "x" * 200_000}), "--json")
    assert process.stdout is not None
    process.stdout.peek(1)  # type: ignore[attr-defined]
    for _ in range(5):  # one that comes between two writes is heard with the next
        process.send_signal(signal.SIGINT)
        with suppress(subprocess.TimeoutExpired):
            process.wait(6)
            break
    assert process.returncode == 130
    _, err = process.communicate()
    folder = folder_of(logs)
    assert f"harnessctl sessions show {folder.name}; {folder}\n" in err.decode()
    assert json.loads((folder / "result.json").read_bytes())["status"] == "success"
