"""``run --sandbox``: a kernel in bubblewrap that works, is interrupted, dies and ends like any other."""

from __future__ import annotations

import json
import os
import signal
import sys
from pathlib import Path

import pytest

from tests.acceptance.conftest import Logs, Run, Script
from tests.conftest import Git
from tests.fakes.killing import processes_of, until
from tests.fakes.runs import SLEEP, begin

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap is for Linux"),
]

DONE = {"content": "Done."}


def texts(logs: Logs) -> list[str]:
    return [e["data"]["text"] for e in logs.newest() if e["type"] == "result"]


def test_it_works_on_the_tree_and_sees_neither_state_nor_refs(
    harnessctl: Run, script: Script, logs: Logs, repo: Git, home: Path
) -> None:
    harnessctl("init", cwd=repo.root)
    look = (
        "%%bash\necho hi > made.txt\ngit status --short\nfind $XDG_STATE_HOME -type f | wc -l\n"
        "git update-ref refs/heads/harness HEAD || echo refused\nls /proc | grep -c '^[0-9]'"
    )
    gate = "test -f made.txt && ! ls $XDG_STATE_HOME/harnessctl/*/sessions/*/log.jsonl"
    model = script({"content": "a", "code": look}, {"content": "b", "code": "print(harness.list())"}, DONE)
    result = harnessctl(
        "run", "--json", "--sandbox", "--gate", gate, "--model", model, "x", cwd=repo.root
    ).json()
    assert (result["verified"], result["sandbox"]) == (True, {"network": True})
    assert [c["path"] for c in result["changes"]["files"]] == ["made.txt"]
    shown = texts(logs)[0]
    assert "?? made.txt" in shown
    assert "refused" in shown
    # The pinned entries and IPython's own folder are all that is there of the state.
    assert int(shown.split("harness.lock\n?? made.txt\n")[1].split("\n")[0]) < 10
    assert result["moved"] == []


def test_ctrl_c_interrupts_a_cell_in_it(script: Script, logs: Logs, repo: Git) -> None:
    code = f"open('begun', 'w').close()\n{SLEEP}"
    run = begin(repo, script({"content": "wait", "code": code}, DONE), "--json", "--sandbox")
    assert until((repo.root / "begun").exists)
    run.send_signal(signal.SIGINT)
    out, err = run.communicate(timeout=120)
    assert run.returncode == 0, err
    assert json.loads(out)["answer"] == "Done."
    assert "the user interrupted it" in texts(logs)[0]


def test_a_death_in_it_is_told_with_its_signal(
    harnessctl: Run, script: Script, logs: Logs, repo: Git
) -> None:
    die = "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)"
    model = script({"content": "a", "code": die}, {"content": "b", "code": "print('again')"}, DONE)
    harnessctl("run", "--sandbox", "--model", model, "x", cwd=repo.root)
    assert "the kernel died: ended by SIGKILL" in texts(logs)[0]
    assert "again" in texts(logs)[1]


def test_kill_9_of_the_host_leaves_nothing_of_it(script: Script, logs: Logs, repo: Git) -> None:
    code = "import subprocess\nsubprocess.Popen(['sleep', '67'], start_new_session=True)\n"
    code += f"open('begun', 'w').close()\n{SLEEP}"
    run = begin(repo, script({"content": "wait", "code": code}), "--sandbox")
    assert until((repo.root / "begun").exists)
    session = logs.newest()[0]["data"]["session"]
    assert len(processes_of(session)) >= 3
    run.kill()
    run.communicate()
    assert until(lambda: not processes_of(session))


def test_without_bubblewrap_it_is_refused(harnessctl: Run, script: Script, repo: Git, tmp_path: Path) -> None:
    """Only git and what the tests need are on this path."""
    tools = tmp_path / "tools"
    tools.mkdir()
    for name in ("git", "sh"):
        found = next(Path(p, name) for p in os.environ["PATH"].split(":") if Path(p, name).exists())
        (tools / name).symlink_to(found)
    done = harnessctl(
        "run",
        "--json",
        "--sandbox",
        "--model",
        script(DONE),
        "x",
        cwd=repo.root,
        env={"PATH": str(tools)},
        code=2,
    )
    assert done.json()["error"]["id"] == "no_sandbox"
    assert "apt-get install bubblewrap" in done.json()["error"]["hint"]
