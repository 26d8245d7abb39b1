"""Messages that wait for a session: typed by the user, or sent by another session of its tree.

A message is in the log before anybody is told that it arrived. It leaves the queue once: into the next
request, into a cell that asks for its messages, or, when the session ends first, back as not delivered.
"""

from __future__ import annotations

import asyncio
import contextlib
from collections import deque
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harnessctl.domain.event import Event, EventType
from harnessctl.domain.ids import new_ulid
from harnessctl.rlm.recorder import StorageError

QUEUED, DELIVERED, UNDELIVERABLE = "queued", "delivered", "undeliverable"
USER = "user"
#: Characters of messages that are told a second time, after the kernel that had them died.
MOST_WORDS = 10_000


@dataclass(frozen=True, slots=True)
class Letter:
    """One message.

    :ivar sender: ``user``, ``post`` (about a message of the session's own), or a session's name.
    """

    id: str
    sender: str
    to: str
    text: str

    def to_json(self, state: str) -> dict[str, object]:
        """Data of its ``message`` event; ``state`` is queued, delivered or undeliverable."""
        return {"id": self.id, "from": self.sender, "to": self.to, "text": self.text, "state": state}


def taken_words(events: Iterable[Event]) -> str:
    """The messages that a cell took among ``events``: words for a model whose cell died with them in hand."""
    lines = [
        f"[message from {event.data['from']}, which this cell had taken] {event.data['text']}"
        for event in events
        if event.type is EventType.MESSAGE and event.data.get("by")
    ]
    text = "\n".join(lines)
    return text if len(text) <= MOST_WORDS else f"{text[:MOST_WORDS]}… [history.search finds the rest]"


class Inbox:
    """One session's queue, first in, first out. Used on the event loop only."""

    def __init__(self, to: str = "root") -> None:
        self._to = to
        self._waiting: deque[Letter] = deque()
        self._arrived: Callable[[Letter], object] | None = None
        self._logged: set[str] = set()
        self._askers: deque[asyncio.Future[None]] = deque()

    def attach(self, arrived: Callable[[Letter], object]) -> None:
        """``arrived`` sees every message as it comes, and those that wait and stand in no log yet."""
        self._arrived = arrived
        for letter in self._waiting:
            if letter.id not in self._logged:
                arrived(letter)

    def put(self, text: str, sender: str = USER) -> None:
        """Queue a message; one of white space alone is none."""
        if text.strip():
            # The next turn meets the full disk too, and can end the session.
            with contextlib.suppress(StorageError):
                self.post(Letter(new_ulid(), sender, self._to, text))

    def post(self, letter: Letter) -> None:
        """Queue ``letter``.

        :raises StorageError: it could not be written down, and was not taken.
        """
        if self._arrived is not None:
            self._arrived(letter)
        self._waiting.append(letter)
        while self._askers:
            asker = self._askers.popleft()
            if not asker.done():
                asker.set_result(None)
                break

    def take(self) -> tuple[Letter, ...]:
        """Everything that waits; the queue is empty then."""
        taken = tuple(self._waiting)
        self._waiting.clear()
        return taken

    @property
    def unread(self) -> bool:
        """Whether something waits."""
        return bool(self._waiting)

    async def arrival(self, seconds: float) -> None:
        """Wait until something waits, ``seconds`` at most."""
        if self._waiting or seconds <= 0:
            return
        asker = asyncio.get_running_loop().create_future()
        self._askers.append(asker)
        try:
            with contextlib.suppress(TimeoutError):
                async with asyncio.timeout(seconds):
                    await asker
        finally:
            if asker in self._askers:
                self._askers.remove(asker)

    @property
    def asked(self) -> bool:
        """Whether a cell waits for a message at this moment."""
        return any(not asker.done() for asker in self._askers)

    def restore(self, events: Sequence[Event]) -> None:
        """Queue again what a log says was queued and not delivered."""
        states: dict[str, Mapping[str, Any]] = {}
        for event in events:
            if event.type is EventType.MESSAGE and event.data.get("to") == self._to:
                states[str(event.data["id"])] = event.data
        self._waiting.extend(
            Letter(key, str(data["from"]), self._to, str(data["text"]))
            for key, data in states.items()
            if data.get("state") == QUEUED
        )
        self._logged.update(states)
