"""What is said shorter, and how short."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harnessctl.layers.l1_context.folding import cuts, folds
from harnessctl.layers.l1_context.landmarks import shortened
from harnessctl.layers.l1_context.room import Meter, Room, room_of
from harnessctl.layers.l1_context.view import View, view_of
from harnessctl.models.tokens import estimate_messages
from tests.fakes.trajectories import build
from tests.unit.layers.l1_context.test_view import long_session

METER = Meter(estimate_messages)


def test_the_oldest_output_folds_first_and_no_more_than_needed() -> None:
    view, _ = long_session("tool")
    whole = METER.all(tuple(view.messages))
    assert list(folds(view, whole, METER)) == []
    assert list(folds(view, whole - 1, METER)) == [4]
    assert list(folds(view, 0, METER)) == list(folds(view, None, METER)) == [4, 7]


def active(task: str, output: str, code: str) -> View:
    call = {"id": "a", "name": "ipython", "arguments": json.dumps({"code": code}), "code": code}
    steps = [
        ("header", {}),
        ("task", {"text": task}),
        ("reply", {"content": "I look.", "calls": [call], "finish": "stop"}),
        ("result", {"cell": 1, "call": "a", "status": "ok", "text": output}),
    ]
    return view_of(build(steps).events, "SYSTEM", "tool")


def test_the_users_words_are_cut_last() -> None:
    view = active("t" * 4_000, "o" * 20_000, "x = 1\n" * 200)
    found = cuts(view, 3_000, METER)
    assert list(found) == [3]
    view.put(list(found), list(found.values()))
    assert METER.all(tuple(view.messages)) <= 3_000
    assert "of this session has them" in view.messages[3].content


def test_code_stays_code_and_the_call_stays_json() -> None:
    view = active("task", "ok", "value = 1\n" * 4_000)
    found = cuts(view, 1_000, METER)
    view.put(list(found), list(found.values()))
    code = json.loads(view.messages[2].calls[0].arguments)["code"]
    assert code.startswith("value = 1\n")
    assert "\n# [... " in code
    assert "event #2 of this session has them ...]\n" in code
    assert METER.all(tuple(view.messages)) <= 1_000


@given(
    st.text(min_size=1, max_size=3_000).map(lambda t: t * 8),
    st.text(max_size=3_000),
    st.integers(800, 3_000),
)
def test_any_texts_fit_in_the_end(task: str, output: str, goal: int) -> None:
    view = active(task, output, "1")
    found = cuts(view, goal, METER)
    view.put(list(found), list(found.values()))
    assert METER.all(tuple(view.messages)) <= max(goal, 800)


@given(st.text(max_size=500), st.integers(0, 600))
def test_a_cut_counts_what_it_leaves_out(text: str, room: int) -> None:
    head, _, rest = shortened(7, text, room).partition("\n[... ")
    if rest:
        left, _, more = rest.partition(" characters left out")
        tail = more.partition(" ...]\n")[2]
        assert int(left.replace(",", "")) == len(text) - len(head) - len(tail)


@pytest.mark.parametrize("window", [2_000, 8_000, 32_768, 128_000, 1_000_000])
def test_every_window_has_its_room(window: int) -> None:
    room = room_of(window, None)
    assert room.low is not None
    assert room.middle is not None
    assert room.high is not None
    assert room.most is not None
    assert room.summary < room.low < room.middle < room.high <= room.most < window
    assert window - room.high >= window // 20
    assert room_of(window, 100).high == window - 100 - window // 20


def test_no_window_no_limit() -> None:
    assert room_of(None, 5_000) == Room()
    assert Room().at_most(700).low == 700
