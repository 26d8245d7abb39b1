"""Start-up of the verbs that hooks and people call all day, in multiples of ``python -c pass``.

    python bench/startup.py [--rounds 15] [--json]

Times of a machine change from minute to minute; ratios within one run hold. So the commands take turns,
and each ratio is that of the medians. The repository it runs in is made for the purpose: a harness of 50
memories in branch mode, and the harness in-tree with one staged entry for ``check --staged``.
"""

from __future__ import annotations

import argparse
import json
import os
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ENTRY = (
    "---\ndescription: Note number {n} about how this repository is built\n---\nRun `make part-{n}` first.\n"
)
HARNESSCTL = [sys.executable, "-m", "harnessctl.cli.main"]


def run(command: list[str], folder: Path, env: dict[str, str]) -> float:
    """Seconds that ``command`` took.

    :raises SystemExit: it failed; its output is shown.
    """
    began = time.perf_counter()
    done = subprocess.run(command, cwd=folder, env=env, capture_output=True, text=True, check=False)
    took = time.perf_counter() - began
    if done.returncode != 0:
        sys.exit(f"{' '.join(command)}: exit {done.returncode}\n{done.stdout}{done.stderr}")
    return took


def hermetic(home: Path) -> dict[str, str]:
    """An environment with a home of its own and an identity."""
    env = {
        name: value
        for name, value in os.environ.items()
        if not name.startswith(("GIT_", "HARNESSCTL_", "XDG_"))
    }
    (home / ".gitconfig").write_text(
        "[user]\n\tname = Bench\n\temail = bench@example.com\n[init]\n\tdefaultBranch = main\n"
    )
    return {**env, "HOME": str(home), "GIT_CONFIG_NOSYSTEM": "1"}


def repository(folder: Path, env: dict[str, str], *init: str) -> Path:
    """A repository with one commit and a harness."""
    folder.mkdir()
    run(["git", "init", "-q"], folder, env)
    (folder / "app.py").write_text("print('hello')\n")
    run(["git", "add", "app.py"], folder, env)
    run(["git", "commit", "-q", "-m", "first"], folder, env)
    run([*HARNESSCTL, "init", *init], folder, env)
    return folder


def prepare(base: Path, env: dict[str, str]) -> tuple[Path, Path]:
    """A repository in branch mode with entries, and one in-tree with a staged entry."""
    branch = repository(base / "branch", env)
    source = base / "entry.md"
    for n in range(50):
        source.write_text(ENTRY.format(n=n))
        run([*HARNESSCTL, "add", f"memory/note-{n:02d}", str(source)], branch, env)
    in_tree = repository(base / "in-tree", env, "--in-tree")
    entry = in_tree / ".harness/memory/note.md"
    entry.parent.mkdir(parents=True, exist_ok=True)
    entry.write_text(ENTRY.format(n=1))
    run(["git", "add", ".harness"], in_tree, env)
    return branch, in_tree


def measure(rounds: int) -> dict[str, float]:
    """Median seconds by command."""
    with tempfile.TemporaryDirectory() as name:
        base = Path(name)
        env = hermetic(base)
        branch, in_tree = prepare(base, env)
        commands = {
            "python -c pass": ([sys.executable, "-c", "pass"], branch),
            "--help": ([*HARNESSCTL, "--help"], branch),
            "list": ([*HARNESSCTL, "list"], branch),
            "check --staged": ([*HARNESSCTL, "check", "--staged"], in_tree),
        }
        times: dict[str, list[float]] = {label: [] for label in commands}
        for _ in range(rounds + 1):
            for label, (command, folder) in commands.items():
                times[label].append(run(command, folder, env))
    # The first round warms the disk's cache.
    return {label: statistics.median(values[1:]) for label, values in times.items()}


def main() -> None:
    """Print the table."""
    parser = argparse.ArgumentParser(description="start-up as multiples of python -c pass")
    parser.add_argument("--rounds", type=int, default=15)
    parser.add_argument("--json", action="store_true")
    options = parser.parse_args()
    medians = measure(options.rounds)
    unit = medians["python -c pass"]
    rows = {label: {"ms": round(s * 1000, 1), "ratio": round(s / unit, 2)} for label, s in medians.items()}
    if options.json:
        print(json.dumps(rows))
        return
    for label, row in rows.items():
        print(f"{label:16} {row['ms']:8.1f} ms {row['ratio']:7.2f} x")


if __name__ == "__main__":
    main()
