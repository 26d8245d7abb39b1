"""What recall and compaction cost: ``python bench/recall.py [--events 100000] [--turns 1000] [search turn]``.

- *search*: a log of 100,000 events (a fifth of them outputs of 120 words). Median time of a search through
  the index, and without one, against ``grep -ic`` over the log's file, which tells no more than how many
  lines hold a word. All take turns in one process. Also what building the index took, beside the turns.
- *turn*: processor time of a turn of a session with a window of 8,000 tokens, a model and a kernel that
  answer at once, and a log on disk: in the first and in the last third, turns apart in which outputs folded
  or turns left. fsync is left out: it is the disk's.

Times change with the machine from minute to minute; ratios within one run hold.
"""

from __future__ import annotations

import argparse
import asyncio
import random
import statistics
import subprocess
import sys
import tempfile
import time
from pathlib import Path

ROOT = Path(__file__).resolve().parent.parent
sys.path.insert(0, str(ROOT))

from measuring import seconds  # noqa: E402

from harnessctl.domain.event import EventType  # noqa: E402
from harnessctl.domain.limits import Limits  # noqa: E402
from harnessctl.layers.l1_context.view import View  # noqa: E402
from harnessctl.rlm import recall_index  # noqa: E402
from harnessctl.rlm.clock import SystemClock  # noqa: E402
from harnessctl.rlm.journal import Journal  # noqa: E402
from harnessctl.rlm.loop import run_turn  # noqa: E402
from harnessctl.rlm.recall import Recall  # noqa: E402
from harnessctl.rlm.recall_index import INDEX_NAME, Index  # noqa: E402
from harnessctl.rlm.recorder import Recorder  # noqa: E402
from tests.fakes.long_sessions import LongModel, long_kernel  # noqa: E402
from tests.fakes.sessions import Stage  # noqa: E402

RUNS = 7
WORDS = 120
VOCABULARY = 20_000
RARE, COMMON = "zq77777z", "w1 w3"


