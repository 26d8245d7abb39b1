"""One preloaded process that forks kernels: IPython is imported once, a kernel starts in milliseconds.

Run as a script by :mod:`harnessctl.layers.l2_execution.forks`, with the kernels' own Python, which
need not have harnessctl: this file and ``forkedkernel.py`` beside it import the standard library and
ipykernel only::

    python forkserver.py <fd of a SOCK_SEQPACKET socket> [--package=NAME=FOLDER...] <options of kernels...>

A package is imported with all its modules, so that kernels find it loaded.

Two processes stand behind it. The *keeper* forks the *server* before anything is imported, and waits:
when the server is gone, by whatever death, the keeper ends everything that was below it. The server
imports IPython and starts nothing (no thread, no zmq context, no event loop), so that a fork of it is
a whole process. Both live until the owner closes the socket or dies.

Requests, one a message. A fork: ``{"do": "fork", "remove": "/a/folder"}`` with four descriptors: a file
that holds ``{"argv": [...], "environment": {...}, "cwd": "..."}``, the kernel's stdout and stderr, the
write end of a pipe for its status; the folder, "" for none, is removed when the kernel has ended. A
signal for a kernel's process group: ``{"do": "signal", "pid": 12, "signal": 2}``.

Status, JSON lines on the kernel's pipe: ``{"pid": 12}`` from the server; ``{"ready": true}`` from the
kernel once its sockets are bound, or ``{"failed": "why"}``; at the end ``{"exit": 0, "signal": null}``
or ``{"exit": null, "signal": 9}`` from the server, when the processes that the kernel left behind have
ended too. A pipe that ends without that line: the server is gone, and with it every kernel.

Linux only: fork without exec is not safe on macOS, where the system's own libraries keep threads.
"""

from __future__ import annotations

import sys

if __name__ == "__main__" and sys.path[0] == __file__.rpartition("/")[0]:
    # The folder of this file is no place to import from, for us or for a cell.
    del sys.path[0]

import contextlib
import ctypes
import gc
import importlib
import importlib.util
import json
import os
import select
import shutil
import signal
import socket
import time
import traceback
from typing import Any

#: Options of prctl(2).
PDEATHSIG, SUBREAPER = 1, 36
#: Begins an argument that names a package to import.
PACKAGE = "--package="
#: Bytes of one request.
MESSAGE = 8192
#: Seconds after which a kernel's end is told although a process that it left behind does not die.
PATIENCE_S = 2.0
#: Seconds between two looks at processes that were killed and are not gone yet.
LOOK_S = 0.01


def process_option(option: int, value: int) -> None:
    """prctl(2) with one argument."""
    ctypes.CDLL(None).prctl(option, value, 0, 0, 0)


def children() -> list[int]:
    """Direct children of this process, zombies among them."""
    here, found = os.getpid(), []
    for name in filter(str.isdigit, os.listdir("/proc")):
        with contextlib.suppress(OSError), open(f"/proc/{name}/stat", "rb") as file:
            if int(file.read().rpartition(b")")[2].split()[1]) == here:
                found.append(int(name))
    return found


def kill(pid: int) -> None:
    """End one of our own children; until it is waited for, its number belongs to nobody else."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        os.kill(pid, signal.SIGKILL)


def signal_group(pid: int, number: int) -> None:
    """Signal the group of a child; one that has had no time to make its group gets it alone."""
    with contextlib.suppress(ProcessLookupError, PermissionError):
        try:
            os.killpg(pid, number)
        except ProcessLookupError:
            os.kill(pid, number)


def end_children() -> None:
    """Kill and wait for every child, and for those that become ours as their parents end."""
    deadline = time.monotonic() + PATIENCE_S
    while time.monotonic() < deadline:
        for pid in children():
            kill(pid)
        try:
            while os.waitpid(-1, os.WNOHANG)[0]:
                pass
        except ChildProcessError:
            return
        time.sleep(LOOK_S)


def keep(server: int, owner: int) -> None:
    """The keeper's life: wait for the server, then leave nothing behind."""

    def end(*_: object) -> None:
        os.kill(server, signal.SIGTERM)
        signal.setitimer(signal.ITIMER_REAL, 2 * PATIENCE_S)

    def owner_may_be_gone(*_: object) -> None:
        if os.getppid() != owner:
            end()

    signal.signal(signal.SIGHUP, owner_may_be_gone)
    signal.signal(signal.SIGTERM, end)
    signal.signal(signal.SIGALRM, lambda *_: kill(server))
    process_option(PDEATHSIG, signal.SIGHUP)
    owner_may_be_gone()
    while os.wait()[0] != server:
        pass
    for number in (signal.SIGHUP, signal.SIGTERM, signal.SIGALRM):
        signal.signal(number, signal.SIG_IGN)
    end_children()


def tell(status: int, **message: object) -> bool:
    """One line for the owner; False when nobody reads the pipe any more."""
    try:
        os.write(status, json.dumps(message).encode() + b"\n")
    except OSError:
        return False
    return True


