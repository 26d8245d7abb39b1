"""What is written first when a session is picked up: answers to what its log leaves open.

Pure: events in, records out. Nothing is run again. Since the answers stand in the log, every later
opening tells the model the same history.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harnessctl.domain.event import Event, EventType, is_aside
from harnessctl.domain.limits import Usage
from harnessctl.layers.l1_context.variables import Variables
from harnessctl.layers.l1_context.view import OPEN_CALL, UNBEGUN_CALL
from harnessctl.rlm.inbox import taken_words

PICKED_UP = "[The session stopped and was picked up again, in a new kernel; nothing was run a second time."
FILES_STAY = "Files on disk are as they were left.]"
FILES_ANEW = (
    "The work tree was removed in between and is made anew at commit {commit}: whatever was changed there "
    "before is gone, and so are commits that no branch holds.]"
)


@dataclass(frozen=True, slots=True)
class Addition:
    """A record to be written; :class:`~harnessctl.rlm.journal.Journal` numbers and chains it."""

    type: EventType
    data: Mapping[str, Any]
    turn: int = 0


def additions(
    events: Sequence[Event], variables: Variables, facts: Mapping[str, Any], files: str = FILES_STAY
) -> list[Addition]:
    """The records that make a stopped session's log ready to go on.

    :param variables: what the lost kernel held.
    :param facts: what the ``resume`` record states beside its text: model, limits, harness state, …
    :param files: what the model is told of the files on disk.
    """
    return [*_open_requests(events), *_open_calls(events), _resume(events, variables, facts, files)]


def last_end(events: Sequence[Event]) -> Event | None:
    """The end of the session, None when it was cut off, or picked up and not ended since."""
    for event in reversed(events):
        if event.type is EventType.END:
            return event
        if event.type is EventType.REQUEST or event.data.get("what") == "resume":
            return None
    return None


def _open_requests(events: Sequence[Event]) -> list[Addition]:
    """Requests whose reply never came: their tokens were perhaps used, so the estimate is booked."""
    answered = {event.data.get("request") for event in events if event.type is EventType.REPLY}
    open_ = [e for e in events if e.type is EventType.REQUEST and e.n not in answered]
    price = _prompt_price(events)
    return [_stopped(event, price) for event in open_]


def _prompt_price(events: Sequence[Event]) -> float | None:
    """US dollars for a million prompt tokens of the model that a log last names; None when not known."""
    for event in reversed(events):
        if event.type is EventType.HEADER or event.data.get("what") == "resume":
            price = (event.data.get("model") or {}).get("price")
            return None if price is None else float(price["prompt"])
    return None


def _stopped(request: Event, price: float | None) -> Addition:
    prompt = int(request.data.get("estimate") or 0)
    cost = None if price is None else prompt * price / 1_000_000
    spent = Usage(prompt=prompt, calls=1, cost_usd=cost, estimated=True)
    error = {"kind": "stopped", "status": None, "message": "the session stopped while the model answered"}
    data = {"request": request.n, "error": error, "usage": spent.to_json(), "attempts": []}
    if is_aside(request):
        data["consumer"] = request.data["consumer"]
    return Addition(EventType.REPLY, data, request.turn)


def _open_calls(events: Sequence[Event]) -> list[Addition]:
    reply = next((e for e in reversed(events) if e.type is EventType.REPLY and not is_aside(e)), None)
    if reply is None or "error" in reply.data:
        return []
    after = events[reply.n + 1 :]
    answered = {e.data.get("call") for e in after if e.type is EventType.RESULT or _is_answer(e)}
    begun = {e.data.get("call"): e for e in after if e.type is EventType.CELL}
    found = []
    for call in reply.data.get("calls") or ():
        key = call.get("id")
        if key not in answered and "problem" not in call:
            cell, text = begun.get(key), UNBEGUN_CALL
            if cell is not None:
                text = "\n".join(filter(None, (OPEN_CALL, taken_words(events[cell.n :]))))
            data = {
                "what": "open_call",
                "text": text,
                "call": key,
                "cell": cell.data.get("cell") if cell is not None else None,
                "reply": reply.n,
            }
            found.append(Addition(EventType.REPAIR, data, reply.turn))
    return found


def _is_answer(event: Event) -> bool:
    return event.type is EventType.REPAIR and event.data.get("what") == "open_call"


def _resume(events: Sequence[Event], variables: Variables, facts: Mapping[str, Any], files: str) -> Addition:
    """Says what was lost; nothing when no cell ran since the model was told before, and its files stay."""
    text = ""
    for event in reversed(events):
        if event.type is EventType.CELL:
            text = " ".join(part for part in (PICKED_UP, variables.loss(), files) if part)
            break
        if event.data.get("what") == "resume" and files == FILES_STAY:
            break
    data = {"what": "resume", "text": text, "lost": variables.to_json(), **facts}
    return Addition(EventType.REPAIR, data)
