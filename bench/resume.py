"""What picking up a long session costs: ``python bench/resume.py [megabytes]``.

Builds logs of 100 MB, one of long records (outputs of 16 KB) and one of short ones (500 bytes), and
prints the time until the next request could be made (lock, chain checked, messages put together and
hashed), in parts of what reading the file and parsing each line with ``json`` takes. Both take turns;
medians of five.
"""

from __future__ import annotations

import hashlib
import json
import statistics
import sys
import tempfile
from functools import partial
from pathlib import Path
from typing import Any

from measuring import seconds

from harnessctl.domain.event import EventType
from harnessctl.layers.l1_context.view import View
from harnessctl.rlm.clock import SilentWatcher, SystemClock
from harnessctl.rlm.journal import Journal
from harnessctl.rlm.recorder import Recorder

RUNS = 5
LINE = "a line of output with words and numbers 12345, as tools print it\n"


def build(folder: Path, megabytes: float, text: str) -> Path:
    """A log whose every cell printed ``text``."""
    recorder = Recorder.create(folder, SystemClock())
    journal = Journal(recorder, View("system", "tool"), SilentWatcher())
    state: dict[str, Any] = {"session": folder.name, "harness_state": {}, "limits": {}}
    journal.record(EventType.HEADER, state)
    journal.record(EventType.TASK, {"text": "do it"})
    turn, size, log = 0, 0.0, folder / "log.jsonl"
    while size < megabytes * 1e6:
        turn += 1
        one_turn(journal, turn, text)
        size = log.stat().st_size if turn % 50 == 0 else size
    recorder.close()
    return folder


def one_turn(journal: Journal, turn: int, text: str) -> None:
    """Request, reply, cell, output and result, as a session writes them."""
    messages, keep = journal.view.ready()
    asked = journal.tally.last_request
    request = {
        "consumer": "root",
        "place": turn - 1,
        "prefix": asked.n if asked and keep else None,
        "keep": keep if asked else 0,
        "append": [m.to_json() for m in messages[keep if asked else 0 :]],
        "digest": journal.view.digest(),
    }
    n = journal.record(EventType.REQUEST, request, turn=turn).n
    code = f"print({turn})"
    call = {"id": f"c{turn}", "name": "ipython", "arguments": json.dumps({"code": code}), "code": code}
    usage = {"prompt": 10, "completion": 5, "cost_usd": 0.0, "calls": 1}
    reply = {"request": n, "content": "I go on.", "calls": [call], "usage": usage}
    n = journal.record(EventType.REPLY, reply, turn=turn).n
    journal.record(EventType.CELL, {"cell": turn, "code": code, "reply": n, "call": call["id"]}, turn=turn)
    output = {"cell": turn, "stream": "stdout", "text": text, "bytes": len(text), "cut": 0, "blob": None}
    journal.record(EventType.OUTPUT, output, turn=turn)
    result = {"cell": turn, "call": call["id"], "status": "ok", "text": text, "ms": 5}
    journal.record(EventType.RESULT, result, turn=turn)


def parse(folder: Path) -> int:
    """The measure: read, and parse each line."""
    return len([json.loads(line) for line in (folder / "log.jsonl").read_bytes().splitlines()])


def pick_up(folder: Path) -> int:
    """Everything before the next request."""
    recorder = Recorder.open(folder, SystemClock())
    journal = Journal(recorder, View("system", "tool"), SilentWatcher())
    journal.view.ready()
    journal.view.digest()
    recorder.close()
    return len(journal.events)


def main() -> None:
    """Print one line a log."""
    megabytes = float(sys.argv[1]) if len(sys.argv) > 1 else 100
    with tempfile.TemporaryDirectory() as place:
        for name, text in (("long", LINE * 250), ("short", LINE * 3)):
            folder = build(Path(place) / name, megabytes, text)
            data = (folder / "log.jsonl").read_bytes()
            hashing = seconds(partial(hashlib.sha256, data))
            count, size = data.count(b"\n"), len(data)
            del data
            times = [
                (seconds(partial(parse, folder)), seconds(partial(pick_up, folder))) for _ in range(RUNS)
            ]
            base, ours = (statistics.median(column) for column in zip(*times, strict=True))
            print(
                f"{name} records: {size / 1e6:.0f} MB, {count:,} records; read and parse {base:.2f} s, "
                f"SHA-256 alone {hashing:.2f} s; pick up {ours:.2f} s = {ours / base:.2f} of it"
            )


if __name__ == "__main__":
    main()
