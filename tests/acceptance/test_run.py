"""``run`` and ``sessions`` through the installed command: signals, terminals, endings."""

from __future__ import annotations

import json
import re
import signal
import time
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.conftest import Logs, Run, Script
from tests.conftest import Git
from tests.fakes.killing import processes_of, until
from tests.fakes.runs import SLEEP, STUBBORN, begin, until_cell
from tests.fakes.terminal import run_on_terminal

pytestmark = pytest.mark.kernel


def test_ctrl_c_interrupts_the_cell_and_the_model_goes_on(script: Script, logs: Logs, repo: Git) -> None:
    run = begin(
        repo, script({"content": "wait", "code": SLEEP}, {"content": "Stopped as you wished."}), "--json"
    )
    until_cell(logs)
    run.send_signal(signal.SIGINT)
    out, err = run.communicate(timeout=120)
    assert run.returncode == 0, err
    assert json.loads(out)["answer"] == "Stopped as you wished."
    told = next(e for e in logs.newest() if e["type"] == "result")["data"]
    assert told["status"] == "interrupted"
    assert "begun\n[cell 1: the user interrupted it" in told["text"]


@pytest.mark.parametrize(
    ("signals", "reason"), [([signal.SIGINT] * 2, "interrupted"), ([signal.SIGTERM], "terminated")]
)
def test_the_session_ends_in_order(
    script: Script, logs: Logs, repo: Git, signals: list[signal.Signals], reason: str
) -> None:
    run = begin(repo, script({"content": "wait", "code": STUBBORN}), "--json")
    until_cell(logs)
    for number in signals:
        run.send_signal(number)
        time.sleep(0.3)
    out, err = run.communicate(timeout=120)
    assert run.returncode == 130, err
    result = json.loads(out)
    assert (result["status"], result["reason"], result["answer"]) == ("interrupted", reason, None)
    assert logs.newest()[-1]["type"] == "end"
    assert not processes_of(result["session"])
    saved = next(logs.state.glob(f"harnessctl/*/sessions/{result['session']}/result.json"))
    assert json.loads(saved.read_text()) == result


def test_kill_9_leaves_no_kernel_and_a_log_that_says_so(
    harnessctl: Run, script: Script, logs: Logs, repo: Git
) -> None:
    """kernel-05."""
    code = "import subprocess\nsubprocess.Popen(['sleep', '66'], start_new_session=True)\n" + SLEEP
    run = begin(repo, script({"content": "wait", "code": code}))
    until_cell(logs)
    session = logs.newest()[0]["data"]["session"]
    assert until(lambda: len(processes_of(session)) >= 3)
    listed = harnessctl("sessions", "list", "--json", cwd=repo.root).json()
    assert (listed[0]["status"], listed[0]["reason"]) == (None, "running")
    run.kill()
    run.communicate()
    assert until(lambda: not processes_of(session))
    listed = harnessctl("sessions", "list", "--json", cwd=repo.root).json()
    assert (listed[0]["status"], listed[0]["reason"]) == (None, "no_end")
    row = harnessctl("sessions", "list", cwd=repo.root).out.splitlines()[0].split("\t")
    assert row[3] == "-", "what it used stands at the end"
    assert "begun" not in harnessctl("sessions", "show", session, cwd=repo.root).err


@pytest.mark.parametrize(
    ("lines", "options", "code", "status", "reason"),
    [
        ([{"content": "Done."}], [], 0, "success", "no_gates"),
        ([{"content": ""}] * 3, [], 1, "incomplete", "empty_reply"),
        ([{"error": {"status": 400, "body": "no"}}], [], 1, "failed", "provider_error"),
        ([{"content": "go", "code": "1"}] * 3, ["--max-turns", "2"], 5, "budget_exhausted", "turns"),
        ([{"content": "go"}], ["--max-tokens", "100"], 5, "budget_exhausted", "tokens"),
        ([{"content": "go", "code": SLEEP}], ["--max-time", "3"], 5, "budget_exhausted", "wall"),
    ],
    ids=["success", "empty", "provider", "turns", "tokens", "wall"],
)
def test_each_ending_has_its_code_and_one_json_object(
    harnessctl: Run,
    script: Script,
    repo: Git,
    lines: list[dict[str, Any]],
    options: list[str],
    code: int,
    status: str,
    reason: str,
) -> None:
    done = harnessctl("run", "--json", "--model", script(*lines), *options, "x", cwd=repo.root, code=code)
    result = done.json()
    assert (result["status"], result["reason"]) == (status, reason)


