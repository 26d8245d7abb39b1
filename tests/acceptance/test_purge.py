"""The purge drill, run as documented, in a scratch repository with a remote and a second clone."""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from tests.acceptance.conftest import COMMAND, Run
from tests.conftest import Git
from tests.fakes.harness import Make, started, store_of
from tests.fakes.history import land, learned, update_of

DOCUMENT = Path(__file__).parents[2] / "docs/design/history.md"
SECRET = "correct horse battery staple 7"


def commands(marker: str) -> str:
    """The block behind a marker of the document."""
    found = re.search(rf"<!-- {marker} -->\n```sh\n(.*?)```", DOCUMENT.read_text(), re.DOTALL)
    assert found
    return found[1]


def holds_secret(git: Git) -> bool:
    done = subprocess.run(
        ["git", "cat-file", "--batch-all-objects", "--batch"], cwd=git.root, capture_output=True, check=True
    )
    return SECRET.encode() in done.stdout


def bash(script: str, git: Git, environment: dict[str, str]) -> subprocess.CompletedProcess[bytes]:
    """The documented commands as they are."""
    command = ["bash", "-euo", "pipefail", "-c", script]
    return subprocess.run(command, cwd=git.root, env=environment, capture_output=True, check=False)


def test_what_was_edited_and_refused_lies_where_the_drill_looks(
    repo: Git, harnessctl: Run, home: Path, tmp_path: Path
) -> None:
    waiting = learned(started(repo), "a", "one")
    editor = tmp_path / "editor"
    editor.write_text(f"#!/bin/sh\nprintf -- '---\\ndescription: {SECRET}: x\\n---\\n' > \"$1\"\n")
    editor.chmod(0o755)
    for call in (["edit", "memory/b"], ["review", "edit", waiting.id]):
        refused = harnessctl(*call, cwd=repo.root, env={"EDITOR": str(editor)}, code=1)
        assert "your text is kept in" in refused.err
    secret = tmp_path / "secret"
    secret.write_text(f"{SECRET}\n")
    step = DOCUMENT.read_text().partition("\n5. Logs stay")[2].partition("\n6. ")[0]
    search = re.search(r"`(grep [^`]*)`", step)
    assert search
    environment = {**os.environ, "SECRET_FILE": str(secret)}
    state = home / "state/harnessctl"
    found = bash(f"{search[1]} {state}", repo, environment).stdout.decode().splitlines()
    folders = {Path(path).relative_to(state).parts[1] for path in found}
    assert folders == {"drafts", "edits"}
    assert folders <= set(re.findall(r"`(\w+)/`", step))


@pytest.mark.slow
def test_the_drill_removes_a_secret_and_keeps_states(
    repo: Git, make_repo: Make, harnessctl: Run, tmp_path: Path
) -> None:
    store = started(repo)
    bad = land(store, "a", f"the password is {SECRET}")
    good = land(store_of(repo), "b", "fine")
    waiting = learned(store_of(repo), "c", f"use {SECRET}")
    bare = make_repo("origin.git", bare=True)
    repo("remote", "add", "origin", str(bare.root))
    repo("push", "-q", "origin", "main")
    harnessctl("sync", cwd=repo.root)
    clone = Git(tmp_path / "clone")
    bare("clone", "-q", "-b", "main", str(bare.root), str(clone.root))
    harnessctl("sync", cwd=clone.root)
    harnessctl("rollback", "--only", update_of(bad), cwd=repo.root)
    harnessctl("sync", cwd=repo.root)
    rows = harnessctl("log", "--json", cwd=repo.root).json()
    before = {row["update"]: (row["state"], row["session"]) for row in rows}
    assert holds_secret(repo), "taken back, and still in history"

    secret = tmp_path / "secret"
    secret.write_text(f"{SECRET}\n")
    own = tmp_path / "tmp"  # what others left in the machine's is no business of this drill
    own.mkdir()
    environment = {**os.environ, "SECRET_FILE": str(secret), "TMPDIR": str(own)}
    environment["PATH"] = f"{COMMAND.parent}:{os.environ['PATH']}"
    assert b"still there" in bash(commands("purge check"), repo, environment).stdout
    for marker in ("purge drill", "purge check"):
        done = subprocess.run(
            ["bash", "-euo", "pipefail", "-c", commands(marker)],
            cwd=repo.root,
            env=environment,
            capture_output=True,
        )
        assert done.returncode == 0, done.stderr.decode() + done.stdout.decode()

    assert not holds_secret(repo)
    assert list(tmp_path.glob("secret.*")) == []
    bare("gc", "-q", "--prune=now")  # the forge's part
    assert not holds_secret(bare)
    rows = harnessctl("log", "--json", cwd=repo.root).json()
    assert {row["update"]: (row["state"], row["session"]) for row in rows} == before
    assert before[waiting.id][0] == "open"
    assert before[update_of(good)][0] == "landed"
    assert harnessctl("verify", update_of(good), "--json", cwd=repo.root).json()[0]["answer"] == "ok"
    told = harnessctl("verify", update_of(bad), "--json", cwd=repo.root, code=1).json()[0]
    assert told["answer"] == "mismatch", "and it says so"
    said = harnessctl("sync", "--json", cwd=clone.root, code=1).json()["error"]
    assert said["id"] == "rewritten", "an old clone takes nothing by itself"
    repo("fsck", "--strict")
