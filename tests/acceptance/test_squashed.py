"""What people do to a branch with git alone, and what the installed command still tells in another clone."""

from __future__ import annotations

import shutil
from pathlib import Path
from typing import Any

from tests.acceptance.conftest import Run
from tests.conftest import Git
from tests.fakes.harness import Make, started, store_of
from tests.fakes.history import Hand, learned, update_of
from tests.fakes.trajectories import OUTPUT


def told(harnessctl: Run, git: Git) -> dict[str, dict[str, Any]]:
    """The log's rows by update id."""
    return {row["update"]: row for row in harnessctl("log", "--json", cwd=git.root).json()}


def entries(harnessctl: Run, git: Git) -> Any:
    """What a run in ``git`` would read, as ``status`` and ``list`` say."""
    status = harnessctl("status", "--json", cwd=git.root).json()
    return status["pin"]["entries"], harnessctl("list", "--json", cwd=git.root).json()


def squash_the_last_two(git: Git, place: Path) -> None:
    """By hand, with a message that says nothing."""
    with Hand(git, place) as hand:
        hand("reset", "-q", "--soft", "HEAD~2")
        hand("commit", "-q", "-m", "x")


def fresh_clone(origin: Git, root: Path) -> Git:
    """A clone that never saw the branch as it was before."""
    origin("clone", "-q", "-b", "main", f"file://{origin.root}", str(root))
    return Git(root)


def test_squashed_cloned_and_reverted(repo: Git, make_repo: Make, tmp_path: Path, harnessctl: Run) -> None:
    """Two landed updates, one commit "x", the branch deleted, a fresh clone, then ``git revert`` of one."""
    store = started(repo)
    first, second = learned(store, "a", "one"), learned(store, "b", "two")
    one = store.accept(first.id)
    two = store.accept(second.id, pin=True)
    repo("add", "harness.lock")
    repo("commit", "-q", "-m", "pin the harness")
    before = entries(harnessctl, repo)
    assert {entry["id"] for entry in before[1]} == {"memory/a", "memory/b"}
    origin = make_repo("origin.git", bare=True)
    repo("remote", "add", "origin", str(origin.root))
    repo("push", "-q", "origin", "main", "harness")

    squash_the_last_two(repo, tmp_path / "hand")
    repo("push", "-q", "--force", "origin", "harness")
    repo("branch", "-q", "-D", "harness")

    clone = fresh_clone(origin, tmp_path / "clone")
    shutil.rmtree(store.state_dir)
    squash = clone("rev-parse", "origin/harness")
    assert clone("log", "-1", "--format=%B", squash) == "x", "nothing of a trailer is left"
    assert clone("cat-file", "-t", two.commit, check=False) == "", "the pinned commit is not here"
    for git in (clone, repo):
        rows = told(harnessctl, git)
        assert rows.keys() == {update_of(one), update_of(two)}
        for proposal in (first, second):
            row = rows[proposal.id]
            assert (row["state"], row["commit"], row["shared"]) == ("landed", squash, True)
            assert row["session"] == proposal.record.evidence[0].session
            assert row["model"] == "m/x"
            assert row["evidence"] == [f"{row['session']}#{OUTPUT}"]
            shown = harnessctl("show", proposal.id, "--evidence", "--json", cwd=git.root).json()
            assert shown["record"]["evidence"][0]["quotes"] == ["tracked: app.py"]
        assert entries(harnessctl, git) == before, "the lock made before reads the same entries"

    repo("branch", "-q", "harness", "origin/harness")
    with Hand(repo, tmp_path / "again") as hand:
        hand("revert", "--no-commit", one.commit)
        hand("commit", "-q", "-m", "y")
        hand("push", "-q", "origin", "harness")
    clone("fetch", "-q", "origin")
    assert clone("log", "-1", "--format=%B", "origin/harness") == "y"
    for git in (clone, repo):
        rows = told(harnessctl, git)
        assert {name: row["state"] for name, row in rows.items() if name} == {
            update_of(one): "taken_back",
            update_of(two): "landed",
        }
        assert harnessctl("run", "--model", "scripted:/none", "t", cwd=git.root, code=6).err.count(
            update_of(one)
        )
    assert store_of(clone).landed_snapshot().entries.keys() == {"memory/b"}
