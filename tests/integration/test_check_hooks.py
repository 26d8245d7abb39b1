"""Hooks as git really runs them: installed by us, in repositories and linked work trees of every odd kind."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harnessctl.commands.hooks import hooks_status, install_hooks, uninstall_hooks
from harnessctl.domain.errors import HarnessError
from harnessctl.hooks.script import BEFORE, HOOKS

GOOD = "---\ndescription: How to build\n---\nRun make.\n"
BAD = "---\ndescription: Use it so: carefully\n---\n"

#: Names a hook must get right although shells and git quote them.
ODD_NAMES = ["a space", 'a"quote', "a'tick", "a\nnewline", "é"]


def commit(root: Path, *args: str) -> subprocess.CompletedProcess[str]:
    return subprocess.run(["git", "commit", *args], cwd=root, capture_output=True, text=True, check=False)


@pytest.fixture
def hooked(repo: Any) -> Any:
    """A repository with one good entry and our hooks."""
    repo.commit("harness", **{".harness/memory/x.md": GOOD})
    install_hooks(repo.root, sys.executable)
    return repo


def test_a_named_file_is_refused_with_its_place_rule_and_hint(hooked: Any) -> None:
    hooked.write(".harness/memory/x.md", BAD)
    done = commit(hooked.root, ".harness/memory/x.md", "-m", "x")
    assert done.returncode == 1
    assert ".harness/memory/x.md:2:23: error HRN103" in done.stdout + done.stderr
    assert 'hint: quote the value: description: "…"' in done.stdout + done.stderr


def test_commit_file_sees_the_file_and_not_what_else_is_staged(hooked: Any) -> None:
    hooked.write(".harness/memory/bad.md", BAD)
    hooked("add", ".harness/memory/bad.md")
    hooked.write(".harness/memory/x.md", GOOD + "More.\n")
    assert commit(hooked.root, ".harness/memory/x.md", "-m", "x").returncode == 0


def test_commit_all_is_refused(hooked: Any) -> None:
    hooked.write(".harness/memory/x.md", BAD)
    assert commit(hooked.root, "-am", "x").returncode == 1


def test_the_staged_blob_counts_and_not_the_file_on_disk(hooked: Any) -> None:
    hooked.write(".harness/memory/x.md", BAD)
    hooked("add", "-A")
    hooked.write(".harness/memory/x.md", GOOD)
    assert commit(hooked.root, "-m", "x").returncode == 1
    hooked.write(".harness/memory/x.md", GOOD + "Good.\n")
    hooked("add", "-A")
    hooked.write(".harness/memory/x.md", BAD)
    assert commit(hooked.root, "-m", "x").returncode == 0


def test_a_deletion_that_leaves_a_reference_is_refused(hooked: Any) -> None:
    hooked.write(".harness/memory/y.md", "---\ndescription: d\ndepends_on: memory/x\n---\n")
    hooked("add", "-A")
    hooked("commit", "-qm", "y")
    hooked("rm", "-q", ".harness/memory/x.md")
    done = commit(hooked.root, "-m", "x")
    assert "HRN121" in done.stdout + done.stderr
    hooked("reset", "-q", "--hard")
    hooked("mv", ".harness/memory/x.md", ".harness/memory/z.md")
    assert "HRN121" in (said := commit(hooked.root, "-m", "x")).stdout + said.stderr


@pytest.mark.parametrize("name", ODD_NAMES)
def test_odd_file_names_are_judged_and_shown(hooked: Any, name: str) -> None:
    skill = "---\nname: audit\ndescription: d\n---\n"
    hooked.write(".harness/skills/audit/SKILL.md", skill)
    hooked.write(f".harness/skills/audit/references/{name}.md", "a\u200bb\n")
    hooked("add", "-A")
    done = commit(hooked.root, "-m", "x")
    assert done.returncode == 1
    rule = "HRN107" if "\n" in name else "HRN204"
    assert rule in done.stdout + done.stderr
    shown = name.replace("\n", "\\n")
    assert f".harness/skills/audit/references/{shown}.md" in done.stdout + done.stderr


def test_a_linked_work_tree_shares_the_hooks(hooked: Any, tmp_path: Path) -> None:
    hooked("worktree", "add", "-q", str(tmp_path / "linked"))
    linked = tmp_path / "linked"
    assert (linked / ".git").is_file()
    (linked / ".harness/memory/x.md").write_text(BAD)
    assert commit(linked, ".harness/memory/x.md", "-m", "x").returncode == 1
    assert commit(linked, "-am", "x").returncode == 1
    assert hooks_status(linked).installed
    uninstall_hooks(linked)
    assert not hooks_status(hooked.root).installed


def test_commits_that_touch_no_harness_file_do_not_start_python(repo: Any) -> None:
    install_hooks(repo.root, "/nonexistent/python")
    repo.write("app.py", "print('other')\n")
    assert commit(repo.root, "-am", "x").returncode == 0


def test_without_harnessctl_the_commit_is_refused_in_words(
    repo: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    install_hooks(repo.root, "/nonexistent/python")
    monkeypatch.setenv("PATH", "/usr/bin:/bin")
    repo.write(".harness/memory/x.md", GOOD)
    repo("add", "-A")
    done = commit(repo.root, "-m", "x")
    assert done.returncode == 1
    assert "harnessctl is not installed" in done.stderr


def test_a_module_of_the_repository_is_not_imported(hooked: Any, tmp_path: Path) -> None:
    proof = tmp_path / "ran"
    hooked.write("yaml.py", f"open({str(proof)!r}, 'w')\n")
    hooked.write("harnessctl/__init__.py", f"open({str(proof)!r}, 'w')\n")
    hooked.write(".harness/memory/x.md", GOOD + "More.\n")
    hooked("add", "-A")
    assert commit(hooked.root, "-m", "x").returncode == 0
    assert not proof.exists()


def test_commit_message_with_a_forged_trailer(hooked: Any) -> None:
    message = "x\n\nHarness-Update: 01K9ZZZZZZ0000000000000001\n"
    done = commit(hooked.root, "--allow-empty", "-m", message)
    assert done.returncode == 1
    assert "HRN401" in done.stdout + done.stderr
    assert commit(hooked.root, "--allow-empty", "-m", "x\n\nSigned-off-by: A <a@b.c>\n").returncode == 0


def test_push_of_a_bad_commit_is_refused_before_it_leaves(hooked: Any, make_repo: Callable[..., Any]) -> None:
    remote = make_repo("remote", bare=True)
    hooked("remote", "add", "origin", str(remote.root))
    hooked("push", "-q", "origin", "main")
    hooked.write(".harness/memory/x.md", BAD)
    hooked("commit", "-q", "--no-verify", "-am", "x")
    done = subprocess.run(
        ["git", "push", "origin", "main"], cwd=hooked.root, capture_output=True, text=True, check=False
    )
    assert done.returncode == 1
    assert "HRN103" in done.stdout + done.stderr
    hooked.write(".harness/memory/x.md", GOOD + "Mended.\n")
    hooked("commit", "-qam", "mend")
    hooked("push", "-q", "origin", "main")


# -- where git looks for hooks ---------------------------------------------------------------------


@pytest.mark.parametrize("scope", ["--local", "--global"])
def test_hooks_path_elsewhere_is_said_and_nothing_is_written(repo: Any, tmp_path: Path, scope: str) -> None:
    shared = tmp_path / "shared-hooks"
    repo("config", scope, "core.hooksPath", str(shared))
    with pytest.raises(HarnessError) as caught:
        install_hooks(repo.root, sys.executable)
    assert caught.value.id == "hooks_path"
    assert "check --staged" in caught.value.hint
    assert not shared.exists()
    assert not (repo.root / ".git/hooks/pre-commit").exists()
    install_hooks(repo.root, sys.executable, into_hooks_path=True)
    repo.write(".harness/memory/x.md", BAD)
    repo("add", "-A")
    assert commit(repo.root, "-m", "x").returncode == 1


def test_husky_owns_its_folder(repo: Any) -> None:
    """husky 9 points core.hooksPath at a folder that it writes anew at every install."""
    repo("config", "core.hooksPath", ".husky/_")
    for asked in (False, True):
        with pytest.raises(HarnessError) as caught:
            install_hooks(repo.root, sys.executable, into_hooks_path=asked)
        assert ".husky/pre-commit" in caught.value.hint
    assert not (repo.root / ".husky").exists()


def test_an_empty_hooks_path_runs_no_hook_and_is_refused(repo: Any) -> None:
    repo("config", "core.hooksPath", "")
    for asked in (False, True):
        with pytest.raises(HarnessError, match="empty value"):
            install_hooks(repo.root, sys.executable, into_hooks_path=asked)


def test_hooks_path_that_names_the_own_folder_is_no_obstacle(repo: Any) -> None:
    repo("config", "core.hooksPath", ".git/hooks")
    install_hooks(repo.root, sys.executable)
    repo.write(".harness/memory/x.md", BAD)
    repo("add", "-A")
    assert commit(repo.root, "-m", "x").returncode == 1


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "#!/usr/bin/env bash\n# File generated by pre-commit: https://pre-commit.com\n",
            ".pre-commit-config.yaml",
        ),
        ("#!/bin/sh\n# File generated by prek\n", ".pre-commit-config.yaml"),
        ("#!/bin/sh\ncall_lefthook run pre-commit\n", "lefthook.yml"),
        ('#!/bin/sh\n. "$(dirname "$0")/_/husky.sh"\n', ".husky/pre-commit"),
        ("#!/bin/sh\nmake lint\n", "--chain"),
    ],
)
def test_hooks_of_others_stay_and_their_tool_is_named(repo: Any, text: str, said: str) -> None:
    hook = repo.write(".git/hooks/pre-commit", text)
    with pytest.raises(HarnessError) as caught:
        install_hooks(repo.root, sys.executable)
    assert caught.value.id == "foreign_hook"
    assert said in caught.value.hint
    assert hook.read_text() == text
    assert not (repo.root / ".git/hooks/pre-push").exists(), "all or nothing"


def test_chaining_keeps_the_hook_that_was_there_and_uninstalling_brings_it_back(
    repo: Any, tmp_path: Path
) -> None:
    text = f"#!/bin/sh\necho first >> {tmp_path}/log\n[ ! -e {tmp_path}/stop ]\n"
    hook = repo.write(".git/hooks/pre-commit", text)
    hook.chmod(0o755)
    done = install_hooks(repo.root, sys.executable, chain=True)
    assert done.chained == ("pre-commit",)
    repo.write(".harness/memory/x.md", GOOD)
    repo("add", "-A")
    assert commit(repo.root, "-m", "x").returncode == 0
    assert (tmp_path / "log").read_text() == "first\n"
    (tmp_path / "stop").touch()
    repo.write("app.py", "x\n")
    assert commit(repo.root, "-am", "x").returncode == 1
    assert uninstall_hooks(repo.root).chained == ("pre-commit",)
    assert hook.read_text() == text
    assert os.access(hook, os.X_OK)
    assert not (repo.root / f".git/hooks/pre-commit{BEFORE}").exists()


def test_a_chained_pre_push_hook_reads_the_same_lines(
    hooked: Any, make_repo: Callable[..., Any], tmp_path: Path
) -> None:
    uninstall_hooks(hooked.root)
    hook = hooked.write(".git/hooks/pre-push", f"#!/bin/sh\ncat > {tmp_path}/lines\n")
    hook.chmod(0o755)
    install_hooks(hooked.root, sys.executable, chain=True)
    remote = make_repo("remote", bare=True)
    hooked("push", "-q", str(remote.root), "main")
    assert "refs/heads/main" in (tmp_path / "lines").read_text()
    hooked.write(".harness/memory/x.md", BAD)
    hooked("commit", "-q", "--no-verify", "-am", "x")
    assert (
        subprocess.run(
            ["git", "push", "-q", str(remote.root), "main"], cwd=hooked.root, check=False, capture_output=True
        ).returncode
        == 1
    )


def test_installing_twice_is_the_same_as_once(repo: Any) -> None:
    install_hooks(repo.root, sys.executable)
    before = {name: (repo.root / ".git/hooks" / name).read_text() for name in HOOKS}
    install_hooks(repo.root, sys.executable, chain=True)
    assert {name: (repo.root / ".git/hooks" / name).read_text() for name in HOOKS} == before
