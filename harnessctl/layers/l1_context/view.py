"""From events to the messages of the next request.

A fold over the log and nothing else: the same events give the same messages, so that a session
that is picked up again tells the model the same history. What the log leaves open (a call without
a result, because the session stopped in between) is answered here and not in the log.
"""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace
from typing import Any, Literal

from harnessctl.domain.canonical import canonical_json
from harnessctl.domain.event import Event, EventType, is_aside
from harnessctl.domain.message import Message, ToolCall

OPEN_CALL = "[interrupted, effects unknown: the session stopped before this call's result was recorded]"
#: The same for a call of which the log holds no cell: its code was about to run at most.
UNBEGUN_CALL = (
    "[interrupted, effects unknown: the session stopped, as far as is known before this call began]"
)
EMPTY_REPLY = (
    "Your reply was empty. Go on with the task: run code, or write the final answer as plain text without "
    "code."
)
CUT_REPLY = (
    "Your reply was cut off at the output limit, so nothing of it was run. Go on in smaller steps: shorter "
    "code, shorter text."
)
INTERRUPTED_REPLY = (
    "[The user interrupted your reply; nothing of it was kept. Go on with the task unless told otherwise.]"
)
#: Said after a task to a model without tool calls: without it, small ones answer from imagination.
FENCE_FIRST = "Look first: reply with one ```python block."
#: Said after a cell's result to a model without tool calls. Small ones go on for ever, or give up at an
#: error, unless they are told what comes next.
FENCE_NEXT = (
    "If this answers the task, reply with a short sentence that repeats the facts, without code. "
    "If not, reply with the next block."
)
FENCE_MEND = "The cell failed. Reply with one block of corrected code."


class View:
    """The messages so far. Feed it every event in order, then ask :meth:`ready`.

    :ivar messages: the conversation, system message first.
    :ivar protocol: how the model asks for code to run.
    """

    def __init__(self, system: str, protocol: Literal["tool", "fence"]) -> None:
        self.messages: list[Message] = [Message("system", system)]
        self.protocol = protocol
        self._fenced = protocol == "fence"
        self._open: dict[str, None] = {}
        self._notes: list[str] = []
        self._results: list[_Shown] = []
        self._unchanged = 0
        self._asked = ""
        self._digest = _Digest()

    def add(self, event: Event) -> None:
        """Take in one event."""
        data = event.data
        if is_aside(event):
            return
        match event.type:
            case EventType.TASK:
                self._close_calls()
                self._note(f"{data['text']}\n\n{FENCE_FIRST}" if self._fenced else str(data["text"]))
            case EventType.REQUEST:
                self._close_calls()
                self._unchanged = len(self.messages)
                self._asked = str(data.get("digest"))
            case EventType.REPLY:
                self._reply(data)
            case EventType.RESULT:
                before = len(self.messages)
                self._result(data)
                # The text stands in the last message, in a new one, or (calls are open) in a later one.
                self._results.append(_Shown(event.n, str(data.get("text") or ""), max(0, before - 1)))
            case EventType.COMPACTION:
                self._fold({int(n) for n in data.get("folded") or ()})
            case EventType.REPAIR if data.get("what") == "open_call":
                self._result(data)
            case EventType.MESSAGE if data.get("state") == "queued":
                pass
            case EventType.REPAIR | EventType.MESSAGE | EventType.GATE:
                if data.get("text"):
                    self._note(str(data["text"]))
            case _:
                pass

    def ready(self) -> tuple[tuple[Message, ...], int]:
        """The messages of a request made now, and how many at the start are as in the last request."""
        self._close_calls()
        return tuple(self.messages), self._unchanged

    def foldable(self) -> tuple[int, ...]:
        """Numbers of the result events whose text could leave, oldest first: long ones, not the newest."""
        return tuple(s.n for s in self._results[:-1] if len(s.text) > len(landmark(s.n, s.text)))

    def _fold(self, numbers: set[int]) -> None:
        """Put a landmark in the place of these results' texts."""
        for shown in [s for s in self._results if s.n in numbers]:
            self._results.remove(shown)
            for at in range(shown.at, len(self.messages)):
                content = self.messages[at].content
                if shown.text and shown.text in content:
                    text = content.replace(shown.text, landmark(shown.n, shown.text), 1)
                    self.messages[at] = replace(self.messages[at], content=text)
                    self._unchanged = min(self._unchanged, at)
                    break
        self._digest = _Digest()

    def check_last_request(self) -> None:
        """Give up sharing messages with the last request where they are not those it was made of.

        For a log that is picked up: another protocol or version may have put the same events into other
        words. The next request then holds all of its messages.
        """
        if self._unchanged and _Digest().of(self.messages[: self._unchanged]) != self._asked:
            self._unchanged = 0

    def digest(self) -> str:
        """``sha256:`` digest of the canonical JSON of all messages."""
        return self._digest.of(self.messages)

    def _reply(self, data: Mapping[str, Any]) -> None:
        self._close_calls()
        if "error" in data:
            if data["error"].get("kind") == "interrupted":
                self._note(INTERRUPTED_REPLY)
            return
        content, calls = data.get("content") or "", data.get("calls") or ()
        if not content.strip() and not calls:
            self._note(EMPTY_REPLY)
            return
        tools = () if self._fenced else tuple(_tool_call(call) for call in calls)
        self._append(Message("assistant", content, tools))
        for call in calls:
            key = str(call.get("id") or "")
            if call.get("problem"):
                self._answer(key, str(call["problem"]))
            else:
                self._open[key] = None
        if not calls and data.get("finish") == "length":
            self._note(CUT_REPLY)

    def _result(self, data: Mapping[str, Any]) -> None:
        key, text = str(data.get("call") or ""), str(data.get("text") or "")
        if self._fenced:
            text = f"{text}\n\n{FENCE_MEND if data.get('status') == 'error' else FENCE_NEXT}"
        if key in self._open:
            del self._open[key]
            self._answer(key, text)
        else:
            self._note(text)

    def _answer(self, call: str, text: str) -> None:
        if self._fenced or not call:
            self._append(Message("user", text))
        else:
            self._append(Message("tool", text, call_id=call))
        self._say_notes()

    def _close_calls(self) -> None:
        for key in list(self._open):
            del self._open[key]
            self._answer(key, OPEN_CALL)
        self._say_notes()

    def _note(self, text: str) -> None:
        """Something said between replies; it waits while calls are open, whose answers must come first."""
        self._notes.append(text)
        self._say_notes()

    def _say_notes(self) -> None:
        if not self._open:
            for text in self._notes:
                self._append(Message("user", text))
            self._notes.clear()

    def _append(self, message: Message) -> None:
        last = self.messages[-1]
        if message.role == "user" and last.role == "user":
            # Several providers refuse two user messages in a row.
            self.messages[-1] = replace(last, content=f"{last.content}\n\n{message.content}")
            self._unchanged = min(self._unchanged, len(self.messages) - 1)
        else:
            self.messages.append(message)


