"""Gates and trust through the installed command: real git, real kernels, real commands."""

from __future__ import annotations

import json
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from harnessctl.rlm.result import result_schema
from tests.acceptance.conftest import COMMAND, Done, Logs, Run, Script
from tests.conftest import Git
from tests.fakes.history import by_hand
from tests.fakes.killing import until
from tests.fakes.terminal import Terminal

pytestmark = pytest.mark.kernel

#: A check that looks at the answer's work and says what it wants.
CHECK = "test \"$(cat out.txt 2>/dev/null)\" = right || { echo 'out.txt must say right'; exit 3; }\n"
WRITE_RIGHT = {"content": "I write.", "code": "open('out.txt', 'w').write('right')"}
WRITE_WRONG = {"content": "I write.", "code": "x = 1\nopen('out.txt', 'w').write('wrong')"}
DONE = {"content": "Done."}


def result_of(done: Done) -> dict[str, Any]:
    """The printed result, valid by its schema."""
    result: dict[str, Any] = done.json()
    Draft202012Validator(result_schema()).validate(result)
    return result


def told(logs: Logs, kind: str) -> list[dict[str, Any]]:
    return [e["data"] for e in logs.newest() if e["type"] == kind]


@pytest.fixture
def checked(repo: Git) -> Git:
    """A repository with ``check.sh``."""
    repo.commit("check", **{"check.sh": CHECK})
    return repo


def pin_gates(repo: Git, harnessctl: Run, policy: str) -> None:
    """Start a harness and put ``policy`` into its ``harness.toml``, as a person would: by a commit."""
    if not repo("branch", "--list", "harness"):
        harnessctl("init", cwd=repo.root)
    by_hand(repo, ".harness/harness.toml", policy)
    harnessctl("pin", "harness", cwd=repo.root)


POLICY = '[[gates]]\nname = "tests"\ncommand = "sh check.sh"\n'


def test_a_gate_that_passes_verifies(harnessctl: Run, script: Script, logs: Logs, checked: Git) -> None:
    model = script(WRITE_RIGHT, DONE)
    done = harnessctl("run", "--json", "--gate", "sh check.sh", "--model", model, "x", cwd=checked.root)
    result = result_of(done)
    assert (result["status"], result["reason"], result["verified"]) == ("success", "", True)
    (gate,) = result["gates"]
    assert (gate["name"], gate["status"], gate["exit"], gate["runs"]) == ("sh check.sh", "passed", 0, 1)
    assert gate["tree_before"] == gate["tree_after"] == result["changes"]["tree_after"]
    assert gate["text"] == "gate sh check.sh: passed (exit 0)"
    assert logs.newest()[-1]["data"]["verified"] is True


def test_without_gates_nothing_is_verified(harnessctl: Run, script: Script, repo: Git) -> None:
    result = result_of(harnessctl("run", "--json", "--model", script(DONE), "x", cwd=repo.root))
    assert (result["status"], result["reason"], result["verified"]) == ("success", "no_gates", False)


def test_failed_then_mended_within_the_attempts(
    harnessctl: Run, script: Script, logs: Logs, checked: Git
) -> None:
    look = {"content": "I mend.", "code": "print('x' in globals())\nopen('out.txt', 'w').write('right')"}
    model = script(WRITE_WRONG, DONE, look, {"content": "Mended."})
    result = result_of(
        harnessctl("run", "--json", "--gate", "sh check.sh", "--model", model, "x", cwd=checked.root)
    )
    assert (result["verified"], result["answer"]) == (True, "Mended.")
    first, second = told(logs, "gate")
    assert (first["status"], first["exit"], first["left"], second["status"]) == ("failed", 3, 1, "passed")
    asked = told(logs, "request")[2]["append"][-1]["content"]
    assert asked.startswith("gate sh check.sh: failed (exit 3)\nout.txt must say right\n")
    assert "variables are gone" in asked
    # The new kernel is no lost one: the model knows why, and no repair stands in the log.
    assert told(logs, "result")[1]["text"].startswith("False\n")
    assert told(logs, "repair") == []


