"""A tree put together again from its logs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from harnessctl.domain.event import EventType
from harnessctl.rlm.clock import SystemClock
from harnessctl.rlm.lineage import (
    descendants,
    is_root,
    kin_of,
    node_of,
    seat_of,
    tree_usage,
)
from harnessctl.rlm.log import read_log
from harnessctl.rlm.recorder import Recorder
from harnessctl.rlm.seat import Seat
from tests.fakes import trajectories

ROOT = Seat("R")


def write(folder: Path, session: str, consumer: str, *children: dict[str, Any], **header: Any) -> None:
    """A session that asked once, and once beside its turns."""
    recorder = Recorder.create(folder / session, SystemClock())
    recorder.append(EventType.HEADER, {"session": session, "name": consumer, **header})
    for who, tokens in ((consumer, 100), ("llm", 10)):
        request = recorder.append(EventType.REQUEST, {"consumer": who})
        usage = {"prompt": tokens, "completion": 1, "cost_usd": 0.5}
        recorder.append(EventType.REPLY, {"request": request.n, "consumer": who, "usage": usage})
    for child in children:
        recorder.append(EventType.CHILD, child)
    recorder.append(EventType.END, {"status": "success", "reason": "no_gates", "answer": session})
    recorder.close()


@pytest.fixture
def sessions(tmp_path: Path) -> Path:
    write(
        tmp_path,
        "R",
        "root",
        {"child": "A", "name": "a", "state": "started", "agent": "subagents/x"},
        {"child": "B", "name": "b", "state": "started"},
        {"child": "A", "name": "a", "state": "done", "status": "success"},
        {"child": "GONE", "name": "gone", "state": "started"},
    )
    write(tmp_path, "A", "a", parent="R", node="root/a", depth=1)
    write(
        tmp_path,
        "B",
        "b",
        {"child": "C", "name": "c", "state": "started"},
        parent="R",
        node="root/b",
        depth=1,
    )
    write(tmp_path, "C", "c", parent="B", node="root/b/c", depth=2)
    return tmp_path


def test_each_stands_before_those_below_it(sessions: Path) -> None:
    events = read_log(sessions / "R" / "log.jsonl").events
    found = list(descendants(ROOT, events, sessions))
    assert [kin.seat.node for kin in found] == ["root/a", "root/b", "root/b/c", "root/gone"]
    a, _, _, gone = found
    assert (a.told["state"], a.told["agent"]) == ("done", "subagents/x")
    assert a.end is not None
    assert a.end["answer"] == "A"
    assert (gone.events, gone.damage, gone.end) == ((), "its log is gone", None)


def test_the_sum_of_the_logs(sessions: Path) -> None:
    events = read_log(sessions / "R" / "log.jsonl").events
    used = tree_usage(ROOT, events, descendants(ROOT, events, sessions))
    assert {node: usage.tokens for node, usage in used.items()} == {
        "root": 112,
        "root/a": 112,
        "root/b": 112,
        "root/b/c": 112,
    }


def test_a_damaged_log_counts_as_far_as_it_can_be_read(sessions: Path) -> None:
    log = sessions / "A" / "log.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    log.write_bytes(b"".join([*lines[:3], lines[3].replace(b"llm", b"LLM"), *lines[4:]]))
    (kin, *_) = kin_of(ROOT, read_log(sessions / "R" / "log.jsonl").events, sessions)
    assert kin.damage
    assert len(kin.events) == 3


def test_a_session_that_names_one_above_it_is_damage_and_not_read_again(tmp_path: Path) -> None:
    """Any program of the user can write such a log; a reader of the tree comes to its end all the same."""
    write(tmp_path, "R", "root", {"child": "A", "name": "a", "state": "started"})
    again = [{"child": who, "name": who.lower(), "state": "started"} for who in ("R", "A", "B")]
    write(tmp_path, "A", "a", *again, parent="R", node="root/a", depth=1)
    write(tmp_path, "B", "b", again[1], parent="A", node="root/a/b", depth=2)
    events = read_log(tmp_path / "R" / "log.jsonl").events
    found = list(descendants(ROOT, events, tmp_path))
    damage = "it stands in this tree already"
    assert [(kin.seat.node, kin.damage) for kin in found] == [
        ("root/a", ""),
        ("root/a/r", damage),
        ("root/a/a", damage),
        ("root/a/b", ""),
        ("root/a/b/a", damage),
    ]
    assert sum(usage.tokens for usage in tree_usage(ROOT, events, found).values()) == 3 * 112


def test_a_tree_may_be_deep(tmp_path: Path) -> None:
    for n in range(1100):
        steps = [("header", {}), ("child", {"child": f"S{n + 1}", "name": "s"})]
        trajectories.write(trajectories.build(steps, f"S{n}"), tmp_path)
    events = read_log(tmp_path / "S0" / "log.jsonl").events
    assert len(list(descendants(Seat("S0"), events, tmp_path))) == 1100


def test_places_from_the_logs_themselves(sessions: Path) -> None:
    events = read_log(sessions / "C" / "log.jsonl").events
    assert seat_of("C", events) == Seat("C", "c", "root/b/c", 2, "B")
    assert seat_of("X", ()) == Seat("X")
    assert [is_root(sessions / name) for name in ("R", "A", "nothing")] == [True, False, False]
    assert node_of("summary", Seat("A", "a", "root/a", 1, "R")) == "root/a"
