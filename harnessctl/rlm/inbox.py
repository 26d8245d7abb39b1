"""Messages that wait for a session: typed by the user while it works, handed over at the next turn."""

from __future__ import annotations

from collections import deque
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from harnessctl.domain.event import Event, EventType
from harnessctl.domain.ids import new_ulid


@dataclass(frozen=True, slots=True)
class Letter:
    """One message.

    :ivar sender: ``user``, or a session's name.
    """

    id: str
    sender: str
    to: str
    text: str

    def to_json(self, state: str) -> dict[str, object]:
        """Data of its ``message`` event; ``state`` is ``queued`` or ``delivered``."""
        return {"id": self.id, "from": self.sender, "to": self.to, "text": self.text, "state": state}


class Inbox:
    """One session's queue, first in, first out. Used on the event loop only."""

    def __init__(self, to: str = "root") -> None:
        self._to = to
        self._waiting: deque[Letter] = deque()
        self._arrived: Callable[[Letter], object] | None = None

    def attach(self, arrived: Callable[[Letter], object]) -> None:
        """``arrived`` sees every message as it comes, and those that wait already."""
        self._arrived = arrived
        for letter in self._waiting:
            arrived(letter)

    def put(self, text: str, sender: str = "user") -> None:
        """Queue a message; one of white space alone is none."""
        if not text.strip():
            return
        letter = Letter(new_ulid(), sender, self._to, text)
        self._waiting.append(letter)
        if self._arrived is not None:
            self._arrived(letter)

    def take(self) -> tuple[Letter, ...]:
        """Everything that waits; the queue is empty then."""
        taken = tuple(self._waiting)
        self._waiting.clear()
        return taken

    def restore(self, events: Sequence[Event]) -> None:
        """Queue again what a log says was queued and not delivered."""
        states: dict[str, Mapping[str, Any]] = {}
        for event in events:
            if event.type is EventType.MESSAGE and event.data.get("to") == self._to:
                states[str(event.data["id"])] = event.data
        self._waiting.extend(
            Letter(key, str(data["from"]), self._to, str(data["text"]))
            for key, data in states.items()
            if data.get("state") == "queued"
        )