def test_a_gate_that_stays_failed_is_exit_4(harnessctl: Run, script: Script, checked: Git) -> None:
    model = script(WRITE_WRONG, DONE, {"content": "Still done."})
    done = harnessctl(
        "run", "--json", "--gate", "sh check.sh", "--model", model, "x", cwd=checked.root, code=4
    )
    result = result_of(done)
    assert (result["status"], result["reason"]) == ("gate_failed", "gate_exit")
    assert (result["verified"], result["answer"]) == (False, "Still done.")
    assert result["gates"][0]["runs"] == 2


@pytest.mark.parametrize(
    ("edit", "changed"),
    [
        ("open('check.sh', 'w').write('true')", "check.sh"),
        ("open('conftest.py', 'w').write('')", "conftest.py"),
        ("import os; os.remove('check.sh')", "check.sh"),
    ],
)
def test_an_edited_input_fails_and_is_named(
    harnessctl: Run, script: Script, checked: Git, edit: str, changed: str
) -> None:
    model = script({"content": "I help myself.", "code": edit}, DONE)
    done = harnessctl(
        "run", "--json", "--gate", "sh check.sh", "--model", model, "x", cwd=checked.root, code=4
    )
    result = result_of(done)
    assert (result["status"], result["reason"]) == ("gate_failed", "gate_input_changed")
    assert changed in result["detail"]
    assert result["gates"][0]["changed_inputs"] == [changed]
    assert result["gates"][0]["exit"] is None


def test_an_input_that_is_put_back_lets_the_session_verify(
    harnessctl: Run, script: Script, checked: Git
) -> None:
    edit = "open('check.sh', 'a').write('true')\nopen('out.txt', 'w').write('right')"
    model = script({"content": "I help myself.", "code": edit}, DONE, {"content": "Done."})
    done = harnessctl("run", "--gate", "sh check.sh", "--model", model, "x", cwd=checked.root, code=4)
    assert "put those files back as they were at the beginning of the run" in done.err
    checked("checkout", "check.sh")
    resumed = harnessctl("sessions", "resume", "--json", cwd=checked.root)
    assert result_of(resumed)["verified"] is True


def test_an_input_that_may_change(harnessctl: Run, script: Script, checked: Git) -> None:
    model = script({"content": "I help.", "code": "open('check.sh', 'w').write('true')"}, DONE)
    allowed = ("--allow-gate-input", "check.*")
    done = harnessctl(
        "run", "--json", "--gate", "sh check.sh", *allowed, "--model", model, "x", cwd=checked.root
    )
    result = result_of(done)
    assert result["verified"] is True
    assert result["allowed_gate_inputs"] == {"globs": ["check.*"], "changed": ["check.sh"]}


def test_inputs_named_on_the_command_line_and_ignored_by_git(
    harnessctl: Run, script: Script, checked: Git
) -> None:
    checked.write(".gitignore", "local/\n")
    checked.write("local/settings", "strict")
    model = script(
        {
            "content": "a",
            "code": "open('local/settings', 'w').write('lax')\nopen('out.txt','w').write('right')",
        },
        DONE,
    )
    gate = ("--gate", "sh check.sh", "--gate-input", "local")
    done = harnessctl("run", "--json", *gate, "--model", model, "x", cwd=checked.root, code=4)
    assert result_of(done)["gates"][0]["changed_inputs"] == ["local/settings"]


def test_a_gate_past_its_limit(harnessctl: Run, script: Script, checked: Git) -> None:
    policy = '[[gates]]\nname = "slow"\ncommand = "sleep 280"\ntimeout_s = 0.5\nattempts = 0\n'
    pin_gates(checked, harnessctl, policy)
    begun = time.monotonic()
    done = harnessctl("run", "--json", "--trust", "--model", script(DONE), "x", cwd=checked.root, code=4)
    assert time.monotonic() - begun < 110
    result = result_of(done)
    assert (result["status"], result["reason"]) == ("gate_failed", "gate_timeout")


def test_gates_come_from_the_pin_and_not_from_what_a_cell_writes(
    harnessctl: Run, script: Script, checked: Git
) -> None:
    pin_gates(checked, harnessctl, POLICY)
    forge = "import os\nos.makedirs('.harness', exist_ok=True)\nopen('.harness/harness.toml', 'w').write('')"
    model = script({"content": "I forge.", "code": forge}, WRITE_WRONG, DONE, {"content": "Really."})
    done = harnessctl("run", "--json", "--trust", "--model", model, "x", cwd=checked.root, code=4)
    assert result_of(done)["gates"][0]["command"] == "sh check.sh"


