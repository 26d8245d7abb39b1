"""A conversation in pieces that know their events: what folds, leaves and stays, and what a message is."""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from enum import StrEnum
from typing import Any

from harnessctl.domain.message import Message, Role, ToolCall

#: What a piece is called in a ``compaction`` event: the event's number, or ``n/i`` for the code of the
#: i-th call of reply ``n``.
Place = int | str


class PartKind(StrEnum):
    """What a piece of a message is."""

    SYSTEM = "system"
    TASK = "task"
    SAID = "said"  # by the user
    REPLY = "reply"
    OUTPUT = "output"
    NOTE = "note"  # by the runtime, a gate, another session
    FRAME = "frame"  # short fixed words around a piece, or in its place; they never fold
    LANDMARK = "landmark"


@dataclass(frozen=True, slots=True)
class Part:
    """A piece of text that came with event ``n``.

    :ivar whole: the text is the event's, not what stands for it.
    """

    n: int
    kind: PartKind
    text: str
    whole: bool = True


@dataclass(slots=True)
class Block:
    """One message.

    :ivar n: event that began it.
    :ivar parts: pieces of its content, in order.
    """

    role: Role
    n: int
    parts: list[Part] = field(default_factory=list)
    calls: list[ToolCall] = field(default_factory=list)
    call_id: str = ""

    def message(self) -> Message:
        """As it is sent."""
        content = "\n\n".join(part.text for part in self.parts)
        return Message(self.role, content, tuple(self.calls), self.call_id)

    def copy(self) -> Block:
        """One that can be changed."""
        return replace(self, parts=list(self.parts), calls=list(self.calls))

    def put(self, place: Place, text: str) -> bool:
        """Let ``text`` stand at ``place``; whether it is here."""
        if isinstance(place, str):
            n, _, index = place.partition("/")
            if self.role != "assistant" or self.n != int(n) or int(index) >= len(self.calls):
                return False  # also where the model that goes on has no calls, only text
            self.calls[int(index)] = replace(self.calls[int(index)], arguments=arguments_of(text))
            return True
        for at, part in enumerate(self.parts):
            if part.n == place and part.kind is not PartKind.FRAME:
                self.parts[at] = replace(part, text=text, whole=False)
                return True
        return False


def arguments_of(code: str) -> str:
    """The arguments of a call that runs ``code``."""
    return json.dumps({"code": code}, ensure_ascii=False)


def code_of(call: ToolCall) -> str:
    """The code of a call as it stands in the view; its arguments when that is not to be found."""
    try:
        code = json.loads(call.arguments).get("code")
    except (ValueError, AttributeError):
        return call.arguments
    return code if isinstance(code, str) else call.arguments


def tool_call(call: Mapping[str, Any]) -> ToolCall:
    """The call of a ``reply`` event as it may be sent again: some providers refuse what is not JSON."""
    arguments = str(call.get("arguments") or "")
    try:
        whole = isinstance(json.loads(arguments), dict)
    except ValueError:
        whole = False
    if not whole:
        code = call.get("code")
        arguments = json.dumps({"code": code} if code is not None else {"malformed": arguments})
    return ToolCall(str(call.get("id") or ""), str(call["name"]), arguments)
