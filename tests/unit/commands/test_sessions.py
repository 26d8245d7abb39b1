"""Past sessions, read back."""

from __future__ import annotations

import json
import os
from pathlib import Path

import pytest

from harnessctl.commands.export import masked_lines
from harnessctl.commands.sessions import find_session, lines_of, list_sessions, show_session
from harnessctl.domain.errors import HarnessError, NotFoundError, UsageError
from harnessctl.domain.event import EventType
from harnessctl.rlm.clock import SystemClock
from harnessctl.rlm.log import DamagedLogError
from harnessctl.rlm.recorder import Recorder
from tests.fakes.trajectories import build
from tests.fakes.trajectories import write as write_log

OLD, NEW, CUT = "01JDXYZ0000000000000000001", "01JDXYZ0000000000000000002", "01JDXYZ0000000000000000003"


def mask(text: str) -> str:
    return text.replace("hunter2", "[masked]")


def write(state: Path, session: str, *, end: bool = True) -> Recorder:
    recorder = Recorder.create(state / "sessions" / session, SystemClock())
    recorder.append(EventType.HEADER, {"session": session, "model": {"provider": "p", "name": "m"}})
    recorder.append(EventType.TASK, {"text": "find hunter2"})
    recorder.append(
        EventType.REPLY,
        {"request": 1, "content": "I look.", "calls": [{"name": "x", "code": "1", "args": ["hunter2"]}]},
        turn=1,
    )
    recorder.append(EventType.CELL, {"cell": 1, "code": "print('hunter2')"}, turn=1)
    recorder.append(EventType.RESULT, {"cell": 1, "text": "hunter2\n[cell 1: ok]"}, turn=1)
    if end:
        recorder.append(
            EventType.END,
            {
                "status": "success",
                "reason": "no_gates",
                "verified": False,
                "answer": "x" * 200_000,
                "usage": {"tokens": 7},
            },
        )
    return recorder


@pytest.fixture
def state(tmp_path: Path) -> Path:
    write(tmp_path, OLD).close()
    write(tmp_path, NEW).close()
    write(tmp_path, CUT, end=False).close()
    return tmp_path


def test_newest_first_with_how_they_ended(state: Path) -> None:
    listed = list_sessions(state, mask)
    assert [(s.id, s.status, s.reason) for s in listed] == [
        (CUT, None, "no_end"),
        (NEW, "success", "no_gates"),
        (OLD, "success", "no_gates"),
    ]
    assert listed[1].task == "find [masked]"
    assert set(listed[1].to_json()) == {"id", "status", "reason", "verified", "started", "task", "usage"}
    assert listed[1].usage == {"tokens": 7}


def test_one_that_was_cut_off_says_how_it_goes_on(state: Path) -> None:
    assert f"cut off here; it can go on: harnessctl sessions resume {CUT}" in lines_of(
        show_session(state, CUT, mask)
    )
    assert not [line for line in lines_of(show_session(state, OLD, mask)) if "cut off" in line]


@pytest.mark.parametrize(("place", "reason"), [(b"", "damaged"), (b"hunter2", "no_end")])
def test_one_whose_log_is_damaged_is_not_said_to_go_on(state: Path, place: bytes, reason: str) -> None:
    path = state / "sessions" / CUT / "log.jsonl"
    path.write_bytes(path.read_bytes().replace(place, b"other", 1) if place else path.read_bytes() + b"x\n")
    shown = show_session(state, CUT, mask)
    assert shown.damage
    assert shown.summary.reason == reason
    assert not [line for line in lines_of(shown) if "it can go on" in line]


def test_a_session_whose_log_is_held_runs(state: Path) -> None:
    recorder = Recorder.open(state / "sessions" / CUT, SystemClock())
    assert list_sessions(state, mask)[0].reason == "running"
    recorder.close()
    assert list_sessions(state, mask)[0].reason == "no_end"


