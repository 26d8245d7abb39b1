"""The life of one session: opening, turns, end. One task group; closing the session cancels it."""

from __future__ import annotations

import asyncio
import contextlib
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace

from harnessctl.domain.errors import HarnessError
from harnessctl.domain.event import EventType
from harnessctl.domain.limits import Usage
from harnessctl.domain.outcome import RunStatus
from harnessctl.rlm.continuation import decide
from harnessctl.rlm.ending import Ending, EndSession
from harnessctl.rlm.loop import deliver, run_turn
from harnessctl.rlm.parts import TurnParts
from harnessctl.rlm.ports import HarnessState, WorkTree
from harnessctl.rlm.recorder import StorageError
from harnessctl.rlm.reopen import Addition

#: In the end's fence, of everything in a repository that can no longer be read.
UNREADABLE = "unreadable"
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

    @property
    def verified(self) -> bool:
        """Every gate passed on the files as they are now, and harness state did not move."""
        return self.ending.status is RunStatus.SUCCESS and bool(self.ending.gated_tree) and not self.moved


async def run_session(
    opening: Sequence[Addition] | None, parts: TurnParts, worktree: WorkTree, fence: HarnessState
) -> SessionEnd:
    """Run a session to its end. Expected failures are endings, not exceptions.

    :param opening: what is written first: header and task, or what picks a stopped session up. None for
        a session that :func:`open_session` has opened already.
    """
    try:
        async with asyncio.TaskGroup() as children:
            ending = await _life(opening, parts, children)
    finally:  # also after a defect nobody writes to a session that is over
        if parts.letters is not None:
            parts.letters.close()
    return _end(ending, parts, worktree, fence)


def open_session(opening: Sequence[Addition], parts: TurnParts) -> None:
    """Write what comes first; from now on messages reach the session.

    :raises StorageError: it cannot be written, or only in the space that was held for the end.
    """
    parts.pin.hold()
    left = list(opening)
    try:
        _write(left, parts)
    except StorageError:
        parts.journal.relieve()
        _write(left, parts)  # without its header a session is none that can be listed or go on
        raise
    parts.journal.sync()
    parts.inbox.attach(lambda letter: parts.journal.record(EventType.MESSAGE, letter.to_json("queued")))


def _write(left: list[Addition], parts: TurnParts) -> None:
    """Write what is ``left``; what was written is not left any more."""
    while left:
        parts.journal.record(left[0].type, left[0].data, turn=left[0].turn)
        left.pop(0)


async def _life(opening: Sequence[Addition] | None, parts: TurnParts, children: asyncio.TaskGroup) -> Ending:
    """From the first record to the last process: the children end before their parent does."""
    try:
        if opening is not None:
            open_session(opening, parts)
        if parts.children is not None:
            parts.children.begin(children)
        return await _work(parts)
    except HarnessError as error:
        return _failed(error)
    finally:
        await _close(parts)
        await parts.door.close()
        if parts.recall is not None:
            await parts.recall.aclose()
        parts.pin.release()


async def _close(parts: TurnParts) -> None:
    """End the children and the kernel; the kernel first, so that no cell starts another child."""
    if parts.children is not None:
        parts.children.stop("parent_ended")
    await parts.kernels.close()
    if parts.children is not None:
        await parts.children.end("parent_ended")


async def _work(parts: TurnParts) -> Ending:
    """The turns, in a task group that ends when they do or when the user wants it to."""
    try:
        async with asyncio.timeout_at(_loop_time(parts)), asyncio.TaskGroup() as group:
            work = group.create_task(_turns(parts))
            if parts.eager:
                parts.kernels.begin(group)
            parts.interrupts.attach(work.cancel)
            work.add_done_callback(lambda _: parts.kernels.give_up_starting())
    except TimeoutError:
        limit = parts.limits.wall_s
        detail = (
            "the session above has no time left" if limit is None else f"{limit:.0f} s of wall clock used"
        )
        return Ending(RunStatus.BUDGET_EXHAUSTED, "wall", detail=detail)
    if work.cancelled():
        return Ending(RunStatus.INTERRUPTED, parts.interrupts.stopped)
    return work.result()


async def _turns(parts: TurnParts) -> Ending:
    try:
        while True:
            ending = _decide(parts)
            if ending is None:
                deliver(parts)
                await run_turn(parts, parts.journal.tally.last_turn + 1)
            elif (judged := await _judged(parts, ending)) is not None:
                return judged
    except EndSession as end:
        return end.ending
    except HarnessError as error:
        return _failed(error)


