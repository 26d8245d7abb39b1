"""Model calls beside a session's turns: what ``llm()`` in a cell asks, and summaries.

Each stands in the log as a request and a reply that name their consumer; none enters the conversation.
"""

from __future__ import annotations

import asyncio
from collections.abc import Mapping
from dataclasses import asdict, dataclass, field
from typing import Any

from harnessctl.domain.canonical import canonical_json, sha256_hex
from harnessctl.domain.errors import HarnessError
from harnessctl.domain.event import Event, EventType
from harnessctl.domain.limits import Usage
from harnessctl.domain.message import Message
from harnessctl.models.port import ModelClient, ModelReply, ModelRequest, ProviderError, used_when_cancelled
from harnessctl.rlm.budget import Budget, Reservation
from harnessctl.rlm.door import Handler
from harnessctl.rlm.given import count
from harnessctl.rlm.journal import Journal

#: Calls of one session that are under way at once; the others wait.
AT_ONCE = 8


class CallError(HarnessError):
    """A call beside the turns that gave no text."""

    def __init__(self, error: ProviderError) -> None:
        super().__init__(f"the model gave no reply: {error.kind}: {error}", id=error.kind)


@dataclass(frozen=True)
class Asides:
    """The calls of one session, paid from its tree's purse.

    :ivar params: sampling parameters the user set.
    :ivar owner: node of the session that pays.
    """

    journal: Journal
    model: ModelClient
    budget: Budget
    params: tuple[tuple[str, float], ...] = ()
    owner: str = "root"
    _room: asyncio.Semaphore = field(default_factory=lambda: asyncio.Semaphore(AT_ONCE))
    #: By consumer: places of calls that were answered or are under way.
    _taken: dict[str, set[int]] = field(default_factory=dict)

    def handlers(self) -> Mapping[str, Handler]:
        """For the door."""
        return {"llm.call": self._call}

    async def _call(self, what: Mapping[str, Any]) -> dict[str, Any]:
        prompt, system = str(what["prompt"]), what.get("system")
        messages = (Message("system", str(system)),) if system else ()
        most = count("max_tokens", what.get("max_tokens"))
        reply = await self.ask("llm", (*messages, Message("user", prompt)), most)
        return {"text": reply.content or "", "finish": reply.finish}

    async def ask(
        self, consumer: str, messages: tuple[Message, ...], max_output: int | None = None
    ) -> ModelReply:
        """One call; what it used is booked, however it ends.

        :param consumer: ``llm`` or ``summary``.
        :raises EndSession: a limit does not allow it.
        :raises CallError: the model gave no reply.
        """
        async with self._room:
            estimate = self.model.count_tokens(messages)
            reservation = await self.budget.reserve(self.owner, estimate, self.model.identity, max_output)
            try:
                request = self._record_request(consumer, messages, reservation)
            except BaseException:
                self.budget.release(reservation)
                raise
            return await self._answered(request, messages, reservation)

    async def _answered(
        self, request: Event, messages: tuple[Message, ...], reservation: Reservation
    ) -> ModelReply:
        data = request.data
        call = ModelRequest(
            messages=messages,
            tool=False,
            max_output=reservation.output if reservation.bounded else None,
            consumer=data["consumer"],
            place=data["place"],
            params=self.params,
        )
        spent = reservation.estimate
        try:
            reply = await self.model.complete(call)
            spent = reply.usage
            told: dict[str, Any] = {
                "content": reply.content,
                "calls": [],
                "finish": reply.finish,
                "model": reply.model,
            }
            more = {
                "ms": reply.ms,
                "attempts": [asdict(a) for a in reply.attempts],
                "notes": list(reply.notes),
            }
            self._record_reply(request, {**told, **more}, spent)
            return reply
        except ProviderError as error:
            spent = error.usage
            said = {"kind": error.kind, "status": error.status, "message": str(error)}
            self._record_reply(
                request, {"error": said, "attempts": [asdict(a) for a in error.attempts]}, spent
            )
            raise CallError(error) from error
        except asyncio.CancelledError as error:
            spent = used_when_cancelled(error, spent)
            said = {"kind": "interrupted", "status": None, "message": "the cell no longer waited for it"}
            self._record_reply(request, {"error": said}, spent)
            self._taken[data["consumer"]].discard(data["place"])
            raise
        finally:
            self.budget.book(reservation, spent)

    def _record_request(
        self, consumer: str, messages: tuple[Message, ...], reservation: Reservation
    ) -> Event:
        listed = [message.to_json() for message in messages]
        data = {
            "model": str(self.model.identity),
            "consumer": consumer,
            "place": self._place(consumer),
            "prefix": None,
            "keep": 0,
            "append": listed,
            "digest": f"sha256:{sha256_hex(canonical_json(listed))}",
            "tool": False,
            "params": dict(self.params),
            "estimate": reservation.prompt,
            "reserve": reservation.tokens,
        }
        return self.journal.record(EventType.REQUEST, data, turn=self.journal.tally.last_turn)

    def _place(self, consumer: str) -> int:
        """The first place that no other call has: what a scripted model plays does not depend on timing."""
        taken = self._taken.setdefault(consumer, set(range(self.journal.tally.answers(consumer))))
        place = next(n for n in range(len(taken) + 1) if n not in taken)
        taken.add(place)
        return place

    def _record_reply(self, request: Event, told: Mapping[str, Any], usage: Usage) -> None:
        data = {"request": request.n, "consumer": request.data["consumer"], "usage": usage.to_json()}
        self.journal.record(EventType.REPLY, {**data, "attempts": [], **told}, turn=request.turn)
