"""Events to messages."""

from __future__ import annotations

import hashlib
import itertools
import json
from typing import Any, Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harnessctl.domain.canonical import canonical_json
from harnessctl.domain.event import Event
from harnessctl.layers.l1_context.folding import foldable
from harnessctl.layers.l1_context.view import (
    CUT_REPLY,
    EMPTY_REPLY,
    FENCE_FIRST,
    FENCE_MEND,
    FENCE_NEXT,
    INTERRUPTED_REPLY,
    OPEN_CALL,
    View,
    system_of,
    view_of,
)
from tests.fakes.trajectories import build

Steps = list[tuple[str, dict[str, Any]]]


def call(name: str, code: str | None = "1", **more: Any) -> dict[str, Any]:
    data = {"id": name, "name": "ipython", "arguments": json.dumps({"code": code}), **more}
    return data if code is None else {**data, "code": code}


def events(*steps: tuple[str, dict[str, Any]]) -> tuple[Event, ...]:
    return build([("header", {}), *steps]).events


def messages(*steps: tuple[str, dict[str, Any]], protocol: str = "tool") -> list[dict[str, Any]]:
    ready, _ = view_of(events(*steps), "SYSTEM", protocol).ready()
    return [m.to_json() for m in ready]


TASK = ("task", {"text": "do it"})


def reply(*calls: dict[str, Any], content: str | None = None, **more: Any) -> tuple[str, dict[str, Any]]:
    return "reply", {"request": 0, "content": content, "calls": list(calls), "finish": "stop", **more}


def said(text: str) -> tuple[str, dict[str, Any]]:
    return "message", {"from": "user", "to": "root", "text": text, "state": "delivered"}


def test_a_whole_conversation_with_tools() -> None:
    got = messages(
        TASK,
        reply(call("a"), content="I look."),
        ("cell", {"cell": 1, "code": "1", "call": "a"}),
        ("output", {"cell": 1, "stream": "result", "text": "1\n"}),
        ("result", {"cell": 1, "call": "a", "text": "1\n[cell 1: ok]"}),
        reply(content="One."),
    )
    assert [m["role"] for m in got] == ["system", "user", "assistant", "tool", "assistant"]
    assert got[2]["tool_calls"][0]["id"] == got[3]["tool_call_id"] == "a"
    assert got[3]["content"] == "1\n[cell 1: ok]"


def test_with_fences_results_come_from_the_user() -> None:
    got = messages(
        TASK,
        reply({"id": None, "name": "fence", "arguments": "", "code": "1"}, content="```python\n1\n```"),
        ("cell", {"cell": 1, "code": "1", "call": None}),
        ("result", {"cell": 1, "call": None, "text": "[cell 1: ok]"}),
        protocol="fence",
    )
    assert [m["role"] for m in got] == ["system", "user", "assistant", "user"]
    assert all("tool_calls" not in m for m in got)
    assert got[1]["content"].endswith(f"\n\n{FENCE_FIRST}")
    assert got[3]["content"] == f"[cell 1: ok]\n\n{FENCE_NEXT}"


def test_with_fences_a_failed_cell_asks_for_another_block() -> None:
    """Small models take an error for the end of the task unless they are told otherwise."""
    got = messages(
        TASK,
        reply({"id": None, "name": "fence", "arguments": "", "code": "1/0"}, content="```python\n1/0\n```"),
        ("cell", {"cell": 1, "code": "1/0", "call": None}),
        ("result", {"cell": 1, "call": None, "status": "error", "text": "ZeroDivisionError"}),
        protocol="fence",
    )
    assert got[3]["content"] == f"ZeroDivisionError\n\n{FENCE_MEND}"


