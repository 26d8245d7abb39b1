"""Messages between the sessions of one tree: to a parent, a child, a sibling.

What is sent is in the recipient's log before its sender has a receipt. What a session ended without having
read is said in its log and told to whoever sent it; so each message is delivered once, or reported.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from harnessctl.domain.errors import HarnessError, NotFoundError
from harnessctl.domain.event import EventType, is_aside
from harnessctl.domain.ids import new_ulid
from harnessctl.rlm.door import Handler
from harnessctl.rlm.inbox import DELIVERED, QUEUED, UNDELIVERABLE, USER, Inbox, Letter
from harnessctl.rlm.journal import Journal
from harnessctl.rlm.recorder import StorageError
from harnessctl.rlm.seat import Seat

#: Characters of one message at most.
MOST_TEXT = 1_000_000
#: Characters of a message that could not be delivered, as its sender is told of it.
MOST_QUOTED = 200
PARENT = "parent"
#: Who tells of messages that could not be delivered.
POST = "post"


class LetterError(HarnessError):
    """A message that cannot be sent."""


@dataclass
class _Member:
    seat: Seat
    inbox: Inbox | None


class Post:
    """Knows the sessions of one tree, and which of them can still read."""

    def __init__(self) -> None:
        self._members: dict[str, _Member] = {}

    def join(self, seat: Seat, inbox: Inbox | None) -> None:
        """From now on ``seat`` can be written to; None for a session that is over."""
        self._members[seat.session] = _Member(seat, inbox)

    def leave(self, seat: Seat) -> None:
        """Nothing reaches ``seat`` any more."""
        self.join(seat, None)

    def send(self, sender: Seat, to: str, text: str) -> dict[str, str]:
        """Bring ``text`` to the session that ``sender`` calls ``to``; the receipt.

        :raises LetterError: that session has ended, or the text is none.
        :raises NotFoundError: there is no such session.
        """
        if not text.strip() or len(text) > MOST_TEXT:
            raise LetterError(f"a message has 1 to {MOST_TEXT:,} characters", id="bad_message")
        member = self._find(sender, to)
        if member.inbox is None:
            hint = f"rlm.get({to!r}) has its answer" if member.seat.parent == sender.session else ""
            raise LetterError(f"undeliverable: {to} has ended", id="undeliverable", hint=hint)
        letter = Letter(new_ulid(), self._name_for(member.seat, sender), member.seat.name, text)
        asked = member.inbox.asked
        member.inbox.post(letter)
        return {"id": letter.id, "state": DELIVERED if asked else QUEUED}

    def report(self, reader: Seat, letter: Letter) -> None:
        """Tell the sender of ``letter`` that ``reader`` ended without having read it."""
        with contextlib.suppress(NotFoundError):
            member = self._find(reader, letter.sender)
            if member.inbox is not None:
                quote = letter.text if len(letter.text) <= MOST_QUOTED else f"{letter.text[:MOST_QUOTED]}…"
                text = f"{reader.name} ended without reading your message {letter.id}: {quote}"
                member.inbox.put(text, POST)

    def _find(self, sender: Seat, to: str) -> _Member:
        known = {self._name_for(sender, member.seat): member for member in self._members.values()}
        known.pop("", None)
        found = known.get(to)
        if found is None:
            there = f"you can write to: {', '.join(sorted(known)) or 'nobody'}"
            raise NotFoundError(f"nobody here is called {to!r}", id="no_recipient", hint=there)
        return found

    def _name_for(self, seat: Seat, other: Seat) -> str:
        """What ``seat`` calls ``other``; "" when it does not know it.

        A sibling that is called like a child of its own it calls by the whole path: ``root/alice``.
        """
        if other.session == seat.parent:
            return PARENT
        if other.parent == seat.session:
            return other.name
        known = seat.parent is not None and other.parent == seat.parent and other.session != seat.session
        own = any(m.seat.parent == seat.session and m.seat.name == other.name for m in self._members.values())
        return "" if not known else other.node if own else other.name


class Letters:
    """What one session sends and reads; a room of its door."""

    def __init__(self, seat: Seat, post: Post, inbox: Inbox, journal: Journal) -> None:
        self._seat = seat
        self._post = post
        self._inbox = inbox
        self._journal = journal
        post.join(seat, inbox)

    def handlers(self) -> Mapping[str, Handler]:
        """By the name of the request."""
        return {"messages.send": self._send, "messages.wait": self._wait, "messages.inbox": self._read}

    def close(self) -> None:
        """The session is over: nothing reaches it, and what nobody read is reported.

        The root's messages keep: it can be picked up, and reads them then.
        """
        self._post.leave(self._seat)
        if self._seat.parent is None:
            return
        for letter in (*self._unasked(), *self._inbox.take()):
            with contextlib.suppress(StorageError):
                self._journal.record(EventType.MESSAGE, letter.to_json(UNDELIVERABLE))
            if letter.sender not in (USER, POST):
                self._post.report(self._seat, letter)

    def _unasked(self) -> list[Letter]:
        """What was to stand in a request that was never made: a limit ended the session before it."""
        found: list[Letter] = []
        for event in reversed(self._journal.events):
            if event.type is EventType.REQUEST and not is_aside(event):
                break
            data = event.data
            if event.type is EventType.MESSAGE and data["state"] == DELIVERED and not data.get("by"):
                found.append(Letter(data["id"], data["from"], data["to"], data["text"]))
        return found[::-1]

    async def _send(self, what: Mapping[str, Any]) -> dict[str, str]:
        return self._post.send(self._seat, str(what["to"]), str(what["text"]))

    async def _wait(self, what: Mapping[str, Any]) -> None:
        await self._inbox.arrival(float(what.get("timeout") or 0))

    async def _read(self, _: Mapping[str, Any]) -> list[dict[str, str]]:
        letters = self._inbox.take()
        turn = self._journal.tally.last_turn
        for letter in letters:
            # Written first: a cell that dies with it in hand is told what it held.
            data = {**letter.to_json(DELIVERED), "by": "inbox"}
            self._journal.record(EventType.MESSAGE, data, turn=turn)
        return [{"id": letter.id, "from": letter.sender, "text": letter.text} for letter in letters]