def _decide(parts: TurnParts) -> Ending | None:
    used = parts.budget.of(parts.node)
    ending = decide(parts.journal.events, parts.limits, used, unread=parts.inbox.unread)
    return ending or _revoked(parts)


async def _judged(parts: TurnParts, ending: Ending) -> Ending | None:
    """``ending`` after the gates; None when one did not pass, and the log says what comes of that."""
    if parts.gates is None or ending.status is not RunStatus.SUCCESS:
        return ending
    # Nothing that a cell or a child started may write while a gate looks.
    await _close(parts)
    return await parts.gates.check(parts.journal, parts.watcher, parts.journal.tally.last_turn, ending)


def _revoked(parts: TurnParts) -> Ending | None:
    """The end of a session whose pin holds what was taken back meanwhile."""
    updates = parts.pin.revoked()
    if not updates:
        return None
    detail = f"taken back while the session ran, and part of what it reads: {', '.join(updates)}"
    return Ending(RunStatus.INCOMPLETE, "pin_revoked", detail=detail)


def _failed(error: HarnessError) -> Ending:
    return Ending(RunStatus.FAILED, _REASONS.get(error.id, "error"), detail=error.message)


def _loop_time(parts: TurnParts) -> float | None:
    """The deadline on the event loop's own clock."""
    if parts.deadline is None:
        return None
    return asyncio.get_running_loop().time() + parts.deadline - parts.clock.monotonic()


def _end(ending: Ending, parts: TurnParts, worktree: WorkTree, fence: HarnessState) -> SessionEnd:
    if ending.reason == "storage":
        parts.journal.relieve()
    _close_rooms(parts)
    state, moved, why = _moves(parts.journal.tally.harness_state, fence)
    tree, unseen = "", ""
    try:
        tree = worktree.tree_hash()
    except HarnessError as error:
        unseen = error.message
    if parts.gates is not None:
        ending = parts.gates.still_holds(ending, tree)
    if unseen not in ending.detail:
        ending = replace(ending, detail=f"{ending.detail}; {unseen}".removeprefix("; "))
    end = SessionEnd(_with_reason(ending, moved, why), parts.budget.of(parts.node), tree, state, moved)
    try:
        _record_end(parts, end)
    except StorageError as error:
        end = replace(end, ending=_failed(error))
        parts.journal.relieve()
        with contextlib.suppress(StorageError):
            _record_end(parts, end)
    return end


def _close_rooms(parts: TurnParts) -> None:
    """Say what became of copied skills, and make proposals of what cells wished: before the fence is read."""
    if parts.copies is not None:
        with contextlib.suppress(HarnessError):  # a full disk: the end that follows says so
            parts.copies.close()
    if parts.proposing is not None:
        parts.proposing.settle()


def _moves(before: Mapping[str, str], fence: HarnessState) -> tuple[Mapping[str, str], tuple[str, ...], str]:
    """The fence now, and what moved; all of it, and why, where a repository can no longer be read."""
    try:
        state = dict(fence.capture())
        return state, fence.unknown_moves(before, state), ""
    except HarnessError as error:
        return dict.fromkeys(before, UNREADABLE), tuple(sorted(before)), error.message


def _record_end(parts: TurnParts, end: SessionEnd) -> None:
    data = {
        "status": str(end.ending.status),
        "reason": end.ending.reason,
        "detail": end.ending.detail,
        "verified": end.verified,
        "answer": end.ending.answer,
        "usage": end.usage.to_json(),
        "harness_state": dict(end.harness_state),
        "moved": list(end.moved),
        "tree": end.tree,
    }
    parts.journal.record(EventType.END, data)
    parts.journal.sync()


def _with_reason(ending: Ending, moved: tuple[str, ...], why: str) -> Ending:
    """A success without gates says so; harness state that moved outranks every other reason."""
    if moved:
        detail = f"moved during the run, by nobody that is known: {', '.join(moved)}"
        if why:
            detail = f"what became of harness state cannot be told any more: {why}"
        return replace(ending, reason="ref_moved", detail=detail)
    if ending.status is RunStatus.SUCCESS and not ending.gated_tree:
        return replace(ending, reason="no_gates")
    return ending
