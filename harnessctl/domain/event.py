"""Events of a session's log: append-only, hash-chained JSON lines (CONTRACT 3).

A record is ``{"n", "t", "type", "turn", "data", "prev", "hash"}``. ``hash`` is the SHA-256 of
``prev`` (64 hex digits, ASCII) followed by the canonical JSON of the record without ``hash``; the
first record's ``prev`` is 64 zeros. ``t`` is UTC, ISO 8601 with milliseconds and ``Z``.

The shape of ``data`` is fixed per type; see ``docs/design/event-log.md``.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, replace
from enum import StrEnum
from typing import Any

from harnessctl.domain.canonical import canonical_json, sha256_hex

LOG_SCHEMA = 1
GENESIS = "0" * 64


class EventType(StrEnum):
    """Every type a log can hold."""

    HEADER = "header"
    TASK = "task"
    REQUEST = "request"
    REPLY = "reply"
    CELL = "cell"
    OUTPUT = "output"
    RESULT = "result"
    CHILD = "child"
    MESSAGE = "message"
    PROPOSE = "propose"
    GATE = "gate"
    COMPACTION = "compaction"
    CHECKPOINT = "checkpoint"
    REPAIR = "repair"
    END = "end"


#: Who asks the model beside a session's turns. Each request and reply of theirs names them.
ASIDES = frozenset({"llm", "summary"})


@dataclass(frozen=True, slots=True)
class Event:
    """One record of a log.

    :ivar n: number, from 0 (the header).
    :ivar t: UTC time, ISO 8601.
    :ivar turn: turn number from 1; 0 for what belongs to no turn.
    """

    n: int
    t: str
    type: EventType
    turn: int
    data: Mapping[str, Any]
    prev: str
    hash: str

    @classmethod
    def make(cls, *, n: int, t: str, type: EventType, turn: int, data: Mapping[str, Any], prev: str) -> Event:  # noqa: A002 - the record's key
        """A record with its hash computed."""
        event = cls(n, t, type, turn, data, prev, "")
        return replace(event, hash=event.expected_hash())

    def expected_hash(self) -> str:
        """The hash this record should carry."""
        return sha256_hex(self.prev.encode("ascii") + canonical_json(self._body()))

    def _body(self) -> dict[str, Any]:
        return {
            "n": self.n,
            "t": self.t,
            "type": self.type.value,
            "turn": self.turn,
            "data": self.data,
            "prev": self.prev,
        }

    def to_line(self) -> bytes:
        """The record as one line of the log, LF included."""
        return canonical_json(self.record()) + b"\n"

    def record(self) -> dict[str, Any]:
        """The record as a JSON object."""
        return {**self._body(), "hash": self.hash}

    @classmethod
    def from_line(cls, line: bytes) -> Event:
        """Read one line.

        :raises ValueError: not a record (not JSON, keys missing, unknown type). The hash is not
            checked here: a reader that wants the chain compares :meth:`expected_hash`.
        """
        try:
            raw = json.loads(line)
            return cls(
                n=int(raw["n"]),
                t=str(raw["t"]),
                type=EventType(raw["type"]),
                turn=int(raw["turn"]),
                data=dict(raw["data"]),
                prev=str(raw["prev"]),
                hash=str(raw["hash"]),
            )
        except (KeyError, TypeError, RecursionError) as error:
            raise ValueError(f"not an event record: {error!r}") from error


def is_aside(event: Event) -> bool:
    """Whether it is a request or reply beside the session's own turns: it enters no conversation."""
    return event.type in (EventType.REQUEST, EventType.REPLY) and event.data.get("consumer") in ASIDES


def event_text(event: Event) -> str:
    """The text of an event that a person or a model would quote from.

    Used alike for quotes in evidence, excerpts, secrets and search, so that they cannot disagree.
    Parts are joined with LF; payloads kept as blobs beside the log are represented by the head
    and tail that the event itself holds.
    """
    data = event.data
    parts: list[str] = []
    for key in ("text", "content", "code", "answer", "reason"):
        value = data.get(key)
        if isinstance(value, str) and value:
            parts.append(value)
    for call in data.get("calls") or ():
        code = call.get("code") if isinstance(call, Mapping) else None
        if isinstance(code, str) and code:
            parts.append(code)
    return "\n".join(parts)
