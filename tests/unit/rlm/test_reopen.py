"""What is written first when a session is picked up, and that the model is told the same ever after."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harnessctl.domain.event import Event, EventType
from harnessctl.domain.limits import Limits, Usage
from harnessctl.domain.message import Message
from harnessctl.layers.l1_context.view import OPEN_CALL, UNBEGUN_CALL, View
from harnessctl.rlm.clock import SilentWatcher, SystemClock
from harnessctl.rlm.continuation import decide
from harnessctl.rlm.journal import Journal
from harnessctl.rlm.recorder import Recorder
from harnessctl.rlm.reopen import FILES_STAY, PICKED_UP, additions, last_end
from harnessctl.rlm.tally import Tally

STATE = {"refs/heads/harness": "sha256:1"}
HEADER = ("header", {"session": "S", "harness_state": STATE})
TASK = ("task", {"text": "do it"})
REQUEST = ("request", {"consumer": "root", "estimate": 120, "digest": "sha256:0"})


def reply(*calls: str | None, content: str = "go") -> tuple[str, dict[str, Any]]:
    made = [{"id": c, "name": "ipython", "arguments": '{"code": "1"}', "code": "1"} for c in calls]
    return "reply", {"request": 2, "content": content, "calls": made, "usage": {"prompt": 10}}


def cell(number: int, call: str | None) -> tuple[str, dict[str, Any]]:
    return "cell", {"cell": number, "code": "1", "reply": 3, "call": call}


def result(number: int, call: str | None, **more: Any) -> tuple[str, dict[str, Any]]:
    return "result", {"cell": number, "call": call, "status": "ok", "text": f"out {number}", **more}


class Opened:
    """A log with some events, opened as a resume opens it."""

    def __init__(self, folder: Path, *events: tuple[str, dict[str, Any]], protocol: str = "tool") -> None:
        self.folder, self.protocol = folder, protocol
        recorder = Recorder.create(folder, SystemClock())
        for kind, data in events:
            recorder.append(EventType(kind), data, turn=1)
        recorder.close()

    def resume(self, files: str = FILES_STAY) -> list[Event]:
        """Write what a resume writes; the new events."""
        recorder = Recorder.open(self.folder, SystemClock())
        journal = Journal(recorder, View("S", self.protocol), SilentWatcher())  # type: ignore[arg-type]
        before = len(recorder.events)
        facts = {"harness_state": STATE}
        for addition in additions(recorder.events, journal.tally.variables, facts, files):
            journal.record(addition.type, addition.data, turn=addition.turn)
        recorder.close()
        return recorder.events[before:]

    def told(self) -> tuple[Message, ...]:
        """What the model is told now."""
        recorder = Recorder.open(self.folder, SystemClock())
        view = Journal(recorder, View("S", self.protocol), SilentWatcher()).view  # type: ignore[arg-type]
        recorder.close()
        return view.ready()[0]


@pytest.mark.parametrize("protocol", ["tool", "fence"])
def test_an_open_call_is_answered_in_the_log(tmp_path: Path, protocol: str) -> None:
    """loop-01: the session stopped between a call and its result."""
    call = "a" if protocol == "tool" else None
    opened = Opened(tmp_path / "s", HEADER, TASK, REQUEST, reply(call), cell(1, call), protocol=protocol)
    first, second = opened.resume()
    assert first.data == {"what": "open_call", "text": OPEN_CALL, "call": call, "cell": 1, "reply": 3}
    assert second.data["what"] == "resume"
    last = opened.told()[-1] if protocol == "fence" else opened.told()[-2]
    assert OPEN_CALL in last.content
    assert last.role == ("tool" if protocol == "tool" else "user")


def test_of_two_calls_only_the_open_one_is_answered(tmp_path: Path) -> None:
    """loop-01: two calls, one answered."""
    opened = Opened(tmp_path / "s", HEADER, TASK, REQUEST, reply("a", "b"), cell(1, "a"), result(1, "a"))
    repairs = [e.data for e in opened.resume() if e.data.get("what") == "open_call"]
    assert [(r["call"], r["text"]) for r in repairs] == [("b", UNBEGUN_CALL)]
    told = opened.told()
    assert [(m.role, m.call_id) for m in told[-3:]] == [("tool", "a"), ("tool", "b"), ("user", "")]
    assert "effects unknown" in told[-2].content


def test_a_request_without_a_reply_books_its_estimate_and_is_no_answer(tmp_path: Path) -> None:
    opened = Opened(tmp_path / "s", HEADER, TASK, REQUEST)
    lost = opened.resume()[0]
    assert (lost.type, lost.data["error"]["kind"]) == (EventType.REPLY, "stopped")
    tally = Tally()
    recorder = Recorder.open(opened.folder, SystemClock())
    for event in recorder.events:
        tally.add(event)
    recorder.close()
    assert tally.answers("root") == 0
    assert (tally.used["root"].prompt, tally.used["root"].estimated) == (120, True)


def test_the_model_is_told_which_variables_are_lost(tmp_path: Path) -> None:
    set_ = {"set": {"rows": ["list", "50 items"], "x": ["int", ""]}, "gone": [], "more": 0}
    opened = Opened(
        tmp_path / "s", HEADER, TASK, REQUEST, reply("a"), cell(1, "a"), result(1, "a", variables=set_)
    )
    note = opened.resume()[-1]
    assert note.data["text"] == f"{PICKED_UP} Lost with it: x (int), rows (list, 50 items). {FILES_STAY}"
    assert note.data["lost"] == {"rows": ["list", "50 items"], "x": ["int", ""]}


def test_a_second_resume_tells_the_same_history(tmp_path: Path) -> None:
    opened = Opened(tmp_path / "s", HEADER, TASK, REQUEST, reply("a"), cell(1, "a"))
    opened.resume()
    first = opened.told()
    assert [e.data["what"] for e in opened.resume()] == ["resume"]
    assert opened.told() == first
    assert opened.told() == first


def test_that_files_went_is_told_though_no_cell_ran_since_the_last_time(tmp_path: Path) -> None:
    opened = Opened(tmp_path / "s", HEADER, TASK, REQUEST, reply("a"), cell(1, "a"), result(1, "a"))
    opened.resume()
    assert opened.resume()[-1].data["text"] == ""
    assert opened.resume("They are gone.]")[-1].data["text"] == f"{PICKED_UP} They are gone.]"
    idle = Opened(tmp_path / "idle", HEADER, TASK, REQUEST)
    assert idle.resume("They are gone.]")[-1].data["text"] == ""


def test_what_ended_and_what_was_cut_off(tmp_path: Path) -> None:
    end = ("end", {"status": "interrupted", "reason": "terminated"})
    opened = Opened(tmp_path / "s", HEADER, TASK, end)
    recorder = Recorder.open(opened.folder, SystemClock())
    found = last_end(recorder.events)
    assert found is not None
    assert found.data["reason"] == "terminated"
    recorder.close()
    opened.resume()
    recorder = Recorder.open(opened.folder, SystemClock())
    assert last_end(recorder.events) is None
    recorder.close()


def test_a_call_beside_the_turns_opens_and_answers_nothing(tmp_path: Path) -> None:
    """Without the mark, the summary would be the session's final answer and enter its conversation."""
    asked = ("request", {"consumer": "summary", "estimate": 50})
    said = ("reply", {"consumer": "summary", "request": 6, "content": "Task: it", "calls": []})
    steps = [HEADER, TASK, REQUEST, reply("a"), cell(1, "a"), result(1, "a"), asked]
    plain = Opened(tmp_path / "plain", *steps[:-1])
    answered = Opened(tmp_path / "answered", *steps, said)
    assert answered.told() == plain.told()
    recorder = Recorder.open(answered.folder, SystemClock())
    assert decide(recorder.events, Limits(), Usage()) is None
    recorder.close()
    lost = Opened(tmp_path / "lost", *steps).resume()[0]
    assert (lost.data["request"], lost.data["consumer"]) == (6, "summary")
    assert lost.data["usage"]["prompt"] == 50


