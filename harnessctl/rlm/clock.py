"""The real clock, and a watcher that looks away."""

from __future__ import annotations

import time
from datetime import UTC, datetime

from harnessctl.domain.event import Event
from harnessctl.models.port import Attempt


class SystemClock:
    """:class:`~harnessctl.rlm.ports.Clock` over the system's time."""

    def utc(self) -> str:
        """Now, UTC."""
        return datetime.now(UTC).isoformat(timespec="milliseconds").replace("+00:00", "Z")

    def monotonic(self) -> float:
        """Seconds since some fixed moment."""
        return time.monotonic()


class SilentWatcher:
    """:class:`~harnessctl.rlm.ports.Watcher` for runs nobody looks at."""

    def event(self, event: Event) -> None:
        """Not shown."""

    def text(self, delta: str) -> None:
        """Not shown."""

    def output(self, stream: str, text: str) -> None:
        """Not shown."""

    def wait(self, attempt: Attempt, seconds: float) -> None:
        """Not shown."""

    def note(self, text: str) -> None:
        """Not shown."""
