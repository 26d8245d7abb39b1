"""Messages in real sessions: who reaches whom, and that each is delivered once or reported, kernels dying."""

from __future__ import annotations

import asyncio
import contextlib
import json
import os
import random
import signal
from collections import Counter
from pathlib import Path
from typing import Any

import pytest

from harnessctl.domain.event import Event
from harnessctl.domain.limits import Limits
from harnessctl.layers.l2_execution.registration import Registration
from tests.integration.test_children import UNTIL_GO, Tree

pytestmark = pytest.mark.kernel

NAMES = [f"n{i}" for i in range(8)]


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


async def test_parents_children_and_siblings_reach_each_other(tree: Tree) -> None:
    alice = (
        "print(messages.send('parent', 'up'), messages.send('bob', 'across'))\n"
        "for to in ('carol', 'alice', 'root'):\n"
        "    try:\n        print(messages.send(to, 'x'))\n"
        "    except HostError as error:\n        print(error.id)"
    )
    root = (
        "bob = rlm('wait', name='bob')\nalice = rlm('write', name='alice')\n"
        "messages.send('bob', 'down')\nprint(await alice)\n"
        "print([(m['from'], m['text']) for m in messages.inbox()], messages.inbox())\n"
        "print(await bob)\n"
        "try:\n    messages.send('bob', 'late')\nexcept HostError as error:\n    print(error.id, error)"
    )
    bob = (
        "found = messages.inbox(timeout=20)\n"
        "while len(found) < 2: found += messages.inbox(timeout=20)\n"
        "print(sorted((m['from'], m['text']) for m in found))"
    )
    await tree.run(
        {"content": "-", "code": root},
        {"content": "Done."},
        {"for": "alice", "content": "-", "code": alice},
        {"for": "alice", "content": "Written."},
        {"for": "bob", "content": "-", "code": bob},
        {"for": "bob", "content": "Read."},
    )
    assert "[('alice', 'across'), ('parent', 'down')]" in tree.printed("bob")
    assert "[('alice', 'up')] []" in tree.printed()
    assert "undeliverable undeliverable: bob has ended" in tree.printed()
    assert tree.printed("alice").count("no_recipient") == 3


async def test_what_is_unread_stands_in_the_next_request_and_then_no_more(tree: Tree) -> None:
    await tree.run(
        {"content": "-", "code": "print(await rlm('write', name='alice'))"},
        {"content": "-", "code": "print(messages.inbox())"},
        {"content": "Done."},
        {"for": "alice", "content": "-", "code": "messages.send('parent', 'look here')"},
        {"for": "alice", "content": "Written."},
    )
    asked = json.dumps([r["append"] for r in tree.of("request")])
    assert asked.count("[message from alice] look here") == 1
    assert "[]\n[cell 2: ok" in tree.printed()


async def test_a_message_that_nobody_read_is_reported(tree: Tree) -> None:
    root = (
        "import os, time\nalice = rlm('wait', name='alice', max_turns=1)\n"
        "while not os.path.exists('begun'): time.sleep(0.02)\n"
        "messages.send('alice', 'never read')\nopen('go', 'w').close()\n"
        "try:\n    await alice\nexcept ChildError:\n    pass\nprint(messages.inbox(timeout=60))"
    )
    await tree.run(
        {"content": "-", "code": root},
        {"content": "Done."},
        {"for": "alice", "content": "-", "code": f"open('begun', 'w').close()\n{UNTIL_GO}"},
    )
    states = [m["state"] for m in tree.of("message", "alice")]
    assert states == ["queued", "undeliverable"]
    assert "alice ended without reading your message" in tree.printed()
    assert "never read" in tree.printed()


async def test_a_kernel_that_dies_with_messages_in_hand_loses_none(tree: Tree) -> None:
    die = "kept = messages.inbox(timeout=60)\nimport os, signal\nos.kill(os.getpid(), signal.SIGKILL)"
    await tree.run(
        {"content": "-", "code": f"h = rlm('write', name='alice')\n{die}"},
        {"content": "Done."},
        {"for": "alice", "content": "-", "code": "messages.send('parent', 'precious')"},
        {"for": "alice", "content": "Written."},
    )
    asked = json.dumps([r["append"] for r in tree.of("request")])
    assert asked.count("which this cell had taken] precious") == 1
    assert [m["state"] for m in tree.of("message")] == ["queued", "delivered"]


WORK = """
import os, pathlib, time
folder = pathlib.Path("io"); folder.mkdir(exist_ok=True)
def note(kind, text):
    with open(folder / f"{me}.{kind}", "a") as file: file.write(text + "\\n")
def noted(kind):
    path = folder / f"{me}.{kind}"
    return path.read_text().splitlines() if path.exists() else []
def read():
    for letter in messages.inbox(): note("got", letter["id"])
def total(): return sum(len(path.read_text().splitlines()) for path in folder.glob("*.sent"))
while not (folder / "all").exists(): time.sleep(0.02)
for to, text in plan[len(noted("sent")):]:
    try:
        note("sent", messages.send(to, text)["id"])
    except HostError as error:
        note("sent", "refused " + error.id)
    time.sleep(0.005)
    if len(noted("sent")) % 7 == 0: read()
while me != EARLY and total() < 1000:
    time.sleep(0.02)
    read()
"""
#: Ends as soon as it has sent its own; all others stay until everything is sent.
EARLY = "n7"
WORK = WORK.replace("EARLY", repr(EARLY))


def plan_of(name: str) -> str:
    """Code that says what a session sends: 480 down, 320 up, 200 across."""
    if name == "root":
        return f"me, plan = 'root', [(n, f'down {{n}} {{i}}') for i in range(60) for n in {NAMES!r}]"
    others = [other for other in NAMES if other != name]
    across = [(others[i % 7], f"across {name} {i}") for i in range(25)]
    up = [("parent", f"up {name} {i}") for i in range(40)]
    return f"me, plan = {name!r}, {across + up!r}"


