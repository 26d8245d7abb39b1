"""One turn: view -> request -> reply -> cells -> events. Keeps nothing between turns."""

from __future__ import annotations

import asyncio
from typing import Any

from harnessctl.domain.event import Event, EventType
from harnessctl.domain.limits import Usage
from harnessctl.domain.message import Message
from harnessctl.domain.outcome import RunStatus
from harnessctl.models.port import Attempt, ModelReply, ModelRequest, ProviderError, used_when_cancelled
from harnessctl.rlm.budget import Reservation
from harnessctl.rlm.cells import run_calls
from harnessctl.rlm.compaction import after_overflow, make_room
from harnessctl.rlm.ending import Ending, EndSession
from harnessctl.rlm.measure import counted, estimate, meter_of
from harnessctl.rlm.parts import TurnParts
from harnessctl.rlm.protocol import Call, calls_of

#: Said to whoever interrupts that wait.
WAITS = "near a limit, calls go one at a time: it waits for a child's; Ctrl-C again ends the session"


class OverflowedError(EndSession):
    """The request does not fit the model's window; its ending holds when nothing can be left out."""


async def run_turn(parts: TurnParts, turn: int) -> None:
    """Ask the model once and run what it asks for; all of it ends up in the journal.

    :raises EndSession: a budget or the provider ends the session here.
    :raises HarnessError: storage or the kernel failed.
    """
    reply, request = await _reply_that_fits(parts, turn)
    if reply is not None:
        calls = calls_of(reply, parts.protocol)
        event = _record_reply(parts, turn, request, reply, calls)
        await run_calls(parts, turn, event, [c for c in calls if c.code is not None])
        if parts.recall is not None:
            parts.recall.keep_up()
    parts.interrupts.turn_over()
    parts.journal.sync()


async def _reply_that_fits(parts: TurnParts, turn: int) -> tuple[ModelReply | None, Event]:
    """Ask with what fits the model's window; where it did not fit after all, once more with less."""
    await make_room(parts, turn)
    try:
        return await _request(parts, turn)
    except OverflowedError as error:
        if not await after_overflow(parts, turn):
            raise EndSession(error.ending) from error
    try:
        return await _request(parts, turn)
    except OverflowedError as error:
        raise EndSession(error.ending) from error


async def _request(parts: TurnParts, turn: int) -> tuple[ModelReply | None, Event]:
    """One request and its reply, None when the user interrupted it."""
    messages, keep = parts.journal.view.ready()
    prompt = estimate(parts.journal, messages, keep, meter_of(parts))
    identity = parts.model.identity
    # Near a limit this waits for calls of other sessions, which an interrupt of this one does not end.
    with parts.interrupts.aim(lambda: parts.watcher.note(WAITS)):
        reservation = await parts.budget.reserve(parts.node, prompt, identity, parts.max_output)
    try:
        request = _record_request(parts, turn, messages, keep, reservation)
    except BaseException:
        # Another session of the tree may be waiting for what is set aside.
        parts.budget.release(reservation)
        raise
    return await _ask(parts, turn, request, messages, reservation), request


def deliver(parts: TurnParts) -> None:
    """Hand the messages that wait to the model: they stand in the log, and in its next request."""
    for letter in parts.inbox.take():
        parts.journal.record(EventType.MESSAGE, letter.to_json("delivered"))


def _record_request(
    parts: TurnParts, turn: int, messages: tuple[Message, ...], keep: int, reservation: Reservation
) -> Event:
    last = parts.journal.tally.last_request
    prefix = last.n if last is not None and keep else None
    data = {
        "model": str(parts.model.identity),
        "consumer": parts.consumer,
        "place": parts.journal.tally.answers(parts.consumer),
        "prefix": prefix,
        "keep": keep if prefix is not None else 0,
        "append": [m.to_json() for m in messages[keep if prefix is not None else 0 :]],
        "digest": parts.journal.view.digest(),
        "counted": counted(parts.journal, messages, keep, parts.model.count_tokens),
        "tool": parts.protocol == "tool",
        "params": dict(parts.params),
        "estimate": reservation.prompt,
        "reserve": reservation.tokens,
    }
    return parts.journal.record(EventType.REQUEST, data, turn=turn)


async def _ask(
    parts: TurnParts, turn: int, request: Event, messages: tuple[Message, ...], reservation: Reservation
) -> ModelReply | None:
    """The model's reply, its usage booked; None when the user interrupted it."""
    call = ModelRequest(
        messages=messages,
        tool=parts.protocol == "tool",
        max_output=reservation.output if reservation.bounded else None,
        consumer=parts.consumer,
        place=request.data["place"],
        params=parts.params,
    )
    task = asyncio.ensure_future(
        parts.model.complete(call, on_text=parts.watcher.text, on_wait=parts.watcher.wait)
    )
    spent = reservation.estimate
    try:
        with parts.interrupts.aim(task.cancel):
            reply = await task
        spent = reply.usage
        return reply
    except ProviderError as error:
        spent = error.usage
        told: dict[str, Any] = {"kind": error.kind, "status": error.status, "message": str(error)}
        _record_failure(parts, turn, request, told, spent, error.attempts)
        ending = Ending(RunStatus.FAILED, "provider_error", detail=f"{error.kind}: {error}")
        raise (OverflowedError if error.kind == "overflow" else EndSession)(ending) from error
    except asyncio.CancelledError as error:
        task.cancel()
        spent = used_when_cancelled(error, spent)
        current = asyncio.current_task()
        ends = current is None or bool(current.cancelling())  # the session itself, by whatever ends it
        why = "cut off: the session was being ended" if ends else "interrupted by the user"
        _record_failure(
            parts, turn, request, {"kind": "interrupted", "status": None, "message": why}, spent, ()
        )
        if ends:
            raise
        return None
    finally:
        parts.budget.book(reservation, spent)


def _record_failure(
    parts: TurnParts,
    turn: int,
    request: Event,
    error: dict[str, Any],
    usage: Usage,
    attempts: tuple[Attempt, ...],
) -> None:
    data = {
        "request": request.n,
        "error": error,
        "usage": usage.to_json(),
        "attempts": _attempts(attempts),
    }
    parts.journal.record(EventType.REPLY, data, turn=turn)


def _record_reply(
    parts: TurnParts, turn: int, request: Event, reply: ModelReply, calls: tuple[Call, ...]
) -> Event:
    data = {
        "request": request.n,
        "content": reply.content,
        "calls": [c.to_json() for c in calls],
        "finish": reply.finish,
        "usage": reply.usage.to_json(),
        "model": reply.model,
        "ms": reply.ms,
        "attempts": _attempts(reply.attempts),
        "notes": list(reply.notes),
    }
    return parts.journal.record(EventType.REPLY, data, turn=turn)


def _attempts(attempts: tuple[Attempt, ...]) -> list[dict[str, Any]]:
    return [
        {"kind": a.kind, "status": a.status, "message": a.message, "waited_s": a.waited_s} for a in attempts
    ]