@pytest.mark.parametrize("last", [("task", {"text": "go on"}), ("repair", {"what": "x", "text": "go on"})])
def test_open_calls_are_answered_as_unknown(last: tuple[str, dict[str, Any]]) -> None:
    """loop-01: a session that stopped between call and result; also two calls with one answered."""
    stopped = events(
        TASK,
        reply(call("a"), call("b")),
        ("cell", {"cell": 1, "code": "1", "call": "a"}),
        ("result", {"cell": 1, "call": "a", "text": "one"}),
        ("cell", {"cell": 2, "code": "1", "call": "b"}),
        ("end", {"status": "interrupted"}),
        last,
    )
    ready, _ = view_of(stopped, "S", "tool").ready()
    assert [(m.role, m.call_id) for m in ready[2:5]] == [("assistant", ""), ("tool", "a"), ("tool", "b")]
    assert ready[4].content == OPEN_CALL
    assert "interrupted, effects unknown" in OPEN_CALL
    assert (ready[5].role, ready[5].content) == ("user", "go on")


def test_every_call_has_exactly_one_answer_right_after_it() -> None:
    got = messages(TASK, reply(call("a"), call("b"), call("c", None, problem="Not run: no tool 'x'.")))
    assert [m.get("tool_call_id") for m in got[3:]] == ["c", "a", "b"]
    assert got[3]["content"] == "Not run: no tool 'x'."


def test_malformed_arguments_are_sent_again_as_json() -> None:
    raw = {"id": "a", "name": "ipython", "arguments": '{"code": "x', "problem": "Not run."}
    listed = {"id": "b", "name": "ipython", "arguments": "print(1)", "code": "print(1)"}
    got = messages(TASK, reply(raw, listed))
    sent = [json.loads(c["function"]["arguments"]) for c in got[2]["tool_calls"]]
    assert sent == [{"malformed": '{"code": "x'}, {"code": "print(1)"}]


def test_a_note_waits_until_the_calls_are_answered() -> None:
    got = messages(
        TASK,
        reply(call("a")),
        ("cell", {"cell": 1, "code": "1", "call": "a"}),
        said("also count the tests"),
        ("result", {"cell": 1, "call": "a", "text": "one"}),
    )
    assert [m["role"] for m in got] == ["system", "user", "assistant", "tool", "user"]
    assert got[-1]["content"] == "also count the tests"


def test_two_messages_of_the_user_become_one() -> None:
    got = messages(TASK, reply(), said("hello?"))
    assert [m["role"] for m in got] == ["system", "user"]
    assert got[1]["content"] == f"do it\n\n{EMPTY_REPLY}\n\nhello?"


def test_cut_and_interrupted_replies_are_told() -> None:
    got = messages(TASK, reply(content="half a sen", finish="length"))
    assert (got[-1]["role"], got[-1]["content"]) == ("user", CUT_REPLY)
    got = messages(TASK, ("reply", {"request": 1, "error": {"kind": "interrupted"}}))
    assert got[-1]["content"].endswith(INTERRUPTED_REPLY)
    got = messages(TASK, ("reply", {"request": 1, "error": {"kind": "overflow"}}))
    assert got[-1]["content"] == "do it"


def test_what_stays_the_same_since_the_last_request() -> None:
    view = View("S", "tool")
    for event in events(TASK):
        view.add(event)
    assert view.ready()[1] == 0
    for event in events(TASK, ("request", {}), reply(call("a")), ("result", {"call": "a", "text": "x"}))[2:]:
        view.add(event)
    ready, keep = view.ready()
    assert (len(ready), keep) == (4, 2)


def test_a_longer_user_message_is_not_the_same() -> None:
    view = view_of(events(TASK, ("request", {}), reply()), "S", "tool")
    ready, keep = view.ready()
    assert (len(ready), keep) == (2, 1)


def test_the_system_message_is_that_of_the_newest_beginning_in_the_protocol() -> None:
    def began(text: str, tool: bool, **more: object) -> tuple[str, dict[str, object]]:
        said = [{"role": "system", "content": text}, {"role": "user", "content": "x"}]
        return "request", {"append": said, "tool": tool, **more}

    kept = ("request", {"append": [{"role": "user", "content": "y"}], "tool": True})
    log = events(TASK, began("FIRST", True), kept, began("ASIDE", True, consumer="llm"))
    assert system_of(log, "tool") == "FIRST"
    assert system_of(log, "fence") == ""
    log = events(TASK, began("FIRST", True), began("SECOND", False), kept)
    assert (system_of(log, "tool"), system_of(log, "fence")) == ("FIRST", "SECOND")
    assert system_of(events(TASK), "tool") == ""


