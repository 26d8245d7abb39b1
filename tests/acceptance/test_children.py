"""Children through the installed command: options, a sandbox, gates, and what is shown."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.acceptance.conftest import COMMAND, Logs, Run, Script
from tests.acceptance.test_resume_children import Sessions
from tests.conftest import Git

pytestmark = pytest.mark.kernel

TRY = """
try:
    print(await rlm('x', name='alice'{more}))
except HostError as error:
    print(error)
"""
WRITE = """
open('made-by-alice', 'w').write('x')
try:
    open('.git/x', 'w')
except OSError as error:
    print(error)
"""


def outputs(sessions: Sessions) -> str:
    return "".join(str(r["text"]) for r in sessions.of("result"))


def test_depth_and_children_are_limited_on_the_command_line(
    harnessctl: Run, script: Script, logs: Logs, repo: Git
) -> None:
    for option, words in (("--max-depth", "the depth limit is 0"), ("--max-children", "limit of 0 children")):
        model = script({"content": "-", "code": TRY.format(more="")}, {"content": "Done."})
        harnessctl("run", option, "0", "--model", model, "x", cwd=repo.root)
        newest = [e["data"] for e in logs.newest() if e["type"] == "result"]
        assert words in newest[-1]["text"]


@pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap is for Linux")
def test_a_child_in_a_sandbox_has_a_model_of_its_own(
    harnessctl: Run, script: Script, logs: Logs, repo: Git
) -> None:
    own = script(
        {"for": "alice", "content": "-", "code": WRITE},
        {"for": "alice", "content": "Alice's answer."},
    )
    model = script({"content": "-", "code": TRY.format(more=f", model={own!r}")}, {"content": "Done."})
    done = harnessctl(
        "run", "--sandbox", "--json", "--model", model, "--gate", "test -e made-by-alice", "x", cwd=repo.root
    ).json()
    sessions = Sessions(logs)
    assert "Alice's answer." in outputs(sessions)
    assert done["verified"] is True
    assert [file["path"] for file in done["changes"]["files"]] == ["made-by-alice"]
    assert "Read-only file system" in "".join(str(r["text"]) for r in sessions.of("result", "alice"))
    assert sessions.of("header", "alice")[0]["model_name"] == own


def test_what_is_shown_while_children_work(harnessctl: Run, script: Script, repo: Git) -> None:
    lines: list[dict[str, Any]] = [
        {"content": "-", "code": TRY.format(more="")},
        {"content": "Done."},
        {"for": "alice", "content": "Alice's answer."},
    ]
    done = harnessctl("run", "--model", script(*lines), "x", cwd=repo.root)
    assert "child alice started: x" in done.err
    assert "child alice done, " in done.err
    assert "2 turns, 1 cell, 1 child, about " in done.err
    events = harnessctl("run", "--json-events", "--model", script(*lines), "x", cwd=repo.root).out
    states = [e["data"]["state"] for e in map(json.loads, events.splitlines()) if e["type"] == "child"]
    assert states == ["started", "done"]


def test_no_child_writes_while_a_gate_looks(harnessctl: Run, script: Script, logs: Logs, repo: Git) -> None:
    """They end before the gates run; the parent that has to go on starts others."""
    noise = "import time\nwhile True:\n    open('noise', 'a').write('x')\n    time.sleep(0.01)"
    begin = "rlm('write', name='loud')\nimport time\nwhile not os.path.exists('noise'): time.sleep(0.01)"
    model = script(
        {"content": "-", "code": begin},
        {"content": "Done, I think."},
        {"content": "-", "code": TRY.format(more="") + "print([c['state'] for c in rlm.list()])"},
        {"content": "Done."},
        {"for": "loud", "content": "-", "code": noise},
        {"for": "alice", "content": "-", "code": "open('ok', 'w').write('x')"},
        {"for": "alice", "content": "Alice's answer."},
    )
    gate = "a=$(wc -c < noise); sleep 0.5; test $a = $(wc -c < noise) && test -e ok"
    done = harnessctl("run", "--json", "--gate", gate, "--model", model, "x", cwd=repo.root).json()
    assert (done["verified"], done["answer"]) == (True, "Done.")
    sessions = Sessions(logs)
    assert "Alice's answer." in outputs(sessions)
    assert "['cancelled', 'done']" in outputs(sessions)
    assert sessions.of("end", "loud")[0]["reason"] == "parent_ended"


def test_a_log_that_cannot_grow_ends_that_child_alone(script: Script, logs: Logs, repo: Git) -> None:
    """A limit of 100 KiB on files: the child's log reaches it, its parent's does not."""
    lines: list[dict[str, Any]] = [
        {"content": "-", "code": TRY.format(more="").replace("HostError", "ChildError")},
        {"content": "Done."},
        *[{"for": "alice", "content": "-", "code": "print('x' * 30_000)"}] * 20,
    ]
    command = [COMMAND, "run", "--json", "--model", script(*lines), "x"]
    limited = ["bash", "-c", 'ulimit -f 100; exec "$@"', "bash", *map(str, command)]
    done = subprocess.run(limited, cwd=repo.root, capture_output=True, timeout=100, check=False)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["answer"] == "Done."
    sessions = Sessions(logs)
    assert "child alice: failed (storage, " in outputs(sessions)
    assert sessions.of("end", "alice")[0]["reason"] == "storage"
