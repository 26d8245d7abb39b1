"""Runs that are killed at random points, and what must be true of them afterwards."""

from __future__ import annotations

import contextlib
import json
import os
import random
import signal
import subprocess
import time
from collections.abc import Callable
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import psutil

from harnessctl.domain.event import Event, EventType, is_aside
from harnessctl.layers.l1_context.view import View, system_of
from harnessctl.rlm.log import read_trajectory
from tests.acceptance.conftest import COMMAND

#: A cell leaves one line in the work tree and one variable in the kernel.
CELL = "with open('trace', 'a') as f: f.write('{k}\\n')\nv{k} = {k}"


def write_script(path: Path, turns: int, more: str = "") -> str:
    """A model that does ``turns`` steps and says so.

    :param more: what each cell does beside.
    """
    lines: list[dict[str, Any]] = [
        {"content": f"step {k}", "code": CELL.format(k=k) + more} for k in range(1, turns + 1)
    ]
    path.write_text("".join(json.dumps(line) + "\n" for line in [*lines, {"content": "All done."}]))
    return f"scripted:{path}"


def processes_of(session: str) -> list[int]:
    """Living processes that carry the session's mark: its guard, kernel, and what they started."""
    found = []
    for process in psutil.process_iter():
        try:
            if process.environ().get("HARNESSCTL_KERNEL") == session and process.status() != "zombie":
                found.append(process.pid)
        except (psutil.Error, OSError):
            continue
    return found


def until(condition: Callable[[], object], seconds: float = 60) -> bool:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if condition():
            return True
        time.sleep(0.002)
    return False


@dataclass
class Round:
    """One session, from its start over any number of kills to its end.

    :ivar kills: how often host, kernel or both were killed, by name.
    :ivar seen: the log's bytes at every kill.
    """

    root: Path
    state: Path
    model: str
    turns: int
    choose: random.Random
    kills: list[str] = field(default_factory=list)
    seen: list[bytes] = field(default_factory=list)
    session: str = ""

    @property
    def folder(self) -> Path:
        found = sorted(self.state.glob("harnessctl/*/sessions/*"), key=lambda p: p.name)
        return found[-1] if not self.session else next(p for p in found if p.name == self.session)

    @property
    def log(self) -> Path:
        return self.folder / "log.jsonl"

    def play(self, most_kills: int = 3) -> None:
        """Run, kill, resume, until the session ends by itself."""
        before = {p.name for p in self.state.glob("harnessctl/*/sessions/*")}
        arguments = ["run", "--model", self.model, "--max-turns", str(self.turns * 2), "go"]
        while True:
            host = subprocess.Popen(
                [COMMAND, *arguments, "--json"],
                cwd=self.root,
                stdin=subprocess.DEVNULL,
                stdout=subprocess.PIPE,
                stderr=subprocess.PIPE,
            )
            if not self.session:
                assert until(lambda: {p.name for p in self.state.glob("harnessctl/*/sessions/*")} - before)
                self.session = ({p.name for p in self.state.glob("harnessctl/*/sessions/*")} - before).pop()
                assert until(self.log.exists)
            before_this = len(self.kills)
            if before_this < most_kills:
                self._kill_somewhere(host)
            out, err = host.communicate(timeout=240)
            if host.returncode == 0:
                if self.kills[before_this:] in (["host"], ["all"]):  # it had ended already
                    self.kills.pop()
                assert json.loads(out)["answer"] == "All done."
                return
            assert host.returncode == -signal.SIGKILL, (host.returncode, out[-500:], err[-2000:])
            self.seen.append(self.log.read_bytes())
            assert until(lambda: not processes_of(self.session)), "processes outlived the host"
            arguments = ["sessions", "resume", self.session]

    def _kill_somewhere(self, host: subprocess.Popen[bytes]) -> None:
        """Wait for a random point of what is left, then kill the host, the kernel, or all of it."""
        done = self._cells()
        target = self.choose.randint(done, self.turns)
        until(lambda: host.poll() is not None or self._cells() >= target, 120)
        time.sleep(self.choose.random() * 0.02)
        if host.poll() is not None:
            return
        what = self.choose.choice(["host", "host", "kernel", "all"])
        ours = {host.pid: host} if what != "kernel" else {}
        theirs = self._registered() if what != "host" else []
        if what == "kernel":
            theirs = theirs[:1]
        if not ours and not theirs:
            return
        hit = False
        for pid in [*ours, *theirs]:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
                hit = True
        if hit:
            self.kills.append(what)

    def _cells(self) -> int:
        try:
            return self.log.read_bytes().count(b'"type":"cell"')
        except OSError:
            return 0

    def _registered(self) -> list[int]:
        try:
            found = json.loads((self.folder / "kernel" / "kernel.json").read_text())
        except (OSError, ValueError):
            return []
        return [found["pid"], found["guard"]]

    def check(self) -> None:
        """Everything that must hold once the session has ended."""
        trajectory = read_trajectory(self.folder)
        assert not trajectory.damage
        events = trajectory.events
        now = self.log.read_bytes()
        for old in self.seen:
            whole = old[: old.rfind(b"\n") + 1]
            assert now.startswith(whole), "the old log is no prefix of the new one"
        self._check_replies(events)
        self._check_effects(events)
        self._check_told(events)
        check_history(events)
        assert not processes_of(self.session)

    def _check_replies(self, events: tuple[Event, ...]) -> None:
        """The replies are those that would have come without any kill, each once."""
        said = [e.data["content"] for e in events if e.type is EventType.REPLY and "error" not in e.data]
        assert said == [*(f"step {k}" for k in range(1, self.turns + 1)), "All done."]

    def _check_effects(self, events: tuple[Event, ...]) -> None:
        """No cell's effect twice; one that is missing was cut off and told so."""
        lines = (self.root / "trace").read_text().split()
        assert lines == sorted(set(lines), key=int), "a cell's effect on the work tree is there twice"
        missing = self.turns - len(lines)
        assert missing <= len(self.kills), f"{missing} effects missing after {len(self.kills)} kills"

    def _check_told(self, events: tuple[Event, ...]) -> None:
        """Each loss of a kernel names the variables that its cells had set."""
        held: set[str] = set()
        for event in events:
            told = str(event.data.get("text") or "")
            if event.type is EventType.RESULT and event.data["status"] == "ok":
                if "the kernel was lost before" in told:
                    held = set()
                held |= set((event.data.get("variables") or {}).get("set") or {})
            lost = event.data.get("lost")
            if event.data.get("what") in ("resume", "kernel_restart") or lost is not None:
                assert held <= set(lost or {}), (held, lost)
                newest = max((n for n in held if n != "f"), key=lambda name: int(name[1:]), default="")
                if event.data.get("what") == "resume":
                    assert newest in told
                held = set()
        # One that was killed before it had written anything left no record of itself.
        assert sum(e.data.get("what") == "resume" for e in events) <= len(self.seen)


def check_history(events: tuple[Event, ...]) -> None:
    """Every later opening tells the model what it was told when it was asked."""
    view = View(system_of(events, "tool"), "tool")
    asked = 0
    for event in events:
        view.add(event)
        if event.type is EventType.REQUEST and not is_aside(event):
            assert view.digest() == event.data["digest"], f"request #{event.n} is told otherwise today"
            asked += 1
    assert asked
