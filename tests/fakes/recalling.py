"""A session's log with a few turns, and its history as cells ask for it."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from harnessctl.domain.event import EventType
from harnessctl.layers.l1_context.view import View
from harnessctl.rlm.clock import SilentWatcher, SystemClock
from harnessctl.rlm.journal import Journal
from harnessctl.rlm.recall import Recall
from harnessctl.rlm.recorder import Recorder

CALL = {"id": "c", "name": "ipython", "arguments": "{}", "code": "look()"}


class Session:
    """A log with a few turns, and its history."""

    def __init__(self, sessions: Path, name: str = "S1", parent: str | None = None) -> None:
        self.folder = sessions / name
        self.recorder = Recorder.create(self.folder, SystemClock())
        self.journal = Journal(self.recorder, View("system", "tool"), SilentWatcher())
        self.record("header", session=name, parent=parent)
        self.record("task", text="find the port")
        self.recall = Recall(self.journal, self.folder)

    def record(self, kind: str, turn: int = 0, **data: Any) -> int:
        return self.journal.record(EventType(kind), data, turn=turn).n

    def turn(self, number: int, printed: str, blob: bytes | None = None) -> int:
        """Its output's event."""
        request = self.record("request", number, consumer="root", digest="")
        usage = {"prompt": 1}
        reply = self.record(
            "reply", number, request=request, content=f"Step {number}.", calls=[CALL], usage=usage
        )
        self.record("cell", number, cell=number, code="look()", reply=reply, call="c")
        digest = self.journal.blob([blob]) if blob is not None else None
        cell = {"cell": number, "stream": "stdout", "text": printed, "bytes": 1, "cut": 0, "blob": digest}
        output = self.record("output", number, **cell)
        self.record(
            "result", number, cell=number, call="c", status="ok", text=f"{printed}\n[cell {number}: ok]"
        )
        return output

    async def ask(self, do: str, **what: Any) -> Any:
        return await self.recall.handlers()[do](what)

    async def expand(self, address: str, **what: Any) -> str:
        """All slices together, as the kernel's side puts them."""
        text, at = "", 0
        while at is not None:
            part = await self.ask("history.expand", address=address, at=at, **what)
            json.dumps(part)
            text, at = text + part["text"], part["next"]
        return text
