"""kill -9 at every point of a landing, a second writer running: landed or open, never both, never lost."""

from __future__ import annotations

import json
import subprocess
import sys
from typing import Any

import pytest

from tests.conftest import Git
from tests.fakes import kills
from tests.fakes.harness import started


def fire(git: Git, rounds: int, *how: str) -> dict[str, Any]:
    """The report of so many rounds."""
    started(git)
    command = [sys.executable, "-W", "error", kills.__file__, str(git.root), str(rounds), *how]
    done = subprocess.run(command, capture_output=True, timeout=3000, check=False)
    assert done.returncode == 0, done.stderr.decode()
    report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return report


@pytest.mark.slow
def test_a_kill_at_each_point_leaves_every_update_landed_or_open(repo: Git) -> None:
    report = fire(repo, len(kills.CASES))
    assert report["wrong"] == []
    assert {f"{w}: {p}" for w, p in kills.CASES if p != "anywhere"} <= set(report["hits"])
    assert report["others"] > 0


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_two_hundred_kills(repo: Git) -> None:
    report = fire(repo, 200)
    assert report["wrong"] == []
    hits = {f"{w}: {p}": report["hits"].get(f"{w}: {p}", 0) for w, p in kills.CASES if p != "anywhere"}
    assert min(hits.values()) >= 5, hits


@pytest.mark.slow
def test_without_compare_and_swap_the_same_loses_updates(repo: Git) -> None:
    assert any(
        w.startswith(("lost", "moved but")) for w in fire(repo, 2 * len(kills.CASES), "blind")["wrong"]
    )
