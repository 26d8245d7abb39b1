"""`docs/design/event-log.md` lists every key that real logs hold: a frozen format needs an exact page."""

from __future__ import annotations

import json
import re
import signal
from collections.abc import Iterator, Mapping
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.conftest import Logs, Run, Script
from tests.conftest import Git
from tests.fakes.killing import until
from tests.fakes.runs import SLEEP, begin

pytestmark = pytest.mark.kernel

DESIGN = Path(__file__).parents[2] / "docs" / "design"
#: Keys below these are names that users or repositories choose.
FREE = {"harness_state", "inputs", "lost", "set", "params", "limits"}
#: A provider's messages, and what has a format of its own elsewhere.
ELSEWHERE = {"append", "edit", "shown"}

EVERYTHING = """
print(await rlm("x", name="alice"), llm("a question"))
print(messages.inbox())
harness.propose("memory/a", description="a", content="b", why="c")
open("made", "w").write("x")
kept, gone = 1, 2
print("many words " * 600)
"""
DIE = "import os, signal\nprint(history.search('question'))\ndel gone\nos.kill(os.getpid(), signal.SIGKILL)"


def documented() -> dict[str, tuple[set[str], set[str]]]:
    """By type: keys in backticks, and every word of its row, in which keys further down are listed.

    What is said of `usage` and `attempts` below the table holds for every row.
    """
    text = (DESIGN / "event-log.md").read_text().partition("## Types")[2].partition("\n## ")[0]
    everywhere = set(re.findall(r"\w+", re.findall(r"^`usage` is everywhere.*?\n\n", text, re.M | re.S)[0]))
    rows = re.findall(r"^\| `(\w+)` \| (.*) \|$", text, re.MULTILINE)
    found = {
        name: (set(re.findall(r"`(\w+)`", row)), everywhere | set(re.findall(r"\w+", row)))
        for name, row in rows
    }
    table = (DESIGN / "context.md").read_text().partition("## The event")[2].partition("\n## ")[0]
    first = " ".join(re.findall(r"^\| (`.*?) \|", table, re.MULTILINE))
    found["compaction"] = (set(re.findall(r"`(\w+)`", first)), set(re.findall(r"\w+", table)))
    found["repair"][1].update(found["header"][1])  # a resume repeats parts of it
    return found


def below(value: Any) -> Iterator[str]:
    """Keys inside a value, but for those that nobody could list."""
    if isinstance(value, Mapping):
        for key, inner in value.items():
            yield str(key)
            if key not in FREE:
                yield from below(inner)
    elif isinstance(value, list):
        for inner in value:
            yield from below(inner)


def undocumented(logs: Logs) -> tuple[set[str], set[str]]:
    """(types seen, keys that the page does not list) over all logs."""
    page, seen, missing = documented(), set(), set()
    for path in logs.state.glob("harnessctl/*/sessions/*/log.jsonl"):
        for line in path.read_bytes().splitlines():
            event = json.loads(line)
            kind, (keys, words) = event["type"], page[event["type"]]
            seen.add(kind)
            for key, value in event["data"].items():
                if key not in keys:
                    missing.add(f"{kind}: {key}")
                elif key not in {*FREE, *ELSEWHERE}:
                    missing |= {f"{kind}: {key}: {inner}" for inner in below(value) if inner not in words}
    return seen, missing


def newest_log(logs: Logs) -> Path:
    """The log of the newest session."""
    return max(logs.state.glob("harnessctl/*/sessions/*/log.jsonl"), key=lambda path: path.parent.name)


def test_every_key_of_real_logs_is_documented(harnessctl: Run, script: Script, logs: Logs, repo: Git) -> None:
    repo.write("AGENTS.md", "Use tabs.\n")
    harnessctl("init", cwd=repo.root)
    model = script(
        {"model": {"window": 8000, "price": {"prompt": 1.0, "completion": 2.0}}},
        {"content": "-", "code": EVERYTHING},
        {"content": "-", "code": DIE},
        {"content": "-", "code": "history.compact()\n1 / 0"},
        {"content": ""},
        {"content": "Done."},
        {"for": "alice", "content": "-", "code": "messages.send('parent', 'from alice')"},
        {"for": "alice", "content": "Alice's answer."},
        {"for": "llm", "content": "An answer."},
        {"for": "summary", "content": "## Task\nx"},
    )
    gates = ("--gate", "test -e made", "--sandbox", "--worktree")
    harnessctl("run", "--model", model, *gates, "work", cwd=repo.root)
    # Killed in a cell, with a record that was torn; picked up twice, since the model fails once.
    refused = {"error": {"status": 400, "body": "no"}}
    model = script({"content": "-", "code": SLEEP}, refused, *[{"content": "At last."}] * 2)
    before = newest_log(logs)
    run = begin(repo, model, "--protocol", "fence", "--gate", "false", "--gate-input", "app.py")
    assert until(lambda: newest_log(logs) != before and b'"type":"cell"' in newest_log(logs).read_bytes())
    run.send_signal(signal.SIGKILL)
    run.communicate(timeout=120)
    with newest_log(logs).open("ab") as log:
        log.write(b'{"data":')
    harnessctl("sessions", "resume", cwd=repo.root, code=1)
    harnessctl("sessions", "resume", cwd=repo.root, code=4)
    seen, missing = undocumented(logs)
    assert not missing, "\n".join(sorted(missing))
    assert seen == set(documented())


def test_a_key_that_is_not_listed_would_be_found(
    harnessctl: Run, script: Script, logs: Logs, repo: Git
) -> None:
    harnessctl("run", "--model", script({"content": "Done."}), "x", cwd=repo.root)
    (path,) = logs.state.glob("harnessctl/*/sessions/*/log.jsonl")
    path.write_bytes(
        path.read_bytes().replace(b'"moved":', b'"shifted":').replace(b'"why":', b'"because":', 1)
    )
    assert undocumented(logs)[1] == {"end: shifted", "header: python: because"}
