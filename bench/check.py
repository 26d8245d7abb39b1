"""What checking costs: ``python bench/check.py``.

Prints, from one run on one machine: ``python -c pass`` and a plain ``git commit`` as the measure; the hook
on 1 and on 200 changed files as a process, and its work per file without start-up; a full check of
10,000 entries with no kept verdict and with all of them. Times are medians in milliseconds.
"""

from __future__ import annotations

import os
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from measuring import git, median_ms, repository

from harnessctl.commands.check import CheckRequest, check
from harnessctl.config import read_environment
from harnessctl.layers.l3_durable.places.state_dir import ID_KEY

ENTRY = (
    """---
description: How to build part {n} of the project, and what to do when the cache is stale
tags: build, cache
status: hypothesis
owner: agent
---
Run `make part-{n}`. When it fails with a stale cache, remove `build/cache` first and run it again.
"""
    + "The reason is written down beside the rule in the Makefile. " * 5
)
CHECK = [sys.executable, "-P", "-m", "harnessctl.cli.main", "check", "--staged"]
RUNS = 7


def with_entries(folder: Path, entries: int) -> Path:
    """A repository with ``entries`` committed memories, sharded by hundreds."""
    root = repository(folder / f"repo-{entries}")
    write(root, range(entries), "")
    git(root, "add", "-A")
    git(root, "commit", "-qm", "entries")
    return root


def write(root: Path, numbers: range, more: str) -> None:
    """Write memories with ``more`` at their ends."""
    for n in numbers:
        path = root / f".harness/memory/m{n // 100}/x{n}.md"
        path.parent.mkdir(parents=True, exist_ok=True)
        path.write_text(ENTRY.format(n=n) + more)


def row(what: str, milliseconds: float, start_up: float) -> None:
    """One line of the table."""
    print(f"{what:<58}{milliseconds:>10.1f} ms{milliseconds / start_up:>9.1f} x python -c pass")


def process(args: list[str], root: Path) -> Callable[[], object]:
    """A call of ``args`` in ``root``."""
    return lambda: subprocess.run(args, cwd=root, check=True, capture_output=True)


def commit(root: Path) -> Callable[[], object]:
    """A plain commit without hooks."""
    return lambda: git(root, "commit", "-q", "--allow-empty", "--no-verify", "-m", "x")


def hook(root: Path, changed: int, start_up: float) -> None:
    """The hook on ``changed`` staged files."""
    write(root, range(changed), "One more line.\n")
    git(root, "add", "-A")
    row(f"hook on {changed} changed files, as a process", median_ms(process(CHECK, root), RUNS), start_up)
    request = CheckRequest(staged=True)
    inside = median_ms(lambda: check(request, root, read_environment(), ()), RUNS)
    row(f"  its work without start-up, per changed file ({changed})", inside / changed, start_up)
    git(root, "reset", "-q", "--hard")


def full(root: Path, start_up: float) -> None:
    """All load rules over 10,000 entries, by the writer's and the reader's own function."""
    from harnessctl.layers.l3_durable.checking.checker import Checker
    from harnessctl.layers.l3_durable.checking.verdicts import VerdictCache
    from harnessctl.layers.l3_durable.git.repository import Repository
    from harnessctl.layers.l3_durable.places.sealed import read_key
    from harnessctl.layers.l3_durable.rules.load import check_load

    kept = root.parent / "verdicts"
    head = git(root, "rev-parse", "HEAD").decode().strip()

    def load() -> None:
        checker = Checker(Repository.open(root))
        verdicts = VerdictCache(kept, read_key(root.parent / "key"))
        check_load(checker.items(head), verdicts=verdicts)
        verdicts.save()

    def cold() -> None:
        kept.unlink(missing_ok=True)
        load()

    row("load rules over 10,000 entries, nothing kept", median_ms(cold, 3), start_up)
    row("load rules over 10,000 entries, verdicts kept", median_ms(load, 3), start_up)
    request = CheckRequest(rev="HEAD")
    row(
        "check --rev over 10,000 entries, lint of all",
        median_ms(lambda: check(request, root, read_environment(), ()), 1),
        start_up,
    )


def main() -> None:
    """Print the table."""
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        os.environ |= {"HOME": name, "XDG_STATE_HOME": f"{name}/state", "GIT_CONFIG_NOSYSTEM": "1"}
        (folder / ".gitconfig").write_text(
            "[user]\n\tname = bench\n\temail = bench@example.com\n[gc]\n\tauto = 0\n"
        )
        start_up = median_ms(process([sys.executable, "-c", "pass"], folder), RUNS)
        small, large = with_entries(folder, 200), with_entries(folder, 10_000)
        git(large, "config", ID_KEY, "bench")
        row("python -c pass", start_up, start_up)
        row("git commit, no hook", median_ms(commit(small), RUNS), start_up)
        hook(small, 1, start_up)
        hook(small, 200, start_up)
        full(large, start_up)


if __name__ == "__main__":
    main()
