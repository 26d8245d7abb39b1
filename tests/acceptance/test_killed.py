"""Runs killed with -9 at random points, host and kernel alike, and picked up again until they end."""

from __future__ import annotations

import random
import shutil
from collections.abc import Callable
from pathlib import Path

import pytest

from tests.conftest import Git
from tests.fakes.killing import Round, write_script

pytestmark = [pytest.mark.kernel, pytest.mark.slow]


def play(repo: Git, home: Path, seed: int, turns: int, tmp_path: Path) -> Round:
    trace = repo.root / "trace"
    trace.unlink(missing_ok=True)
    model = write_script(tmp_path / "script.jsonl", turns)
    played = Round(repo.root, home / "state", model, turns, random.Random(seed))
    played.play()
    played.check()
    shutil.rmtree(played.folder)
    return played


@pytest.mark.parametrize("seed", range(7))
def test_a_killed_run_is_picked_up(
    make_repo: Callable[..., Git], home: Path, tmp_path: Path, seed: int
) -> None:
    played = play(make_repo(), home, seed, 40, tmp_path)
    assert played.kills


@pytest.mark.nightly
@pytest.mark.timeout(7200)
def test_a_hundred_rounds_of_200_turns(make_repo: Callable[..., Git], home: Path, tmp_path: Path) -> None:
    repo, kills = make_repo(), []
    for seed in range(1000, 1100):
        played = play(repo, home, seed, 200, tmp_path)
        kills += played.kills
    assert {"host", "kernel", "all"} == set(kills)
