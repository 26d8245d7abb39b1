"""A kill between a session's end and its `result.json`: the result can be had again, from the log."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from harnessctl.rlm.result import result_schema
from tests.acceptance.conftest import Logs, Run, Script
from tests.conftest import Git
from tests.fakes.runs import folder_of

pytestmark = pytest.mark.kernel


def cut_off(folder: Path) -> dict[str, Any]:
    """Take away what a run writes after its log's end; the result that it had."""
    result: dict[str, Any] = json.loads((folder / "result.json").read_text())
    (folder / "result.json").unlink()
    (folder / "changes.patch").unlink(missing_ok=True)
    return result


def test_the_result_is_the_one_that_was_lost(harnessctl: Run, script: Script, logs: Logs, repo: Git) -> None:
    harnessctl("init", cwd=repo.root)
    ask = "print(await rlm('x', name='alice'), llm('a question'))\nopen('new', 'w').write('x\\n')"
    wish = "harness.propose('memory/a', description='a', content='b', why='c')"
    model = script(
        {"model": {"window": 8000, "price": {"prompt": 1.0, "completion": 2.0}}},
        {"content": "-", "code": ask},
        {"content": "-", "code": wish},
        {"content": "Done."},
        {"content": "More is done."},
        {"for": "alice", "content": "-", "code": "open('Makefile', 'w').write('x:\\n')"},
        {"for": "alice", "content": "Alice's answer."},
        {"for": "llm", "content": "An answer."},
    )
    gates = ("--gate", "test -e new", "--allow-gate-input", "Makefile")
    harnessctl("run", "--model", model, *gates, "work", cwd=repo.root)
    folder = folder_of_root(logs)
    assert (folder / "changes.patch").exists()
    log = (folder / "log.jsonl").read_bytes()
    lost = cut_off(folder)
    assert (lost["verified"], lost["gates"][0]["status"]) == (True, "passed")
    assert lost["proposals"]
    assert lost["allowed_gate_inputs"]["changed"] == ["Makefile"]
    # The answer stands in the log whatever happens.
    assert "Done." in harnessctl("sessions", "show", cwd=repo.root).out
    again = harnessctl("sessions", "resume", "--json", cwd=repo.root)
    assert again.json() == lost
    assert "its result was missing" in again.err
    assert json.loads((folder / "result.json").read_text()) == lost
    assert (folder / "changes.patch").exists()
    assert (folder / "log.jsonl").read_bytes() == log
    refused = harnessctl("sessions", "resume", "--json", cwd=repo.root, code=2).json()
    assert refused["error"]["id"] == "session_ended"

    # With more to do it ends a second time: the result of the first end is not this one's.
    old = (folder / "result.json").read_bytes()
    harnessctl("sessions", "resume", "--json", "--task", "more", cwd=repo.root)
    lost = cut_off(folder)
    (folder / "result.json").write_bytes(old)
    again = harnessctl("sessions", "resume", "--json", cwd=repo.root)
    assert again.json()["answer"] == "More is done."
    assert again.json() == lost


def folder_of_root(logs: Logs) -> Path:
    """The only root's folder: its log is the one with a gate in it."""
    found = logs.state.glob("harnessctl/*/sessions/*/log.jsonl")
    (log,) = (log for log in found if b'"type":"gate"' in log.read_bytes())
    return log.parent


def test_a_spent_limit_keeps_its_exit_code(harnessctl: Run, script: Script, logs: Logs, repo: Git) -> None:
    model = script({"content": "-", "code": "1"}, {"content": "-", "code": "2"}, {"content": "Done."})
    harnessctl("run", "--model", model, "--max-turns", "1", "x", cwd=repo.root, code=5)
    lost = cut_off(folder_of(logs))
    again = harnessctl("sessions", "resume", "--json", cwd=repo.root, code=5).json()
    assert again == lost
    Draft202012Validator(result_schema()).validate(again)
    refused = harnessctl("sessions", "resume", "--json", cwd=repo.root, code=2).json()
    assert refused["error"]["id"] == "limit_used"
    # Where it can go on it does, and has a result then.
    cut_off(folder_of(logs))
    done = harnessctl("sessions", "resume", "--json", "--max-turns", "9", cwd=repo.root).json()
    assert done["answer"] == "Done."


def test_a_ref_that_moved_is_still_refused(harnessctl: Run, script: Script, logs: Logs, repo: Git) -> None:
    """Only where the ref was is not in the log: its digests are."""
    harnessctl("init", cwd=repo.root)
    code = "!git update-ref -d refs/heads/harness"
    model = script({"content": "-", "code": code}, {"content": "Done."})
    harnessctl("run", "--model", model, "x", cwd=repo.root, code=6)
    lost = cut_off(folder_of(logs))
    again = harnessctl("sessions", "resume", "--json", cwd=repo.root, code=6).json()
    assert again["moved"] == [{**move, "before_commit": None, "after_commit": None} for move in lost["moved"]]
    assert {**again, "moved": []} == {**lost, "moved": []}