def threads() -> str:
    """Why this process must not fork; "" while it has one thread, as it should."""
    count = len(os.listdir("/proc/self/task"))
    return "" if count == 1 else f"something that the preloaded process imported started {count - 1} threads"


class Request:
    """One kernel to be: a file with what it starts with, its streams, its status pipe."""

    def __init__(self, fds: list[int]) -> None:
        self.file, self.stdout, self.stderr, self.status = fds

    def read(self) -> dict[str, Any]:
        """What the kernel starts with."""
        with open(self.file, "rb", closefd=False) as stream:
            wanted: dict[str, Any] = json.load(stream)
        return wanted

    def close(self) -> None:
        """Give back all but the status pipe."""
        for fd in (self.file, self.stdout, self.stderr):
            os.close(fd)


class Kernel:
    """A kernel that was forked and whose end is not told yet.

    :ivar code: how it ended, None while it runs: exit code, or minus the signal that ended it.
    :ivar deadline: when to tell at the latest (monotonic seconds).
    """

    def __init__(self, status: int, folder: str) -> None:
        self.status, self.folder = status, folder
        self.code: int | None = None
        self.deadline = 0.0

    def tell_end(self) -> None:
        """Say how it ended, and clear its folder away."""
        assert self.code is not None
        if os.path.isdir(self.folder):  # a cell may have put a pipe there, at which rmtree would wait
            shutil.rmtree(self.folder, ignore_errors=True)
        exited = self.code >= 0
        tell(self.status, exit=self.code if exited else None, signal=None if exited else -self.code)
        os.close(self.status)


class Server:
    """The loop of the preloaded process.

    :ivar kernels: by process id, all whose end is not told yet.
    :ivar refusal: why no kernel can be forked; "" when one can.
    """

    def __init__(self, control: socket.socket) -> None:
        self.control = control
        self.kernels: dict[int, Kernel] = {}
        self.refusal = ""
        self.stop = False
        self.keeper = os.getppid()
        self.wake, self.wake_write = os.pipe()
        for fd in (self.wake, self.wake_write):
            os.set_blocking(fd, False)
        signal.set_wakeup_fd(self.wake_write, warn_on_full_buffer=False)
        signal.signal(signal.SIGCHLD, lambda *_: None)
        signal.signal(signal.SIGTERM, self.on_end)
        signal.signal(signal.SIGHUP, self.on_keeper)
        signal.signal(signal.SIGINT, signal.SIG_IGN)
        process_option(SUBREAPER, 1)
        process_option(PDEATHSIG, signal.SIGHUP)

    def on_end(self, *_: object) -> None:
        """Somebody asked us to end."""
        self.stop = True

    def on_keeper(self, *_: object) -> None:
        """The keeper may be gone; a terminal that hangs up is no business of ours."""
        self.stop = self.stop or os.getppid() != self.keeper

    def serve(self) -> Request | None:
        """Answer until the owner is gone; comes back in each forked kernel too, with its request."""
        if sys.platform != "linux":
            raise OSError("a fork without exec is safe on Linux only")
        control, poll = self.control.fileno(), select.poll()
        poll.register(control, select.POLLIN)
        poll.register(self.wake, select.POLLIN)
        self.on_keeper()
        while not self.stop:
            ready = dict(poll.poll(LOOK_S * 1000 if self.ended() else None))
            if self.wake in ready:
                os.read(self.wake, 512)
            self.reap()
            if control in ready:
                message, fds, _, _ = socket.recv_fds(self.control, MESSAGE, 4, socket.MSG_CMSG_CLOEXEC)
                if not message:
                    break
                request = self.answer(json.loads(message), fds)
                if request is not None:
                    return request
        self.end()
        return None

    def answer(self, message: dict[str, Any], fds: list[int]) -> Request | None:
        """Do one request; comes back with it in the forked kernel, with None in the server."""
        if message["do"] == "signal":
            kernel = self.kernels.get(message["pid"])
            if kernel is not None and kernel.code is None:
                signal_group(message["pid"], message["signal"])
            return None
        request = Request(fds)
        refusal = self.refusal or threads()
        try:
            if not refusal and self.fork(request, message["remove"]):
                return request
        except OSError as error:
            refusal = f"cannot fork: {error.strerror}"
        if refusal:
            tell(request.status, failed=refusal)
            os.close(request.status)
        request.close()
        return None

    def fork(self, request: Request, folder: str) -> bool:
        """Fork a kernel; True in the kernel."""
        sys.stdout.flush()
        sys.stderr.flush()
        server = os.getpid()
        held = signal.pthread_sigmask(signal.SIG_BLOCK, signal.valid_signals())
        try:
            pid = os.fork()
            if pid == 0:
                try:
                    self.become_kernel(server, request)
                except BaseException:
                    # Never back into the loop: there must be one server.
                    tell(request.status, failed=traceback.format_exc(limit=-3))
                    os._exit(1)
                return True
        finally:
            signal.pthread_sigmask(signal.SIG_SETMASK, held)
        self.kernels[pid] = Kernel(request.status, folder)
        if not tell(request.status, pid=pid):
            kill(pid)
        return False

    def become_kernel(self, server: int, request: Request) -> None:
        """In the child: be a process of its own, end with the server, keep nothing of the server's."""
        process_option(PDEATHSIG, signal.SIGKILL)
        if os.getppid() != server:
            os._exit(1)
        os.setsid()
        # What a cell puts in the background stays below its kernel, and so is known to be this kernel's.
        process_option(SUBREAPER, 1)
        signal.set_wakeup_fd(-1)
        for number in (signal.SIGCHLD, signal.SIGTERM, signal.SIGHUP):
            signal.signal(number, signal.SIG_DFL)
        self.control.close()
        for fd in (self.wake, self.wake_write, *(kernel.status for kernel in self.kernels.values())):
            os.close(fd)
        os.dup2(request.stdout, 1)
        os.dup2(request.stderr, 2)

    def ended(self) -> list[int]:
        """Kernels that have ended and whose end is not told yet."""
        return [pid for pid, kernel in self.kernels.items() if kernel.code is not None]

    def reap(self) -> None:
        """Take note of kernels that ended; tell of each when what it left behind is gone."""
        with contextlib.suppress(ChildProcessError):
            while (found := os.waitpid(-1, os.WNOHANG))[0]:
                if kernel := self.kernels.get(found[0]):
                    kernel.code = os.waitstatus_to_exitcode(found[1])
                    kernel.deadline = time.monotonic() + PATIENCE_S
        if ended := self.ended():
            # A running kernel keeps what it starts, so the others were left by those that ended.
            left = [pid for pid in children() if pid not in self.kernels]
            for pid in left:
                kill(pid)
            for pid in ended:
                if not left or time.monotonic() > self.kernels[pid].deadline:
                    self.kernels.pop(pid).tell_end()

    def end(self) -> None:
        """End every kernel and all below, and say so."""
        deadline = time.monotonic() + PATIENCE_S
        for pid, kernel in self.kernels.items():
            if kernel.code is None:
                signal_group(pid, signal.SIGKILL)
        while self.kernels and time.monotonic() < deadline:
            self.reap()
            time.sleep(LOOK_S / 10)
        end_children()