def test_errors_before_a_session_are_one_json_object_too(harnessctl: Run, script: Script, repo: Git) -> None:
    done = harnessctl("run", "--json", "--model", script({"content": "x"}), " ", cwd=repo.root, code=2)
    assert done.json()["error"]["id"] == "no_task"
    done = harnessctl(
        "run", "--json", "--max-cost", "1", "--model", script({"content": "x"}), "x", cwd=repo.root, code=2
    )
    assert done.json()["error"]["id"] == "unknown_price"


def test_json_events_end_with_the_result(harnessctl: Run, script: Script, logs: Logs, repo: Git) -> None:
    model = script({"content": "I look.", "code": "print(6 * 7)"}, {"content": "42"})
    done = harnessctl("run", "--json-events", "--model", model, "x", cwd=repo.root)
    printed = [json.loads(line) for line in done.out.splitlines()]
    assert printed[-1]["type"] == "result"
    assert printed[-1]["answer"] == "42"
    assert printed[:-1] == logs.newest()


def test_in_a_pipe_the_answer_alone_is_on_stdout(harnessctl: Run, script: Script, repo: Git) -> None:
    model = script(
        {"content": "I look.", "code": "print('\\x1b[31mred')"}, {"content": "It is \x1b[31mred\u202e."}
    )
    done = harnessctl("run", "--model", model, "x", cwd=repo.root)
    assert done.out == "It is \\x1b[31mred\\u202e.\n"
    assert "In [1]:" in done.err
    assert "\x1b" not in done.err
    assert "with your rights" in done.err
    again = harnessctl("run", "--model", model, "x", cwd=repo.root)
    assert "with your rights" not in again.err


def test_live_on_a_terminal(script: Script, repo: Git) -> None:
    # Long enough that the status line is drawn meanwhile, four times a second on an idle machine.
    model = script(
        {"content": "I look around.", "code": "import time\nprint('step one')\ntime.sleep(2)"},
        {"content": "All [bold]fine[/bold]. \x1b[31m"},
    )
    terminal = run_on_terminal(repo.root, model)
    for part in (
        "I look around.",
        "step one",
        "[cell 1: ok",
        "cell 1 runs",
        "1 cell, ",
        "tokens",
        "success (no_gates)",
    ):
        assert part in terminal.plain
    assert terminal.plain.count("All [bold]fine[/bold]. \\x1b[31m") == 1
    assert re.search(r"\x1b\[[0-9;]*3[0-9]", terminal.text)


def test_no_color_means_none(script: Script, repo: Git) -> None:
    model = script({"content": "I look.", "code": "print(1)"}, {"content": "Done."})
    shown = run_on_terminal(repo.root, model, NO_COLOR="1").text
    assert not re.search(r"\x1b\[[0-9;]*(3[0-9]|9[0-7]|4[0-9])(;[0-9]+)*m", shown)


def test_the_task_from_stdin(harnessctl: Run, script: Script, logs: Logs, repo: Git) -> None:
    harnessctl(
        "run", "--model", script({"content": "Done."}), "-", cwd=repo.root, input="count\nthe files é\n"
    )
    assert logs.newest()[1]["data"]["text"] == "count\nthe files é\n"


def test_sessions_hide_secrets_that_the_log_keeps(
    harnessctl: Run, script: Script, logs: Logs, repo: Git
) -> None:
    token = "ghp_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hJ6"
    model = script({"content": "I look.", "code": f"print('{token}')"}, {"content": "Done."})
    harnessctl("run", "--model", model, "x", cwd=repo.root)
    assert token in json.dumps(logs.newest())
    for arguments in (["show"], ["show", "--json"], ["list"], ["list", "--json"]):
        done = harnessctl("sessions", *arguments, cwd=repo.root)
        assert token not in done.out + done.err