def test_a_cut_off_call_is_booked_at_the_price_of_the_model_that_was_asked(tmp_path: Path) -> None:
    price = {"prompt": 10.0, "completion": 1.0}
    header = ("header", {**HEADER[1], "model": {"provider": "p", "name": "m", "price": price}})
    lost = Opened(tmp_path / "s", header, TASK, REQUEST).resume()[0]
    assert lost.data["usage"]["cost_usd"] == pytest.approx(120 * 10 / 1_000_000)
    lost = Opened(tmp_path / "unknown", HEADER, TASK, REQUEST).resume()[0]
    assert lost.data["usage"]["cost_usd"] is None


def test_messages_that_a_cut_off_cell_had_taken_are_told_again(tmp_path: Path) -> None:
    letter = {"id": "1", "from": "alice", "to": "root", "text": "use tabs", "state": "delivered"}
    opened = Opened(
        tmp_path / "s",
        HEADER,
        TASK,
        REQUEST,
        ("message", {**letter, "id": "0", "text": "older", "by": "inbox"}),
        reply("a"),
        cell(1, "a"),
        ("message", {**letter, "by": "inbox"}),
    )
    text = opened.resume()[0].data["text"]
    assert text == f"{OPEN_CALL}\n[message from alice, which this cell had taken] use tabs"


def test_a_message_that_an_earlier_cell_showed_is_not_told_again(tmp_path: Path) -> None:
    taken = {"id": "m", "from": "alice", "to": "root", "text": "hi", "state": "delivered", "by": "inbox"}
    steps = (reply("a", "b"), cell(1, "a"), ("message", taken), result(1, "a"), cell(2, "b"))
    opened = Opened(tmp_path / "s", HEADER, TASK, REQUEST, *steps)
    (repair,) = [e.data for e in opened.resume() if e.data.get("what") == "open_call"]
    assert (repair["cell"], repair["text"]) == (2, OPEN_CALL)


def test_what_ended_before_a_gate_is_not_lost_again(tmp_path: Path) -> None:
    set_ = {"set": {"x": ["int", ""]}, "gone": [], "more": 0}
    steps = (reply("a"), cell(1, "a"), result(1, "a", variables=set_), reply(content="Done."))
    gate = ("gate", {"name": "t", "status": "failed", "text": "no", "left": 1, "ms": 1})
    note = Opened(tmp_path / "s", HEADER, TASK, REQUEST, *steps, gate).resume()[-1]
    assert "x (int)" not in note.data["text"]
    assert note.data["lost"] == {}
