"""Who runs: process ids with start times, so that a number used again by a stranger is no kernel."""

from __future__ import annotations

import contextlib
import json
import os
import signal
from dataclasses import asdict, dataclass
from pathlib import Path

from harnessctl.config import KERNEL_MARK
from harnessctl.domain.plain_files import make, read_small

#: In a session's folder: what its kernels leave, the registration among it.
KERNEL_FOLDER = "kernel"
FILE_NAME = "kernel.json"
#: Bytes that a registration may have: two process ids and a path.
MOST = 64 * 1024
#: Start times come from clock ticks; two readings of one process agree within this many seconds.
SAME_START_S = 1.0


@dataclass(frozen=True, slots=True)
class Registration:
    """A kernel and its guard, as they stand in :data:`KERNEL_FOLDER` of the session while they run.

    :ivar started: start time of the kernel's process, seconds since the epoch.
    :ivar guard_started: the same of its guard's.
    :ivar folder: the short folder with the kernel's sockets.
    """

    pid: int
    started: float
    guard: int
    guard_started: float
    folder: str

    def write(self, session_dir: Path) -> None:
        """Write the file, whole or not at all."""
        path = session_dir / FILE_NAME
        partial = path.with_suffix(".partial")
        with make(partial) as file:
            file.write(json.dumps(asdict(self), sort_keys=True).encode() + b"\n")
        partial.replace(path)

    @classmethod
    def read(cls, session_dir: Path) -> Registration | None:
        """The registration in ``session_dir``; None when there is none or it cannot be read."""
        try:
            return cls(**json.loads(read_small(session_dir / FILE_NAME, MOST)))
        except (OSError, ValueError, TypeError):
            return None

    def alive(self) -> tuple[int, ...]:
        """Process ids of this registration that still run and are still the same processes."""
        pairs = ((self.pid, self.started), (self.guard, self.guard_started))
        return tuple(pid for pid, started in pairs if same_process(pid, started))


def start_time(pid: int) -> float:
    """Start time of a running process, seconds since the epoch; 0.0 when there is none."""
    import psutil  # 40 ms that only a started kernel needs to pay

    try:
        return psutil.Process(pid).create_time()
    except psutil.Error:
        return 0.0


def same_process(pid: int, started: float) -> bool:
    """Whether ``pid`` runs, is no zombie, and started when ``started`` says."""
    import psutil

    try:
        process = psutil.Process(pid)
        return (
            process.status() != psutil.STATUS_ZOMBIE and abs(process.create_time() - started) < SAME_START_S
        )
    except psutil.Error:
        return False


def forget(session_dir: Path) -> None:
    """Remove the registration; a folder in its place is none."""
    path = session_dir / FILE_NAME
    if os.path.lexists(path) and not path.is_dir():
        os.unlink(path)


def end_left_over(session_dir: Path, session: str) -> int:
    """End what an earlier process of ``session`` left running; how many processes that were.

    The guard does this as a rule. It is for a guard that was killed together with its owner: the kernel
    is known by its registration, what it started by the mark in its environment.

    :param session_dir: folder with the registration.
    """
    import psutil

    known = Registration.read(session_dir)
    found = {pid for pid in known.alive() if pid != os.getpid()} if known is not None else set()
    for process in psutil.process_iter(["pid"]):
        with contextlib.suppress(psutil.Error, OSError):
            if process.environ().get(KERNEL_MARK) == session and process.pid != os.getpid():
                found.add(process.pid)
    for pid in found:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    forget(session_dir)
    return len(found)
