"""Every ending from outside: its exit code, its reason, one JSON object that the schema takes."""

from __future__ import annotations

import json
import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from harnessctl.domain.outcome import RunStatus
from harnessctl.rlm.ending import ENDINGS, exit_code
from harnessctl.rlm.result import result_schema
from tests.acceptance.conftest import COMMAND, Logs, Script
from tests.conftest import Git
from tests.fakes.harness import land, store_of
from tests.fakes.history import by_hand
from tests.fakes.openai_server import FakeOpenAI, Say
from tests.fakes.runs import SLEEP, STUBBORN, WAIT, until_cell

pytestmark = pytest.mark.kernel

DIE = "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)"
PRICE = {"model": {"price": {"prompt": 1.0, "completion": 1.0}}}
DONE = {"content": "Done."}


def cells(code: str, count: int = 1) -> list[dict[str, Any]]:
    return [{"content": "go", "code": code}] * count


def cut(_: Any) -> Say:
    return Say("I begin to sa", finish="length")


def no_kernel(repo: Git) -> list[str]:
    """A Python that looks as if it had ipykernel, and starts none."""
    fake = repo.root.parent / "fake" / "bin" / "python"
    fake.parent.mkdir(parents=True)
    fake.write_text('#!/bin/sh\ncase "$*" in *find_spec*) exit 0;; esac\necho "no such module" >&2\nexit 1\n')
    fake.chmod(0o755)
    return ["--python", str(fake)]


def revoke(repo: Git) -> None:
    """Somebody takes back, from another terminal, what the run reads."""
    subprocess.run([COMMAND, "rollback", "harness~1"], cwd=repo.root, check=True, capture_output=True)
    (Path.home() / "go-on").touch()


@dataclass(frozen=True)
class Case:
    """How to make a run end so.

    :ivar model: replies of a script, or a function that answers for a server on loopback.
    :ivar options: of ``run``; a function gets the repository.
    :ivar signals: sent in turn once a cell runs.
    :ivar act: done once a cell runs.
    :ivar blocks: limit of a file's size, in blocks of 1024 bytes.
    """

    model: list[dict[str, Any]] | Callable[[Any], Say] = field(default_factory=lambda: [DONE])
    options: list[str] | Callable[[Git], list[str]] = field(default_factory=list)
    signals: tuple[signal.Signals, ...] = ()
    act: Callable[[Git], object] | None = None
    blocks: int = 0


CASES: Mapping[tuple[RunStatus, str], Case] = {
    (RunStatus.SUCCESS, ""): Case(options=["--gate", "true"]),
    (RunStatus.SUCCESS, "no_gates"): Case(),
    (RunStatus.GATE_FAILED, "gate_exit"): Case([DONE, DONE], ["--gate", "false"]),
    (RunStatus.GATE_FAILED, "gate_timeout"): Case([DONE, DONE], ["--gate", "sleep 9", "--trust"]),
    (RunStatus.GATE_FAILED, "gate_input_changed"): Case(
        [*cells("open('Makefile', 'w').write('x')"), DONE], ["--gate", "true"]
    ),
    (RunStatus.GATE_FAILED, "tree_changed"): Case(options=["--gate", "date +%N >> made-by-the-gate; true"]),
    (RunStatus.INCOMPLETE, "empty_reply"): Case([{"content": ""}] * 3),
    (RunStatus.INCOMPLETE, "cut_reply"): Case(cut),
    (RunStatus.INCOMPLETE, "pin_revoked"): Case([*cells(WAIT), *cells("1"), DONE], act=revoke),
    (RunStatus.FAILED, "provider_error"): Case([{"error": {"status": 400, "body": "no"}}]),
    (RunStatus.FAILED, "kernel_start"): Case(cells("1"), no_kernel),
    (RunStatus.FAILED, "kernel_lost"): Case(cells(DIE, 8)),
    (RunStatus.FAILED, "storage"): Case([*cells("print('x' * 30_000)", 20), DONE], blocks=100),
    (RunStatus.BUDGET_EXHAUSTED, "turns"): Case(cells("1", 3), ["--max-turns", "2"]),
    (RunStatus.BUDGET_EXHAUSTED, "tokens"): Case(options=["--max-tokens", "100"]),
    (RunStatus.BUDGET_EXHAUSTED, "cost"): Case([PRICE, DONE], ["--max-cost", "0.0001"]),
    (RunStatus.BUDGET_EXHAUSTED, "wall"): Case(cells(SLEEP), ["--max-time", "3"]),
    (RunStatus.INTERRUPTED, "interrupted"): Case(cells(STUBBORN), signals=(signal.SIGINT, signal.SIGINT)),
    (RunStatus.INTERRUPTED, "terminated"): Case(cells(SLEEP), signals=(signal.SIGTERM,)),
}
#: Endings that nothing outside can bring about; their tests stand beside the code.
INSIDE = {
    (RunStatus.FAILED, "error"): "tests/unit/rlm/test_session.py",
    (RunStatus.INTERRUPTED, "cancelled"): "tests/integration/test_children.py",
    (RunStatus.INTERRUPTED, "parent_ended"): "tests/integration/test_children.py",
    (RunStatus.INTERRUPTED, "stopped"): "tests/acceptance/test_resume_children.py",
}


