"""What landing one update costs: ``python bench/landing.py [FOLDER]``.

Among 1,000 and 10,000 entries, in one warm process: a person's addition, and the acceptance of an
agent's proposal. The measure is git's own command line on the same tree in the same run, taken in
turn with ours: ``git add`` of the entry and its record and ``git commit``, with ``core.fsync=all``.
Prints medians in milliseconds, the ratio, and what each leaves on the disk.

:param FOLDER: where the repositories are made; the file system there decides what fsync costs.
"""

from __future__ import annotations

import os
import statistics
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path

from measuring import git, repository, seconds

from harnessctl.config import read_environment
from harnessctl.domain.entry import EntryFile
from harnessctl.domain.ids import EntryId, new_ulid
from harnessctl.domain.update import EntryEdit
from harnessctl.layers.l3_durable.landing.adding import Addition
from harnessctl.layers.l3_durable.landing.proposals import Draft
from harnessctl.layers.l3_durable.store import HarnessStore, open_store

RUNS = 15
TEXT = (
    "---\ndescription: How to build part {n}, and what to do when the cache is stale\nowner: agent\n---\n"
    + "Run `make part-{n}`. When it fails with a stale cache, remove `build/cache` and run it again.\n" * 4
)


def milliseconds(action: Callable[[], object]) -> float:
    """What ``action`` takes."""
    return seconds(action) * 1000


def build(root: Path, entries: int) -> None:
    """A repository whose harness branch holds ``entries`` memories, sharded by hundreds, all packed."""
    repository(root)
    git(root, "commit", "-q", "--allow-empty", "-m", "code")
    store = open_store(root, read_environment())
    store.initialise(unpinned=True)
    tip = store.landed_tip()
    lines = [
        f"commit refs/heads/harness\ncommitter B <b@example.com> 1700000000 +0000\ndata 1\nx\nfrom {tip}\n"
    ]
    for n in range(entries):
        text = TEXT.format(n=n)
        lines.append(f"M 100644 inline .harness/memory/m{n // 100}/x{n}.md\ndata {len(text)}\n{text}\n")
    git(root, "fast-import", "--quiet", "--force", data="".join(lines).encode())
    git(root, "gc", "-q")


class Ours:
    """Landings in this process."""

    def __init__(self, root: Path) -> None:
        self.store: HarnessStore = open_store(root, read_environment())
        self.number = 0

    def files(self) -> tuple[EntryId, tuple[EntryFile, ...]]:
        """A new entry."""
        self.number += 1
        entry = EntryId.parse(f"memory/m{self.number}/new{self.number}")
        return entry, (EntryFile(entry.path, 0o100644, TEXT.format(n=f"new {self.number}").encode()),)

    def add(self) -> None:
        """A person's addition."""
        self.store.add(Addition(*self.files()))

    def accept(self) -> float:
        """Milliseconds of accepting; proposing is not counted."""
        entry, files = self.files()
        draft = Draft("learn how a part is built", "seen twice", model="provider/name")
        proposal = self.store.propose([EntryEdit(entry, "create", files)], draft)
        return milliseconds(lambda: self.store.accept(proposal.id))


class Theirs:
    """The same with git's command line, in a clone that has the branch checked out."""

    def __init__(self, source: Path, root: Path) -> None:
        git(source, "clone", "-q", "--no-hardlinks", "-b", "harness", str(source), str(root))
        git(root, "config", "core.fsync", "all")
        git(root, "config", "gc.auto", "0")
        self.root = root
        self.number = 0

    def land(self) -> tuple[float, float]:
        """Milliseconds of ``git add`` and of ``git commit``."""
        self.number += 1
        names = [
            f".harness/memory/m{self.number}/new{self.number}.md",
            f".harness/updates/2026-01/{new_ulid()}.json",
        ]
        for name, text in zip(names, (TEXT.format(n=f"new {self.number}"), "{}\n" * 200), strict=True):
            path = self.root / name
            path.parent.mkdir(parents=True, exist_ok=True)
            path.write_text(text)
        add = milliseconds(lambda: git(self.root, "add", *names))
        return add, milliseconds(lambda: git(self.root, "commit", "-q", "-m", f"update {self.number}"))


def size(root: Path) -> int:
    """Bytes that loose objects take, in blocks as the file system counts them."""
    objects = root / ".git/objects"
    files = (p for p in objects.rglob("*") if p.is_file() and len(p.parent.name) == 2)
    return sum(p.stat().st_blocks * 512 for p in files)


def measure(folder: Path, entries: int) -> None:
    """Print the lines for one size."""
    build(folder / f"ours-{entries}", entries)
    theirs = Theirs(folder / f"ours-{entries}", folder / f"theirs-{entries}")
    ours = Ours(folder / f"ours-{entries}")
    cold = milliseconds(ours.add)
    theirs.land()
    rows: dict[str, list[float]] = {"add": [], "accept": [], "git add": [], "git commit": []}
    before = size(ours.store.root), size(theirs.root)
    for _ in range(RUNS):
        add, commit = theirs.land()
        rows["git add"].append(add)
        rows["git commit"].append(commit)
        rows["add"].append(milliseconds(ours.add))
    grown = [
        (size(root) - old) / RUNS / 1024
        for root, old in zip((ours.store.root, theirs.root), before, strict=True)
    ]
    for _ in range(RUNS):
        rows["git commit"].append(theirs.land()[1])
        rows["accept"].append(ours.accept())
    middle = {name: statistics.median(times) for name, times in rows.items()}
    measure_ms = middle["git commit"]
    print(f"{entries} entries")
    print(f"  git add + git commit    {middle['git add']:7.1f} + {measure_ms:.1f} ms, {grown[1]:.0f} KiB")
    for name in ("add", "accept"):
        print(
            f"  harnessctl {name:<12} {middle[name]:7.1f} ms, {middle[name] / measure_ms:.2f} of git commit"
        )
    print(f"  a landing leaves        {grown[0]:7.0f} KiB")
    print(f"  the first in a process  {cold:7.1f} ms")


def main() -> None:
    """Run everything."""
    base = sys.argv[1] if len(sys.argv) > 1 else None
    with tempfile.TemporaryDirectory(dir=base) as name:
        folder = Path(name)
        os.environ |= {"HOME": name, "XDG_STATE_HOME": f"{name}/state", "GIT_CONFIG_NOSYSTEM": "1"}
        for role in ("AUTHOR", "COMMITTER"):
            os.environ |= {f"GIT_{role}_NAME": "Bench", f"GIT_{role}_EMAIL": "bench@example.com"}
        for entries in (1_000, 10_000):
            measure(folder, entries)


if __name__ == "__main__":
    main()