def test_folders_without_a_log_are_no_sessions(state: Path) -> None:
    (state / "sessions" / "01JDXYZ0000000000000000009").mkdir()
    assert len(list_sessions(state, mask)) == 3
    assert list_sessions(state / "none", mask) == ()


@pytest.mark.parametrize(
    ("content", "reason", "said"),
    [
        (b"", "no_header", "holds no record: it was stopped before its header"),
        (b'{"data":{"a', "no_header", "holds no record: it was stopped before its header"),
        (b"\x00\x00\n", "damaged", "line 1 \\(byte 0\\): not a record"),
    ],
)
def test_a_log_without_a_header_is_named(state: Path, content: bytes, reason: str, said: str) -> None:
    folder = state / "sessions" / "01JDXYZ0000000000000000009"
    folder.mkdir()
    (folder / "log.jsonl").write_bytes(content)
    os.utime(folder / "log.jsonl", (1_000_000_000, 1_000_000_000))
    first = list_sessions(state, mask)[0]
    assert (first.id, first.status, first.reason, first.started) == (
        folder.name,
        None,
        reason,
        "2001-09-09T01:46:40.000Z",
    )
    with pytest.raises(HarnessError, match=said):
        show_session(state, folder.name, mask)


def test_one_that_is_just_being_made_is_not_called_damaged(state: Path) -> None:
    folder = state / "sessions" / "01JDXYZ0000000000000000009"
    recorder = Recorder.create(folder, SystemClock())
    os.utime(folder / "log.jsonl", (1, 1))  # held, whatever its age: a work tree may be long
    assert list_sessions(state, mask)[0].reason == "running"
    with pytest.raises(HarnessError, match="holds no record yet"):
        show_session(state, folder.name, mask)
    recorder.close()
    (folder / "log.jsonl").touch()  # made, and its lock not yet taken
    assert list_sessions(state, mask)[0].id == CUT


def test_shown_text_is_masked_and_the_log_is_not(state: Path) -> None:
    shown = show_session(state, "", mask)
    assert shown.summary.id == CUT
    assert "hunter2" not in json.dumps(shown.to_json())
    assert "hunter2" not in "\n".join(lines_of(shown))
    assert "hunter2" in (state / "sessions" / CUT / "log.jsonl").read_text()
    assert "    print('[masked]')" in list(lines_of(shown))


def test_a_prefix_names_a_session(state: Path) -> None:
    assert show_session(state, OLD.lower(), mask).summary.id == OLD
    with pytest.raises(UsageError) as caught:
        show_session(state, OLD[:10], mask)
    assert caught.value.id == "ambiguous_session"
    assert "…" not in caught.value.message
    for n in range(5):
        log(state, f"{OLD[:10]}{n}")
    with pytest.raises(UsageError, match=r"8 sessions begin with .*, …"):
        show_session(state, OLD[:10], mask)
    with pytest.raises(NotFoundError):
        show_session(state, "01ZZZ", mask)
    with pytest.raises(NotFoundError):
        show_session(state / "none", "", mask)


def test_a_torn_log_is_shown_up_to_the_tear_and_said(state: Path) -> None:
    path = state / "sessions" / CUT / "log.jsonl"
    path.write_bytes(path.read_bytes()[:-40])
    shown = show_session(state, CUT, mask)
    assert [str(e.type) for e in shown.events] == ["header", "task", "reply", "cell"]
    assert [line[:15] for line in lines_of(shown)][-2:] == ["cut off here; i", "! log: torn tai"]


