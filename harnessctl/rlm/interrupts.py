"""What the user's Ctrl-C means at a moment: first the thing that runs now, then the whole session."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Interrupts:
    """Knows what runs now and whether it was interrupted already.

    :ivar stopped: why the session must end, "" while it need not.
    :ivar last: nothing comes after the session but telling of its outcome.
    """

    def __init__(self, *, last: bool = False) -> None:
        self.stopped, self.last = "", last
        self._aim: Callable[[], object] | None = None
        self._pressed = self._fresh = False
        self._stop: Callable[[], object] | None = None

    def attach(self, stop: Callable[[], object]) -> None:
        """``stop`` ends the session's work; called at once when that was asked for already."""
        self._stop = stop
        if self.stopped:
            stop()

    @contextmanager
    def aim(self, action: Callable[[], object]) -> Iterator[None]:
        """While this runs, the first press calls ``action``."""
        self._aim = action
        try:
            yield
        finally:
            self._aim = None

    def press(self) -> None:
        """Ctrl-C: interrupt what runs; the second one, or one when nothing runs, ends the session."""
        if self._aim is not None and not self._pressed and not self.stopped:
            self._pressed = self._fresh = True
            self._aim()
        else:
            self.end("interrupted")

    def end(self, reason: str) -> None:
        """End the session in order: ``interrupted`` or ``terminated``."""
        self.stopped = self.stopped or reason
        if self._stop is not None:
            self._stop()

    def turn_over(self) -> None:
        """A turn has ended. After a whole one without a press the next press is a first one again.

        Not after the turn that was interrupted: somebody who presses twice may do so while it ends.
        """
        self._pressed, self._fresh = self._fresh, False