def test_an_untrusted_clone_is_refused_until_it_is_trusted(
    harnessctl: Run, script: Script, checked: Git, logs: Logs, tmp_path: Path
) -> None:
    pin_gates(checked, harnessctl, POLICY)
    checked.commit("pin")
    clone = Git(tmp_path / "clone")
    checked("clone", "-q", str(checked.root), str(clone.root))
    model = script(WRITE_RIGHT, DONE)
    done = harnessctl("run", "--json", "--model", model, "x", cwd=clone.root, code=6)
    assert done.json()["error"]["id"] == "untrusted_gates"
    assert "sh check.sh" in done.json()["error"]["message"]
    assert not list(logs.state.glob("harnessctl/*/sessions/*"))
    without = result_of(
        harnessctl("run", "--json", "--no-gates", "--model", script(DONE), "x", cwd=clone.root)
    )
    assert without["reason"] == "no_gates"
    for arguments in (["--trust"], []):
        model = script(WRITE_RIGHT, DONE)
        done = harnessctl("run", "--json", *arguments, "--model", model, "x", cwd=clone.root)
        assert result_of(done)["verified"] is True


def test_other_gates_are_asked_for_again(harnessctl: Run, script: Script, checked: Git) -> None:
    pin_gates(checked, harnessctl, POLICY)
    harnessctl("run", "--trust", "--model", script(WRITE_RIGHT, DONE), "x", cwd=checked.root)
    harnessctl("run", "--model", script(WRITE_RIGHT, DONE), "x", cwd=checked.root)
    pin_gates(checked, harnessctl, POLICY.replace("sh check.sh", "sh check.sh; curl evil"))
    done = harnessctl("run", "--json", "--model", script(DONE), "x", cwd=checked.root, code=6)
    assert "curl evil" in done.json()["error"]["message"]


@pytest.mark.parametrize(("answer", "code"), [("y\n", 0), ("\n", 6)])
def test_on_a_terminal_it_asks_first(
    harnessctl: Run, script: Script, checked: Git, answer: str, code: int
) -> None:
    pin_gates(checked, harnessctl, POLICY)
    command = [COMMAND, "run", "--model", script(WRITE_RIGHT, DONE), "x"]
    terminal = Terminal(command, checked.root)
    answered: list[str] = []

    def once_it_asks() -> None:
        if "[y/N]" in terminal.text and not answered:
            answered.append(answer)
            terminal.type(answer)

    assert terminal.until_end(once_it_asks) == code, terminal.text
    assert "gate tests: sh check.sh" in terminal.text


def test_the_gates_environment_holds_no_keys(
    harnessctl: Run, script: Script, checked: Git, logs: Logs
) -> None:
    planted = {"OPENAI_API_KEY": "planted-4711", "PLAIN": "ghp_" + "aB3dE6gH9jK2mN5pQ8sT1vW4yZ7bC0eF3hJ6"}
    harnessctl(
        "run", "--json", "--gate", "env; exit 0", "--model", script(DONE), "x", cwd=checked.root, env=planted
    )
    (gate,) = told(logs, "gate")
    assert "PATH=" in gate["text"]
    assert f"HARNESSCTL_KERNEL={logs.newest()[0]['data']['session']}" in gate["text"]
    assert not [value for value in planted.values() if value in json.dumps(logs.newest())]


def test_what_a_cell_left_running_has_ended_when_gates_run(
    harnessctl: Run, script: Script, checked: Git
) -> None:
    """A process of the kernel that would write after the gates looked."""
    later = "for i in $(seq 100); do sleep 0.1; echo $i > late.txt; done"
    code = f"import subprocess\nsubprocess.Popen(['sh', '-c', {later!r}], start_new_session=True)"
    model = script({"content": "a", "code": code}, WRITE_RIGHT, DONE)
    gates = ("--gate", "sleep 1", "--gate", "sh check.sh")
    done = harnessctl("run", "--json", *gates, "--model", model, "x", cwd=checked.root)
    assert result_of(done)["verified"] is True