def build(folder: Path, count: int) -> Recorder:
    """A log of ``count`` events; words as frequent as in prose, one output in the middle with a rare one."""
    recorder, chance = Recorder.create(folder, SystemClock()), random.Random(1)
    names = [f"w{n}" for n in range(VOCABULARY)]
    weights = [1 / (n + 1) for n in range(VOCABULARY)]
    recorder.append(EventType.HEADER, {"session": folder.name, "harness_state": {}})
    turn = 0
    while len(recorder.events) < count:
        turn += 1
        text = " ".join(chance.choices(names, weights, k=WORDS)) + (f" {RARE}" if turn == count // 10 else "")
        one_turn(recorder, turn, text)
    recorder.append(EventType.REQUEST, {"consumer": "root", "append": []}, turn=turn + 1)
    return recorder


def one_turn(recorder: Recorder, turn: int, text: str) -> None:
    """Request, reply, cell, output, result."""
    n = recorder.append(EventType.REQUEST, {"consumer": "root", "append": []}, turn=turn).n
    call = {"id": "c", "name": "ipython", "arguments": "{}", "code": f"step({turn})"}
    reply = {"request": n, "content": f"Step {turn}.", "calls": [call]}
    recorder.append(EventType.REPLY, reply, turn=turn)
    cell = {"cell": turn, "code": f"step({turn})", "reply": n + 1, "call": "c"}
    recorder.append(EventType.CELL, cell, turn=turn)
    output = {"cell": turn, "stream": "stdout", "text": text, "bytes": len(text), "cut": 0, "blob": None}
    recorder.append(EventType.OUTPUT, output, turn=turn)
    recorder.append(EventType.RESULT, {"cell": turn, "call": "c", "status": "ok", "text": text}, turn=turn)


def search(folder: Path, count: int) -> None:
    """Print what a search takes, with the index and without it, against grep."""
    recorder = build(folder / "session", count)
    events, log = recorder.events, recorder.folder / "log.jsonl"
    stop, index = len(events) - 1, Index(recorder.folder)
    building, slices = 0.0, []
    while index.behind(stop):
        slices.append(seconds(lambda: index.catch_up(events, stop, 2_000)))
        building += slices[-1]
    size = (recorder.folder / INDEX_NAME).stat().st_size / log.stat().st_size
    print(
        f"{len(events):,} events, {log.stat().st_size / 1e6:.0f} MB: index built in {building:.1f} s, "
        f"{max(slices) * 1000:.0f} ms at a time at most, {size:.2f} of the log's size"
    )
    scanning = Index(recorder.folder)
    scanning._without = True
    for name, words in (("one rare word", RARE), ("two common words", COMMON)):
        times = [
            (
                seconds(lambda w=words: grep(log, w)),  # type: ignore[misc]
                seconds(lambda w=words: index.search(events, stop, w, 8)),  # type: ignore[misc]
                seconds(lambda w=words: scanning.search(events, stop, w, 8)),  # type: ignore[misc]
            )
            for _ in range(RUNS)
        ]
        base, ours, scan = (statistics.median(column) * 1000 for column in zip(*times, strict=True))
        print(
            f"{name}: {ours:.1f} ms with the index = {ours / base:.3f} of grep's {base:.0f} ms; "
            f"{scan:.0f} ms without one = {scan / base:.2f}"
        )
    assert index.search(events, stop, RARE, 8)[0].n == scanning.search(events, stop, RARE, 8)[0].n
    index.close()
    recorder.close()


def grep(log: Path, words: str) -> None:
    """Count the lines that hold the first word."""
    subprocess.run(["grep", "-ic", words.split()[0], str(log)], check=True, capture_output=True)


async def turns(folder: Path, count: int) -> None:
    """Print the time of a turn near the beginning and at the end."""
    model = LongModel(count + 1, 8_000)
    stage = Stage(folder, model, Limits(turns=None))
    stage.kernels[0].runs = long_kernel(count).runs
    stage.waiting = list(stage.kernels)
    parts = stage.parts()
    recorder = stage.recorder
    recorder.sync = lambda: None  # type: ignore[method-assign]
    journal = Journal(recorder, View("system " * 500, "tool"), stage.watcher)
    object.__setattr__(parts, "journal", journal)
    object.__setattr__(parts, "recall", Recall(journal, recorder.folder))
    journal.record(EventType.HEADER, {"harness_state": {}})
    journal.record(EventType.TASK, {"text": "do it"})
    took: dict[str, list[tuple[int, float]]] = {"plain": [], "fold": [], "evict": []}
    for turn in range(1, count + 1):
        before, start = len(recorder.events), time.process_time()
        await run_turn(parts, turn)
        milliseconds = (time.process_time() - start) * 1000
        kinds = [e.data["what"] for e in recorder.events[before:] if e.type is EventType.COMPACTION]
        took[kinds[0] if kinds else "plain"].append((turn, milliseconds))
    assert parts.recall is not None
    await parts.recall.aclose()
    recorder.close()
    for name, kept in took.items():
        early = statistics.median(ms for turn, ms in kept if 20 <= turn <= count * 0.3)
        late = statistics.median(ms for turn, ms in kept if turn > count * 0.7)
        print(
            f"{len(kept)} of {count:,} turns, {name}: {early:.2f} ms in the first 30 %, {late:.2f} ms in the "
            f"last 30 % = {late / early:.2f}"
        )


def main() -> None:
    """What was asked for; both by default."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("what", nargs="*", default=["search", "turn"])
    parser.add_argument("--events", type=int, default=100_000)
    parser.add_argument("--turns", type=int, default=1_000)
    chosen = parser.parse_args()
    recall_index.SPARE_BYTES = 0
    with tempfile.TemporaryDirectory() as place:
        if "search" in chosen.what:
            search(Path(place), chosen.events)
        if "turn" in chosen.what:
            work = Path(place) / "turns"
            work.mkdir()
            asyncio.run(turns(work, chosen.turns))


if __name__ == "__main__":
    main()
