"""From events to the messages of the next request.

A fold over the log and nothing else: the same events give the same messages, so that a session
that is picked up again tells the model the same history. What the log leaves open (a call without
a result, because the session stopped in between) is answered here and not in the log.
"""

from __future__ import annotations

import hashlib
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Literal

from harnessctl.domain.canonical import canonical_json
from harnessctl.domain.event import Event, EventType, is_aside
from harnessctl.domain.message import Message
from harnessctl.layers.l1_context.blocks import Block, Part, PartKind, Place, tool_call
from harnessctl.layers.l1_context.landmarks import Span, output_landmark, within

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
    :ivar blocks: the same in pieces, one block a message.
    :ivar protocol: how the model asks for code to run.
    :ivar asked: messages of the last request.
    :ivar evicted: what left with its turns, as the landmark in the view says.
    :ivar summary: what the last summary said, as JSON; None when there is none.
    """

    def __init__(self, system: str, protocol: Literal["tool", "fence"]) -> None:
        self.blocks = [Block("system", 0, [Part(0, PartKind.SYSTEM, system)])]
        self.messages: list[Message] = [self.blocks[0].message()]
        self.protocol = protocol
        self.asked = 0
        self.evicted: tuple[Span, ...] = ()
        self.summary: Mapping[str, str] | None = None
        self._fenced = protocol == "fence"
        self._open: dict[str, int] = {}
        self._notes: list[Part] = []
        self._task = self._said = -1
        self._unchanged = 0
        self._digest_asked = ""
        self._digest = _Digest()

    def add(self, event: Event) -> None:
        """Take in one event."""
        if is_aside(event):
            return
        data, n = event.data, event.n
        match event.type:
            case EventType.TASK:
                self._task = n
                self._close_calls()
                frame = [Part(n, PartKind.FRAME, FENCE_FIRST)] if self._fenced else []
                self._note(Part(n, PartKind.TASK, str(data["text"])), *frame)
            case EventType.REQUEST:
                self._close_calls()
                self.asked = self._unchanged = len(self.messages)
                self._digest_asked = str(data.get("digest"))
            case EventType.REPLY:
                self._reply(n, data)
            case EventType.RESULT:
                self._result(n, data, PartKind.OUTPUT)
            case EventType.REPAIR if data.get("what") == "open_call":
                self._result(n, data, PartKind.NOTE)
            case EventType.COMPACTION:
                self._compact(n, data)
            case EventType.MESSAGE if data.get("state") != "delivered" or data.get("by"):
                pass  # not there yet, never, or handed to a cell
            case EventType.MESSAGE if data.get("from") == "user":
                self._said = n
                self._note(Part(n, PartKind.SAID, str(data.get("text") or "")))
            case EventType.MESSAGE:
                self._note(Part(n, PartKind.NOTE, f"[message from {data.get('from')}] {data.get('text')}"))
            case EventType.REPAIR | EventType.GATE:
                self._note(Part(n, PartKind.NOTE, str(data.get("text") or "")))
            case _:
                pass

    def ready(self) -> tuple[tuple[Message, ...], int]:
        """The messages of a request made now, and how many at the start are as in the last request."""
        self._close_calls()
        return tuple(self.messages), self._unchanged

    @property
    def pinned(self) -> frozenset[int]:
        """The events of the active request beside the newest reply: the task, the user's last word."""
        return frozenset(n for n in (self._task, self._said) if n > 0)

    @property
    def newest(self) -> int:
        """Where the newest reply stands among :attr:`blocks`; their count when there is none."""
        return next(
            (at for at in range(len(self.blocks) - 1, 0, -1) if self.blocks[at].role == "assistant"),
            len(self.blocks),
        )

    def trial(self) -> View:
        """A copy to try a compaction on."""
        copy = View("", self.protocol)
        copy.blocks = [block.copy() for block in self.blocks]
        copy.messages = list(self.messages)
        copy.evicted, copy.summary = self.evicted, self.summary
        copy._task, copy._said = self._task, self._said
        return copy

    def check_last_request(self) -> None:
        """Give up sharing messages with the last request where they are not those it was made of.

        For a log that is picked up: another protocol or version may have put the same events into other
        words. The next request then holds all of its messages.
        """
        if not self._unchanged:
            return
        digest = _Digest()
        if digest.of(self.messages[: self._unchanged]) == self._digest_asked:
            self._digest = digest  # a long log's messages are hashed once, not twice
        else:
            self._unchanged = 0

    def digest(self) -> str:
        """``sha256:`` digest of the canonical JSON of all messages."""
        return self._digest.of(self.messages)

    def put(self, places: Sequence[Place], texts: Sequence[str]) -> None:
        """Let each text stand at its place. What is no longer in the view is passed over."""
        wanted: dict[int, list[tuple[Place, str]]] = {}
        for place, text in zip(places, texts, strict=True):
            wanted.setdefault(int(str(place).partition("/")[0]), []).append((place, text))
        for at, block in enumerate(self.blocks):
            numbers = {block.n, *(part.n for part in block.parts)} & wanted.keys()
            if [p for n in numbers for p, text in wanted[n] if block.put(p, text)]:
                self.messages[at] = block.message()

    def evict(self, n: int, spans: Sequence[Span], landmark: str) -> None:
        """Take out what came with the events in ``spans``; ``landmark``, of event ``n``, stands there."""
        old, first = self.blocks[1:], spans[0][0]
        del self.blocks[1:], self.messages[1:]
        self.evicted = tuple(spans)
        stands: Block | None = Block("user", n, [Part(n, PartKind.LANDMARK, landmark)])
        for block in _remaining(old, spans):
            if stands is not None and block.n > first:
                self._append(stands)
                stands = None
            self._append(block)
        if stands is not None:
            self._append(stands)

    def _compact(self, n: int, data: Mapping[str, Any]) -> None:
        self._close_calls()
        before = list(self.messages)
        places = list(data.get("folded") or ())
        stands = data.get("stands")
        if stands is None:  # a log of the time when an output's landmark was not written out
            stands = [self._landmark(int(place)) for place in places]
        self.put(places, stands)
        if data.get("evicted"):
            spans = [(int(first), int(last)) for first, last in data["evicted"]]
            self.evict(n, spans, str(data["landmark"]))
            self.summary = data.get("summary")
        same = (
            at for at, (a, b) in enumerate(zip(before, self.messages, strict=False)) if a is not b and a != b
        )
        self._unchanged = min(self._unchanged, next(same, min(len(before), len(self.messages))))
        self._digest = _Digest()

    def _landmark(self, n: int) -> str:
        texts = (part.text for block in self.blocks for part in block.parts if part.n == n)
        return output_landmark(n, next(texts, ""))

    def _reply(self, n: int, data: Mapping[str, Any]) -> None:
        self._close_calls()
        if "error" in data:
            if data["error"].get("kind") == "interrupted":
                self._note(Part(n, PartKind.FRAME, INTERRUPTED_REPLY))
            return
        content, calls = data.get("content") or "", data.get("calls") or ()
        if not content.strip() and not calls:
            self._note(Part(n, PartKind.FRAME, EMPTY_REPLY))
            return
        parts = [Part(n, PartKind.REPLY, content)] if content else []
        self._append(
            Block("assistant", n, parts, [] if self._fenced else [tool_call(call) for call in calls])
        )
        for call in calls:
            key = str(call.get("id") or "")
            if call.get("problem"):
                self._answer(key, n, Part(n, PartKind.FRAME, str(call["problem"])))
            else:
                self._open[key] = n
        if not calls and data.get("finish") == "length":
            self._note(Part(n, PartKind.FRAME, CUT_REPLY))

    def _result(self, n: int, data: Mapping[str, Any], kind: PartKind) -> None:
        key, parts = str(data.get("call") or ""), [Part(n, kind, str(data.get("text") or ""))]
        if self._fenced:
            parts.append(Part(n, PartKind.FRAME, FENCE_MEND if data.get("status") == "error" else FENCE_NEXT))
        if key in self._open:
            del self._open[key]
            self._answer(key, n, *parts)
        else:
            self._note(*parts)

    def _answer(self, call: str, n: int, *parts: Part) -> None:
        if self._fenced or not call:
            self._append(Block("user", n, list(parts)))
        else:
            self._append(Block("tool", n, list(parts), call_id=call))
        self._say_notes()

    def _close_calls(self) -> None:
        for key, n in list(self._open.items()):
            del self._open[key]
            self._answer(key, n, Part(n, PartKind.FRAME, OPEN_CALL))
        self._say_notes()

    def _note(self, *parts: Part) -> None:
        """Something said between replies; it waits while calls are open, whose answers must come first."""
        self._notes += [part for part in parts if part.text or part.kind is PartKind.OUTPUT]
        self._say_notes()

    def _say_notes(self) -> None:
        if not self._open:
            for part in self._notes:
                self._append(Block("user", part.n, [part]))
            self._notes.clear()

    def _append(self, block: Block) -> None:
        last = self.blocks[-1]
        if block.role == "user" and last.role == "user":
            # Several providers refuse two user messages in a row.
            last.parts += block.parts
            self.messages[-1] = last.message()
            self._unchanged = min(self._unchanged, len(self.messages) - 1)
        else:
            self.blocks.append(block)
            self.messages.append(block.message())


def _remaining(blocks: Iterable[Block], spans: Sequence[Span]) -> Iterable[Block]:
    """What stays of ``blocks``; the pieces of user messages one by one, earlier landmarks not at all."""
    for block in blocks:
        if block.role == "user":
            for part in block.parts:
                if part.kind is not PartKind.LANDMARK and not within(part.n, spans):
                    yield Block("user", part.n, [part])
        elif not within(block.n, spans):
            yield block


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


def system_of(events: Sequence[Event], protocol: Literal["tool", "fence"]) -> str:
    """The system message that a log's newest request in ``protocol`` began with; "" when none was made."""
    for event in reversed(events):
        if event.type is EventType.REQUEST and not is_aside(event) and event.data.get("append"):
            first = event.data["append"][0]
            if first["role"] == "system" and bool(event.data.get("tool")) == (protocol == "tool"):
                return str(first["content"])
    return ""