@dataclass(frozen=True, slots=True)
class _Shown:
    """A result's text, of event ``n``; it stands in message ``at`` or one after it."""

    n: int
    text: str
    at: int


def landmark(n: int, text: str) -> str:
    """What stands for a result that left the view: how it ended, and where it can be read."""
    last = text.rstrip().rpartition("\n")[2]
    end = f" {last}" if last.startswith("[cell ") and len(last) < 300 else ""
    return f"[output left out to fit the window: {len(text):,} characters, event #{n} of this session.{end}]"


class _Digest:
    """Hashes a growing list of messages, each but the last one once.

    Only the last message can still change (by more user text), so the rest is hashed for good.
    """

    def __init__(self) -> None:
        self._hash = hashlib.sha256(b"[")
        self._count = 0

    def of(self, messages: list[Message]) -> str:
        for message in messages[self._count : -1]:
            self._hash.update(canonical_json(message.to_json()) + b",")
        self._count = max(self._count, len(messages) - 1)
        whole = self._hash.copy()
        whole.update(canonical_json(messages[-1].to_json()) + b"]")
        return f"sha256:{whole.hexdigest()}"


def view_of(events: Iterable[Event], system: str, protocol: Literal["tool", "fence"]) -> View:
    """The view after ``events``."""
    view = View(system, protocol)
    for event in events:
        view.add(event)
    return view


def system_of(events: Iterable[Event]) -> str:
    """The system message that a log's first request holds; "" when none was made."""
    for event in events:
        if event.type is EventType.REQUEST:
            first = event.data["append"][0]
            return str(first["content"]) if first["role"] == "system" else ""
    return ""


def _tool_call(call: Mapping[str, Any]) -> ToolCall:
    """The call as it may be sent again: some providers refuse arguments that are not JSON."""
    arguments = str(call.get("arguments") or "")
    try:
        whole = isinstance(json.loads(arguments), dict)
    except ValueError:
        whole = False
    if not whole:
        code = call.get("code")
        arguments = json.dumps({"code": code} if code is not None else {"malformed": arguments})
    return ToolCall(str(call["id"]), str(call["name"]), arguments)