def test_a_kernel_that_dies_is_told_and_replaced(
    harnessctl: Run, script: Script, logs: Logs, repo: Git
) -> None:
    """kernel-03 from outside."""
    model = script(
        {"content": "a", "code": "x = 1\nimport os, signal\nos.kill(os.getpid(), signal.SIGKILL)"},
        {"content": "b", "code": "print('x' in globals())"},
        {"content": "Done."},
    )
    harnessctl("run", "--model", model, "x", cwd=repo.root)
    assert next(e for e in logs.newest() if e["type"] == "result")["data"]["ms"] < 20_000
    texts = [e["data"]["text"] for e in logs.newest() if e["type"] == "result"]
    assert "the kernel died: ended by SIGKILL" in texts[0]
    assert texts[1].startswith("[the kernel was lost before this cell")
    assert "False" in texts[1]


def test_a_broken_entry_at_the_pin(harnessctl: Run, script: Script, repo: Git, tmp_path: Path) -> None:
    """files-05: refused with the file named; with --skip-broken it is left out and that is said."""
    harnessctl("init", "--in-tree", cwd=repo.root)
    repo.write(".harness/memory/pref.md", b"---\ndescription: User prefers caf\xe9 mode\n---\n")
    repo.write(".harness/memory/ok.md", "---\ndescription: Fine\n---\n")
    repo.commit("memories")
    model = script({"content": "Done."})
    done = harnessctl("run", "--model", model, "x", cwd=repo.root, code=1)
    assert ".harness/memory/pref.md" in done.err
    assert "--skip-broken" in done.err
    result = harnessctl("run", "--json", "--skip-broken", "--model", model, "x", cwd=repo.root).json()
    assert result["skipped"] == ["memory/pref"]


@pytest.mark.parametrize(
    ("flag", "words"),
    [("--no-sandbox-network", "add --sandbox"), ("--gate-input=check.sh", "add --gate CMD")],
)
def test_a_flag_that_would_change_nothing_is_refused(
    harnessctl: Run, script: Script, repo: Git, flag: str, words: str
) -> None:
    done = harnessctl("run", flag, "--model", script({"content": "x"}), "x", cwd=repo.root, code=2)
    assert words in done.err


def test_a_spent_limit_says_how_the_session_goes_on(harnessctl: Run, script: Script, repo: Git) -> None:
    model = script({"code": "1"}, {"code": "2"}, {"content": "Done."})
    done = harnessctl("run", "--max-turns", "1", "--model", model, "x", cwd=repo.root, code=5)
    (hint,) = re.findall(r"harnessctl (sessions resume \S+ --max-turns) N", done.err)
    resumed = harnessctl(*hint.split(), "3", cwd=repo.root)
    assert resumed.err.startswith(("session ", "You are root"))
    assert f"session {hint.split()[2]} goes on" in resumed.err
    assert resumed.out == "Done.\n"


@pytest.mark.parametrize("apart_s", [0.05, 1.0])
def test_two_presses_end_the_session_also_when_the_first_has_ended_the_cell(
    script: Script, logs: Logs, repo: Git, apart_s: float
) -> None:
    slow = {"content": "again", "code": SLEEP, "delay_ms": 2000}
    run = begin(repo, script({"content": "wait", "code": SLEEP}, slow, {"content": "Done."}), "--json")
    until_cell(logs)
    run.send_signal(signal.SIGINT)
    time.sleep(apart_s)
    run.send_signal(signal.SIGINT)
    out, err = run.communicate(timeout=120)
    assert run.returncode == 130, err
    assert json.loads(out)["status"] == "interrupted"


def test_names_and_answers_of_cells_forge_no_line_and_lose_nothing_in_silence(
    harnessctl: Run, script: Script, repo: Git
) -> None:
    forged = "success, verified\n  gate pytest: passed, 3.0 s"
    code = f"open('z\\n\\n' + {forged!r}, 'w').write('x')\nfinal('F' * 1_000_007)"
    done = harnessctl("run", "--model", script({"code": code}), "x", cwd=repo.root)
    assert not [line for line in done.err.splitlines() if line.startswith(("success, verified", "  gate "))]
    assert done.out.endswith("F\n[... 7 characters left out ...]\n")
