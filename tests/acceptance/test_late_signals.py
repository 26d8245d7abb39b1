"""Signals between a session's end and its result: the outcome stands, and what is left is short."""

from __future__ import annotations

import json
import signal
import subprocess
import sys
from contextlib import suppress

import pytest
from jsonschema import Draft202012Validator

from harnessctl.rlm.result import result_schema
from tests.acceptance.conftest import Logs, Run, Script
from tests.conftest import Git
from tests.fakes.killing import until
from tests.fakes.runs import begin, folder_of

pytestmark = pytest.mark.kernel

SIGNALS = (signal.SIGTERM, signal.SIGHUP, signal.SIGINT)
MANY = "for n in range(20):\n    open(f'f{n}', 'w').write('x\\n' * 50)"
DONE = {"content": "Done."}
#: The command with a patch of what changed that takes until a file is there, and says when it begins.
SLOWLY = """
import sys, time
from pathlib import Path
from harnessctl.cli.main import main
from harnessctl.layers.l3_durable.git.worktree import GitWorkTree

begun, go_on, patch = Path(sys.argv[1]), Path(sys.argv[2]), GitWorkTree.patch

def slowly(*what):
    begun.touch()
    while not go_on.exists():
        time.sleep(0.01)
    return patch(*what)

GitWorkTree.patch = slowly
main(sys.argv[3:])
"""


def hit(
    repo: Git, logs: Logs, ends: int, numbers: tuple[signal.Signals, ...], *words: str
) -> tuple[int, bytes]:
    """Run ``words`` and send the signals when the log has that many ends and there is no result yet.

    :return: exit code and stdout.
    """
    begun, go_on = (repo.root.parent / name for name in ("begun", "go-on"))
    process = subprocess.Popen(
        [sys.executable, "-c", SLOWLY, begun, go_on, *words],
        cwd=repo.root,
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert until(begun.exists)
    folder = folder_of(logs)
    assert (folder / "log.jsonl").read_bytes().count(b'"type":"end"') == ends
    assert not (folder / "result.json").exists()
    for number in numbers:
        process.send_signal(number)
    go_on.touch()
    out, err = process.communicate(timeout=120)
    assert b"Traceback" not in err, err
    return process.returncode, out


@pytest.mark.parametrize("number", SIGNALS, ids=lambda s: s.name)
def test_a_signal_after_the_end_takes_nothing_away(
    script: Script, repo: Git, logs: Logs, number: signal.Signals
) -> None:
    model = script({"content": "-", "code": MANY}, DONE)
    code, out = hit(repo, logs, 1, (number,), "run", "--model", model, "--json", "x")
    assert code == 0
    result = json.loads(out)
    Draft202012Validator(result_schema()).validate(result)
    assert len(result["changes"]["files"]) == 20
    assert json.loads((folder_of(logs) / "result.json").read_bytes()) == result


def test_nor_one_that_is_picked_up_again(harnessctl: Run, script: Script, repo: Git, logs: Logs) -> None:
    model = script({"content": "-", "code": MANY}, {"content": "-", "code": "1"}, DONE)
    harnessctl("run", "--model", model, "--max-turns", "1", "x", cwd=repo.root, code=5)
    (folder_of(logs) / "result.json").unlink()
    found = hit(repo, logs, 2, SIGNALS, "sessions", "resume", "--max-turns", "9")
    assert found == (0, b"Done.\n")
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