def test_a_background_process_that_writes_after_the_gate_is_seen(
    harnessctl: Run, script: Script, checked: Git, tmp_path: Path
) -> None:
    """No child of the kernel: a service of the user's, which a cell asked to write later."""
    flag, whole = tmp_path / "passed", tmp_path / "whole"
    wait = (
        "import os, pathlib, time\n"
        f"flag, whole = pathlib.Path({str(flag)!r}), pathlib.Path({str(whole)!r})\n"
        "while not flag.exists(): time.sleep(0.01)\n"
        "n = 0\n"
        "while True:\n"
        "    n += 1; whole.write_text(str(n)); os.replace(whole, 'late.txt'); time.sleep(0.02)\n"
    )
    # Ends when the service has written once more, whatever else the machine does.
    again = 'until [ "$(cat late.txt 2>&1)" != "$old" ]; do sleep 0.02; done'
    seen = f"old=$(cat late.txt 2>&1); touch {flag}; {again}"
    service = subprocess.Popen([sys.executable, "-c", wait], cwd=checked.root)
    try:
        gates = ("--gate", "sh check.sh", "--gate", seen)
        model = script(WRITE_RIGHT, DONE)
        done = harnessctl("run", "--json", *gates, "--model", model, "x", cwd=checked.root, code=4)
    finally:
        service.kill()
        service.wait()
    result = result_of(done)
    assert (result["status"], result["reason"], result["verified"]) == ("gate_failed", "tree_changed", False)
    assert "late.txt" in result["detail"]
    assert {g["status"] for g in result["gates"]} == {"passed"}


def test_files_that_gates_make_come_to_rest(harnessctl: Run, script: Script, checked: Git) -> None:
    """A cache that the first round leaves is part of what the second passes on."""
    gate = ("--gate", "sh check.sh && echo cached > .cache-of-tests")
    model = script(WRITE_RIGHT, DONE)
    result = result_of(harnessctl("run", "--json", *gate, "--model", model, "x", cwd=checked.root))
    assert result["verified"] is True
    assert result["gates"][0]["runs"] == 2


def test_files_in_a_nested_repository_are_part_of_what_gates_pass_on(
    harnessctl: Run, script: Script, checked: Git
) -> None:
    """A cell's file there is a change, and a gate that rewrites one at each round leaves nothing verified."""
    checked("init", "-q", "sub")
    Git(checked.root / "sub").commit("code", **{"code.py": "x = 1\n"})
    write = {
        "content": "I write.",
        "code": "open('sub/code.py', 'w').write('x = 2'); open('out.txt', 'w').write('right')",
    }
    argv = ["run", "--json", "--model", script(write, DONE)]
    result = result_of(harnessctl(*argv, "--gate", "sh check.sh", "x", cwd=checked.root))
    assert result["verified"] is True
    assert [c["path"] for c in result["changes"]["files"]] == ["out.txt", "sub/code.py"]
    argv = ["run", "--json", "--model", script(WRITE_RIGHT, DONE)]
    gate = ("--gate", "date +%N >> sub/code.py")
    result = result_of(harnessctl(*argv, *gate, "x", cwd=checked.root, code=4))
    assert (result["status"], result["reason"], result["verified"]) == ("gate_failed", "tree_changed", False)
    assert "sub/code.py" in result["detail"]


def test_ctrl_c_during_a_gate_ends_it(script: Script, checked: Git) -> None:
    import signal

    marker, sleep = checked.root.parent / "gate-began", f"sleep 61.{os.getpid()}"  # no other test's
    run = subprocess.Popen(
        [COMMAND, "run", "--json", "--gate", f"touch {marker}; {sleep}", "--model", script(DONE), "x"],
        cwd=checked.root,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert until(marker.exists)
    run.send_signal(signal.SIGINT)
    out, err = run.communicate(timeout=60)
    assert run.returncode == 130, err
    assert (json.loads(out)["status"], json.loads(out)["verified"]) == ("interrupted", False)
    left = subprocess.run(["pgrep", "-f", sleep], capture_output=True, check=False)
    assert left.stdout == b""


def test_gates_are_shown(harnessctl: Run, script: Script, checked: Git) -> None:
    done = harnessctl(
        "run", "--gate", "sh check.sh", "--model", script(WRITE_RIGHT, DONE), "x", cwd=checked.root
    )
    assert done.out == "Done.\n"
    assert "gate sh check.sh: passed (exit 0)" in done.err
    assert "success, verified" in done.err
