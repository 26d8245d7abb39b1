"""Signals of the process, handed to the session as what they mean."""

from __future__ import annotations

import asyncio
import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager

from harnessctl.rlm.interrupts import Interrupts


@contextmanager
def heard(interrupts: Interrupts) -> Iterator[None]:
    """While this runs: SIGINT is a press, SIGTERM and SIGHUP end the session in order.

    A SIGHUP that the caller has ignored, as nohup does, stays ignored: the run is to outlive its terminal.
    Only the main thread can listen; elsewhere nothing is changed.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    loop = asyncio.get_running_loop()
    before = signal.getsignal(signal.SIGINT)
    ends = [signal.SIGTERM]
    if signal.getsignal(signal.SIGHUP) is not signal.SIG_IGN:
        ends.append(signal.SIGHUP)
    loop.add_signal_handler(signal.SIGINT, interrupts.press)
    for number in ends:
        loop.add_signal_handler(number, interrupts.end, "terminated")
    try:
        yield
    finally:
        for number in (signal.SIGINT, *ends):
            loop.remove_signal_handler(number)
        signal.signal(signal.SIGINT, before)
