"""Continue or stop, decided from events alone."""

from __future__ import annotations

from typing import Any

import pytest

from harnessctl.domain.event import Event
from harnessctl.domain.limits import Limits, Usage
from harnessctl.domain.outcome import RunStatus
from harnessctl.rlm.continuation import decide
from harnessctl.rlm.ending import Ending
from tests.fakes.trajectories import build

CODE = {"id": "a", "name": "ipython", "arguments": "", "code": "1"}


def events(*steps: tuple[str, dict[str, Any]]) -> tuple[Event, ...]:
    return build([("header", {}), ("task", {"text": "x"}), *steps]).events


def reply(
    content: str | None = None, *calls: dict[str, Any], finish: str = "stop"
) -> tuple[str, dict[str, Any]]:
    return "reply", {"content": content, "calls": list(calls), "finish": finish}


def result(status: str = "ok", text: str = "", **more: Any) -> tuple[str, dict[str, Any]]:
    return "result", {"cell": 1, "status": status, "text": text, **more}


def ends(
    *steps: tuple[str, dict[str, Any]], limits: Limits | None = None, used: Usage | None = None
) -> Ending | None:
    return decide(events(*steps), limits or Limits(), used or Usage())


def test_it_goes_on_after_a_task_and_after_cells() -> None:
    assert ends() is None
    assert ends(reply("text", CODE)) is None
    assert ends(reply(None, CODE), result()) is None
    assert ends(reply(None, CODE), result("error")) is None


def test_text_without_code_is_the_answer() -> None:
    assert ends(reply("Three files.")) == Ending(RunStatus.SUCCESS, answer="Three files.")
    assert ends(reply("```python\n1\n```", CODE)) is None


def test_final_ends_with_its_value() -> None:
    assert ends(reply(None, CODE), result("final", answer="[1, 2]")) == Ending(
        RunStatus.SUCCESS, answer="[1, 2]"
    )


def test_a_cut_text_is_no_answer() -> None:
    assert ends(reply("Three fil", finish="length")) is None
    three = [reply("x", finish="length")] * 3
    ending = ends(*three)
    assert ending is not None
    assert (ending.status, ending.reason) == (RunStatus.INCOMPLETE, "cut_reply")


def test_empty_replies_are_tried_again_and_then_fail() -> None:
    """loop-03."""
    assert ends(reply(None)) is None
    assert ends(reply(None), reply("  \n")) is None
    ending = ends(reply(None), reply(""), reply(None))
    assert ending is not None
    assert (ending.status, ending.reason) == (RunStatus.INCOMPLETE, "empty_reply")


def test_empty_replies_with_work_in_between_are_counted_anew() -> None:
    failed = [reply(None, CODE), result("error")]
    assert ends(reply(None), reply(None), *failed, reply(None), reply(None)) is None


def test_an_empty_reply_after_a_good_cell_is_a_normal_end() -> None:
    """loop-03."""
    assert ends(reply(None, CODE), result("ok", "42"), reply(None)) == Ending(RunStatus.SUCCESS, answer="42")
    assert ends(reply(None, CODE), result("error", "42"), reply(None)) is None


def test_an_interrupted_reply_goes_on() -> None:
    assert ends(("reply", {"error": {"kind": "interrupted"}})) is None


@pytest.mark.parametrize(
    ("limits", "used", "reason"),
    [
        (Limits(turns=1), Usage(), "turns"),
        (Limits(tokens=100), Usage(prompt=90, completion=10), "tokens"),
        (Limits(cost_usd=0.5), Usage(cost_usd=0.5), "cost"),
    ],
)
def test_spent_budgets(limits: Limits, used: Usage, reason: str) -> None:
    steps = [reply(None, CODE), result()]
    ending = ends(*steps, limits=limits, used=used)
    assert ending is not None
    assert (ending.status, ending.reason, ending.answer) == (RunStatus.BUDGET_EXHAUSTED, reason, None)


def test_an_answer_in_the_last_turn_counts() -> None:
    ending = ends(reply("Done."), limits=Limits(turns=1))
    assert ending is not None
    assert ending.status is RunStatus.SUCCESS


def test_too_many_lost_kernels() -> None:
    lost = [("repair", {"what": "kernel_restart", "text": ""})] * 6
    ending = ends(reply(None, CODE), result("died"), *lost)
    assert ending is not None
    assert (ending.status, ending.reason) == (RunStatus.FAILED, "kernel_lost")
    assert ends(reply(None, CODE), result("died"), *lost[:5]) is None


def gate(status: str = "failed", left: int = 0, **more: Any) -> tuple[str, dict[str, Any]]:
    return "gate", {"name": "tests", "command": "make test", "status": status, "left": left, **more}


def test_a_failed_gate_goes_back_to_the_model_while_attempts_are_left() -> None:
    assert ends(reply("Done."), gate(left=1)) is None
    ending = ends(reply("Done."), gate(left=1), reply("Mended."), gate(left=0))
    assert ending == Ending(
        RunStatus.GATE_FAILED, "gate_exit", "Mended.", "gate tests did not pass: make test"
    )


def test_gates_that_passed_leave_the_answer_an_answer() -> None:
    """A session picked up between two gates asks the model nothing: the gates run again."""
    assert ends(reply("Done."), gate("passed")) == Ending(RunStatus.SUCCESS, answer="Done.")
    assert ends(reply("Done."), gate(left=1), reply("Mended.")) == Ending(RunStatus.SUCCESS, answer="Mended.")


@pytest.mark.parametrize(
    ("status", "reason"), [("timeout", "gate_timeout"), ("input_changed", "gate_input_changed")]
)
def test_why_a_gate_did_not_pass(status: str, reason: str) -> None:
    ending = ends(reply("Done."), gate("passed"), gate(status, changed_inputs=["Makefile"]))
    assert ending is not None
    assert (ending.status, ending.reason, ending.answer) == (RunStatus.GATE_FAILED, reason, "Done.")
    assert "Makefile" in ending.detail


def test_a_spent_budget_outranks_a_gate_that_could_be_mended() -> None:
    ending = ends(reply("Done."), gate(left=1), limits=Limits(turns=1))
    assert ending is not None
    assert (ending.status, ending.reason) == (RunStatus.BUDGET_EXHAUSTED, "turns")


def queued(state: str = "queued", **more: Any) -> tuple[str, dict[str, Any]]:
    return "message", {"id": "m", "from": "alice", "to": "root", "text": "x", "state": state, **more}


def test_a_message_that_waits_takes_no_answer_away() -> None:
    log = events(reply("Done."), queued())
    assert decide(log, Limits(), Usage(), unread=True) is None
    last = decide(log, Limits(turns=1), Usage(), unread=True)
    assert last is not None
    assert (last.status, last.answer) == (RunStatus.SUCCESS, "Done.")
    assert decide(events(reply("Done."), queued("delivered")), Limits(), Usage()) is None


def test_a_gate_that_is_final_stays_so_whoever_writes() -> None:
    gate = ("gate", {"name": "t", "status": "input_changed", "changed_inputs": ["a"], "left": 0})
    ending = decide(events(reply("Done."), queued(), gate), Limits(), Usage(), unread=True)
    assert ending is not None
    assert (ending.status, ending.reason) == (RunStatus.GATE_FAILED, "gate_input_changed")


def test_answers_that_gates_refused_are_no_cut_replies() -> None:
    gate = ("gate", {"name": "t", "status": "failed", "left": 2})
    assert ends(reply("one"), gate, reply("two"), gate, reply("three"), gate) is None
    told = queued("delivered")
    assert ends(reply("one"), told, reply("two"), told, reply("three"), told) is None
