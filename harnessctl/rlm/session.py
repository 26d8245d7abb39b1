"""The life of one session: header, task, turns, end. One task group; closing the session cancels it."""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import dataclass, replace
from typing import Any

from harnessctl.domain.errors import HarnessError
from harnessctl.domain.event import EventType
from harnessctl.domain.limits import Usage
from harnessctl.domain.outcome import RunStatus
from harnessctl.rlm.continuation import decide
from harnessctl.rlm.ending import Ending, EndSession
from harnessctl.rlm.loop import run_turn
from harnessctl.rlm.parts import TurnParts
from harnessctl.rlm.ports import HarnessState, WorkTree
from harnessctl.rlm.recorder import StorageError

#: Ids of errors that have a reason of their own in the result.
_REASONS = {"storage": "storage", "kernel_start": "kernel_start"}


@dataclass(frozen=True)
class SessionEnd:
    """How a session ended and what it found around itself at the end.

    :ivar tree: hash of the work tree, "" when it could not be taken.
    :ivar harness_state: the fence, as :meth:`HarnessState.capture` gives it.
    :ivar moved: names of the fence that moved during the run for no known reason.
    """

    ending: Ending
    usage: Usage
    tree: str
    harness_state: Mapping[str, str]
    moved: tuple[str, ...] = ()


async def run_session(
    task: str, header: Mapping[str, Any], parts: TurnParts, worktree: WorkTree, fence: HarnessState
) -> SessionEnd:
    """Run a new session to its end. Expected failures are endings, not exceptions."""
    try:
        parts.journal.record(EventType.HEADER, header)
        parts.journal.record(EventType.TASK, {"text": task})
        parts.journal.sync()
        ending = await _work(parts)
    except HarnessError as error:
        ending = _failed(error)
    finally:
        await parts.kernels.close()
    return _end(ending, header, parts, worktree, fence)


async def _work(parts: TurnParts) -> Ending:
    """The turns, in a task group that ends when they do or when the user wants it to."""
    try:
        async with asyncio.timeout_at(_loop_time(parts)), asyncio.TaskGroup() as group:
            work = group.create_task(_turns(parts))
            parts.kernels.begin(group)
            parts.interrupts.attach(work.cancel)
            work.add_done_callback(lambda _: parts.kernels.give_up_starting())
    except TimeoutError:
        limit = parts.limits.wall_s or 0.0
        return Ending(RunStatus.BUDGET_EXHAUSTED, "wall", detail=f"{limit:.0f} s of wall clock used")
    if work.cancelled():
        return Ending(RunStatus.INTERRUPTED, parts.interrupts.stopped)
    return work.result()


async def _turns(parts: TurnParts) -> Ending:
    try:
        while (ending := decide(parts.journal.events, parts.limits, parts.budget.total)) is None:
            done = next((e.turn for e in reversed(parts.journal.events) if e.turn), 0)
            await run_turn(parts, done + 1)
    except EndSession as end:
        return end.ending
    except HarnessError as error:
        return _failed(error)
    return ending


def _failed(error: HarnessError) -> Ending:
    return Ending(RunStatus.FAILED, _REASONS.get(error.id, error.id), detail=error.message)


def _loop_time(parts: TurnParts) -> float | None:
    """The deadline on the event loop's own clock."""
    if parts.deadline is None:
        return None
    return asyncio.get_running_loop().time() + parts.deadline - parts.clock.monotonic()


def _end(
    ending: Ending, header: Mapping[str, Any], parts: TurnParts, worktree: WorkTree, fence: HarnessState
) -> SessionEnd:
    state = dict(fence.capture())
    moved = fence.unknown_moves(header["harness_state"], state)
    ending = _with_reason(ending, moved)
    end = SessionEnd(ending, parts.budget.total, worktree.tree_hash(), state, moved)
    data = {
        "status": str(ending.status),
        "reason": ending.reason,
        "detail": ending.detail,
        "verified": False,
        "answer": ending.answer,
        "usage": end.usage.to_json(),
        "harness_state": state,
        "moved": list(moved),
        "tree": end.tree,
    }
    try:
        parts.journal.record(EventType.END, data)
        parts.journal.sync()
    except StorageError as error:
        return replace(end, ending=_failed(error))
    return end


def _with_reason(ending: Ending, moved: tuple[str, ...]) -> Ending:
    """A success without gates says so; harness state that moved outranks every other reason."""
    if moved:
        detail = f"moved during the run, by nobody that is known: {', '.join(moved)}"
        return replace(ending, reason="ref_moved", detail=detail)
    if ending.status is RunStatus.SUCCESS and not ending.reason:
        return replace(ending, reason="no_gates")
    return ending
