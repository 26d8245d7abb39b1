"""What explaining costs: ``python bench/history.py [updates] [entries]``.

Builds a repository with 10,000 updates of 100 entries (``git fast-import``, packed as ``git gc`` leaves
it), and one with two snapshots of 10,000 entries. Then, in one warm process, from one run on one machine:

- ``log`` of one entry, against ``git log -- path`` plus reading the records of the same updates;
- ``blame`` of one entry, against the same, and against ``git blame`` alone;
- ``log`` of everything, the first time in a clone and after that;
- ``diff`` of two snapshots with 100 differing entries, against ``git diff``.

Times are medians in milliseconds; the ratio is the median of ratios to the baseline, which takes turns.
"""

from __future__ import annotations

import shutil
import statistics
import sys
import tempfile
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path

from measuring import git, repository, seconds
from ulid import ULID

from harnessctl.commands.blame import blame
from harnessctl.commands.diff import diff
from harnessctl.commands.log import log
from harnessctl.config import read_environment
from harnessctl.domain.canonical import files_digest, sha256_hex
from harnessctl.domain.ids import record_path
from harnessctl.domain.update import Actor, EntryChange, Evidence, ExcerptEvent, Record, RecordType
from harnessctl.layers.l3_durable.history.updates import Update
from harnessctl.layers.l3_durable.places.state_dir import ID_KEY
from harnessctl.layers.l3_durable.store import HarnessStore, open_store

RUNS = 7
#: The first update's time; the rest follow over three years.
START = 1_650_000_000
YEARS_S = 94_000_000
BRANCH = "refs/heads/harness"
ENTRY = "memory/n3"


Action = Callable[[], object]


def line(name: str, ours: Action, theirs: Action, what: str, runs: int = RUNS) -> None:
    """One line of the result; both take turns, so that a busy machine slows both."""
    pairs = [(seconds(theirs), seconds(ours)) for _ in range(runs)]
    base, own = (statistics.median(times) * 1000 for times in zip(*pairs, strict=True))
    ratio = statistics.median(b / a for a, b in pairs)
    print(f"{name:<40} {own:9.1f} ms   {ratio:6.2f} x {what} ({base:.1f} ms)", flush=True)


def text(number: int, version: int) -> bytes:
    """A memory of 40 lines, of which a version changes two."""
    lines = (f"line {n} as of {max(0, version - (version - n) % 20)}\n" for n in range(40))
    head = f"---\ndescription: about n{number}, and what to do\nowner: agent\norigin: agent\n---\n"
    return (head + "".join(lines)).encode()


def record(update: str, entry: str, before: str | None, after: str) -> Record:
    """A record as refining writes it, with half a kilobyte of excerpt."""
    return Record(
        type=RecordType.UPDATE,
        id=update,
        actor=Actor("agent", "harnessctl agent"),
        base="0" * 40,
        summary=f"learn about {entry}",
        why="two runs failed, both passed after " * 4,
        model="provider/name",
        entries=(EntryChange(entry, "update" if before else "create", before, after),),
        evidence=(
            Evidence(
                "01KA0000000000000000000000",
                50,
                "ab" * 32,
                (38, 41),
                ("q",),
                (ExcerptEvent(38, "t" * 500, False),),
            ),
        ),
    )


