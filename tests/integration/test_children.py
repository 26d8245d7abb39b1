"""Children in real sessions: real kernels, a scripted model, one tree."""

from __future__ import annotations

import asyncio
import os
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from jsonschema import Draft202012Validator

from harnessctl.commands.building import RunPorts, RunSpec
from harnessctl.commands.run import RunOutcome, run
from harnessctl.domain.entry import Entry, EntryFile
from harnessctl.domain.errors import UsageError
from harnessctl.domain.event import Event
from harnessctl.domain.ids import EntryId
from harnessctl.domain.limits import Limits
from harnessctl.domain.pin import Pin, PinSource
from harnessctl.domain.snapshot import Snapshot
from harnessctl.layers.l2_execution.python import PythonChoice
from harnessctl.models.port import ModelClient
from harnessctl.rlm.clock import SystemClock
from harnessctl.rlm.interrupts import Interrupts
from harnessctl.rlm.log import read_trajectory
from harnessctl.rlm.result import result_schema
from tests.fakes.runtime import PlainTree, SeenWatcher, StillFence
from tests.fakes.sessions import scripted

pytestmark = pytest.mark.kernel

PIN = Pin(PinSource.EMPTY, "harness", "", "", "sha256:0")


class Tree:
    """A folder, a script, and the sessions that a run there left."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "work"
        self.root.mkdir()
        self.watcher = SeenWatcher()
        self.interrupts = Interrupts()
        self.sessions = folder / "state" / "repo" / "sessions"
        self.outcome: RunOutcome

    async def run(
        self, *lines: dict[str, Any], snapshot: Snapshot | None = None, **more: Any
    ) -> dict[str, Any]:
        spec = RunSpec(
            "do it",
            PythonChoice(sys.executable, "harnessctl's own"),
            more.pop("limits", Limits()),
            variables=dict(os.environ),
        )
        tree = PlainTree(self.root)
        model = scripted(self.folder, *lines)
        ports = RunPorts(model, tree, StillFence(), SystemClock(), self.watcher, self.interrupts, **more)
        self.outcome = await run(
            spec,
            snapshot or Snapshot(),
            PIN,
            ports,
            state_dir=self.sessions.parent,
            machine_dir=self.sessions.parent.parent,
        )
        result = self.outcome.result.to_json()
        Draft202012Validator(result_schema()).validate(result)
        assert not left_running(self.sessions)
        return result

    def log(self, name: str = "root") -> tuple[Event, ...]:
        """The log of the session called ``name``."""
        for folder in self.sessions.iterdir():
            trajectory = read_trajectory(folder)
            if trajectory.events and trajectory.events[0].data["name"] == name:
                return trajectory.events
        raise AssertionError(f"no session {name}")

    def names(self) -> list[str]:
        """Of every session so far."""
        if not self.sessions.is_dir():
            return []
        logs = [read_trajectory(folder).events for folder in self.sessions.iterdir()]
        return [str(events[0].data["name"]) for events in logs if events]

    def of(self, kind: str, name: str = "root") -> list[dict[str, Any]]:
        return [dict(e.data) for e in self.log(name) if e.type == kind]

    def printed(self, name: str = "root") -> str:
        return "".join(str(e["text"]) for e in self.of("result", name))


def left_running(sessions: Path) -> list[int]:
    """Processes that belong to a session below ``sessions``."""
    names = {folder.name for folder in sessions.iterdir()}
    found = []
    for process in psutil.process_iter():
        try:
            mark = process.environ().get("HARNESSCTL_KERNEL")
            if mark in names and process.status() != psutil.STATUS_ZOMBIE:
                found.append(process.pid)
        except (psutil.Error, OSError):
            continue
    return found


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


async def test_a_child_works_and_answers(tree: Tree) -> None:
    ask = (
        "import asyncio\nh = rlm('count the files', name='alice')\nprint(repr(h), h.state)\n"
        "try:\n    await asyncio.wait_for(rlm.get('alice'), 0.001)\n"
        "except TimeoutError:\n    print('not yet')\nopen('go', 'w').close()\n"
        "print(await asyncio.gather(h, rlm.get('alice')))\nprint(rlm.list())"
    )
    result = await tree.run(
        {"content": "I ask.", "code": ask},
        {"content": "Done."},
        {"for": "alice", "content": "I look.", "code": f"{UNTIL_GO}\nx = 6 * 7\nprint(x)"},
        {"for": "alice", "content": "There are 42."},
    )
    assert result["answer"] == "Done."
    assert "<child alice; await it for its answer> running\nnot yet\n" in tree.printed()
    assert "['There are 42.', 'There are 42.']" in tree.printed()
    assert set(result["usage"]["nodes"]) == {"root", "root/alice"}
    total = result["usage"]["total"]
    assert total["tokens"] == sum(n["tokens"] for n in result["usage"]["nodes"].values())
    header = tree.of("header", "alice")[0]
    assert (header["parent"], header["depth"]) == (result["session"], 1)
    states = [(c["name"], c["state"]) for c in tree.of("child")]
    assert states == [("alice", "started"), ("alice", "done")]
    assert "42" in tree.printed("alice")


SLEEP = "import time\ntime.sleep(60)"
UNTIL_GO = "import os, time\nwhile not os.path.exists('go'): time.sleep(0.02)"
DIE = "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)"
#: Ends only where two run it at the same time.
MEET = """
import glob, os, time
open(f"met-{os.getpid()}", "w").close()
while len(glob.glob("met-*")) < 2: time.sleep(0.05)
"""
CATCH = """
try:
    print(await {call})
