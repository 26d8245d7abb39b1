"""Between our messages and the OpenAI chat form: what goes out, and how a stream becomes a reply."""

from __future__ import annotations

import json
import re
from dataclasses import dataclass, field
from typing import Any

from harnessctl.domain.message import TOOL_NAME, Message, ToolCall

#: The one tool a model is offered.
TOOL: dict[str, Any] = {
    "type": "function",
    "function": {
        "name": TOOL_NAME,
        "description": (
            "Run Python code in a persistent IPython kernel in the repository's work tree. Variables stay. "
            "Shell: a cell that begins with %%bash, or !command. "
            "Returns what the cell printed and the value of its last line."
        ),
        "parameters": {
            "type": "object",
            "properties": {"code": {"type": "string", "description": "one cell of Python"}},
            "required": ["code"],
            "additionalProperties": False,
        },
    },
}

_SURROGATE = re.compile("[\ud800-\udfff]")


def outgoing(messages: tuple[Message, ...]) -> list[dict[str, Any]]:
    """``messages`` in a form every provider takes.

    Lone surrogates (a cell may print them) become U+FFFD, since UTF-8 has none. Argument text that is
    not a JSON object (the model wrote it so) is wrapped as ``{"code": text}``: several providers parse
    the arguments of past calls. A message that is only calls has no content.
    """
    return [_outgoing(m) for m in messages]


def _outgoing(message: Message) -> dict[str, Any]:
    data = message.to_json()
    data["content"] = _SURROGATE.sub("\ufffd", message.content)
    if message.calls and not message.content:
        data["content"] = None
    for call in data.get("tool_calls", ()):
        call["function"]["arguments"] = _SURROGATE.sub("\ufffd", _object_text(call["function"]["arguments"]))
    return data


def _object_text(arguments: str) -> str:
    try:
        if isinstance(json.loads(arguments), dict):
            return arguments
    except (ValueError, RecursionError):
        pass
    return json.dumps({"code": arguments})


@dataclass
class _Call:
    id: str
    name: str
    arguments: str = ""


@dataclass
class Assembly:
    """Collects the pieces of one streamed reply; nothing of it may run before the stream is whole."""

    text: list[str] = field(default_factory=list)
    finish: str | None = None
    _calls: list[_Call] = field(default_factory=list)
    _at: dict[int, int] = field(default_factory=dict)

    def add_text(self, delta: str) -> None:
        """A piece of the content."""
        self.text.append(delta)

    def add_call(self, index: int, id: str | None, name: str | None, arguments: str | None) -> None:  # noqa: A002 - the protocol's key
        """A piece of a call. Servers that give every call index 0 are told apart by the id."""
        position = self._at.get(index)
        if position is None or (id and self._calls[position].id not in ("", id)):
            position = self._at[index] = len(self._calls)
            self._calls.append(_Call(id or "", ""))
        call = self._calls[position]
        call.id = call.id or id or ""
        call.name += name or ""
        call.arguments += arguments or ""

    @property
    def content(self) -> str | None:
        """The text, None when there is none."""
        return "".join(self.text) or None

    @property
    def received(self) -> str:
        """Everything received, to estimate tokens from."""
        return "".join(self.text) + "".join(c.name + c.arguments for c in self._calls)

    def calls(self) -> tuple[ToolCall, ...]:
        """The calls, each with an id that is its own within the reply."""
        seen: set[str] = set()
        out: list[ToolCall] = []
        for number, call in enumerate(self._calls):
            name = call.id if call.id and call.id not in seen else f"{call.id or 'call'}_{number}"
            seen.add(name)
            out.append(ToolCall(name, call.name, call.arguments))
        return tuple(out)
