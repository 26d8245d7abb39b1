"""The real clock, a watcher that looks away, and a pin that nobody needs to hold."""

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


class NoPin:
    """:class:`~harnessctl.rlm.ports.PinWatch` of a session that reads no revision."""

    def hold(self) -> None:
        """There is nothing to hold."""

    def release(self) -> None:
        """Nor to let go of."""

    def revoked(self) -> tuple[str, ...]:
        """Nothing can be taken back."""
        return ()


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
