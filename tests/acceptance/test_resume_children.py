"""A tree of sessions that is killed and picked up: who is still there, what is read once, what it cost."""

from __future__ import annotations

import json
import re
import shutil
import signal
from pathlib import Path
from typing import Any

import pytest

from harnessctl.domain.event import Event, EventType
from harnessctl.rlm.clock import SystemClock
from harnessctl.rlm.log import read_trajectory
from harnessctl.rlm.recorder import Recorder
from harnessctl.rlm.reopen import FILES_ANEW
from tests.acceptance.conftest import Logs, Run, Script
from tests.conftest import Git
from tests.fakes import trajectories
from tests.fakes.killing import processes_of, until
from tests.fakes.runs import begin

pytestmark = pytest.mark.kernel

SLEEP = "import time\ntime.sleep(60)"
DIE = "import os, signal\nos.kill(os.getpid(), signal.SIGKILL)"
#: Long enough that the turns which are to leave are worth a landmark, however many tokens their ids make.
PLAN = " ".join(f"Step {k}: one child works on part {k} and tells me what it found." for k in range(20))
BEGIN = """
for name in ("alice", "bob", "carol"):
    rlm(f"work as {name}", name=name)
print(await rlm.get("alice"))
messages.send("bob", "bob, use tabs")
"""
#: Not before the parent's last request is made: what is written then is unread when the kill comes.
WRITE_LATE = f"""
while not messages.inbox(timeout=60): pass
messages.send("parent", "from carol")
{SLEEP}
"""
LOOK = """
print([(c["name"], c["state"], c["reason"]) for c in rlm.list()])
print("alice:", await rlm.get("alice"))
print("bob:", await rlm.get("bob"))
try:
    await rlm.get("carol")
except ChildError as error:
    print(error)
print("inbox:", [(m["from"], m["text"]) for m in messages.inbox()], messages.inbox())
"""


class Sessions:
    """The sessions of the newest run, by name."""

    def __init__(self, logs: Logs) -> None:
        self.logs = logs

    def folder(self, name: str) -> Path:
        for log in self.logs.state.glob("harnessctl/*/sessions/*/log.jsonl"):
            first, whole, _ = log.read_bytes().partition(b"\n")
            if whole and json.loads(first)["data"]["name"] == name:
                return log.parent
        raise AssertionError(name)

    def events(self, name: str) -> tuple[Event, ...]:
        return read_trajectory(self.folder(name)).events

    def of(self, kind: str, name: str = "root") -> list[dict[str, Any]]:
        return [dict(e.data) for e in self.events(name) if e.type == kind]

    def asked(self, name: str) -> list[str]:
        """All messages of each request, as text: after a compaction or a resume a request holds them anew."""
        lists: dict[int, list[Any]] = {}
        for event in self.events(name):
            if event.type == "request":
                data = event.data
                kept = [] if data["prefix"] is None else lists[data["prefix"]][: data["keep"]]
                lists[event.n] = [*kept, *data["append"]]
        return [json.dumps(messages) for messages in lists.values()]

    def has_cell(self, name: str, count: int = 1) -> bool:
        """The same for a session that may have written nothing yet."""
        try:
            return len(self.of("cell", name)) >= count
        except AssertionError:
            return False


