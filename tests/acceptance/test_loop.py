"""The whole loop through the installed command: init, run, refine, review, accept, run, rollback."""

from __future__ import annotations

import json
import secrets
from typing import Any

import pytest

from tests.acceptance.conftest import Logs, Run, Script
from tests.conftest import Git
from tests.fakes.harness import fsck_is_clean
from tests.fakes.openai_server import FakeOpenAI, Say

pytestmark = pytest.mark.kernel

TASK = "how many Python files does this repository track, and which is the largest?"
COUNT = """
import subprocess
print("tracked:", subprocess.run(["git", "ls-files", "*.py"], capture_output=True, text=True).stdout)
"""


def lesson(token: str, events: list[dict[str, Any]]) -> dict[str, Any]:
    """A refiner's reply that cites the first output of the log."""
    output = next(e for e in events if e["type"] == "output")
    return {
        "summary": "remember how files are counted here",
        "rationale": "the count was needed and one call gave it",
        "edits": [
            {
                "action": "create",
                "kind": "memory",
                "name": "count-files",
                "title": "Counting files",
                "description": f"Tracked files are listed by git ls-files ({token})",
                "content": f"Use `git ls-files '*.py'`; marker {token}.\n",
                "status": "hypothesis",
                "expected_outcome": "one cell instead of three",
                "how_to_see": "cells of the next run",
                "reason": "seen in the run",
                "evidence": [{"session": "s1", "event": output["n"], "quote": "tracked: app.py"}],
            }
        ],
    }


def run_and_propose(harnessctl: Run, script: Script, logs: Logs, git: Git, token: str) -> str:
    """Init, one run and refine; the proposal's id."""
    harnessctl("init", cwd=git.root)
    model = script(
        {"for": "root", "content": "I count.", "code": COUNT}, {"for": "root", "content": "One file, app.py."}
    )
    result = harnessctl("run", "--model", model, "--json", TASK, cwd=git.root).json()
    assert result["status"] == "success"
    assert result["answer"] == "One file, app.py."
    refiner = script({"for": "refine", "content": json.dumps(lesson(token, logs.newest()))})
    proposal = harnessctl("refine", "--model", refiner, "--json", cwd=git.root).json()
    return str(proposal["update"])


def test_lesson_reaches_the_next_run_and_leaves_after_rollback(
    harnessctl: Run, script: Script, logs: Logs, repo: Git
) -> None:
    token = secrets.token_hex(8)
    head, index = repo("rev-parse", "HEAD"), (repo.root / ".git/index").read_bytes()
    update = run_and_propose(harnessctl, script, logs, repo, token)
    before = repo("rev-parse", "refs/heads/harness")

    listed = harnessctl("review", "list", "--json", cwd=repo.root).json()
    assert [p["id"] for p in listed] == [update]
    shown = harnessctl("review", "show", update, cwd=repo.root).out
    assert token in shown
    assert "tracked: app.py" in shown
    harnessctl("review", "accept", update, "--pin", cwd=repo.root)

    again = script({"for": "root", "content": "Done."})
    assert token not in logs.first_request()
    harnessctl("run", "--model", again, TASK, cwd=repo.root)
    assert token in logs.first_request()
    assert token not in TASK

    history = harnessctl("log", "--json", cwd=repo.root).json()
    assert any(u["update"] == update and u["state"] == "landed" for u in history)
    harnessctl("rollback", before, cwd=repo.root)
    harnessctl("run", "--model", again, TASK, cwd=repo.root)
    assert token not in logs.first_request()

    assert repo("status", "--porcelain") in ("", "?? harness.lock")
    assert repo("rev-parse", "HEAD") == head
    assert (repo.root / ".git/index").read_bytes() == index
    assert repo("symbolic-ref", "HEAD") == "refs/heads/main"
    assert fsck_is_clean(repo)


def test_git_alone_tells_agent_accepter_and_evidence(
    harnessctl: Run, script: Script, logs: Logs, repo: Git
) -> None:
    update = run_and_propose(harnessctl, script, logs, repo, "x1")
    harnessctl("review", "accept", update, cwd=repo.root)
    told = repo("log", "--format=%an | %cn | %(trailers:only)", "refs/heads/harness", "--")
    assert "harnessctl agent | Ada Reviewer" in told
    assert f"Harness-Update: {update}" in told
    assert "Harness-Accepted-By: Ada Reviewer" in told
    path = next(
        p for p in repo("ls-tree", "-r", "--name-only", "refs/heads/harness").splitlines() if update in p
    )
    record = json.loads(repo("show", f"refs/heads/harness:{path}"))
    assert any("tracked: app.py" in x["text"] for e in record["evidence"] for x in e["excerpt"])


