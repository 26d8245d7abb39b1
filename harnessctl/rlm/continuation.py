"""Continue or stop: a pure decision over the events so far."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from harnessctl.domain.event import Event, EventType, is_aside
from harnessctl.domain.limits import Limits, Usage
from harnessctl.domain.outcome import RunStatus
from harnessctl.rlm.ending import Ending

#: Empty replies in a row before the run is given up.
MOST_EMPTY = 3
#: Replies in a row that were cut off and held nothing to run.
MOST_CUT = 3
#: Kernels a session may lose.
MOST_RESTARTS = 5

_TOLD = frozenset({EventType.REPLY, EventType.RESULT, EventType.TASK, EventType.MESSAGE})
#: What a gate that did not pass makes of the run.
_GATE_REASONS = {"timeout": "gate_timeout", "input_changed": "gate_input_changed"}


def decide(events: Sequence[Event], limits: Limits, used: Usage, *, unread: bool = False) -> Ending | None:
    """How the session ends now, or None when it goes on.

    :param unread: messages wait that an answer was given without: the model is asked once more, unless
        the session would end here in any case.
    :param used: what the whole tree has used so far.
    """
    answer = _answered(events)
    if answer is not None:
        failed = _failed_gates(events)
        last = next((gate for gate in failed if not gate.get("left")), None)
        if last is not None:
            return _gate_failed(last, answer)  # what waits to be read changes no verdict
        if failed:
            answer = None
        elif not unread:
            return answer
    ending = _given_up(events) or _spent(events, limits, used)
    return answer or ending if ending is not None else None


def _spent(events: Sequence[Event], limits: Limits, used: Usage) -> Ending | None:
    """The limit that is used up."""
    turns = next((e.turn for e in reversed(events) if e.turn), 0)
    if limits.turns is not None and turns >= limits.turns:
        return Ending(RunStatus.BUDGET_EXHAUSTED, "turns", detail=f"{turns} of {limits.turns} turns used")
    if limits.tokens is not None and used.tokens >= limits.tokens:
        detail = f"{used.tokens:,} of {limits.tokens:,} tokens used"
        return Ending(RunStatus.BUDGET_EXHAUSTED, "tokens", detail=detail)
    if limits.cost_usd is not None and (used.cost_usd or 0.0) >= limits.cost_usd:
        detail = f"{used.cost_usd or 0.0:.4f} of {limits.cost_usd:.4f} US dollars used"
        return Ending(RunStatus.BUDGET_EXHAUSTED, "cost", detail=detail)
    return None


def _failed_gates(events: Sequence[Event]) -> list[Mapping[str, Any]]:
    """Data of the gates that did not pass on the answer that the events end with."""
    gates: list[Mapping[str, Any]] = []
    for event in reversed(events):
        if _is_told(event) or event.data.get("what") == "resume":
            break  # gates look again at what somebody may have mended meanwhile
        if event.type is EventType.GATE and event.data.get("status") != "passed":
            gates.append(event.data)
    return gates[::-1]


def _gate_failed(gate: Mapping[str, Any], answered: Ending) -> Ending:
    reason = _GATE_REASONS.get(str(gate.get("status")), "gate_exit")
    detail = f"gate {gate.get('name')} did not pass: {gate.get('command')}"
    changed = gate.get("changed_inputs") or ()
    if changed:
        files = f"{', '.join(changed)} (run --allow-gate-input permits it)"
        detail = f"gate {gate.get('name')} judges by files that changed during the run: {files}"
    return Ending(RunStatus.GATE_FAILED, reason, answered.answer, detail)


def _is_told(event: Event) -> bool:
    data = event.data
    if event.type is EventType.MESSAGE and (data.get("by") or data.get("state") != "delivered"):
        return False  # a cell read it, or nobody has yet
    return event.type in _TOLD and not is_aside(event)


def _answered(events: Sequence[Event]) -> Ending | None:
    """A final answer: from ``final()``, or a reply without code."""
    last = next((e for e in reversed(events) if _is_told(e) and e.data.get("status") != "skipped"), None)
    if last is None:
        return None
    if last.type is EventType.RESULT and last.data.get("status") == "final":
        return Ending(RunStatus.SUCCESS, answer=str(last.data.get("answer") or ""))
    if last.type is EventType.REPLY and "error" not in last.data and not last.data.get("calls"):
        content = str(last.data.get("content") or "")
        if content.strip() and last.data.get("finish") != "length":
            return Ending(RunStatus.SUCCESS, answer=content)
        shown = _after_good_cell(events, last)
        if not content.strip() and shown is not None:
            return Ending(RunStatus.SUCCESS, answer=shown)
    return None


def _after_good_cell(events: Sequence[Event], reply: Event) -> str | None:
    """What the last cell showed, when it worked: an empty reply after it is how some models say "done"."""
    before = next((e for e in reversed(events[: reply.n]) if _is_told(e)), None)
    if before is None or before.type is not EventType.RESULT or before.data.get("status") != "ok":
        return None
    return str(before.data.get("text") or "")


def _given_up(events: Sequence[Event]) -> Ending | None:
    empty = cut = 0
    for data in _replies_in_a_row(events):
        content = str(data.get("content") or "")
        empty += not content.strip()
        cut += bool(content.strip())
    if empty >= MOST_EMPTY:
        return Ending(
            RunStatus.INCOMPLETE, "empty_reply", detail=f"the model gave {empty} empty replies in a row"
        )
    if cut >= MOST_CUT:
        return Ending(
            RunStatus.INCOMPLETE, "cut_reply", detail=f"{cut} replies in a row hit the output limit"
        )
    restarts = sum(e.data.get("what") == "kernel_restart" for e in _since_resume(events))
    if restarts > MOST_RESTARTS:
        return Ending(RunStatus.FAILED, "kernel_lost", detail=f"the kernel was lost {restarts} times")
    return None


def _since_resume(events: Sequence[Event]) -> Iterator[Event]:
    """Repairs since the session began or was last picked up, newest first; older ones were ended for."""
    for event in reversed(events):
        if event.type is EventType.REPAIR:
            if event.data.get("what") == "resume":
                return
            yield event


def _replies_in_a_row(events: Sequence[Event]) -> Iterator[Mapping[str, Any]]:
    """Data of the newest replies that held no call and were no answer, newest first."""
    for event in reversed(events):
        if event.type is EventType.REPLY and not is_aside(event):
            data = event.data
            whole = str(data.get("content") or "").strip() and data.get("finish") != "length"
            if "error" in data or data.get("calls") or whole:
                return
            yield data
        elif event.type is EventType.GATE or _is_told(event) or event.data.get("what") == "resume":
            return
