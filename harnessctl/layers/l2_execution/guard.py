"""The process between harnessctl and a kernel: nothing a kernel started outlives its owner.

Run as a script with harnessctl's own Python, standard library only, by
:mod:`harnessctl.layers.l2_execution.process`::

    python -I -S guard.py <fd of a socket> <folder to remove at the end> <log file> -- <command...>

It starts the command in a session of its own and speaks JSON lines over the socket. To the owner:
``{"pid": 123}`` once, then ``{"exit": 3, "signal": null}`` or ``{"exit": null, "signal": 9}`` when
the command has ended and everything below it with it. From the owner: ``{"signal": 2}`` for the
command's process group. End of file means that the owner is gone, by whatever death: then
everything ends. A kernel that watched its parent by itself could not do so while a C call holds
the interpreter, and its children would stay.
"""

from __future__ import annotations

import contextlib
import json
import os
import select
import shutil
import signal
import socket
import subprocess
import sys
import time

#: ``PR_SET_CHILD_SUBREAPER`` (Linux): orphans below us become our children instead of init's.
SUBREAPER = 36


def adopt_orphans() -> None:
    """Become the parent of every process below us that loses its own, where the system can do it."""
    if sys.platform == "linux":
        import ctypes

        ctypes.CDLL(None).prctl(SUBREAPER, 1, 0, 0, 0)


def children(pid: int) -> list[int]:
    """Direct children of ``pid``, read from ``/proc``; [] where there is none."""
    found = []
    for name in os.listdir("/proc") if sys.platform == "linux" else ():
        if name.isdigit():
            try:
                with open(f"/proc/{name}/stat", "rb") as file:
                    parent = int(file.read().rpartition(b")")[2].split()[1])
            except (OSError, IndexError, ValueError):
                continue
            if parent == pid:
                found.append(int(name))
    return found


def signal_group(group: int, number: int) -> None:
    """Send a signal to a process group that may be gone already."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.killpg(group, number)


def end_everything(group: int, patience_s: float = 5.0) -> None:
    """Kill the command's group, then whatever was reparented to us, until nothing is left."""
    deadline = time.monotonic() + patience_s
    signal_group(group, signal.SIGKILL)
    while time.monotonic() < deadline:
        left = children(os.getpid())
        for pid in left:
            with contextlib.suppress(ProcessLookupError):
                os.kill(pid, signal.SIGKILL)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(0.01)


class Guard:
    """One command and the socket to its owner."""

    def __init__(self, owner: socket.socket, command: list[str], log: str) -> None:
        self.owner = owner
        self.wake, wake_write = os.pipe()
        os.set_blocking(wake_write, False)
        signal.set_wakeup_fd(wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, lambda *_: sys.exit(0))
        with open(log, "ab") as file:
            # The kernel's own watch over its parent must look at us.
            self.command = subprocess.Popen(
                command,
                stdin=subprocess.DEVNULL,
                stdout=file,
                stderr=file,
                env={**os.environ, "JPY_PARENT_PID": str(os.getpid())},
                start_new_session=True,
            )
        self.say({"pid": self.command.pid})

    def say(self, message: dict[str, object]) -> None:
        """Tell the owner, who may be gone."""
        with contextlib.suppress(OSError):
            self.owner.sendall(json.dumps(message).encode() + b"\n")

    def watch(self) -> None:
        """Until the command has ended or the owner is gone."""
        waiting = b""
        while self.command.poll() is None:
            ready, _, _ = select.select([self.owner.fileno(), self.wake], [], [])
            if self.wake in ready:
                os.read(self.wake, 512)
            if self.owner.fileno() in ready:
                data = self.owner.recv(4096)
                if not data:
                    return
                *lines, waiting = (waiting + data).split(b"\n")
                for line in lines:
                    signal_group(self.command.pid, int(json.loads(line)["signal"]))

    def end(self, folder: str) -> None:
        """Leave nothing behind, then say how the command ended."""
        code = self.command.poll()
        end_everything(self.command.pid)
        if os.path.isdir(folder):  # a cell may have put a pipe there, at which rmtree would wait
            shutil.rmtree(folder, ignore_errors=True)
        if code is not None:
            self.say(
                {"exit": code if code >= 0 else None, "signal": -code if code < 0 else None},
            )


def main() -> None:
    """Entry point; see the module's docstring for the arguments."""
    fd, folder, log, _, *command = sys.argv[1:]
    adopt_orphans()
    guard = Guard(socket.socket(fileno=int(fd)), command, log)
    try:
        guard.watch()
    finally:
        guard.end(folder)


if __name__ == "__main__":
    main()
