"""Signals of the process, handed to the session as what they mean."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from harnessctl.rlm.interrupts import Interrupts

_NUMBERS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def heard(interrupts: Interrupts) -> Iterator[None]:
    """While this runs: SIGINT is a press, SIGTERM and SIGHUP end the session in order.

    A SIGHUP that the caller has ignored, as nohup does, stays ignored: the run is to outlive its terminal.
    Only the main thread can listen; elsewhere nothing is changed. Where the session is all that the process
    is there for (:attr:`Interrupts.last`), the signals stay without effect afterwards, until :func:`let_go`:
    its outcome stands, and what is left of it is short.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    before = {number: signal.getsignal(number) for number in _NUMBERS}
    if before[signal.SIGHUP] is signal.SIG_IGN:
        del before[signal.SIGHUP]
    for number in before:
        if number is signal.SIGINT:
            loop.add_signal_handler(number, interrupts.press)
        else:
            loop.add_signal_handler(number, interrupts.end, "terminated")
    over = False
    try:
        yield
        over = interrupts.last
    finally:
        for number, handler in before.items():
            loop.remove_signal_handler(number)
            signal.signal(number, _held_off if over and handler is not signal.SIG_IGN else handler)


def let_go() -> None:
    """Let the signals that :func:`heard` still holds off end the process again."""
    for number in _NUMBERS:
        if signal.getsignal(number) is _held_off:
            signal.signal(number, signal.default_int_handler if number is signal.SIGINT else signal.SIG_DFL)


def _held_off(number: int, frame: object) -> None:
    """No effect; SIG_IGN would be inherited by whatever is started meanwhile."""
