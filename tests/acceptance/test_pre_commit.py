"""This repository as others use it: a source of hooks for the pre-commit framework, the real one.

The framework builds an environment with pip, so the variables that tell pip and TLS where things are
come through the hermetic home; they are read here before a fixture removes them.
"""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path
from typing import Any

import pytest

from tests.conftest import Git

_FOR_PIP = {
    name: value
    for name, value in os.environ.items()
    if name.startswith(("PIP_", "SSL_CERT_"))
    or name.lower().endswith("_proxy")
    or name == "REQUESTS_CA_BUNDLE"
}
ROOT = Path(__file__).parents[2]
GOOD = "---\ndescription: How to build\n---\nRun make.\n"
BAD = "---\ndescription: Use it so: carefully\n---\n"
TOKEN = "ghp_" + "a1B2c3D4e5F6" * 3

CONFIG = """default_install_hook_types: [pre-commit, pre-merge-commit, commit-msg, pre-push]
repos:
- repo: {root}
  rev: {rev}
  hooks:
  - id: harness-check
  - id: harness-commit-msg
  - id: harness-pre-push
"""

pytestmark = [pytest.mark.slow, pytest.mark.timeout(900)]


def _pre_commit(git: Git, *args: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "pre_commit", *args]
    return subprocess.run(command, cwd=git.root, capture_output=True, text=True, check=False)


@pytest.fixture(scope="module")
def cache(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The framework's home, with an environment that is built once."""
    return tmp_path_factory.mktemp("pre-commit")


@pytest.fixture(autouse=True)
def variables(monkeypatch: pytest.MonkeyPatch, home: Path, cache: Path) -> None:
    for name, value in _FOR_PIP.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setenv("PRE_COMMIT_HOME", str(cache))
    # The source is a checkout that may belong to another user than the one who runs the tests.
    subprocess.run(["git", "config", "--global", "--add", "safe.directory", "*"], check=True)


@pytest.fixture
def framed(repo: Git) -> Git:
    """A repository with the framework's hooks and one good entry."""
    rev = Git(ROOT)("rev-parse", "HEAD")
    repo.write(".pre-commit-config.yaml", CONFIG.format(root=ROOT, rev=rev))
    repo.commit("harness", **{".harness/memory/x.md": GOOD})
    installed = _pre_commit(repo, "install", "--install-hooks")
    assert installed.returncode == 0, installed.stdout + installed.stderr
    return repo


def _commit(root: Path, *args: str) -> tuple[int, str]:
    done = subprocess.run(["git", "commit", *args], cwd=root, capture_output=True, text=True, check=False)
    return done.returncode, done.stdout + done.stderr


def test_try_repo_refuses_a_broken_memory(repo: Git) -> None:
    repo.write(".harness/memory/x.md", BAD)
    repo("add", "-A")
    done = _pre_commit(repo, "try-repo", str(ROOT), "harness-check")
    said = done.stdout + done.stderr
    assert done.returncode == 1, said
    assert ".harness/memory/x.md:2:23: error HRN103" in said
    assert 'hint: quote the value: description: "…"' in said


def test_the_hooks_environment_is_light(framed: Git, cache: Path) -> None:
    installed = [p.name.lower() for p in cache.glob("*/py_env-*/lib/python*/site-packages/*")]
    assert any(name.startswith("harnessctl-") for name in installed)
    for heavy in ("litellm", "openai", "jupyter_client", "ipykernel", "httpx"):
        assert not any(name.startswith(heavy) for name in installed), heavy


def test_git_refuses_what_git_would_commit(framed: Git, tmp_path: Path) -> None:
    framed.write(".harness/memory/x.md", BAD)
    for args in ((".harness/memory/x.md", "-m", "x"), ("-am", "x")):
        code, said = _commit(framed.root, *args)
        assert code == 1, said
        assert "HRN103" in said
    framed("checkout", "-q", "--", ".harness")
    framed("worktree", "add", "-q", str(tmp_path / "linked"))
    (tmp_path / "linked/.harness/memory/x.md").write_text(BAD)
    assert _commit(tmp_path / "linked", "-am", "x")[0] == 1


@pytest.mark.parametrize("name", ["a space", 'a"quote', "a\nnewline", "é"])
def test_odd_file_names(framed: Git, name: str) -> None:
    framed.write(".harness/skills/audit/SKILL.md", "---\nname: audit\ndescription: d\n---\n")
    framed.write(f".harness/skills/audit/assets/{name}.txt", "a\u200bb")
    framed("add", "-A")
    code, said = _commit(framed.root, "-m", "x")
    assert code == 1
    assert ("HRN107" if "\n" in name else "HRN204") in said


def test_a_secret_is_named_and_not_shown(framed: Git) -> None:
    framed.write(".harness/memory/x.md", GOOD + TOKEN + "\n")
    code, said = _commit(framed.root, "-am", "x")
    assert code == 1
    assert "HRN206" in said
    assert TOKEN not in said


def test_merge_message_and_push(framed: Git, make_repo: Any) -> None:
    assert "HRN401" in _commit(framed.root, "--allow-empty", "-m", "x\n\nHarness-Base: 0\n")[1]
    framed("checkout", "-q", "-b", "other")
    framed("rm", "-q", ".harness/memory/x.md")
    framed("commit", "-qm", "remove")
    framed("checkout", "-q", "main")
    framed.commit("need", **{".harness/memory/y.md": "---\ndescription: d\ndepends_on: memory/x\n---\n"})
    merged = subprocess.run(
        ["git", "merge", "-m", "m", "other"], cwd=framed.root, capture_output=True, text=True, check=False
    )
    assert "HRN121" in merged.stdout + merged.stderr
    framed("merge", "--abort", check=False)
    remote = make_repo("remote", bare=True)
    framed("remote", "add", "origin", str(remote.root))
    framed.write(".harness/memory/y.md", BAD)
    framed("commit", "-q", "--no-verify", "-am", "bad")
    pushed = subprocess.run(
        ["git", "push", "origin", "main"], cwd=framed.root, capture_output=True, text=True, check=False
    )
    assert pushed.returncode == 1
    assert "HRN103" in pushed.stdout + pushed.stderr