def stream(updates: int, entries: int) -> Iterator[bytes]:
    """Input of ``git fast-import``: one commit an update."""
    last: dict[str, str] = {}
    for n in range(updates):
        entry = f"memory/n{n % entries}"
        path, data = f"{entry}.md", text(n % entries, n // entries)
        after = files_digest([(path, 0o100644, sha256_hex(data))])
        update = str(ULID.from_timestamp(float(START + n * YEARS_S // updates)))
        made = record(update, entry, last.get(entry), after)
        last[entry] = after
        when = f"{START + n} +0000"
        message = f"memory(update): {made.summary}\n\nHarness-Update: {update}\n".encode()
        yield (
            f"commit {BRANCH}\nauthor harnessctl agent <a@b> {when}\n"
            f"committer Ada <ada@b> {when}\ndata {len(message)}\n"
        ).encode() + message
        if n == 0:
            yield file("harness.toml", b"schema = 1\n")
        yield file(path, data) + file(record_path(update), made.to_bytes())


def file(path: str, data: bytes) -> bytes:
    """One file of a commit in ``git fast-import``'s input."""
    return f"M 100644 inline .harness/{path}\ndata {len(data)}\n".encode() + data + b"\n"


def with_history(root: Path, parts: Iterator[bytes]) -> Path:
    """A repository with that history, packed."""
    repository(root)
    git(root, "fast-import", "--quiet", data=b"".join(parts))
    git(root, "gc", "-q")
    git(root, "config", ID_KEY, root.name)
    return root


def snapshots(entries: int) -> Iterator[bytes]:
    """Two commits with ``entries`` memories in folders of a hundred; 100 differ."""
    for commit, changed in enumerate((range(entries), range(0, entries, max(1, entries // 100)))):
        yield f"commit {BRANCH}\ncommitter Ada <ada@b> {START + commit} +0000\ndata 1\nx\n".encode()
        for n in changed:
            yield file(f"memory/p{n // 100}/n{n}.md", text(n, commit * 40))


def explain(root: Path, home: Path) -> None:
    """log and blame of one entry, log of everything."""
    path = f".harness/{ENTRY}.md"

    def opened() -> HarnessStore:
        return open_store(root, read_environment({"HOME": str(home)}))

    def git_log(*args: str) -> list[str]:
        return git(root, "log", "--format=%H", BRANCH, *args).decode().split()

    def records(of: Sequence[Update]) -> bytes:
        return "".join(f"{u.commit.id}:.harness/{record_path(u.id)}\n" for u in of).encode()

    def first() -> None:
        shutil.rmtree(home, ignore_errors=True)
        log(opened())

    store = opened()
    found, every = log(store, entry=ENTRY).updates, log(store).updates
    assert [u.commit.id for u in found] == git_log("--", path)
    some, all_of = records(found), records(every)

    def baseline() -> None:
        git_log("--", path)
        git(root, "cat-file", "--batch", data=some)

    def whole_baseline() -> None:
        git_log()
        git(root, "cat-file", "--batch", data=all_of)

    line("log of one entry", lambda: log(store, entry=ENTRY), baseline, "git log -- path + records")
    line("  with what is kept read anew", lambda: log(opened(), entry=ENTRY), baseline, "the same")
    line("blame of one entry", lambda: blame(store, ENTRY, at="harness"), baseline, "the same")
    alone = ("blame", "--porcelain", BRANCH, "--", path)
    line("  ", lambda: blame(store, ENTRY, at="harness"), lambda: git(root, *alone), "git blame alone")
    line("log of everything", lambda: log(store), whole_baseline, "git log + all records", 3)
    line("  the first time in a clone", first, whole_baseline, "the same", 3)


def compare(root: Path, home: Path) -> None:
    """diff of two snapshots."""
    store = open_store(root, read_environment({"HOME": str(home)}))
    diff(store, "~1", "~0")
    with_prompt, base = lambda: diff(store, "~1", "~0"), lambda: git(root, "diff", f"{BRANCH}~1", BRANCH)
    line("diff of two snapshots, prompt included", with_prompt, base, "git diff, which renders none", 3)
    files = lambda: store.patch(store.resolve("~1"), store.landed_tip())  # noqa: E731 - one line, used once
    line("  the patch alone", files, base, "git diff")


def main() -> None:
    """Build, measure, print."""
    updates = int(sys.argv[1]) if len(sys.argv) > 1 else 10_000
    entries = int(sys.argv[2]) if len(sys.argv) > 2 else 10_000
    with tempfile.TemporaryDirectory() as name:
        folder = Path(name)
        explain(with_history(folder / "updates", stream(updates, 100)), folder / "home")
        compare(with_history(folder / "entries", snapshots(entries)), folder / "home2")


if __name__ == "__main__":
    main()
