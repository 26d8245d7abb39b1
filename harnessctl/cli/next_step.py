"""What a person can do about a run that gave no answer, or one that did not pass."""

from __future__ import annotations

from harnessctl.commands.resume import LIMIT_FLAGS
from harnessctl.domain.outcome import RunStatus
from harnessctl.rlm.ending import Ending

#: By the kind of a provider's error; the command follows.
_MODEL_STEPS = {
    "auth": "set a key that the provider takes, then it goes on",
    "not_found": "with a model that is there (--model NAME) it goes on",
    "bad_request": "with a model that takes the request (--model NAME) it goes on",
    "overflow": "with a model of a larger window (--model NAME) it goes on",
}


def next_step(ending: Ending, session: str) -> str:
    """One line with a command, "" after an answer that passed."""
    resume = f"harnessctl sessions resume {session}"
    if ending.status is RunStatus.SUCCESS:
        return ""
    if ending.status is RunStatus.BUDGET_EXHAUSTED:
        return f"with a higher limit it goes on: {resume} {LIMIT_FLAGS[ending.reason]} N"
    if ending.reason == "gate_input_changed":
        # A session that goes on compares with its own beginning, and what it permits stays as it was.
        return f"put those files back as they were at the beginning of the run, then it goes on: {resume}"
    if ending.status is RunStatus.GATE_FAILED:
        return f"what the gates printed: harnessctl sessions show {session}; it goes on: {resume}"
    if ending.reason == "pin_revoked":
        return f"what was taken back: harnessctl log; with it all the same: {resume} --allow-revoked"
    if ending.reason == "provider_error":
        kind = ending.detail.partition(":")[0]
        return f"{_MODEL_STEPS.get(kind, 'once the model can be asked, it goes on')}: {resume}"
    return f"it goes on: {resume}"