except (HostError, ChildError) as error:
    print(type(error).__name__, error)
"""


def caught(*calls: str) -> str:
    """Code that makes each call and prints its answer, or why there is none."""
    return "".join(CATCH.format(call=call) for call in calls)


async def test_what_cannot_be_started_is_said_in_the_cell(tree: Tree) -> None:
    calls = (
        "rlm('again', name='one')",
        "rlm('x', name='Bad Name')",
        "rlm('x', name='parent')",
        "rlm(' ')",
        "rlm('x', max_turns=0)",
        "rlm.get('nobody')",
        "rlm('one too many')",
    )
    before = caught("rlm('x', agent='nobody')", "rlm('x', model='some/other')")
    await tree.run(
        {
            "content": "I ask.",
            "code": before + "h = rlm('first', name='one')\nprint(await h)" + caught(*calls),
        },
        {"content": "Done."},
        {"for": "one", "content": "Deeper.", "code": caught("rlm('deeper')")},
        {"for": "one", "content": "Answered."},
        limits=Limits(depth=1, children=1),
    )
    assert "the depth limit is 1" in tree.printed("one")
    said = tree.printed()
    assert "Answered." in said
    for words in (
        "there is a child one already, done",
        "'Bad Name' is no name for a child",
        "'parent' is no name for a child",
        "a child needs a task",
        "no subagent 'nobody'",
        "there is no model 'some/other'",
        "the limit of 1 children over the whole tree is reached",
        "max_turns=0 is no number",
        "no child 'nobody'; there are: one",
    ):
        assert words in said, words
    assert len(tree.of("child")) == 2


async def test_of_two_siblings_with_one_name_the_first_goes_on(tree: Tree) -> None:
    """The second is refused while the first runs, also when both are asked for at the same moment."""
    code = (
        "import threading\n"
        "first = rlm('x', name='twin')\n"
        "while not os.path.exists('begun'): await asyncio.sleep(0.05)\n"
        + caught("rlm('y', name='twin')")
        + "print('twin:', rlm.get('twin').state)\nopen('go', 'w').close()\nprint(await first)\n"
        "said, both = [], threading.Barrier(2)\n"
        "def start():\n    both.wait()\n"
        "    try:\n        said.append(type(rlm('x', name='race')).__name__)\n"
        "    except HostError as error:\n        said.append(error.id)\n"
        "threads = [threading.Thread(target=start) for _ in range(2)]\n"
        "for thread in threads: thread.start()\n"
        "for thread in threads: thread.join()\n"
        "print(sorted(said), await rlm.get('race'))"
    )
    wait = f"open('begun', 'w').close()\n{UNTIL_GO}"
    result = await tree.run(
        {"content": "I start.", "code": "import asyncio, os\n" + code},
        {"content": "Done."},
        {"for": "twin", "content": "-", "code": wait},
        {"for": "twin", "content": "The first's answer."},
        {"for": "race", "content": "One of two."},
    )
    assert result["answer"] == "Done."
    said = tree.printed()
    assert "HostError there is a child twin already, running" in said
    assert "twin: running\nThe first's answer." in said
    assert "'name_taken'" in said
    assert "One of two." in said
    started = [c["name"] for c in tree.of("child") if c["state"] == "started"]
    assert started == ["twin", "race"]
    assert sorted(tree.names()) == ["race", "root", "twin"]
    assert set(result["usage"]["nodes"]) == {"root", "root/twin", "root/race"}


async def test_cousins_with_one_name_are_two(tree: Tree) -> None:
    """A name is taken among the children of one session only: both run at once, each with its own node."""
    ask = "h = rlm('as {of}', name='twin')\nprint(await h)"
    await tree.run(
        {"content": "-", "code": "a, b = rlm('x', name='a'), rlm('x', name='b')\nprint(await a, await b)"},
        {"content": "Done."},
        {"for": "a", "content": "-", "code": ask.format(of="a")},
        {"for": "a", "content": "A."},
        {"for": "b", "content": "-", "code": ask.format(of="b")},
        {"for": "b", "content": "B."},
        {"for": "twin", "content": "-", "code": MEET},
        {"for": "twin", "content": "Met."},
    )
    assert "A. B." in tree.printed()
    for name in ("a", "b"):
        assert "Met." in tree.printed(name)
    logs = [read_trajectory(folder).events for folder in tree.sessions.iterdir()]
    nodes = sorted(str(e[0].data["node"]) for e in logs)
    assert nodes == ["root", "root/a", "root/a/twin", "root/b", "root/b/twin"]


async def test_each_way_a_child_can_end(tree: Tree) -> None:
    """A child that never ends, that is cancelled, that fails, whose kernel dies, and one left behind."""
    begin = (
        "slow = rlm('sleep', name='slow', max_time=3)\n"
        "gone = rlm('sleep', name='gone')\n"
        "short = rlm('work', name='short', max_turns=1)\n"
        "bad = rlm('fail', name='bad')\n"
        "poor = rlm('work', name='poor', max_tokens=100)\n"
        "dead = rlm('die', name='dead')\n"
        "late = rlm('sleep', name='late')\n"
        "import time\n"
        "while not all(c['tokens'] or c['state'] != 'running' for c in rlm.list()): time.sleep(0.1)\n"
        "print('cancelled:', gone.cancel())"
    )
    waits = caught("slow", "gone", "short", "bad", "poor", "dead", "late.wait(timeout=0.1)").replace(
        "(HostError, ChildError)", "(ChildError, TimeoutError)"
    )
    result = await tree.run(
        {"content": "I begin.", "code": begin},
        {"content": "I wait.", "code": waits.replace("await late.wait", "late.wait")},
        {"content": "Now I die.", "code": DIE},
        {"content": "I look again.", "code": "print([(c['name'], c['state']) for c in rlm.list()])"},
        {"content": "Done."},
        {"for": "slow", "content": "-", "code": SLEEP},
        {"for": "gone", "content": "-", "code": SLEEP},
        {"for": "late", "content": "-", "code": SLEEP},
        {"for": "short", "content": "-", "code": "1"},
        {"for": "bad", "error": {"status": 400, "body": "no"}},
        {"for": "dead", "content": "-", "code": f"x = 1\n{DIE}"},
        {"for": "dead", "content": "-", "code": "print('x' in globals())"},
        {"for": "dead", "content": "I live."},
    )
    assert result["answer"] == "Done."
    said = tree.printed()
    assert "cancelled: cancelled" in said
    assert "child slow: budget_exhausted (wall" in said
    assert "child gone: interrupted (cancelled" in said
    assert "child short: budget_exhausted (turns" in said
    assert "child bad: failed (provider_error" in said
    assert "child poor: budget_exhausted (tokens" in said
    assert "I live." in said
    assert "child late still runs" in said
    assert "False" in tree.printed("dead")
    assert "('late', 'running')" in said
    assert "('dead', 'done')" in said
    ends = {name: tree.of("end", name)[0] for name in ("slow", "gone", "short", "bad", "dead", "late")}
    assert (ends["late"]["status"], ends["late"]["reason"]) == ("interrupted", "parent_ended")
    told = {c["name"]: c for c in tree.of("child") if c["state"] != "started"}
    assert (told["late"]["state"], told["late"]["reason"]) == ("cancelled", "parent_ended")
    for name, end in ends.items():
        assert told[name]["usage"] == end["usage"] == result["usage"]["nodes"][f"root/{name}"]


async def test_a_defect_in_a_child_ends_that_child_alone(tree: Tree, monkeypatch: pytest.MonkeyPatch) -> None:
    from harnessctl.rlm import session

    turn = session.run_turn

    async def broken(parts: Any, number: int) -> None:
        if parts.consumer == "odd":
            raise ZeroDivisionError("a defect")
        await turn(parts, number)

    monkeypatch.setattr(session, "run_turn", broken)
    result = await tree.run(
        {"content": "I ask.", "code": caught("rlm('x', name='odd')")},
        {"content": "Done."},
    )
    assert result["answer"] == "Done."
    assert "child odd: failed (error, " in tree.printed()


async def test_the_first_interrupt_is_the_parents_alone(tree: Tree) -> None:
    task = asyncio.create_task(
        tree.run(
            {"content": "I ask.", "code": "h = rlm('x', name='alice')\nawait h"},
            {"content": "Again.", "code": "print(await rlm.get('alice'))"},
            {"content": "Done."},
            {"for": "alice", "content": "-", "code": "import time\nfor _ in range(20): time.sleep(0.1)"},
            {"for": "alice", "content": "Undisturbed."},
        )
    )
    async with asyncio.timeout(120):
        while not any(e.type == "child" for e in tree.watcher.events):  # noqa: ASYNC110 - no event is set
            await asyncio.sleep(0.05)
        await asyncio.sleep(0.3)
    tree.interrupts.press()
    assert (await task)["answer"] == "Done."
    statuses = [e["status"] for e in tree.of("result")]
    assert statuses == ["interrupted", "ok"]
    assert "Undisturbed." in tree.printed()


async def test_the_second_interrupt_ends_everything(tree: Tree) -> None:
    task = asyncio.create_task(
        tree.run(
            {"content": "I ask.", "code": "h = rlm('x', name='alice')\nawait h"},
            {"for": "alice", "content": "-", "code": "h = rlm('y', name='bob')\nawait h"},
            {"for": "bob", "content": "-", "code": SLEEP},
        )
    )
    async with asyncio.timeout(120):
        while "bob" not in tree.names() or not tree.of("cell", "bob"):  # noqa: ASYNC110 - no event is set
            await asyncio.sleep(0.1)
    tree.interrupts.press()
    tree.interrupts.press()
    result = await task
    assert (result["status"], result["reason"]) == ("interrupted", "interrupted")
    for name in ("alice", "bob"):
        assert tree.of("end", name)[0]["reason"] == "parent_ended"
    assert "root/alice/bob" in result["usage"]["nodes"]


def subagent(name: str, model: str) -> Entry:
    found = EntryId.parse(f"subagents/{name}")
    meta = {"description": "Reviews APIs.", "model": model}
    text = f"---\ndescription: Reviews APIs.\nmodel: {model}\n---\nLook for breaking changes (marker 4711).\n"
    body = "Look for breaking changes (marker 4711).\n"
    return Entry(found, (EntryFile(found.path, 0o100644, text.encode()),), meta, body)


async def test_a_child_works_as_a_subagent_and_with_a_model_of_its_own(tree: Tree) -> None:
    own = tree.folder / "own"
    own.mkdir()
    small = scripted(own, {"for": "c", "content": "From the small one."}, {"for": "a", "content": "Small."})

    def named(name: str) -> tuple[ModelClient, str]:
        if name != "small":
            raise UsageError(f"no model is known as {name!r}", id="unknown_model")
        return small, f"found/{name}"

    entries = (subagent("api-reviewer", "small"), subagent("other-tools", "haiku"))
    code = (
        "a = rlm('review', name='a', agent='api-reviewer')\n"
        "b = rlm('review', name='b', agent='other-tools')\n"
        "c = rlm('review', name='c', model='small')\n"
        "print(await a, await b, await c)"
    ) + caught("rlm('x', model='large')")
    await tree.run(
        {"content": "-", "code": code},
        {"content": "Done."},
        {"for": "b", "content": "The run's own."},
        snapshot=Snapshot(entries={str(entry.id): entry for entry in entries}),
        model_named=named,
    )
    assert "Small. The run's own. From the small one." in tree.printed()
    assert "no model is known as 'large'" in tree.printed()
    first = tree.of("request", "a")[0]["append"][0]["content"]
    assert "You are a, started by another session" in first
    assert "marker 4711" in first
    headers = {name: tree.of("header", name)[0] for name in ("a", "b", "c")}
    assert headers["a"]["agent"] == "subagents/api-reviewer"
    assert [headers[name]["model_name"] for name in ("a", "b", "c")] == ["found/small", "", "found/small"]
    said = "asks for the model haiku, which cannot be had: no model is known as 'haiku'"
    assert any(said in note for note in tree.watcher.notes)
