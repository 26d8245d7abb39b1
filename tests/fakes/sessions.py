"""A session in a folder: scripted model, a kernel, ports without git."""

from __future__ import annotations

import json
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harnessctl.domain.event import Event, EventType
from harnessctl.domain.limits import Limits
from harnessctl.layers.l1_context.view import View
from harnessctl.models.port import ModelClient
from harnessctl.models.script import read_script
from harnessctl.models.scripted import ScriptedClient
from harnessctl.rlm.budget import Budget
from harnessctl.rlm.clock import SystemClock
from harnessctl.rlm.door import Door
from harnessctl.rlm.inbox import Inbox
from harnessctl.rlm.interrupts import Interrupts
from harnessctl.rlm.journal import Journal
from harnessctl.rlm.kernels import Kernels, RunningKernel
from harnessctl.rlm.parts import TurnParts
from harnessctl.rlm.recorder import Recorder
from harnessctl.rlm.reopen import Addition
from harnessctl.rlm.session import SessionEnd, run_session
from tests.fakes.kernels import FakeKernel
from tests.fakes.runtime import HeldPin, PlainTree, SeenWatcher, StillFence


def scripted(folder: Path, *lines: dict[str, Any], tools: bool = True) -> ScriptedClient:
    """A model that gives these replies."""
    path = folder / "script.jsonl"
    head = {"model": {"tools": tools}}
    path.write_text("".join(json.dumps(line) + "\n" for line in (head, *lines)))
    return ScriptedClient(read_script(path))


@dataclass
class Stage:
    """Everything one session needs, in ``folder``."""

    folder: Path
    model: ModelClient
    limits: Limits = field(default_factory=Limits)
    kernels: list[FakeKernel] = field(default_factory=lambda: [FakeKernel()])
    start: Callable[[], Any] | None = None

    def __post_init__(self) -> None:
        self.watcher = SeenWatcher()
        self.interrupts = Interrupts()
        self.fence = StillFence()
        self.inbox = Inbox()
        self.pin = HeldPin()
        self.root = self.folder / "work"
        self.root.mkdir(exist_ok=True)
        self.tree = PlainTree(self.root)
        self.recorder = Recorder.create(self.folder / "session", SystemClock())
        self.waiting = list(self.kernels)

    async def _kernel(self) -> RunningKernel:
        return self.waiting.pop(0)

    def parts(self) -> TurnParts:
        protocol = "tool" if self.model.identity.tools else "fence"
        clock = SystemClock()
        wall = self.limits.wall_s
        return TurnParts(
            journal=Journal(self.recorder, View("SYSTEM", protocol), self.watcher),  # type: ignore[arg-type]
            model=self.model,
            kernels=Kernels(self.start or self._kernel),
            budget=Budget(self.limits),
            limits=self.limits,
            interrupts=self.interrupts,
            watcher=self.watcher,
            clock=clock,
            protocol=protocol,  # type: ignore[arg-type]
            inbox=self.inbox,
            pin=self.pin,
            door=Door(),
            deadline=None if wall is None else clock.monotonic() + wall,
        )

    async def run(self, task: str = "do it") -> SessionEnd:
        header = {"session": "S", "harness_state": dict(self.fence.capture()), "tree": self.tree.tree_hash()}
        opening = (Addition(EventType.HEADER, header), Addition(EventType.TASK, {"text": task}))
        try:
            return await run_session(opening, self.parts(), self.tree, self.fence)
        finally:
            self.recorder.close()

    def of(self, kind: str) -> list[Event]:
        """Events of one type."""
        return [e for e in self.recorder.events if e.type == kind]

    def shown(self) -> list[str]:
        """Texts of all results."""
        return [str(e.data["text"]) for e in self.of("result")]
