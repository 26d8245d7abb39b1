"""What is said after a run without an answer."""

from __future__ import annotations

import pytest

from harnessctl.cli.next_step import next_step
from harnessctl.domain.outcome import RunStatus
from harnessctl.rlm.ending import ENDINGS, Ending

SESSION = "01M8N63D3T514J634GH7QD33FR"


@pytest.mark.parametrize(("status", "reason"), ENDINGS, ids=lambda v: str(v) or "verified")
def test_every_ending_says_how_to_go_on(status: RunStatus, reason: str) -> None:
    step = next_step(Ending(status, reason, detail="x"), SESSION)
    if status is RunStatus.SUCCESS:
        assert step == ""
    else:
        assert f"harnessctl sessions resume {SESSION}" in step


def test_changed_gate_inputs_are_to_be_put_back() -> None:
    """Picked up as it is, such a session would end in the same way."""
    step = next_step(Ending(RunStatus.GATE_FAILED, "gate_input_changed", detail="x"), SESSION)
    assert "put those files back as they were at the beginning of the run" in step


@pytest.mark.parametrize(
    ("detail", "words"),
    [
        ("auth: no key", "set a key"),
        ("not_found: no such model", "--model NAME"),
        ("overflow: the task alone", "larger window"),
        ("rate_limit: later", "once the model can be asked"),
    ],
)
def test_what_the_provider_said_decides(detail: str, words: str) -> None:
    ending = Ending(RunStatus.FAILED, "provider_error", detail=detail)
    assert words in next_step(ending, SESSION)
