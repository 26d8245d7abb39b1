"""The runtime's ports without git: a work tree of plain files, a fence that stands still, a held clock."""

from __future__ import annotations

import hashlib
from collections.abc import Mapping
from pathlib import Path

from harnessctl.domain.change import FileChange
from harnessctl.domain.event import Event
from harnessctl.models.port import Attempt


class PlainTree:
    """A folder as a work tree; hashes names and content."""

    def __init__(self, root: Path) -> None:
        self.root = root
        self._states: dict[str, dict[str, str]] = {}

    def tree_hash(self) -> str:
        state = {
            str(p.relative_to(self.root)): hashlib.sha256(p.read_bytes()).hexdigest()
            for p in sorted(self.root.rglob("*"))
            if p.is_file()
        }
        name = "sha256:" + hashlib.sha256(repr(state).encode()).hexdigest()
        self._states[name] = state
        return name

    def changes(self, before: str, after: str) -> tuple[FileChange, ...]:
        old, new = self._states[before], self._states[after]
        changed = [p for p in sorted(old.keys() | new.keys()) if old.get(p) != new.get(p)]
        return tuple(
            FileChange(p, "A" if p not in old else "D" if p not in new else "M", 1, 0) for p in changed
        )

    def patch(self, before: str, after: str) -> bytes:
        return b"".join(f"{c.status} {c.path}\n".encode() for c in self.changes(before, after))


class StillFence:
    """Harness state that moves only when a test says so."""

    def __init__(self) -> None:
        self.state = {"refs/heads/harness": "sha256:1", "harness.lock": "absent"}

    def capture(self) -> Mapping[str, str]:
        return dict(self.state)

    def unknown_moves(self, before: Mapping[str, str], after: Mapping[str, str]) -> tuple[str, ...]:
        return tuple(sorted(k for k in before.keys() | after.keys() if before.get(k) != after.get(k)))

    def commit_of(self, name: str, value: str | None) -> str | None:
        return f"commit of {value}" if name.startswith("refs/") else None


class HeldPin:
    """A pin that a test takes back by naming updates."""

    def __init__(self) -> None:
        self.held = 0
        self.taken_back: tuple[str, ...] = ()

    def hold(self) -> None:
        self.held += 1

    def release(self) -> None:
        self.held -= 1

    def revoked(self) -> tuple[str, ...]:
        return self.taken_back


class SeenWatcher:
    """Remembers what it was shown."""

    def __init__(self) -> None:
        self.events: list[Event] = []
        self.words: list[str] = []
        self.outputs: list[tuple[str, str]] = []
        self.waits: list[float] = []
        self.notes: list[str] = []

    def event(self, event: Event) -> None:
        self.events.append(event)

    def text(self, delta: str) -> None:
        self.words.append(delta)

    def output(self, stream: str, text: str) -> None:
        self.outputs.append((stream, text))

    def wait(self, attempt: Attempt, seconds: float) -> None:
        self.waits.append(seconds)

    def note(self, text: str) -> None:
        self.notes.append(text)
