"""Addresses of what leaves."""

from __future__ import annotations

import itertools

from hypothesis import given
from hypothesis import strategies as st

from harnessctl.layers.l1_context.eviction import leaving, runs
from harnessctl.layers.l1_context.landmarks import within
from harnessctl.layers.l1_context.room import Meter
from harnessctl.models.tokens import estimate_messages
from tests.unit.layers.l1_context.test_view import long_session

NUMBERS = st.frozensets(st.integers(1, 60))
METER = Meter(estimate_messages)


@given(NUMBERS, NUMBERS)
def test_spans_hold_what_left_and_nothing_that_stays(numbers: frozenset[int], kept: frozenset[int]) -> None:
    kept -= numbers
    spans = runs(numbers, kept)
    assert all(within(n, spans) for n in numbers)
    assert not any(within(n, spans) for n in kept)
    assert all(first in numbers and last in numbers for first, last in spans)
    for (_, last), (first, _) in itertools.pairwise(spans):
        assert any(last < n < first for n in kept), "two spans that could be one"


def test_the_task_and_the_newest_reply_stay() -> None:
    view, _ = long_session("tool")
    gone = leaving(view, None, METER)
    assert gone is not None
    assert gone.spans == ((3, 7),)
    assert [kind for _, kind, _ in gone.pieces] == ["reply", "code", "output"] * 2


def test_as_few_turns_as_must() -> None:
    view, _ = long_session("tool")
    whole = METER.all(tuple(view.messages))
    gone = leaving(view, whole - 50, METER)
    assert gone is not None
    assert gone.spans == ((3, 4),)


def test_nothing_leaves_where_there_is_one_turn() -> None:
    view, _ = long_session("tool")
    view.evict(99, [(3, 7)], "left")
    assert leaving(view, 0, METER) is None
