"""Lines that the user types while a session works, handed over as messages."""

from __future__ import annotations

import asyncio
import contextlib
import os
from collections.abc import Callable, Iterator
from contextlib import contextmanager

#: Bytes of one read; a terminal hands over a line at a time.
CHUNK = 65_536


class TypedLines:
    """Listens to a terminal on the running event loop.

    :param descriptor: of the terminal, which stays in line mode: what is typed shows as usual.
    :param tell: says to the user that a message waits.
    """

    def __init__(self, descriptor: int, tell: Callable[[str], None]) -> None:
        self._descriptor = descriptor
        self._tell = tell
        self._partial = b""

    @contextmanager
    def __call__(self, put: Callable[[str], None]) -> Iterator[None]:
        """While this runs, every line goes to ``put``."""
        loop = asyncio.get_running_loop()

        def typed() -> None:
            data = self._read()
            if data is None:
                return
            if not data:  # Ctrl-D: nothing more will come
                loop.remove_reader(self._descriptor)
            *lines, self._partial = (self._partial + data).split(b"\n")
            for line in lines:
                text = line.decode("utf-8", "replace").strip()
                if text:
                    put(text)
                    self._tell(f"the model reads this at its next turn: {text}")

        try:
            loop.add_reader(self._descriptor, typed)
        except (OSError, ValueError):  # not something that can be waited for
            yield
            return
        try:
            yield
        finally:
            with contextlib.suppress(OSError, ValueError):
                loop.remove_reader(self._descriptor)

    def _read(self) -> bytes | None:
        """What was typed; None while the terminal belongs to another job, whose input it would be."""
        try:
            if os.tcgetpgrp(self._descriptor) != os.getpgrp():
                return None
            return os.read(self._descriptor, CHUNK)
        except OSError:
            return b""