def test_no_ending_is_without_a_test() -> None:
    assert CASES.keys() | INSIDE.keys() == ENDINGS.keys()


@pytest.fixture
def harnessed(repo: Git) -> Git:
    """A repository whose pin holds one landed memory."""
    store_of(repo).initialise()
    store = store_of(repo)
    land(store, "learned", "text")
    store.move_pin()
    repo.commit("pin")
    return repo


@pytest.mark.parametrize(("status", "reason"), CASES, ids=lambda v: str(v) or "verified")
def test_an_ending(script: Script, logs: Logs, harnessed: Git, status: RunStatus, reason: str) -> None:
    case = CASES[status, reason]
    options = case.options(harnessed) if callable(case.options) else case.options
    if reason == "gate_timeout":
        options = short_gate(harnessed, options)
    if not callable(case.model):
        out = run(case, [*options, "--model", script(*case.model)], logs, harnessed, {})
    else:
        with FakeOpenAI(case.model) as server:
            out = run(case, [*options, "--model", "openai/fake"], logs, harnessed, server.environment)
    code, printed = out
    tool = subprocess.run([sys.executable, "-m", "json.tool"], input=printed, capture_output=True, check=True)
    result = json.loads(tool.stdout)
    Draft202012Validator(result_schema()).validate(result)
    assert (result["status"], result["reason"]) == (status, reason), result["detail"]
    assert code == exit_code(status)
    assert result["verified"] is (reason == "")
    end = logs.newest()[-1]
    assert (end["type"], end["data"]["status"], end["data"]["reason"]) == ("end", status, reason)
    saved = next(logs.state.glob(f"harnessctl/*/sessions/{result['session']}/result.json"))
    assert json.loads(saved.read_text()) == result


def short_gate(repo: Git, options: list[str]) -> list[str]:
    """A gate's limit stands in ``harness.toml`` alone."""
    policy = '[[gates]]\nname = "slow"\ncommand = "sleep 9"\ntimeout_s = 0.3\nattempts = 0\n'
    by_hand(repo, ".harness/harness.toml", policy)
    store_of(repo).move_pin()
    return options[2:]


def run(case: Case, arguments: list[str], logs: Logs, repo: Git, env: Mapping[str, str]) -> tuple[int, bytes]:
    command = [str(COMMAND), "run", "--json", *arguments, "x"]
    if case.blocks:
        command = ["bash", "-c", f'ulimit -f {case.blocks}; exec "$@"', "bash", *command]
    process = subprocess.Popen(
        command,
        cwd=repo.root,
        env={**os.environ, **env},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    if case.signals or case.act:
        until_cell(logs)
    if case.act:
        case.act(repo)
    for number in case.signals:
        process.send_signal(number)
        time.sleep(0.3)
    out, err = process.communicate(timeout=120)
    assert b"Traceback" not in err
    return process.returncode, out


@pytest.mark.parametrize(
    ("arguments", "code", "error"),
    [
        (["run", "--json", "x"], 2, "no_model"),
        (["run", "--json", "--model", "scripted:absent.jsonl", "x"], 2, None),
        (["run", "--json", "--model", "scripted:{script}", " "], 2, "no_task"),
        (["run", "--json", "--model", "scripted:{script}", "--max-cost", "1", "x"], 2, "unknown_price"),
        (["run", "--json", "--model", "scripted:{script}", "--at", "nowhere", "x"], 1, None),
        (["run", "--json", "--no-such-option"], 2, "usage"),
    ],
)
def test_what_is_refused_before_it_begins_is_one_object_too(
    repo: Git, script: Script, tmp_path: Path, arguments: list[str], code: int, error: str | None
) -> None:
    name = script(DONE).removeprefix("scripted:")
    command = [str(COMMAND), *(word.replace("{script}", name) for word in arguments)]
    done = subprocess.run(command, cwd=repo.root, capture_output=True, check=False)
    assert done.returncode == code
    found = json.loads(done.stdout)["error"]
    assert found.keys() == {"id", "message", "hint"}
    assert error in (None, found["id"])