def test_loopback_server_sees_the_lesson_come_and_go(
    harnessctl: Run, script: Script, logs: Logs, repo: Git
) -> None:
    token = secrets.token_hex(8)
    update = run_and_propose(harnessctl, script, logs, repo, token)
    before = repo("rev-parse", "refs/heads/harness")
    harnessctl("review", "accept", update, "--pin", cwd=repo.root)
    with FakeOpenAI([Say("It is done."), Say("It is done.")]) as server:
        env = {"OPENAI_API_KEY": "unused", "OPENAI_API_BASE": server.base_url}
        harnessctl("run", "--model", "openai/test-model", TASK, cwd=repo.root, env=env)
        assert server.requests[0].body["stream"] is True
        assert token in json.dumps(server.requests[0].body)
        harnessctl("rollback", before, cwd=repo.root)
        harnessctl("run", "--model", "openai/test-model", TASK, cwd=repo.root, env=env)
        assert token not in json.dumps(server.requests[1].body)


def test_a_dotenv_in_the_repository_changes_nothing(harnessctl: Run, repo: Git) -> None:
    with FakeOpenAI([Say("From elsewhere.")]) as hostile, FakeOpenAI([Say("From the user's.")]) as own:
        repo.write(
            ".env",
            f"OPENAI_API_BASE={hostile.base_url}\nOPENAI_BASE_URL={hostile.base_url}\nOPENAI_API_KEY=planted\n",
        )
        env = {"OPENAI_API_KEY": "users-own", "OPENAI_API_BASE": own.base_url}
        result = harnessctl(
            "run", "--model", "openai/test-model", "--json", "x", cwd=repo.root, env=env
        ).json()
        assert result["answer"] == "From the user's."
        assert not hostile.requests
        assert "Bearer users-own" in own.requests[0].headers.values()


def test_remote_without_a_harness_branch(
    harnessctl: Run, script: Script, logs: Logs, repo: Git, make_repo: Any
) -> None:
    bare = make_repo("origin.git", bare=True)
    repo("remote", "add", "origin", str(bare.root))
    repo("push", "-q", "origin", "main")
    repo("fetch", "-q", "origin")
    token = secrets.token_hex(8)
    update = run_and_propose(harnessctl, script, logs, repo, token)
    before = repo("rev-parse", "refs/heads/harness")
    accepted = harnessctl("review", "accept", update, "--pin", cwd=repo.root)
    assert "not pushed" in accepted.out + accepted.err
    assert "not pushed" in harnessctl("status", cwd=repo.root).out
    again = script({"for": "root", "content": "Done."})
    harnessctl("run", "--model", again, TASK, cwd=repo.root)
    assert token in logs.first_request()
    (row,) = [u for u in harnessctl("log", "--json", cwd=repo.root).json() if u["update"] == update]
    assert (row["state"], row["shared"]) == ("landed", False)
    undone = harnessctl("rollback", before, cwd=repo.root)
    assert "not pushed" in undone.out + undone.err
    harnessctl("run", "--model", again, TASK, cwd=repo.root)
    assert token not in logs.first_request()
    (row,) = [u for u in harnessctl("log", "--json", cwd=repo.root).json() if u["update"] == update]
    assert row["state"] == "taken_back"
    assert "not pushed" in harnessctl("status", cwd=repo.root).out
    assert bare("for-each-ref", "--format=%(refname)") == "refs/heads/main"


@pytest.mark.parametrize("how", ["plain", "env -i", "no mark"])
def test_landing_verbs_are_refused_inside_a_cell(
    harnessctl: Run, script: Script, logs: Logs, repo: Git, home: Any, how: str
) -> None:
    update = run_and_propose(harnessctl, script, logs, repo, "x3")
    refs = repo("for-each-ref", "refs/heads", "refs/harness/proposals")
    verbs = [
        ["review", "accept", update],
        ["review", "reject", update],
        ["pin", "harness"],
        ["rollback", "harness"],
        ["add", "memory/x", "-"],
        ["edit", "memory/x"],
        ["remove", "memory/x"],
        ["sync"],
        ["init"],
    ]
    from tests.acceptance.conftest import COMMAND

    keep = (
        f"'PATH=' + os.environ['PATH'], 'HOME={home}', 'XDG_STATE_HOME={home}/state', 'GIT_CONFIG_NOSYSTEM=1'"
    )
    prefix = {
        "plain": "[]",
        "env -i": f"['env', '-i', {keep}]",
        "no mark": "['env', '-u', 'HARNESSCTL_KERNEL']",
    }[how]
    code = (
        "import os, subprocess\n"
        f"for verb in {verbs!r}:\n"
        f"    done = subprocess.run({prefix} + ['{COMMAND}'] + verb, input=b'---\\ndescription: x\\n---\\n', "
        "capture_output=True)\n"
        "    print(verb[0], verb[1:2], done.returncode)\n"
    )
    model = script({"for": "root", "content": "try", "code": code}, {"for": "root", "content": "end"})
    harnessctl("run", "--model", model, "x", cwd=repo.root)
    printed = "".join(e["data"]["text"] for e in logs.newest() if e["type"] == "output")
    assert [line.split()[-1] for line in printed.split("\n") if line.strip()] == ["6"] * len(verbs), printed
    assert repo("for-each-ref", "refs/heads", "refs/harness/proposals") == refs
