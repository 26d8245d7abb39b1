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
        """The registration in ``session_dir``; None when there is none or it cannot be read.

        Any code with the user's rights may have written it: what it names is looked at before it is believed.
        """
        try:
            read = cls(**json.loads(read_small(session_dir / FILE_NAME, MOST)))
        except (OSError, ValueError, TypeError, RecursionError):
            return None
        numbers = all(type(pid) is int and 0 < pid < 2**31 for pid in (read.pid, read.guard))
        times = all(type(t) in (int, float) and 0 <= t < 2**53 for t in (read.started, read.guard_started))
        return read if numbers and times and isinstance(read.folder, str) else None

    def alive(self) -> tuple[int, ...]:
        """Process ids of this registration that still run, are the same processes, and some session's."""
        pairs = ((self.pid, self.started), (self.guard, self.guard_started))
        return tuple(pid for pid, started in pairs if same_process(pid, started) and mark_of(pid))


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


def mark_of(pid: int) -> str:
    """The session whose kernel started the process, as its environment says; "" of any other process."""
    import psutil

    try:
        return str(psutil.Process(pid).environ().get(KERNEL_MARK, ""))
    except (psutil.Error, OSError):
        return ""


def forget(session_dir: Path) -> None:
    """Remove the registration; a folder in its place is none."""
    path = session_dir / FILE_NAME
    if os.path.lexists(path) and not path.is_dir():
        os.unlink(path)


def end_left_over(session_dir: Path, session: str) -> int:
    """End what an earlier process of ``session`` left running; how many processes that were.

    The guard does this as a rule. It is for a guard that was killed together with its owner: the kernel
    is known by its registration, what it started by the mark in its environment. A forked kernel has the mark
    of the session that forked it. What this process descends from is left alone.

    :param session_dir: folder with the registration.
    """
    import psutil

    known = Registration.read(session_dir)
    found = set(known.alive()) if known is not None else set()
    found |= {pid for pid in psutil.pids() if mark_of(pid) == session}
    found -= {os.getpid(), *(above.pid for above in psutil.Process().parents())}
    for pid in found:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, signal.SIGKILL)
    forget(session_dir)
    return len(found)
