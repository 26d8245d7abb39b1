"""A session's pin as git sees it: held, watched, let go; and the logs that records still need."""

from __future__ import annotations

import os
from collections.abc import Callable
from pathlib import Path

import pytest

from harnessctl.config import read_environment
from harnessctl.domain.outcome import RunStatus
from harnessctl.layers.l3_durable.git.linked import add_linked, head_of, is_clean, remove_linked
from harnessctl.layers.l3_durable.git.repository import Repository
from harnessctl.layers.l3_durable.pins.live import LivePin
from harnessctl.layers.l3_durable.places.mode import find_place
from tests.conftest import Git
from tests.fakes.sessions import Stage, scripted

REF = "refs/harness/live/S"


def pin(repo: Git, commit: str) -> LivePin:
    return LivePin(find_place(Repository.open(repo.root), read_environment()), "S", commit)


def test_the_commit_is_held_until_it_is_released(repo: Git) -> None:
    commit = repo("rev-parse", "HEAD")
    held = pin(repo, commit)
    held.hold()
    assert repo("rev-parse", REF) == commit
    held.hold()  # a resume finds the ref that a kill left
    held.release()
    held.release()
    assert repo("for-each-ref", "refs/harness") == ""


def test_a_left_over_ref_moves_to_the_pin_of_today(repo: Git) -> None:
    first = repo("rev-parse", "HEAD")
    second = repo.commit("second")
    pin(repo, first).hold()
    pin(repo, second).hold()
    assert repo("rev-parse", REF) == second


def test_without_a_pin_there_is_no_ref(repo: Git) -> None:
    pin(repo, "").hold()
    assert repo("for-each-ref", "refs/harness") == ""


async def test_a_session_stops_at_its_next_turn(tmp_path: Path) -> None:
    model = scripted(tmp_path, {"content": "a", "code": "1"}, {"content": "never asked"})
    stage = Stage(tmp_path, model)
    complete = model.complete

    async def then_revoked(*args: object, **more: object) -> object:
        stage.pin.taken_back = ("01UPDATE",)
        return await complete(*args, **more)  # type: ignore[arg-type]

    model.complete = then_revoked  # type: ignore[method-assign,assignment]
    end = await stage.run()
    assert (end.ending.status, end.ending.reason) == (RunStatus.INCOMPLETE, "pin_revoked")
    assert "01UPDATE" in end.ending.detail
    assert len(stage.of("request")) == 1
    assert stage.pin.held == 0


@pytest.mark.parametrize("name", ["tree", "with space é"])
def test_a_linked_work_tree_runs_no_filter(make_repo: Callable[..., Git], tmp_path: Path, name: str) -> None:
    repo = make_repo()
    ran = tmp_path / "ran"
    repo("config", "filter.evil.smudge", f"sh -c 'touch {ran}; cat'")
    repo("config", "filter.evil.clean", "cat")
    commit = repo.commit("attributes", **{".gitattributes": "*.txt filter=evil\n", "a.txt": "text\n"})
    ran.unlink(missing_ok=True)
    path = tmp_path / name
    variables = read_environment().variables
    add_linked(repo.root, path, commit, variables)
    assert (path / "a.txt").read_text() == "text\n"
    assert not ran.exists()
    assert head_of(path) == commit
    remove_linked(repo.root, path, variables)
    assert not path.exists()
    assert repo("worktree", "list").count("\n") == 0


@pytest.mark.parametrize("name", [".gitignore", ".gitattributes", "sub/.gitattributes"])
def test_a_pipe_for_rules_is_not_waited_at(repo: Git, name: str) -> None:
    assert is_clean(repo.root)
    (repo.root / name).parent.mkdir(exist_ok=True)
    os.mkfifo(repo.root / name)
    repo.write("app.py", "other\n")
    assert not is_clean(repo.root)


def test_a_folder_that_is_no_repository_counts_as_not_clean(tmp_path: Path) -> None:
    assert not is_clean(tmp_path)
