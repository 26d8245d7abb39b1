"""The cells of one turn: run each call, record what it printed and what the model is shown."""

from __future__ import annotations

from typing import Any

from harnessctl.domain.cell import CellRun, CellStatus, Output
from harnessctl.domain.event import Event, EventType
from harnessctl.layers.l1_context.result_text import result_budget, result_text
from harnessctl.layers.l1_context.variables import Variables
from harnessctl.rlm.inbox import taken_words
from harnessctl.rlm.journal import Journal
from harnessctl.rlm.parts import TurnParts
from harnessctl.rlm.protocol import Call

#: Characters of an answer or of an error's message that are kept.
MOST_ANSWER = 1_000_000
#: After these the other calls of the same reply are not run: the state they were written for is gone.
_BREAKS = frozenset({CellStatus.FINAL, CellStatus.INTERRUPTED, CellStatus.TIMEOUT, CellStatus.DIED})
_RESTARTED = "[the kernel was lost before this cell; it ran in a new one, without earlier variables."


async def run_calls(parts: TurnParts, turn: int, reply: Event, calls: list[Call]) -> None:
    """Run the code of ``calls`` in order; each of them gets a result.

    :raises HarnessError: storage failed, or no kernel came up.
    """
    broken: CellStatus | None = None
    for call in calls:
        if broken is None:
            status = await _run_cell(parts, turn, reply, call)
            broken = status if status in _BREAKS else None
        else:
            text = f"Not run: the call before it ended with status {broken}."
            _record_result(parts, turn, None, call, {"status": "skipped", "text": text, "ms": 0})


async def _run_cell(parts: TurnParts, turn: int, reply: Event, call: Call) -> CellStatus:
    kernel, replaced = await parts.kernels.get()
    variables = parts.journal.tally.variables
    before = variables.loss() if replaced else ""
    if replaced:
        restart = {"what": "kernel_restart", "text": "", "lost": variables.to_json()}
        parts.journal.record(EventType.REPAIR, restart, turn=turn)
    number = parts.journal.tally.cells + 1
    cell = {"cell": number, "code": call.code, "reply": reply.n, "call": call.id or None}
    begun = parts.journal.record(EventType.CELL, cell, turn=turn)
    # What a cell does to the work tree may survive a loss of power: so must the record that it began.
    parts.journal.sync()
    with parts.interrupts.aim(kernel.interrupt):
        run = await kernel.execute(call.code or "", limit_s=_limit(parts), on_output=parts.watcher.output)
    _record_outputs(parts, turn, number, run)
    text = result_text(number, run, result_budget(parts.model.identity.window))
    restarted = f"{_RESTARTED} {before}".rstrip() + "]" if replaced else None
    data: dict[str, Any] = {
        "status": str(run.status),
        "ms": run.ms,
        "error": {"name": run.error.name, "value": run.error.value[:MOST_ANSWER]} if run.error else None,
        "signal": run.signal,
    }
    lost = _note_variables(data, run, variables)
    taken = taken_words(parts.journal.events[begun.n :]) if run.kernel_lost else ""
    data["text"] = "\n".join(part for part in (restarted, call.note, text, lost, taken) if part)
    if parts.recall is not None and parts.recall.looked(number):
        data["recalled"] = True
    if run.final is not None:
        data["answer"] = _bounded(run.final)
    _record_result(parts, turn, number, call, data)
    return run.status


def _note_variables(data: dict[str, Any], run: CellRun, variables: Variables) -> str:
    """Put what the cell changed, or what was lost with its kernel, into ``data``; words for the model."""
    if not run.kernel_lost:
        if run.variables:
            data["variables"] = run.variables
        return ""
    variables.change(run.variables)  # told before the kernel's end
    data["lost"] = variables.to_json()
    return f"[{variables.loss()}]" if variables.loss() else ""


def _bounded(answer: str) -> str:
    """An answer of any length as it is kept; what is missing is counted."""
    missing = len(answer) - MOST_ANSWER
    return answer if missing <= 0 else f"{answer[:MOST_ANSWER]}\n[... {missing:,} characters left out ...]"


def _limit(parts: TurnParts) -> float:
    if parts.deadline is None:
        return parts.limits.cell_s
    return max(0.1, min(parts.limits.cell_s, parts.deadline - parts.clock.monotonic()))


def _record_outputs(parts: TurnParts, turn: int, cell: int, run: CellRun) -> None:
    for output in run.outputs:
        data = {
            "cell": cell,
            "stream": output.stream,
            "text": output.text,
            "bytes": output.bytes,
            "cut": output.cut,
            "blob": _keep(parts.journal, output),
        }
        parts.journal.record(EventType.OUTPUT, data, turn=turn)


def _keep(journal: Journal, output: Output) -> str | None:
    if output.raw is None:
        return None
    try:
        return journal.blob(output.raw.chunks())
    finally:
        output.raw.close()


def _record_result(parts: TurnParts, turn: int, cell: int | None, call: Call, data: dict[str, Any]) -> None:
    record = {"cell": cell, "call": call.id or None, "error": None, "signal": None, **data}
    parts.journal.record(EventType.RESULT, record, turn=turn)
