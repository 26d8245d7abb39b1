"""What several benchmarks do: run git, and take times."""

from __future__ import annotations

import statistics
import subprocess
import time
from collections.abc import Callable
from pathlib import Path


def git(root: Path, *args: str, data: bytes | None = None) -> bytes:
    """Run git in ``root``; what it prints."""
    return subprocess.run(["git", *args], cwd=root, input=data, check=True, capture_output=True).stdout


def repository(root: Path) -> Path:
    """A new repository at ``root``, with an identity of its own: none of the user's is needed."""
    root.mkdir(parents=True)
    git(root, "init", "-q", "-b", "main")
    git(root, "config", "user.name", "Bench")
    git(root, "config", "user.email", "bench@example.com")
    return root


def seconds(action: Callable[[], object]) -> float:
    """Wall time of ``action``."""
    start = time.perf_counter()
    action()
    return time.perf_counter() - start


def median_ms(action: Callable[[], object], runs: int) -> float:
    """Median wall time of ``action`` in milliseconds."""
    return statistics.median(seconds(action) for _ in range(runs)) * 1000
