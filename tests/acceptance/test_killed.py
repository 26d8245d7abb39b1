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


#: A round counts only with a kill in it. One that ended before its first kill is played again.
TRIES = 5


def play(repo: Git, home: Path, seed: int, turns: int, tmp_path: Path) -> Round:
    model = write_script(tmp_path / "script.jsonl", turns)
    for attempt in range(TRIES):
        (repo.root / "trace").unlink(missing_ok=True)
        played = Round(repo.root, home / "state", model, turns, random.Random(seed + 10_000 * attempt))
        played.play()
        played.check()
        shutil.rmtree(played.folder)
        if played.kills:
            return played
    raise AssertionError(f"no kill in {TRIES} rounds from seed {seed}")


@pytest.mark.parametrize("seed", range(7))
def test_a_killed_run_is_picked_up(
    make_repo: Callable[..., Git], home: Path, tmp_path: Path, seed: int
) -> None:
    play(make_repo(), home, seed, 40, tmp_path)


@pytest.mark.nightly
@pytest.mark.timeout(7200)
def test_a_hundred_rounds_of_200_turns(make_repo: Callable[..., Git], home: Path, tmp_path: Path) -> None:
    repo = make_repo()
    rounds = [play(repo, home, seed, 200, tmp_path).kills for seed in range(1000, 1100)]
    assert len(rounds) == 100
    assert all(rounds)
    assert {"host", "kernel", "all"} == {kill for kills in rounds for kill in kills}
