"""A branch that somebody works on, in any work tree, is never moved: refused with the place named."""

from __future__ import annotations

import subprocess
from collections.abc import Callable
from pathlib import Path

import pytest

from harnessctl.cli.main import run
from harnessctl.commands.status import status
from harnessctl.domain.errors import HarnessError
from tests.conftest import Git
from tests.fakes.harness import Make, add, land, propose, started, store_of

EDIT = ("-c", "sequence.editor=sed -i.bak 1s/^pick/edit/")


def checked_out(there: Git) -> str:
    return "checked out in"


def rebase_stopped(there: Git) -> str:
    there(*EDIT, "rebase", "-q", "-i", "HEAD~1", check=False)
    assert there("symbolic-ref", "-q", "HEAD", check=False) == ""
    return "being rebased in"


def rebase_in_conflict(there: Git, *how: str) -> str:
    mine = there("rev-parse", "HEAD")
    there("checkout", "-q", "-b", "side", "HEAD~1")
    there.commit("side", **{".harness/memory/b.md": "---\ndescription: side\n---\nside\n"})
    there("checkout", "-q", "harness")
    there("rebase", "-q", *how, "side", check=False)
    assert there("rev-parse", "harness") == mine
    assert there("symbolic-ref", "-q", "HEAD", check=False) == ""
    return "being rebased in"


def rebase_of_patches_in_conflict(there: Git) -> str:
    return rebase_in_conflict(there, "--apply")


def rebase_of_another_branch_that_will_move_it(there: Git) -> str:
    there("checkout", "-q", "-b", "above")
    there.commit("above", x="x\n")
    there(*EDIT, "rebase", "-q", "-i", "--update-refs", "HEAD~2", check=False)
    listed = there("rev-parse", "--path-format=absolute", "--git-path", "rebase-merge/update-refs")
    if not Path(listed).exists():
        pytest.skip("this git has no rebase --update-refs")
    return "being rebased in"


def bisect(there: Git) -> str:
    there("bisect", "start", "HEAD", "HEAD~2")
    assert there("symbolic-ref", "-q", "HEAD", check=False) == ""
    return "being bisected in"


def merge_in_progress(there: Git) -> str:
    there("checkout", "-q", "-b", "side", "HEAD~1")
    there.commit("side", y="y\n")
    there("checkout", "-q", "harness")
    there("merge", "-q", "--no-commit", "--no-ff", "side")
    return "with a merge in progress"


def cherry_pick_in_progress(there: Git) -> str:
    there("checkout", "-q", "-b", "side", "HEAD~1")
    there.commit("side", **{".harness/memory/b.md": "---\ndescription: side\n---\nside\n"})
    there("checkout", "-q", "harness")
    there("cherry-pick", "side", check=False)
    return "with a cherry-pick in progress"


WAYS: tuple[Callable[[Git], str], ...] = (
    checked_out,
    rebase_stopped,
    rebase_in_conflict,
    rebase_of_patches_in_conflict,
    rebase_of_another_branch_that_will_move_it,
    bisect,
    merge_in_progress,
    cherry_pick_in_progress,
)


@pytest.mark.parametrize("way", WAYS)
def test_accept_exits_1_names_the_place_and_moves_nothing(
    repo: Git,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
    way: Callable[[Git], str],
) -> None:
    store = started(repo)
    land(store, "a", "one")
    land(store, "b", "two")
    proposal = propose(store, "c", "three")
    place = tmp_path / "tree"
    repo("worktree", "add", "-q", str(place), "harness")
    words = way(Git(place))
    refs, objects = repo("for-each-ref"), repo("count-objects", "-v")
    monkeypatch.chdir(repo.root)
    assert run(["review", "accept", proposal.id]) == 1
    said = capsys.readouterr().err
    assert words in said
    assert str(place) in said
    with pytest.raises(HarnessError) as caught:
        add(store_of(repo), "d", "x")
    assert caught.value.id == "branch_in_use"
    assert (repo("for-each-ref"), repo("count-objects", "-v")) == (refs, objects)
    assert status(store_of(repo)).in_use


def test_after_the_rebase_is_given_up_the_branch_moves_again(repo: Git, tmp_path: Path) -> None:
    store = started(repo)
    land(store, "a", "one")
    proposal = propose(store, "c", "three")
    there = Git(tmp_path / "tree")
    repo("worktree", "add", "-q", str(there.root), "harness")
    rebase_stopped(there)
    there("rebase", "--abort")
    there("checkout", "-q", "--detach")
    store_of(repo).accept(proposal.id)


def test_the_branch_is_looked_at_again_right_before_it_moves(repo: Git, tmp_path: Path) -> None:
    """Somebody who checks it out while a landing is being built keeps what they see."""
    store = started(repo)
    tip = store.landed_tip()

    def reached(point: str) -> None:
        if point == "written":
            repo("worktree", "add", "-q", str(tmp_path / "tree"), "harness")

    store.writer.reached = reached
    with pytest.raises(HarnessError) as caught:
        add(store, "a", "one")
    assert caught.value.id == "branch_in_use"
    assert repo("rev-parse", "harness") == tip


def test_a_submodules_own_work_tree_is_named(repo: Git, make_repo: Make) -> None:
    inner = make_repo("inner")
    repo("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(inner.root), "sub")
    sub = Git(repo.root / "sub")
    proposal = propose(started(sub), "a", "one")
    store_of(sub).accept(proposal.id)
    sub("checkout", "-q", "harness")
    with pytest.raises(HarnessError, match=f"checked out in {sub.root}"):
        add(store_of(sub), "b", "two")
    assert subprocess.run(["git", "status"], cwd=sub.root, capture_output=True).returncode == 0