def preload(options: list[str]) -> Any:
    """Import IPython, and prepare what kernels share: ``Preloaded`` of ``forkedkernel.py`` beside this file.

    Nobody debugs an agent's cells step by step, and debugpy brings 150 modules. A cell may import it.
    """
    path = os.path.join(os.path.dirname(os.path.abspath(__file__)), "forkedkernel.py")
    sys.modules["debugpy"] = None  # type: ignore[assignment]
    try:
        return load("forkedkernel", path).Preloaded(options)
    finally:
        del sys.modules["debugpy"]


def load(name: str, path: str, folder: str | None = None) -> Any:
    """Import a module by its path; with ``folder``, the package that is there."""
    places = None if folder is None else [folder]
    spec = importlib.util.spec_from_file_location(name, path, submodule_search_locations=places)
    assert spec is not None
    assert spec.loader is not None
    module = importlib.util.module_from_spec(spec)
    if folder is not None:
        sys.modules[name] = module
    spec.loader.exec_module(module)
    return module


def load_package(name: str, folder: str) -> None:
    """Import a package and each of its modules."""
    load(name, os.path.join(folder, "__init__.py"), folder)
    for file in sorted(os.listdir(folder)):
        stem, ending = os.path.splitext(file)
        if ending == ".py" and stem != "__init__":
            importlib.import_module(f"{name}.{stem}")


def become(kernel: Any, request: Request) -> None:
    """The kernel's life, from the first instruction of its own to its last."""
    status = request.status
    try:
        wanted = request.read()
        request.close()
        gc.enable()
        kernel.initialize(wanted)
    except BaseException:
        tell(status, failed=traceback.format_exc(limit=-3))
        raise
    tell(status, ready=True)
    os.close(status)
    kernel.start()


def main() -> None:
    """Entry point; see the module's docstring for the arguments."""
    control, owner = socket.socket(fileno=int(sys.argv[1])), os.getppid()
    packages = [option[len(PACKAGE) :] for option in sys.argv[2:] if option.startswith(PACKAGE)]
    options = [option for option in sys.argv[2:] if not option.startswith(PACKAGE)]
    process_option(SUBREAPER, 1)
    child = os.fork()
    if child:
        control.close()
        keep(child, owner)
        return
    server, kernel = Server(control), None
    gc.disable()
    try:
        kernel = preload(options)
        for package in packages:
            load_package(*package.split("=", 1))
    except Exception:
        server.refusal = traceback.format_exc(limit=-3)
    gc.freeze()
    request = server.serve()
    if request is not None:
        become(kernel, request)


if __name__ == "__main__":
    main()