def test_a_killed_tree_goes_on(harnessctl: Run, script: Script, logs: Logs, repo: Git) -> None:
    model = script(
        {"content": PLAN, "code": BEGIN},
        {"content": "The kernel dies.", "code": DIE},
        {"content": "Who is there?", "code": "print([c['name'] for c in rlm.list()], history.compact())"},
        {"content": "I wait.", "code": f"messages.send('carol', 'write now')\n{SLEEP}"},
        {"content": "I look.", "code": LOOK},
        {"content": "Done."},
        {"for": "alice", "content": "-", "code": "print(messages.send('parent', 'from alice'))"},
        {"for": "alice", "content": "Alice's answer."},
        {"for": "bob", "content": "-", "code": "h = rlm('deeper', name='dora')\nprint(await h)"},
        {"for": "bob", "content": "-", "code": "print(await rlm.get('dora'))"},
        {"for": "bob", "content": "Bob's answer."},
        {"for": "dora", "content": "-", "code": SLEEP},
        {"for": "dora", "content": "Dora's answer."},
        {"for": "carol", "content": "-", "code": WRITE_LATE},
        {"for": "summary", "content": "I have three children."},
    )
    sessions = Sessions(logs)
    run = begin(repo, model)
    assert until(
        lambda: (
            all(sessions.has_cell(n) for n in ("dora", "carol"))
            and any(m["from"] == "carol" for m in sessions.of("message"))
        )
    )
    assert sessions.has_cell("root", 4)
    names = ("root", "alice", "bob", "carol", "dora")
    ids = {name: sessions.folder(name).name for name in names}
    run.kill()
    run.communicate(timeout=120)
    check_compacted(sessions.events("root"))
    unread = [m["state"] for m in sessions.of("message") if m["from"] == "carol"]
    assert unread == ["queued"]
    log = sessions.folder("carol") / "log.jsonl"
    log.write_bytes(log.read_bytes().replace(b"work as carol", b"work as CAROL"))  # damaged in the middle
    done = harnessctl("sessions", "resume", "--json", cwd=repo.root).json()
    assert done["session"] == ids["root"]
    assert (done["status"], done["answer"]) == ("success", "Done.")
    said = "".join(str(r["text"]) for r in sessions.of("result"))
    assert "['alice', 'bob', 'carol']" in said  # after the kernel's death
    assert "('alice', 'done', 'no_gates')" in said
    assert "('carol', 'interrupted', 'stopped')" in said
    assert "alice: Alice's answer." in said
    assert "bob: Bob's answer." in said
    assert "child carol: interrupted (stopped" in said
    told = next(e["text"] for e in sessions.of("repair") if e["what"] == "children")
    assert "alice is done; bob goes on, in a new kernel; carol is interrupted (cut off" in told
    # Each message once: what stood unread in the request that the resume made is not in the inbox again.
    read = [(m["from"], m["text"], m["state"]) for m in sessions.of("message")]
    assert read == [
        (name, f"from {name}", state) for name in ("alice", "carol") for state in ("queued", "delivered")
    ]
    for name in ("alice", "carol"):
        shown_in = [text.count(f"[message from {name}] from {name}") for text in sessions.asked("root")]
        assert max(shown_in) == 1, name
    assert "inbox: [] []" in said
    assert "Dora's answer." in "".join(str(r["text"]) for r in sessions.of("result", "bob"))
    assert [m["state"] for m in sessions.of("message", "bob")] == ["queued", "delivered"]
    assert max(text.count("bob, use tabs") for text in sessions.asked("bob")) == 1
    # The logs are the truth of what was used.
    nodes = done["usage"]["nodes"]
    for name, node in (
        ("root", "root"),
        ("alice", "root/alice"),
        ("bob", "root/bob"),
        ("dora", "root/bob/dora"),
    ):
        assert nodes[node]["tokens"] == sum(r["usage"]["tokens"] for r in sessions.of("reply", name)), name
    assert done["usage"]["total"]["tokens"] == sum(n["tokens"] for n in nodes.values())
    assert not any(processes_of(session) for session in ids.values())
    refused = harnessctl("sessions", "resume", ids["bob"], "--json", cwd=repo.root, code=2).json()
    assert refused["error"]["id"] == "child_session"
    shown = harnessctl("sessions", "show", cwd=repo.root).out
    assert re.search(r"\n  bob +success \(no_gates\) .*\n    dora +success", shown)
    assert len(harnessctl("sessions", "list", "--json", cwd=repo.root).json()) == 1
    assert len(harnessctl("sessions", "list", "--all", "--json", cwd=repo.root).json()) == 5


def check_compacted(events: tuple[Event, ...]) -> None:
    """The turns in which the children were started and the kernel died have left the parent's view."""
    started = next(e for e in events if e.type == "cell" and e.data["code"] == BEGIN)
    died = next(e for e in events if e.type == "result" and e.data["status"] == "died")
    left = [e.data["evicted"] for e in events if e.type == "compaction" and e.data["what"] == "evict"]
    assert left, "nothing was evicted"
    for n in (started.data["reply"], started.n, died.n):
        assert any(first <= n <= last for first, last in left[-1]), (n, left)
    asked = [e for e in events if e.type == "request" and e.data["consumer"] == "root"]
    assert "work as" not in json.dumps(asked[-1].data["append"])
    assert asked[-1].data["keep"] <= 1  # the system message


