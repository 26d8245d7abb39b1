"""A session's event log, seen as evidence."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harnessctl.domain.event import Event, EventType


@dataclass(frozen=True)
class Trajectory:
    """A session's events as read from disk.

    :ivar session: session id (a ULID).
    :ivar events: in order, numbered from 0 without gaps as far as the log is whole.
    :ivar damage: one line per thing found wrong with the log; empty for a whole log.
    """

    session: str
    events: tuple[Event, ...]
    damage: tuple[str, ...] = ()

    @property
    def header(self) -> Mapping[str, object]:
        """Data of the header event, empty when the log has none."""
        first = self.events[0] if self.events else None
        return first.data if first is not None and first.type is EventType.HEADER else {}

    @property
    def head(self) -> tuple[int, str]:
        """(number, hash) of the last event: the head of the chain; (-1, "") when empty."""
        return (self.events[-1].n, self.events[-1].hash) if self.events else (-1, "")

    def event(self, n: int) -> Event | None:
        """Event number ``n``, or None."""
        if 0 <= n < len(self.events) and self.events[n].n == n:
            return self.events[n]
        return next((e for e in self.events if e.n == n), None)
