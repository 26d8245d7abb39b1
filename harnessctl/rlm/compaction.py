"""When a session's view shrinks, and who writes the summary of what leaves it."""

from __future__ import annotations

import asyncio

from harnessctl.domain.event import EventType
from harnessctl.domain.outcome import RunStatus
from harnessctl.layers.l1_context.compaction import Summarise, Summarised, Why, compact
from harnessctl.layers.l1_context.eviction import Leaving
from harnessctl.layers.l1_context.room import Meter, Room, room_of
from harnessctl.layers.l1_context.summary import CHARS, Summary, log_summary, parse_summary, summary_request
from harnessctl.rlm.asides import Asides, CallError
from harnessctl.rlm.ending import Ending, EndSession
from harnessctl.rlm.measure import meter_of
from harnessctl.rlm.parts import TurnParts

#: Who asks for summaries.
CONSUMER = "summary"
#: Share of a refused request that the next one may take.
AFTER_OVERFLOW = 0.6
#: Tokens of what is to be summarised, for a model whose window nobody knows.
MOST_READ = 24_000
#: Tokens that a summary's reply may take beyond the summary: some models think first.
THOUGHT_SHARE, MOST_THOUGHT = 8, 4_096
_WORDS_A_TOKEN = 0.6


async def make_room(parts: TurnParts, turn: int) -> None:
    """Before a request: shrink the view when a cell asked for it, or when it fills the model's window.

    :raises EndSession: the active request alone is more than the window.
    """
    identity = parts.model.identity
    wanted = parts.compaction.take()
    room, meter = room_of(identity.window, parts.max_output or identity.max_output), meter_of(parts)
    messages, _ = parts.journal.view.ready()
    if wanted:
        await _compact(parts, turn, room, meter, "request")
        messages, _ = parts.journal.view.ready()
    if room.high is None or identity.window is None:
        return
    if meter.all(messages) > room.high:
        await _compact(parts, turn, room, meter, "threshold")
        tokens = meter.all(parts.journal.view.ready()[0])
        if tokens > identity.window:
            detail = f"overflow: the task alone takes about {tokens:,} of {identity.window:,} tokens"
            raise EndSession(Ending(RunStatus.FAILED, "provider_error", detail=detail))


async def after_overflow(parts: TurnParts, turn: int) -> bool:
    """The provider refused a request as too large: make the next one smaller; whether it is."""
    identity = parts.model.identity
    meter = meter_of(parts)
    refused = meter.all(parts.journal.view.ready()[0])
    room = room_of(identity.window, parts.max_output or identity.max_output)
    return await _compact(parts, turn, room.at_most(int(refused * AFTER_OVERFLOW)), meter, "overflow")


async def _compact(parts: TurnParts, turn: int, room: Room, meter: Meter, why: Why) -> bool:
    journal = parts.journal
    data = await compact(journal.view, room, meter, why, _summariser(parts, room, meter))
    if data is None:
        return False
    # What leaves the view must be on the disk before it does.
    journal.sync()
    journal.record(EventType.COMPACTION, data, turn=turn)
    parts.watcher.note(data["text"])
    return True


def _summariser(parts: TurnParts, room: Room, meter: Meter) -> Summarise:
    async def summarise(gone: Leaving) -> Summarised:
        try:
            found = await _asked(parts, room, meter, gone)
        except CallError as error:
            found = error.message
        except EndSession as end:
            found = end.ending.detail or end.ending.reason
        if isinstance(found, Summary):
            return Summarised(found, "model")
        return Summarised(_from_log(parts, gone), "log", found)

    return summarise


async def _asked(parts: TurnParts, room: Room, meter: Meter, gone: Leaving) -> Summary | str:
    """The model's own summary, or why there is none."""
    most = min(room.high or MOST_READ, MOST_READ)
    characters, words = most * CHARS, int(gone.room * _WORDS_A_TOKEN)
    messages = summary_request(gone.pieces, gone.earlier, characters, words)
    while meter.all(messages) > most and characters > most // CHARS:
        characters = characters * 3 // 4
        messages = summary_request(gone.pieces, gone.earlier, characters, words)
    window = parts.model.identity.window
    thought = MOST_THOUGHT if window is None else min(MOST_THOUGHT, window // THOUGHT_SHARE)
    output = min(gone.room + thought, parts.model.identity.max_output or gone.room + thought)
    asides = Asides(parts.journal, parts.model, parts.budget, parts.params, parts.node)
    task = asyncio.ensure_future(asides.ask(CONSUMER, messages, output))
    try:
        with parts.interrupts.aim(task.cancel):
            reply = await task
    except asyncio.CancelledError:
        task.cancel()
        current = asyncio.current_task()
        if current is None or current.cancelling():
            raise  # the session itself is being ended
        return "the user interrupted it"
    return parse_summary(reply.content or "") or "the reply held none"


def _from_log(parts: TurnParts, gone: Leaving) -> Summary:
    """What can be said without a model."""
    view = parts.journal.view
    events = parts.journal.events
    task = next(((e.n, str(e.data["text"])) for e in reversed(events) if e.type is EventType.TASK), (0, ""))
    earlier = Summary.from_json(view.summary or {})
    variables = parts.journal.tally.variables.told()
    return log_summary(task, gone.pieces, variables, earlier, gone.room * CHARS)