def busy(sessions: Path) -> list[Path]:
    """Folders of sessions in which a cell runs."""
    logs = [(path.parent, path.read_bytes()) for path in sorted(sessions.glob("*/log.jsonl"))]
    return [f for f, log in logs if log.count(b'"type":"cell"}') > log.count(b'"type":"result"}')]


async def kill_kernels(sessions: Path, choose: random.Random, killed: Counter[Path]) -> None:
    """SIGKILL to one kernel after another, until cancelled."""
    while True:
        await asyncio.sleep(0.15 + choose.random() * 0.2)
        # A session gives up after its sixth kernel.
        folders = [folder for folder in busy(sessions) if killed[folder] < 3]
        folder = choose.choice(folders) if folders else None
        found = Registration.read(folder / "kernel") if folder else None
        if folder and found:
            with contextlib.suppress(ProcessLookupError):
                os.kill(found.pid, signal.SIGKILL)
                killed[folder] += 1


async def test_a_thousand_messages_each_delivered_once_or_reported(tree: Tree) -> None:
    lines: list[dict[str, Any]] = []
    start = (
        f"for n in {NAMES!r}:\n    if n not in {{c['name'] for c in rlm.list()}}: rlm('x', name=n)\n"
        "import pathlib\npathlib.Path('io').mkdir(exist_ok=True)\npathlib.Path('io/all').touch()\n"
    )
    lines += [{"content": "-", "code": start + plan_of("root") + WORK}] * 5
    wait = (
        start
        + "for c in rlm.list():\n    try:\n        await rlm.get(c['name'])\n    except ChildError: pass\n"
    )
    lines += [{"content": "-", "code": wait + plan_of("root") + WORK + "read()"}] * 3
    lines += [{"content": "Done."}]
    for name in NAMES:
        lines += [{"for": name, "content": "-", "code": plan_of(name) + WORK + "read()"}] * 5
        lines += [{"for": name, "content": "Done."}]
    killed: Counter[Path] = Counter()
    killing = asyncio.create_task(kill_kernels(tree.sessions, random.Random(7), killed))
    result = await tree.run(*lines, limits=Limits(turns=20))
    killing.cancel()
    assert result["status"] == "success", result["detail"]
    assert killed.total() >= 5
    books = {name: Book(tree, name) for name in ("root", *NAMES)}
    receipts = [r for book in books.values() for r in book.noted("sent")]
    assert len(receipts) == 1000
    sent = {r for r in receipts if not r.startswith("refused")}
    queued = Counter(key for book in books.values() for key in book.ids("queued"))
    fates = {
        state: Counter(key for book in books.values() for key in book.ids(state))
        for state in ("delivered", "undeliverable")
    }
    left = Counter(key for book in books.values() for key in book.left())
    # Nearly all were taken; only who writes to one that has ended is refused.
    assert len(sent) == sum(not r.startswith("refused") for r in receipts) > 900
    assert set(receipts) - sent <= {"refused undeliverable"}
    # Every message has arrived once, whether its receipt died with a kernel or not, and has one fate.
    assert set(queued.values()) == {1}
    assert sent <= set(queued)
    assert len(queued) - len(sent) <= killed.total()
    assert fates["delivered"] + fates["undeliverable"] + left == queued
    # All were sent before the root made its last request: nothing stays behind.
    assert not left
    reports = "".join(str(e.data["text"]) for e in books["root"].events if e.data.get("from") == "post")
    for key, sender in books[EARLY].unread():
        assert sender != "parent" or f"without reading your message {key}: " in reports
    for name, book in books.items():
        book.check(name)


class Book:
    """What one session's log and its cells' own notes say of its messages."""

    def __init__(self, tree: Tree, name: str) -> None:
        self.events: tuple[Event, ...] = tree.log(name)
        self.folder = tree.root / "io"
        self.name = name

    def ids(self, state: str) -> list[str]:
        found = [e.data for e in self.events if e.type == "message" and e.data["state"] == state]
        return [str(data["id"]) for data in found if data["from"] != "post"]

    def unread(self) -> list[tuple[str, str]]:
        """What went back to its sender: (id, sender)."""
        found = [e.data for e in self.events if e.type == "message" and e.data["state"] == "undeliverable"]
        return [(str(data["id"]), str(data["from"])) for data in found if data["from"] != "post"]

    def left(self) -> list[str]:
        """What arrived and went nowhere yet."""
        gone = {*self.ids("delivered"), *self.ids("undeliverable")}
        return [key for key in self.ids("queued") if key not in gone]

    def noted(self, kind: str) -> list[str]:
        path = self.folder / f"{self.name}.{kind}"
        return path.read_text().splitlines() if path.exists() else []

    def check(self, name: str) -> None:
        """What cells got, each once, is what the log says they took, but for what died with a kernel."""
        got = self.noted("got")
        assert len(got) == len(set(got)), name
        taken = {str(e.data["id"]): e for e in self.events if e.type == "message" and e.data.get("by")}
        assert set(got) <= set(taken), name
        told = "".join(str(e.data["text"]) for e in self.events if e.type in ("result", "repair"))
        for key in set(taken) - set(got):
            assert f"which this cell had taken] {taken[key].data['text']}" in told, (name, key)
        asked = "".join(json.dumps(e.data["append"]) for e in self.events if e.type == "request")
        for event in self.events:
            if event.type == "message" and event.data["state"] == "delivered" and not event.data.get("by"):
                words = json.dumps(f"[message from {event.data['from']}] {event.data['text']}")[1:-1]
                assert words in asked, name
