"""Messages of one model request, in the form all adapters share."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any, Literal

Role = Literal["system", "user", "assistant", "tool"]

#: Name of the one tool a model sees.
TOOL_NAME = "ipython"


@dataclass(frozen=True, slots=True)
class ToolCall:
    """One call of the ``ipython`` tool.

    :ivar id: the provider's call id.
    :ivar name: the tool's name as the model wrote it.
    :ivar arguments: the raw argument text as the model wrote it (JSON, when it is well formed).
    """

    id: str
    name: str
    arguments: str


@dataclass(frozen=True, slots=True)
class Message:
    """One message. ``calls`` only on assistant messages, ``call_id`` only on tool messages."""

    role: Role
    content: str
    calls: tuple[ToolCall, ...] = ()
    call_id: str = ""

    def to_json(self) -> dict[str, Any]:
        """The message in the OpenAI chat form, as sent and as logged."""
        data: dict[str, Any] = {"role": self.role, "content": self.content}
        if self.calls:
            data["tool_calls"] = [
                {"id": c.id, "type": "function", "function": {"name": c.name, "arguments": c.arguments}}
                for c in self.calls
            ]
        if self.role == "tool":
            data["tool_call_id"] = self.call_id
        return data

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Message:
        """Inverse of :meth:`to_json`."""
        return cls(
            role=data["role"],
            content=data.get("content") or "",
            calls=tuple(
                ToolCall(c["id"], c["function"]["name"], c["function"]["arguments"])
                for c in data.get("tool_calls", ())
            ),
            call_id=data.get("tool_call_id", ""),
        )
