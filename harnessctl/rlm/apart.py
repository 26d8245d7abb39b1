"""What a child has in place of its root's ports: the same work tree and pin, watched by the root alone."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from harnessctl.domain.change import FileChange
from harnessctl.domain.event import Event
from harnessctl.models.port import Attempt
from harnessctl.rlm.ports import PinWatch, Watcher


class SharedTree:
    """The root's :class:`~harnessctl.rlm.ports.WorkTree`; what changes in it, the root says."""

    def __init__(self, root: Path) -> None:
        self.root = root

    def tree_hash(self) -> str:
        """Not taken."""
        return ""

    def changes(self, before: str, after: str) -> tuple[FileChange, ...]:  # noqa: ARG002 - the port's
        """Not looked for."""
        return ()

    def patch(self, before: str, after: str) -> bytes:  # noqa: ARG002 - the port's
        """Nor written."""
        return b""


class NoFence:
    """:class:`~harnessctl.rlm.ports.HarnessState` of a session whose root compares it."""

    def capture(self) -> Mapping[str, str]:
        """Nothing."""
        return {}

    def unknown_moves(
        self,
        before: Mapping[str, str],  # noqa: ARG002 - the port's
        after: Mapping[str, str],  # noqa: ARG002 - the port's
    ) -> tuple[str, ...]:
        """None."""
        return ()

    def commit_of(self, name: str, value: str | None) -> None:
        """Not looked for."""


class SharedPin:
    """The root's :class:`~harnessctl.rlm.ports.PinWatch`, held by the root."""

    def __init__(self, pin: PinWatch) -> None:
        self._pin = pin

    def hold(self) -> None:
        """The root does."""

    def release(self) -> None:
        """The root does."""

    def revoked(self) -> tuple[str, ...]:
        """What was taken back ends a child too."""
        return self._pin.revoked()


class ChildWatcher:
    """What of a child is worth the attention of somebody who watches its root: notes and waits."""

    def __init__(self, name: str, watcher: Watcher) -> None:
        self._name = name
        self._watcher = watcher

    def event(self, event: Event) -> None:
        """Not shown; its parent's log says when it began and ended."""

    def text(self, delta: str) -> None:
        """Not shown."""

    def output(self, stream: str, text: str) -> None:
        """Not shown."""

    def wait(self, attempt: Attempt, seconds: float) -> None:
        """In words, with its name."""
        self.note(f"{attempt.kind}; next try in {seconds:.1f} s")

    def note(self, text: str) -> None:
        """With its name."""
        self._watcher.note(f"{self._name}: {text}")
