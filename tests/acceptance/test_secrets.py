"""security-01: a secret in the evidence stops the proposal, and its value goes nowhere."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from tests.acceptance.conftest import Logs, Run, Script
from tests.conftest import Git

pytestmark = pytest.mark.kernel

TOKEN = "ghp_" + "k3Jx8Qw2ZpLm" * 3


def test_a_token_in_a_cited_event_stops_refine(
    harnessctl: Run, script: Script, logs: Logs, repo: Git, home: Path
) -> None:
    harnessctl("init", cwd=repo.root)
    code = f"print('TOKEN=' + {TOKEN[:6]!r} + {TOKEN[6:]!r})"
    model = script({"for": "root", "content": "look", "code": code}, {"for": "root", "content": "done"})
    harnessctl("run", "--model", model, "look", cwd=repo.root)
    output = next(e for e in logs.newest() if e["type"] == "output")
    assert TOKEN in output["data"]["text"]
    log = next(home.rglob("log.jsonl"))
    before = log.read_bytes()

    edit = {
        "action": "create",
        "kind": "memory",
        "name": "token",
        "description": "where the token is",
        "content": "It is printed.\n",
        "reason": "seen",
        "evidence": [{"session": "s1", "event": output["n"], "quote": "TOKEN="}],
    }
    reply = {"summary": "the token", "rationale": "seen", "edits": [edit]}
    moment = log.stat().st_mtime
    refiner = script({"for": "refine", "content": json.dumps(reply)})
    refused = harnessctl("refine", "--model", refiner, cwd=repo.root, code=6)
    assert f"{log.parent.name}#{output['n']}" in refused.err
    assert TOKEN not in refused.out + refused.err
    as_json = harnessctl("refine", "--model", refiner, "--json", cwd=repo.root, code=6)
    assert TOKEN not in as_json.out + as_json.err

    assert log.read_bytes() == before
    objects = repo("cat-file", "--batch-all-objects", "--batch")
    assert "harness(init)" in objects
    assert TOKEN not in objects
    after = b"".join(
        p.read_bytes() for p in home.rglob("*") if p.is_file() and p.stat().st_mtime > moment and p != log
    )
    assert TOKEN.encode() not in after
    assert TOKEN not in harnessctl("sessions", "show", cwd=repo.root).out
    assert not repo("for-each-ref", "refs/harness")
