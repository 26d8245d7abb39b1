"""What a prompt from 10,000 entries costs: ``python bench/prompt.py``.

The measure is git's own command line reading the same 10,000 blobs with ``git cat-file --batch`` in the
same run. Against it: rendering entries that are loaded, reading and rendering them with every verdict kept
(what a run does), and the whole ``harnessctl prompt`` as a process, beside ``python -c pass``.
Times are medians in milliseconds.
"""

from __future__ import annotations

import subprocess
import sys
import tempfile
from pathlib import Path

from measuring import git, median_ms, repository

from harnessctl.config import read_environment
from harnessctl.layers.l1_context.harness import Place, render_harness
from harnessctl.layers.l3_durable.store import HarnessStore, open_store

ENTRIES = 10_000
TOKENS = 2000
RUNS = 5
TEXT = (
    "---\n{name}description: How to build part {n}, and what to do with a stale cache\nowner: agent\n---\n"
    + "Run `make part-{n}`. When it fails with a stale cache, remove `build/cache` and run it again.\n" * 6
)
PROMPT = [sys.executable, "-P", "-m", "harnessctl.cli.main", "prompt"]


def path_of(n: int) -> tuple[str, str]:
    """Path and frontmatter name of entry ``n``: of ten entries seven are memories, two skills."""
    match n % 10:
        case 0:
            return f".harness/subagents/a{n}.md", ""
        case 1 | 2:
            return f".harness/skills/s{n}/SKILL.md", f"name: s{n}\n"
        case _:
            return f".harness/memory/m{n // 100}/x{n}.md", ""


def build(root: Path) -> HarnessStore:
    """A repository with the entries on its harness branch, packed."""
    repository(root)
    git(root, "commit", "-q", "--allow-empty", "-m", "code")
    store = open_store(root, read_environment())
    store.initialise(unpinned=True)
    lines = ["commit refs/heads/harness\ncommitter B <b@example.com> 1700000000 +0000\ndata 1\nx\n"]
    lines.append(f"from {store.landed_tip()}\n")
    for n in range(ENTRIES):
        path, name = path_of(n)
        text = TEXT.format(n=n, name=name)
        lines.append(f"M 100644 inline {path}\ndata {len(text)}\n{text}\n")
    git(root, "fast-import", "--quiet", "--force", data="".join(lines).encode())
    git(root, "gc", "-q")
    return open_store(root, read_environment())


def main() -> None:
    """Print one line a measure: milliseconds, and the ratio to git's reading."""
    with tempfile.TemporaryDirectory() as folder:
        root = Path(folder) / "repo"
        store = build(root)
        tree = git(root, "ls-tree", "-r", "--format=%(objectname)", "refs/heads/harness:.harness")
        entries = tuple(store.snapshot().entries.values())
        shown = render_harness(entries, TOKENS)
        lines = sum(item.place is Place.LINE for item in shown.items)
        print(f"{len(entries)} entries, {shown.tokens} of {TOKENS} tokens, {lines} lines")

        def read_and_render() -> None:
            found = open_store(root, read_environment()).snapshot().entries.values()
            render_harness(found, TOKENS)

        measure = median_ms(lambda: git(root, "cat-file", "--batch", data=tree), RUNS)
        print(f"git cat-file --batch of the same blobs  {measure:8.0f} ms  1.00")
        for name, action in (
            ("rendering loaded entries", lambda: render_harness(entries, TOKENS)),
            ("reading and rendering them", read_and_render),
            ("harnessctl prompt", lambda: run_prompt(root)),
            ("python -c pass", lambda: subprocess.run([sys.executable, "-c", "pass"], check=True)),
        ):
            took = median_ms(action, RUNS)
            print(f"{name:39} {took:8.0f} ms  {took / measure:.2f}")


def run_prompt(root: Path) -> None:
    """``harnessctl prompt`` in a process."""
    subprocess.run(PROMPT, cwd=root, check=True, capture_output=True)


if __name__ == "__main__":
    main()
