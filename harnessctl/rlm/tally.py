"""What a log adds up to: a fold that is fed every event once, so that no turn counts the whole log again.

Picking a session up again is the same fold over the log that is there.
"""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime
from typing import Any

from harnessctl.domain.event import Event, EventType, is_aside
from harnessctl.domain.limits import Usage
from harnessctl.layers.l1_context.variables import Variables

#: Kinds of a failed call that was no answer: cut off by the user, or by the end of the process.
CUT_OFF = frozenset({"interrupted", "stopped"})


class Tally:
    """Sums over the events so far.

    :ivar cells: cells begun; also the number of the last one.
    :ivar used: usage by node (the consumer that asked).
    :ivar last_request: the newest request event of the session's own turns.
    :ivar last_turn: number of the newest turn.
    :ivar variables: what the kernel held after the last cell, as far as it told.
    :ivar harness_state: the fence as it was last captured at a beginning.
    """

    def __init__(self) -> None:
        self.cells = self.last_turn = 0
        self.used: dict[str, Usage] = {}
        self.last_request: Event | None = None
        self.variables = Variables()
        self.harness_state: Mapping[str, str] = {}
        self._consumers: dict[int, str] = {}
        self._answers: dict[str, int] = {}
        self._ran = 0.0
        self._begun = self._seen = ""

    def add(self, event: Event) -> None:
        """Take in one event."""
        data = event.data
        self.last_turn = max(self.last_turn, event.turn)
        match event.type:
            case EventType.HEADER:
                self._begin(event)
            case EventType.REQUEST:
                self.last_request = self.last_request if is_aside(event) else event
                self._consumers[event.n] = str(data.get("consumer") or "root")
            case EventType.REPLY:
                self._reply(data)
            case EventType.CELL:
                self.cells += 1
            case EventType.RESULT:
                self.variables.change(data.get("variables"))
                if "lost" in data:
                    self.variables.forget()
            case EventType.GATE:
                self.variables.forget()  # the kernel ends before a gate looks
            case EventType.REPAIR:
                self._repair(event)
            case _:
                pass
        # One form of time stands in all records, so that text can be compared.
        if event.t > self._seen:
            self._seen = event.t

    def answers(self, consumer: str) -> int:
        """How many answers ``consumer`` has had.

        A call that failed for good was one; a call that the user or a crash cut off was none.
        """
        return self._answers.get(consumer, 0)

    @property
    def running_s(self) -> float:
        """Seconds in which a process worked on the session, as far as its events tell."""
        return self._ran + max(0.0, seconds_of(self._seen) - seconds_of(self._begun))

    def _begin(self, event: Event) -> None:
        self._ran = self.running_s
        self._begun = self._seen = event.t
        self.harness_state = event.data.get("harness_state") or {}

    def _reply(self, data: Mapping[str, Any]) -> None:
        consumer = self._consumers.get(int(data.get("request", -1)), "root")
        self.used[consumer] = self.used.get(consumer, Usage()) + Usage.from_json(data.get("usage") or {})
        if (data.get("error") or {}).get("kind") not in CUT_OFF:
            self._answers[consumer] = self._answers.get(consumer, 0) + 1

    def _repair(self, event: Event) -> None:
        what = event.data.get("what")
        if what in ("kernel_restart", "resume"):
            self.variables.forget()
        if what == "resume":
            self._begin(event)


def seconds_of(t: str) -> float:
    """A record's time as seconds since the epoch; 0.0 when it is none."""
    try:
        return datetime.fromisoformat(t).timestamp()
    except ValueError:
        return 0.0
