"""security-01: a secret in the evidence stops the proposal, and its value goes nowhere."""

from __future__ import annotations

import base64
import json
from pathlib import Path

import pytest

from tests.acceptance.conftest import Logs, Run, Script
from tests.conftest import Git

pytestmark = pytest.mark.kernel


def part(text: str) -> str:
    """One part of a JSON web token."""
    return base64.urlsafe_b64encode(text.encode()).decode().rstrip("=")


#: In pieces, so that no scanner takes this file for a leak.
TOKENS = {
    "GitHub token": "ghp_" + "k3Jx8Qw2ZpLm" * 3,
    "AWS key": "AKIA" + "Q3EGRZ5N7WKX2B4T",
    "API key": "sk-" + "proj-9fK2mQ7xR4tV8wZ1cB5n",
    "JSON web token": ".".join(map(part, ('{"alg":"HS256","typ":"JWT"}', '{"sub":"1234567890"}', "k3Jx8Q"))),
}


def files_of(*folders: Path) -> dict[Path, bytes]:
    """Every file below the folders."""
    return {path: path.read_bytes() for folder in folders for path in folder.rglob("*") if path.is_file()}


@pytest.mark.parametrize("kind", TOKENS)
def test_a_token_in_a_cited_event_stops_refine(
    harnessctl: Run, script: Script, logs: Logs, repo: Git, home: Path, tmp_path: Path, kind: str
) -> None:
    token = TOKENS[kind]
    harnessctl("init", cwd=repo.root)
    code = f"print('it says ' + {token[:6]!r} + {token[6:]!r})"
    model = script({"for": "root", "content": "look", "code": code}, {"for": "root", "content": "done"})
    harnessctl("run", "--model", model, "look", cwd=repo.root)
    output = next(e for e in logs.newest() if e["type"] == "output")
    assert token in output["data"]["text"]
    log = next(home.rglob("log.jsonl"))

    edit = {
        "action": "create",
        "kind": "memory",
        "name": "token",
        "description": "where the token is",
        "content": "It is printed.\n",
        "reason": "seen",
        "evidence": [{"session": "s1", "event": output["n"], "quote": "it says"}],
    }
    reply = {"summary": "the token", "rationale": "seen", "edits": [edit]}
    refiner = script({"for": "refine", "content": json.dumps(reply)})
    temporary = tmp_path / "tmp"
    temporary.mkdir()
    env = {"TMPDIR": str(temporary)}
    before = files_of(home, repo.root, temporary)
    refused = harnessctl("refine", "--model", refiner, cwd=repo.root, env=env, code=6)
    assert f"{log.parent.name}#{output['n']}" in refused.err
    assert kind in refused.err
    assert token not in refused.out + refused.err
    as_json = harnessctl("refine", "--model", refiner, "--json", cwd=repo.root, env=env, code=6)
    assert as_json.json()["error"]["id"] == "secret_in_evidence"
    assert token not in as_json.out + as_json.err

    assert log.read_bytes() == before[log]
    objects = repo("cat-file", "--batch-all-objects", "--batch")
    assert "harness(init)" in objects
    assert token not in objects
    after = files_of(home, repo.root, temporary)
    assert [p for p, data in after.items() if data != before.get(p) and token.encode() in data] == []
    assert [p for p, data in after.items() if token.encode() in data] == [log]
    assert token not in harnessctl("sessions", "show", cwd=repo.root).out
    assert not repo("for-each-ref", "refs/harness")