STEP = st.sampled_from(
    [
        TASK,
        ("request", {}),
        reply(content="text"),
        reply(),
        reply(content="x", finish="length"),
        reply(call("a")),
        reply(call("a"), call("b")),
        ("cell", {"cell": 1, "code": "1", "call": "a"}),
        ("result", {"cell": 1, "call": "a", "text": "done"}),
        ("result", {"cell": 2, "call": "b", "text": "done"}),
        said("by the way"),
        ("repair", {"what": "torn_tail", "text": "lost one"}),
        ("reply", {"request": 1, "error": {"kind": "interrupted"}}),
    ]
)


@given(st.lists(STEP, max_size=25))
def test_any_history_gives_messages_that_providers_take(steps: Steps) -> None:
    """Digest and kept prefix hold at every request, and roles alternate as providers demand."""
    view = View("S", "tool")
    before: list[dict[str, Any]] = []
    for event in events(*steps):
        if event.type == "request":
            ready, keep = view.ready()
            now = [m.to_json() for m in ready]
            assert now[:keep] == before[:keep]
            assert view.digest() == "sha256:" + hashlib.sha256(canonical_json(now)).hexdigest()
            before = now
        view.add(event)
    sent = [m.to_json() for m in view.ready()[0]]
    tools = 0
    for at, (last, message) in enumerate(itertools.pairwise(sent), start=1):
        assert not (last["role"] == message["role"] == "user")
        ids = [c["id"] for c in message.get("tool_calls", ())]
        answers = [m.get("tool_call_id") for m in sent[at + 1 : at + 1 + len(ids)]]
        assert sorted(ids) == sorted(answers)
        tools += len(ids)
    assert tools == sum(m["role"] == "tool" for m in sent)
    again = view_of(events(*steps), "S", "tool").ready()[0]
    assert [m.to_json() for m in again] == sent


def long_session(protocol: Literal["tool", "fence"]) -> tuple[View, list[Event]]:
    calls = {"id": "a" if protocol == "tool" else None, "name": "ipython", "arguments": "{}", "code": "1"}
    steps: list[tuple[str, dict[str, Any]]] = [("header", {}), ("task", {"text": "x"})]
    for number in range(1, 4):
        steps.append(("request", {"digest": ""}))
        steps.append(("reply", {"content": "I look.", "calls": [calls], "finish": "stop"}))
        text = f"{'o' * 400}{number}\n[cell {number}: ok, 0.1 s]"
        steps.append(("result", {"cell": number, "call": calls["id"], "status": "ok", "text": text}))
    steps.append(("request", {"digest": ""}))
    events = list(build(steps).events)
    return view_of(events, "SYSTEM", protocol), events


@pytest.mark.parametrize("protocol", ["tool", "fence"])
def test_folded_outputs_leave_a_landmark_and_nothing_else_changes(protocol: Literal["tool", "fence"]) -> None:
    """loop-02."""
    view, events = long_session(protocol)
    before = [m.content for m in view.messages]
    assert [part.n for part in foldable(view)] == [4, 7]
    fold = build([*((str(e.type), dict(e.data)) for e in events), ("compaction", {"folded": [4, 7]})]).events[
        -1
    ]
    view.add(fold)
    after = [m.content for m in view.messages]
    assert len(after) == len(before)
    changed = [n for n, (old, new) in enumerate(zip(before, after, strict=True)) if old != new]
    assert len(changed) == 2
    for place, number in zip(changed, (4, 7), strict=True):
        assert f"event #{number} of this session. [cell {(number - 1) // 3}: ok, 0.1 s]]" in after[place]
        assert "ooo" not in after[place]
    assert "ooo3" in after[-1]
    messages, keep = view.ready()
    assert keep == changed[0]
    assert foldable(view) == ()
    again = view_of([*events, fold], "SYSTEM", protocol)
    assert (again.ready(), again.digest()) == ((messages, keep), view.digest())
