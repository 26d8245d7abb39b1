"""Trees of sessions killed at random points and picked up again, until they are done."""

from __future__ import annotations

import json
import random
import subprocess
from collections import Counter
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from harnessctl.domain.event import Event
from harnessctl.rlm.log import read_trajectory
from tests.acceptance.conftest import COMMAND, Logs
from tests.conftest import Git
from tests.fakes.killing import check_history, processes_of, until

pytestmark = [pytest.mark.kernel, pytest.mark.slow]

NAMES = ("a", "b", "c")
#: The root's only step, again after every kill: whoever is there is not started a second time.
ROOT = f"""
have = {{child["name"] for child in rlm.list()}}
for name in {NAMES}:
    if name not in have:
        rlm("work", name=name)
for name in {NAMES}:
    try:
        messages.send(name, "go on, " + name)
    except HostError:
        pass
for name in {NAMES}:
    try:
        print(await rlm.get(name))
    except ChildError as error:
        print(error)
messages.inbox()
final("All done.")
"""
STEP = """
with open("{name}.trace", "a") as file: file.write("{step}\\n")
messages.send("parent", "{name} {step}")
messages.inbox()
import time; time.sleep(0.1)
"""


def write_script(path: Path) -> str:
    lines: list[dict[str, Any]] = [{"content": "-", "code": ROOT}] * 30
    for name in NAMES:
        steps = [STEP.format(name=name, step=step) for step in range(5)]
        lines += [{"for": name, "content": "-", "code": code} for code in steps]
        # More than once: a message of the root's may come with the answer, and is read before the end.
        lines += [{"for": name, "content": f"{name} is done."}] * 30
    path.write_text("".join(json.dumps(line) + "\n" for line in lines))
    return f"scripted:{path}"


@dataclass
class Played:
    """One tree, over all kills.

    :ivar hits: kills of a process whose session had begun and not ended.
    """

    result: dict[str, Any]
    hits: int


def work_through(repo: Git, logs: Logs, model: str, choose: random.Random, kills: int) -> Played:
    """Run and resume, killed ``kills`` times or until it is done.

    A kill may come between the end in the log and ``result.json``: picking it up gives the result then.
    """
    hits = 0
    for attempt in range(kills + 1):
        verb = ["run", "--max-turns", "60", "--model", model, "x"]
        if root_log(logs):
            verb = ["sessions", "resume"]
        run = subprocess.Popen([COMMAND, *verb, "--json"], cwd=repo.root, stdout=subprocess.PIPE)
        if attempt < kills:
            # The first kill hits a tree at work; of the later ones some come while it starts.
            if not hits or choose.random() < 0.8:
                size = len(root_log(logs))
                assert until(lambda size=size, run=run: run.poll() is not None or len(root_log(logs)) > size)
            try:
                out, _ = run.communicate(timeout=choose.random() * (2.2 if hits else 0.5))
            except subprocess.TimeoutExpired:
                run.kill()
                run.communicate()
                hits += b'"type":"end"' not in root_log(logs)
                continue
        else:
            out, _ = run.communicate(timeout=200)
        found = json.loads(out)
        if found.get("error", {}).get("id") == "session_ended":  # the kill came after its result
            (kept,) = logs.state.glob("*/*/sessions/*/result.json")
            found = json.loads(kept.read_text())
        assert found["answer"] == "All done.", found
        return Played(found, hits)
    raise AssertionError("it did not come to an end")


def root_log(logs: Logs) -> bytes:
    """The log of the session that no other one started; nothing while it has no header."""
    for log in logs.state.glob("*/*/sessions/*/log.jsonl"):
        content = log.read_bytes()
        first = content.partition(b"\n")[0]
        if b"\n" in content and json.loads(first)["data"]["parent"] is None:
            return content
    return b""


@pytest.mark.parametrize("seed", [1, *(pytest.param(n, marks=pytest.mark.nightly) for n in range(2, 12))])
def test_nothing_is_lost_and_nothing_counted_twice(logs: Logs, repo: Git, tmp_path: Path, seed: int) -> None:
    kills = 3 if seed == 1 else 8
    played = work_through(repo, logs, write_script(tmp_path / "s.jsonl"), random.Random(seed), kills)
    result = played.result
    assert played.hits, "no kill hit a tree at work"
    trajectories = [read_trajectory(log.parent) for log in logs.state.glob("*/*/sessions/*/log.jsonl")]
    assert not any(one.damage for one in trajectories)
    logged = {str(one.events[0].data["session"]): one.events for one in trajectories if one.events}
    # A kill may come between a child's first record and its parent's word of it: that one never began.
    known = {str(e.data["child"]) for events in logged.values() for e in events if e.type == "child"}
    named = {str(e[0].data["name"]): e for key, e in logged.items() if key in {*known, result["session"]}}
    assert set(named) == {"root", *NAMES}
    for name, events in named.items():
        check_history(events)
        check_messages(name, events)
        node = "root" if name == "root" else f"root/{name}"
        used = sum(e.data["usage"]["tokens"] for e in events if e.type == "reply")
        assert result["usage"]["nodes"][node]["tokens"] == used
        assert not processes_of(str(events[0].data["session"]))
    for name in NAMES:
        end = named[name][-1].data
        assert end["answer"] == f"{name} is done.", end
        # A step may be cut off; it is never begun a second time.
        steps = (repo.root / f"{name}.trace").read_text().split()
        assert steps == sorted(set(steps))


def check_messages(name: str, events: tuple[Event, ...]) -> None:
    """Each came once, and went once; a root may keep some."""
    states = [(str(e.data["id"]), str(e.data["state"])) for e in events if e.type == "message"]
    queued = Counter(key for key, state in states if state == "queued")
    gone = Counter(key for key, state in states if state != "queued")
    assert set(queued.values()) | set(gone.values()) == {1}
    assert set(gone) <= set(queued)
    assert name == "root" or set(gone) == set(queued)
