"""Sums over a log: usage, answers, running time, variables."""

from __future__ import annotations

from typing import Any

from harnessctl.domain.event import Event, EventType
from harnessctl.rlm.tally import Tally


def tally(*events: tuple[str, str, dict[str, Any]]) -> Tally:
    found = Tally()
    for n, (t, kind, data) in enumerate(events):
        found.add(Event(n, f"2026-01-01T{t}.000Z", EventType(kind), 1 if n else 0, data, "", ""))
    return found


def test_only_time_in_which_it_ran_counts() -> None:
    found = tally(
        ("10:00:00", "header", {}),
        ("10:00:30", "task", {"text": "x"}),
        ("12:00:00", "repair", {"what": "resume"}),
        ("12:00:12", "end", {}),
    )
    assert found.running_s == 42


def test_a_clock_that_goes_back_never_gives_time() -> None:
    found = tally(
        ("10:00:00", "header", {}), ("09:00:00", "task", {}), ("09:30:00", "repair", {"what": "resume"})
    )
    assert found.running_s == 0


def test_usage_and_answers_by_consumer() -> None:
    def ask(consumer: str) -> tuple[str, str, dict[str, Any]]:
        return "10:00:00", "request", {"consumer": consumer}

    def answer(request: int, **more: Any) -> tuple[str, str, dict[str, Any]]:
        usage = {"prompt": 10, "completion": 2, "calls": 1, "cost_usd": 0.5}
        return "10:00:00", "reply", {"request": request, "usage": usage, **more}

    found = tally(
        ("10:00:00", "header", {}),
        ask("root"),
        answer(1),
        ask("child"),
        answer(3, error={"kind": "interrupted"}),
        ask("child"),
        answer(5, error={"kind": "rate_limit"}),
    )
    assert (found.answers("root"), found.answers("child"), found.answers("llm")) == (1, 1, 0)
    assert found.used["child"].prompt == 20
    assert sum(u.cost_usd or 0 for u in found.used.values()) == 1.5


def test_variables_follow_changes_and_losses() -> None:
    def change(**data: Any) -> tuple[str, str, dict[str, Any]]:
        return "10:00:00", "result", {"variables": {"set": {}, "gone": [], "more": 0, **data}}

    found = tally(change(set={"a": ["int", ""], "b": ["str", "2 characters"]}), change(gone=["a"], more=7))
    assert found.variables.told() == "b (str, 2 characters), and 7 more"
    found.add(Event(9, "", EventType.RESULT, 1, {"lost": {"b": ["str", ""]}}, "", ""))
    assert found.variables.told() == ""
