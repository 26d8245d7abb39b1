"""What is shown while a run works hides secrets, as `sessions show` does afterwards."""

from __future__ import annotations

import json

import pytest

from tests.acceptance.conftest import Logs, Run, Script
from tests.conftest import Git
from tests.fakes.terminal import run_on_terminal

pytestmark = pytest.mark.kernel

TOKEN = "ghp_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hJ6"


@pytest.fixture
def model(script: Script) -> str:
    return script(
        {"content": f"I print {TOKEN}.", "code": f"print('say {TOKEN}')"}, {"content": f"It is\n{TOKEN}."}
    )


def test_events_and_result(harnessctl: Run, model: str, logs: Logs, repo: Git) -> None:
    done = harnessctl("run", "--json-events", "--model", model, f"x {TOKEN}", cwd=repo.root)
    assert TOKEN not in done.out + done.err
    shown, kept = [json.loads(line) for line in done.out.splitlines()], logs.newest()
    assert TOKEN in json.dumps(kept)
    assert [e["hash"] for e in shown[:-1]] == [e["hash"] for e in kept]
    assert shown[-1]["answer"] == "It is\n[secret: GitHub token]."


@pytest.mark.parametrize("options", [[], ["--json"]])
def test_plain_lines_and_the_answer(harnessctl: Run, model: str, repo: Git, options: list[str]) -> None:
    done = harnessctl("run", *options, "--gate", f"echo {TOKEN}", "--model", model, "x", cwd=repo.root)
    assert TOKEN not in done.out + done.err
    assert "[secret: GitHub token]" in done.out


def test_a_terminal(model: str, repo: Git) -> None:
    shown = run_on_terminal(repo.root, model).text
    assert TOKEN not in shown
    assert "say [secret: GitHub token]" in shown
