"""State folders that cannot be written and a current folder that is gone: a sentence, never a crash."""

from __future__ import annotations

import os
import shutil
import socket
import subprocess
import sys
import tempfile
import time
from pathlib import Path

import pytest

from tests.acceptance.conftest import COMMAND, Run, Script, outside_pytest
from tests.conftest import Git

NOTE = "---\ndescription: a note\n---\nText.\n"


@pytest.fixture
def started(harnessctl: Run, repo: Git, home: Path) -> Git:
    harnessctl("init", cwd=repo.root)
    shutil.rmtree(home / "state")
    return repo


def deny(home: Path, how: str) -> None:
    """Make ``home/state/harnessctl`` impossible."""
    if how == "file above":
        (home / "state").write_text("")
    elif how == "file":
        (home / "state").mkdir()
        (home / "state/harnessctl").write_text("")
    else:
        if os.geteuid() == 0:
            pytest.skip("root writes everywhere")
        (home / "state").mkdir(mode=0o500)


@pytest.mark.parametrize("how", ["file above", "file", "rights"])
def test_a_state_folder_that_cannot_be_made_is_named(
    harnessctl: Run, script: Script, started: Git, home: Path, how: str
) -> None:
    deny(home, how)
    run = ("run", "--json", "--model", script({"content": "done"}), "a task")
    for call in (run, ("add", "--json", "memory/a"), ("pin", "--json"), ("refine", "--json")):
        error = harnessctl(*call, cwd=started.root, input=NOTE, code=1).json()["error"]
        assert error["id"] == "state_unwritable", call
        assert str(home / "state") in error["message"]
        assert "XDG_STATE_HOME" in error["hint"]


@pytest.mark.parametrize("how", ["file above", "file", "rights"])
def test_verbs_that_read_need_no_state_folder(harnessctl: Run, started: Git, home: Path, how: str) -> None:
    deny(home, how)
    found = harnessctl("doctor", "--json", cwd=started.root, code=1).json()
    assert [(one["id"], str(home / "state") in one["what"]) for one in found] == [("state_unwritable", True)]
    assert harnessctl("sessions", "list", "--json", cwd=started.root).json() == []
    for verb in (["list"], ["log"], ["status"], ["verify", "--all"]):
        harnessctl(*verb, cwd=started.root)


def test_verbs_that_read_make_none(harnessctl: Run, started: Git, home: Path) -> None:
    harnessctl("doctor", cwd=started.root)
    harnessctl("sessions", "list", cwd=started.root)
    assert not list((home / "state").rglob("sessions"))


@pytest.mark.skipif(sys.platform != "linux", reason="elsewhere a current folder cannot be removed")
@pytest.mark.parametrize("verb", ["status", "check", "hooks status"])
def test_a_current_folder_that_is_gone_is_said(tmp_path: Path, verb: str) -> None:
    gone = tmp_path / "gone"
    gone.mkdir()
    done = subprocess.run(
        ["sh", "-c", f'cd "{gone}" && rmdir "{gone}" && exec "{COMMAND}" {verb}'],
        env=outside_pytest(),
        capture_output=True,
        text=True,
        check=False,
    )
    assert (done.returncode, "cannot work in the current folder" in done.stderr) == (1, True), done


def test_sockets_of_a_session_that_is_gone_are_removed(harnessctl: Run, repo: Git) -> None:
    harnessctl("init", cwd=repo.root)
    with tempfile.TemporaryDirectory(prefix="hs-") as name:
        folder = Path(name) / "harnessctl-ab12cd_f"
        folder.mkdir(mode=0o700)
        with socket.socket(socket.AF_UNIX) as server:
            server.bind(str(folder / "door"))
        os.utime(folder, (time.time() - 3600,) * 2)
        env = {"TMPDIR": name}
        assert str(folder) in harnessctl("doctor", cwd=repo.root, env=env, code=1).out
        assert folder.exists()
        harnessctl("doctor", "--fix", cwd=repo.root, env=env)
        assert not folder.exists()
