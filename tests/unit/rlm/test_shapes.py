"""Logs whose chain is whole and whose values are not: any program of the user can write one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from harnessctl.cli.session_html import session_html
from harnessctl.commands.children import stated_of
from harnessctl.commands.export import masked_lines, page_of
from harnessctl.commands.late_result import late_result
from harnessctl.commands.resume import Stopped, open_stopped, refuse_ended
from harnessctl.commands.safety import Safety, gates_of
from harnessctl.commands.sessions import lines_of, list_sessions, show_session
from harnessctl.domain.change import FileChange
from harnessctl.domain.errors import HarnessError
from harnessctl.domain.event import GENESIS, Event, EventType
from harnessctl.layers.l1_context.outline import outline
from harnessctl.layers.l1_context.view import view_of
from harnessctl.rlm.clock import SystemClock
from harnessctl.rlm.inbox import Inbox
from harnessctl.rlm.log import DamagedLogError, parse_log
from harnessctl.rlm.proposed_edits import standing
from harnessctl.rlm.recall_index import documents
from harnessctl.rlm.reopen import additions
from harnessctl.rlm.tally import Tally
from tests.fakes.runtime import PlainTree

SESSION = "01JDXYZ0000000000000000001"
CHILD = "01JDXYZ0000000000000000002"
USAGE = {
    "prompt": 1,
    "completion": 2,
    "cached": 0,
    "calls": 1,
    "tokens": 3,
    "cost_usd": 0.5,
    "estimated": False,
}
STATE = {"harness.lock": "absent"}
MODEL = {
    "provider": "p",
    "name": "m",
    "window": 8000,
    "max_output": None,
    "price": {"prompt": 1.0, "completion": 2.0, "cached": None},
    "tools": True,
}
LIMITS = {
    "turns": 9,
    "tokens": 9,
    "cost_usd": None,
    "wall_s": 9.0,
    "depth": 2,
    "children": 3,
    "cell_s": 600.0,
}
CALL = {"id": "a", "name": "ipython", "arguments": '{"code": "1"}', "code": "1"}
GATE = {"name": "g", "command": "true", "inputs": ["x"], "timeout_s": 9.0, "attempts": 1}
#: Every type of record, with what it holds as harnessctl writes it.
LOG: tuple[tuple[str, dict[str, Any]], ...] = (
    (
        "header",
        {
            "schema": 1,
            "session": SESSION,
            "parent": None,
            "name": "root",
            "node": "root",
            "depth": 0,
            "root": "/nowhere",
            "linked": None,
            "pin": {
                "source": "tip",
                "branch": "harness",
                "commit": "c",
                "tree": "t",
                "entries": "e",
                "mode": "branch",
                "note": None,
            },
            "skipped": ["memory/a"],
            "model": MODEL,
            "model_name": "m",
            "protocol": "tool",
            "python": {"path": "/nowhere/python", "why": "so", "virtual": False, "kernel": None},
            "limits": LIMITS,
            "harness_state": STATE,
            "tree": "sha256:a",
            "gates": {"specs": [GATE], "allowed": ["x"], "extra": ["y"], "inputs": {"g": {"x": "d"}}},
            "sandbox": {"network": True},
            "repository_files_tokens": 9,
        },
    ),
    ("task", {"text": "work"}),
    (
        "request",
        {
            "consumer": "root",
            "place": 0,
            "prefix": None,
            "keep": 0,
            "append": [{"role": "system", "content": "S"}, {"role": "user", "content": "work"}],
            "digest": "sha256:d",
            "counted": 3,
            "tool": True,
            "estimate": 3,
        },
    ),
    (
        "reply",
        {"request": 2, "content": "go", "calls": [CALL], "finish": "stop", "usage": USAGE, "attempts": []},
    ),
    ("cell", {"cell": 1, "code": "1", "reply": 3, "call": "a"}),
    ("message", {"id": "i", "from": "user", "to": "root", "text": "t", "state": "queued"}),
    (
        "child",
        {"child": CHILD, "name": "alice", "state": "started", "task": "x", "agent": None, "model": None},
    ),
    (
        "child",
        {
            "child": CHILD,
            "name": "alice",
            "state": "done",
            "status": "success",
            "reason": "",
            "detail": "",
            "usage": USAGE,
        },
    ),
    ("output", {"cell": 1, "stream": "stdout", "text": "1", "bytes": 1, "cut": 0, "blob": None}),
    (
        "result",
        {
            "cell": 1,
            "call": "a",
            "status": "ok",
            "text": "1",
            "ms": 3,
            "error": None,
            "signal": None,
            "variables": {"set": {"x": ["int", ""]}, "gone": ["y"], "more": 0},
            "recalled": True,
        },
    ),
    (
        "propose",
        {"text": "p", "entry": "memory/a", "action": "create", "edit": {"kind": "memory"}, "shown": None},
    ),
    (
        "compaction",
        {
            "folded": [9, "3/0"],
            "stands": ["[1]", "2"],
            "evicted": [[2, 9]],
            "landmark": "[left]",
            "summary": {"task": "t"},
            "text": "made room",
        },
    ),
    ("request", {"consumer": "llm", "append": [{"role": "user", "content": "?"}], "estimate": 2}),
    ("repair", {"what": "kernel_restart", "text": "", "lost": {"x": ["int", ""]}}),
    (
        "repair",
        {
            "what": "resume",
            "text": "again",
            "model": MODEL,
            "model_name": "m",
            "protocol": "tool",
            "limits": LIMITS,
            "harness_state": STATE,
        },
    ),
    ("repair", {"what": "skill_copy", "text": "c", "entry": "skill/a", "files": ["x"]}),
    ("request", {"consumer": "root", "append": [], "estimate": 3}),
    ("reply", {"request": 16, "error": {"kind": "stopped", "status": None, "message": "m"}, "usage": USAGE}),
    ("reply", {"request": 16, "content": "Done.", "calls": [], "finish": "stop", "usage": USAGE}),
    (
        "gate",
        {
            "name": "g",
            "command": "true",
            "status": "passed",
            "exit": 0,
            "ms": 3,
            "text": "g",
            "changed_inputs": [],
            "left": 0,
        },
    ),
    (
        "checkpoint",
        {
            "why": "proposals",
            "proposals": [
                {
                    "session": SESSION,
                    "entry": "memory/a",
                    "events": [10],
                    "update": "u",
                    "commit": "c",
                    "summary": "s",
                    "refused": "",
                }
            ],
        },
    ),
    (
        "end",
        {
            "status": "budget_exhausted",
            "reason": "turns",
            "detail": "",
            "verified": False,
            "answer": None,
            "usage": USAGE,
            "harness_state": STATE,
            "moved": ["harness.lock"],
            "tree": "sha256:b",
        },
    ),
)
WRONG: tuple[Any, ...] = (None, -1, "x", [None], {})


class StillTree(PlainTree):
    """Nothing in it has changed."""

    def changes(self, before: str, after: str) -> tuple[FileChange, ...]:
        return ()


def lines(log: tuple[tuple[str, dict[str, Any]], ...]) -> bytes:
    made, prev = b"", GENESIS
    for n, (kind, data) in enumerate(log):
        event = Event.make(
            n=n, t="2026-11-29T10:00:00.000Z", type=EventType(kind), turn=n // 10, data=data, prev=prev
        )
        made, prev = made + event.to_line(), event.hash
    return made


def broken(value: Any) -> Iterator[Any]:
    """``value`` with one thing in it changed or gone, in every way."""
    keys = (
        list(value) if isinstance(value, dict) else list(range(len(value))) if isinstance(value, list) else []
    )
    for key in keys:
        inner = value[key]
        for wrong in (*WRONG, *broken(inner)):
            if wrong != inner or type(wrong) is not type(inner):
                copy = value.copy()
                copy[key] = wrong
                yield copy
        if isinstance(value, dict):
            yield {k: v for k, v in value.items() if k != key}


def read(state: Path, folder: Path, html: bool) -> None:
    """Everything that reads a log from the disk."""
    list_sessions(state, str)
    shown = show_session(state, SESSION, str)
    list(lines_of(shown))
    page = page_of(shown)
    if html:
        session_html(page)
    list(masked_lines(folder, str))
    stopped = open_stopped(folder, SystemClock())
    try:
        pick_up(stopped)
    finally:
        stopped.recorder.close()


def pick_up(stopped: Stopped) -> None:
    events = stopped.recorder.events
    assert stopped.python is None
    assert stopped.files_tokens is None or stopped.files_tokens >= 0
    tally = Tally()
    for event in events:
        tally.add(event)
    for protocol in ("tool", "fence"):
        view_of(events, "S", protocol).ready()  # type: ignore[arg-type]
    stated = stated_of(events)
    additions(events, tally.variables, stated)
    gates_of(Safety(), {}, StillTree(stopped.root), stopped.header)
    Inbox().restore(events)
    outline(events)
    standing(events)
    list(documents(events, 0, len(events)))
    late = late_result(stopped, StillTree(stopped.root))
    assert late is not None
    # What is printed of it.
    assert all({"name", "status", "ms"} <= gate.keys() for gate in late.result.gates)
    assert all({"entry", "update", "summary", "refused"} <= made.keys() for made in late.result.proposals)
    (stopped.recorder.folder / "result.json").unlink()
    refuse_ended(stopped, "more", stopped.limits)


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    folder = tmp_path / "sessions" / SESSION
    folder.mkdir(parents=True)
    return folder


def test_what_harnessctl_writes_is_as_it_should_be(tmp_path: Path, folder: Path) -> None:
    (folder / "log.jsonl").write_bytes(lines(LOG))
    assert parse_log(lines(LOG)).damage == ""
    read(tmp_path, folder, html=True)


@pytest.mark.parametrize(
    ("at", "changes", "said"),
    [
        (0, {"pin": "x"}, "line 1 (byte 0): event 0: header.pin is 'x'"),
        (0, {"linked": -1}, "event 0: header.linked is -1"),
        (0, {"pin": {"source": "x", "branch": "b", "entries": "e"}}, "event 0: header.pin.source is 'x'"),
        (3, {"content": -1}, "event 3: reply.content is -1"),
        (3, {"request": None}, "event 3: reply.request is null"),
        (3, {"request": 3}, "event 3: reply.request is 3, which comes later"),
        (3, {"calls": [{**CALL, "code": []}]}, "event 3: reply.calls.code is a list"),
        (6, {"child": "../01A"}, "event 6: child.child is '../01A'"),
        (6, {"child": "\0"}, "event 6: child.child is '\\x00'"),
        (21, {"usage": {"tokens": -1}}, "event 21: end.usage.tokens is -1"),
    ],
)
def test_the_event_is_named(folder: Path, at: int, changes: dict[str, Any], said: str) -> None:
    log = list(LOG)
    log[at] = (log[at][0], {**log[at][1], **changes})
    content = parse_log(lines(tuple(log)))
    assert content.damage.endswith(said)
    assert len(content.events) == at
    (folder / "log.jsonl").write_bytes(lines(tuple(log)))
    with pytest.raises(DamagedLogError, match="event"):
        open_stopped(folder, SystemClock())


def test_keys_of_later_versions_are_not_looked_at() -> None:
    log = tuple((kind, {**data, "later": {"a": None}}) for kind, data in LOG)
    assert parse_log(lines(log)).damage == ""


@pytest.mark.parametrize("at", range(len(LOG)), ids=lambda at: f"{at}-{LOG[at][0]}")
def test_nothing_that_a_record_may_hold_is_a_defect(tmp_path: Path, folder: Path, at: int) -> None:
    """Each value changed in turn: the log is damaged, or every reader can do with it."""
    kind, data = LOG[at]
    for changed in broken(data):
        raw = lines((*LOG[:at], (kind, changed), *LOG[at + 1 :]))
        (folder / "log.jsonl").write_bytes(raw)
        with suppress(HarnessError):
            read(tmp_path, folder, html=kind in ("header", "end") and not parse_log(raw).damage)
