"""kill -9 at every point of a landing, a second writer running: landed or open, never both, never lost."""

from __future__ import annotations

import ast
import json
import subprocess
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

import harnessctl
from harnessctl.layers.l3_durable.landing.writer import POINTS
from tests.conftest import Git
from tests.fakes import kills
from tests.fakes.harness import Make, started


def fire(git: Git, rounds: int, *how: str) -> dict[str, Any]:
    """The report of so many rounds."""
    started(git)
    command = [sys.executable, "-W", "error", kills.__file__, str(git.root), str(rounds), *how]
    done = subprocess.run(command, capture_output=True, timeout=3000, check=False)
    assert done.returncode == 0, done.stderr.decode()
    report: dict[str, Any] = json.loads(done.stdout.splitlines()[-1])
    return report


def points() -> set[str]:
    """Every point that the code names, to ``reached`` or as the one of a ref's move."""
    found: set[str] = set()
    for path in Path(harnessctl.__file__).parent.rglob("*.py"):
        for node in ast.walk(ast.parse(path.read_text())):
            named: list[ast.expr] = []
            if isinstance(node, ast.FunctionDef) and "point" in [a.arg for a in node.args.args]:
                named = node.args.defaults
            if isinstance(node, ast.Call) and isinstance(node.func, ast.Attribute):
                if node.func.attr == "reached":
                    found |= {a.value for a in node.args if isinstance(a, ast.Constant)}
                elif node.func.attr in ("settle", "move"):
                    named = [*node.args[4:], *(k.value for k in node.keywords if k.arg == "point")]
            moves = [n.value for n in named if isinstance(n, ast.Constant) and isinstance(n.value, str)]
            found |= {*moves, *(f"before {m}" for m in moves)}
    return found


def test_the_cases_hold_every_point_there_is() -> None:
    assert points() == set(POINTS)
    assert {p for _, p in kills.CASES} - {"anywhere"} == set(POINTS)


@pytest.mark.slow
def test_a_kill_at_each_point_leaves_every_update_landed_or_open(repo: Git) -> None:
    report = fire(repo, len(kills.CASES))
    assert report["wrong"] == []
    assert {f"{w}: {p}" for w, p in kills.CASES if p != "anywhere"} <= set(report["hits"])
    assert report["others"] > 0


@pytest.mark.nightly
@pytest.mark.timeout(3600)
def test_two_hundred_kills(make_repo: Make) -> None:
    """In repositories of their own, since each round looks at the whole history."""
    hits: Counter[str] = Counter()
    for again in range(5):
        report = fire(make_repo(f"{again}/repo"), len(kills.CASES))
        assert report["wrong"] == []
        assert report["others"] > 0
        hits.update(report["hits"])
    assert hits.total() >= 200
    assert min(hits[f"{w}: {p}"] for w, p in kills.CASES if p != "anywhere") >= 5, hits


@pytest.mark.slow
def test_without_compare_and_swap_the_same_loses_updates(repo: Git) -> None:
    wrong = fire(repo, 60, "blind")["wrong"]
    assert [w for w in wrong if w.startswith(("lost", "moved but"))], wrong
