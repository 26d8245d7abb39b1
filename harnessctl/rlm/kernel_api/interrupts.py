"""An interrupt reaches the code of a cell, and nothing of the kernel around it."""

from __future__ import annotations

import os
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any


@contextmanager
def held_back() -> Iterator[None]:
    """Interrupts of the cell come when this ends, within what is around it."""
    here = threading.current_thread() is threading.main_thread()
    if not here or signal.getsignal(signal.SIGINT) is None:  # elsewhere none comes; a library took them
        yield
        return
    noted = []
    before = signal.signal(signal.SIGINT, lambda *_: noted.append(True))
    try:
        yield
    finally:
        signal.signal(signal.SIGINT, before)
        if noted:
            os.kill(os.getpid(), signal.SIGINT)


class CodeAlone:
    """Says who takes an interrupt while a request is answered.

    ipykernel lets it through from the request's arrival until the reply is sent. Where it hits neither
    code nor IPython's way to run it, it ends the loop that answers, and the kernel is never heard of again.
    """

    def __init__(self, ip: Any) -> None:
        self._noted = False
        self._running = 0
        self._run = ip.run_ast_nodes
        ip.run_ast_nodes = self._run_nodes
        ip.kernel.pre_handler_hook, ip.kernel.post_handler_hook = self._arrived, self._over

    def _arrived(self) -> None:
        self._noted = False
        signal.signal(signal.SIGINT, self._note)

    def _note(self, *_: object) -> None:
        self._noted = True

    def _over(self) -> None:
        signal.signal(signal.SIGINT, signal.SIG_IGN)

    async def _run_nodes(self, *what: Any, **more: Any) -> Any:
        """Code of a cell, and of cells that it runs itself. What is raised here counts as the code's own."""
        self._running += 1
        try:
            if self._running == 1:
                # A cell that awaits has a handler of ipykernel's own already.
                if signal.getsignal(signal.SIGINT) == self._note:
                    signal.signal(signal.SIGINT, signal.default_int_handler)
                if self._noted:
                    os.kill(os.getpid(), signal.SIGINT)
            return await self._run(*what, **more)
        finally:
            self._running -= 1
            if not self._running:
                self._over()