def test_children_are_listed_with_all_and_drawn_below_their_root(state: Path) -> None:
    child = "01JDXYZ0000000000000000004"
    root = Recorder.open(state / "sessions" / CUT, SystemClock())
    root.append(EventType.REQUEST, {"consumer": "root"})
    root.append(EventType.REPLY, {"request": 5, "usage": {"prompt": 1000, "completion": 5, "cost_usd": 0.25}})
    root.append(EventType.CHILD, {"child": child, "name": "alice", "state": "started"})
    root.append(
        EventType.CHILD, {"child": child, "name": "alice", "state": "done", "status": "success", "reason": ""}
    )
    root.close()
    recorder = Recorder.create(state / "sessions" / child, SystemClock())
    recorder.append(EventType.HEADER, {"session": child, "parent": CUT, "name": "alice", "depth": 1})
    recorder.append(EventType.TASK, {"text": "look"})
    recorder.append(EventType.REQUEST, {"consumer": "alice"})
    recorder.append(EventType.REPLY, {"request": 2, "usage": {"prompt": 200, "cost_usd": 0.5}})
    recorder.append(EventType.END, {"status": "success", "reason": "no_gates", "usage": {"tokens": 200}})
    recorder.close()
    assert child not in [s.id for s in list_sessions(state, mask)]
    (listed,) = [s for s in list_sessions(state, mask, children=True) if s.id == child]
    assert (listed.to_json()["parent"], listed.to_json()["name"]) == (CUT, "alice")
    shown = show_session(state, "", mask)  # the newest that no other one started
    assert shown.summary.id == CUT
    assert [(b.seat.node, b.status, b.usage.tokens) for b in shown.tree] == [
        ("root", None, 1005),
        ("root/alice", "success", 200),
    ]
    drawn = "\n".join(lines_of(shown))
    assert "root     no end (no_end)" in drawn
    assert f"  alice  success (no_gates)          200 tokens        $0.5000  {child}" in drawn
    assert "total                              1,205 tokens        $0.7500" in drawn
    lines = [json.loads(line) for line in masked_lines(state / "sessions" / CUT, mask)]
    headers = [line["data"]["session"] for line in lines if line["type"] == "header"]
    assert headers == [CUT, child]


def test_the_newest_is_one_that_began(state: Path) -> None:
    """A kill while a child begins leaves a log without a header."""
    empty = state / "sessions" / "01JDXYZ0000000000000000009"
    empty.mkdir()
    (empty / "log.jsonl").write_bytes(b"")
    assert find_session(state, "").name == CUT


def test_what_is_no_session_is_not_the_newest(state: Path) -> None:
    """A folder that somebody put there; of a session the damage would be said."""
    for name in ("zz-notes", "7ZZZZZZZZZZZZZZZZZZZZZZZZZ"):
        (state / "sessions" / name).mkdir()
        (state / "sessions" / name / "log.jsonl").write_text("hello\n")
        if name == "zz-notes":
            assert find_session(state, "").name == CUT
    with pytest.raises(DamagedLogError):
        find_session(state, "")


def log(state: Path, name: str, parent: str | None = None) -> Path:
    return write_log(build([("header", {"session": name, "parent": parent})], name), state / "sessions")


def test_the_newest_run_is_found_and_children_are_not(tmp_path: Path) -> None:
    log(tmp_path, "01A")
    newest = log(tmp_path, "01B")
    log(tmp_path, "01C", parent="01B")
    (tmp_path / "sessions" / "01D").mkdir()
    log(tmp_path, ".going-01E")
    assert find_session(tmp_path, "") == newest
    assert find_session(tmp_path, "01c").name == "01C"
    with pytest.raises(NotFoundError, match="no session '01D'"):
        find_session(tmp_path, "01D")


def test_what_is_not_there_or_not_clear_is_said(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError, match="no session yet") as caught:
        find_session(tmp_path / "nowhere", "")
    assert "harnessctl run" in caught.value.hint
    log(tmp_path, "01A")
    log(tmp_path, "01B")
    with pytest.raises(NotFoundError, match="no session '09'"):
        find_session(tmp_path, "09")
    with pytest.raises(UsageError, match="2 sessions begin with 01: 01A, 01B"):
        find_session(tmp_path, "01")