def test_a_limit_of_tokens_holds_over_the_tree_and_over_a_stop(
    harnessctl: Run, script: Script, logs: Logs, repo: Git
) -> None:
    used = {"prompt": 5000, "completion": 10}
    model = script(
        {"content": "I start one.", "code": "h = rlm('x', name='alice')\nprint(await h)"},
        {"content": "I wait.", "code": "print(await rlm.get('alice'))"},
        {"content": "It had too little."},
        {"for": "alice", "content": "-", "code": SLEEP, "usage": used},
        {"for": "alice", "content": "-", "code": "1", "usage": used},
        {"for": "alice", "content": "Never asked for.", "usage": used},
    )
    sessions = Sessions(logs)
    run = begin(repo, model, "--max-tokens", "20000")
    assert until(lambda: sessions.has_cell("alice"))
    run.send_signal(signal.SIGKILL)
    run.communicate(timeout=120)
    refused = harnessctl("sessions", "resume", "--json", "--max-tokens", "5500", cwd=repo.root, code=2)
    assert refused.json()["error"]["id"] == "limit_used"
    done = harnessctl("sessions", "resume", "--json", "--max-tokens", "13000", cwd=repo.root).json()
    assert done["answer"] == "It had too little."
    end = sessions.of("end", "alice")[0]
    assert (end["status"], end["reason"]) == ("budget_exhausted", "tokens")
    assert done["usage"]["total"]["tokens"] <= 13_000
    assert done["usage"]["nodes"]["root/alice"]["prompt"] == 10_000
    assert done["usage"]["total"]["tokens"] == sum(n["tokens"] for n in done["usage"]["nodes"].values())


def test_a_forged_child_keeps_nobody_from_reading_the_tree_or_going_on(
    harnessctl: Run, script: Script, logs: Logs, repo: Git
) -> None:
    """Its header says next to nothing, and it names its own parent and itself as children."""
    model = script({"content": "-", "code": "1"}, {"content": "Done."})
    harnessctl("run", "--model", model, "--max-turns", "1", "x", cwd=repo.root, code=5)
    root = Sessions(logs).folder("root")
    child = "01JDXYZ0000000000000000000"
    recorder = Recorder.open(root, SystemClock())
    recorder.append(EventType.CHILD, {"child": child, "name": "alice", "state": "started"})
    recorder.close()
    again = [("child", {"child": who, "name": "x", "state": "started"}) for who in (root.name, child)]
    trajectories.write(
        trajectories.build([("header", {"session": child, "name": "alice"}), *again], child), root.parent
    )
    harnessctl("sessions", "list", "--all", cwd=repo.root)
    harnessctl("sessions", "export", "--format", "html", root.name, cwd=repo.root)
    lines = harnessctl("sessions", "export", root.name, cwd=repo.root).out.splitlines()
    assert sum(json.loads(line)["type"] == "header" for line in lines) == 2
    shown = harnessctl("sessions", "show", root.name, cwd=repo.root).out
    assert shown.count("[it stands in this tree already]") == 2
    done = harnessctl("sessions", "resume", "--json", "--max-turns", "9", root.name, cwd=repo.root).json()
    assert done["answer"] == "Done."
    told = next(e["text"] for e in Sessions(logs).of("repair") if e["what"] == "children")
    assert "alice is interrupted (cut off when harnessctl stopped, and it cannot go on" in told


def test_a_child_too_is_told_that_the_work_tree_was_made_anew(
    harnessctl: Run, script: Script, logs: Logs, repo: Git
) -> None:
    model = script(
        {"content": "-", "code": "await rlm('work', name='alice')"},
        {"content": "Done."},
        {"for": "alice", "content": "-", "code": SLEEP},
        {"for": "alice", "content": "Alice's answer."},
    )
    run = begin(repo, model, "--worktree")
    sessions = Sessions(logs)
    assert until(lambda: sessions.has_cell("alice"))
    run.kill()
    run.communicate()
    [header] = sessions.of("header")
    shutil.rmtree(header["root"])
    harnessctl("sessions", "resume", sessions.folder("root").name, cwd=repo.root)
    told = FILES_ANEW.format(commit=repo("rev-parse", "HEAD"))
    for name in ("root", "alice"):
        assert next(r["text"] for r in sessions.of("repair", name) if r["what"] == "resume").endswith(told)
