"""Calls from a cell to the host: one Unix socket, JSON lines, opened with the first call.

:mod:`harnessctl.rlm.door` is the other end and says what stands in a line. Any thread may call; an
interrupt ends the wait and takes the call back.
"""

from __future__ import annotations

import contextlib
import itertools
import json
import os
import socket
import threading
from concurrent.futures import Future
from typing import Any

#: Version of the messages.
VERSION = 1
#: Bytes of one message at most.
MOST_BYTES = 16 * 1024 * 1024


class HostError(RuntimeError):
    """The host did not do what a cell asked for; its own words.

    :ivar id: stable name of the reason.
    """

    def __init__(self, message: str, id: str = "host") -> None:  # noqa: A002 - the word of every error
        super().__init__(message)
        self.id = id


class Host:
    """The host of this kernel.

    :param path: its socket.
    """

    def __init__(self, path: str) -> None:
        self._path = path
        self._numbers = itertools.count(1)
        self._lock = threading.Lock()
        self._line: Line | None = None

    def call(self, do: str, **what: Any) -> Any:
        """Have ``do`` done and wait for its value.

        :raises HostError: it was not done.
        """
        future: Future[Any] = Future()
        try:
            self._ask(future, do, what)
            return future.result()
        except BaseException:
            future.cancel()
            raise

    def submit(self, do: str, **what: Any) -> Future[Any]:
        """Ask for ``do``; cancelling the future takes the request back.

        :raises HostError: it could not be asked.
        """
        future: Future[Any] = Future()
        try:
            self._ask(future, do, what)
        except BaseException:
            # An interrupt may come when the request has been sent already.
            future.cancel()
            raise
        return future

    def _ask(self, future: Future[Any], do: str, what: dict[str, Any]) -> None:
        number = next(self._numbers)
        line = self._connected()
        line.waiting[number] = future
        future.add_done_callback(lambda done: line.take_back(number) if done.cancelled() else None)
        line.send({"v": VERSION, "id": number, "do": do, "with": what})
        if line.closed:
            line.give_up()

    def _connected(self) -> Line:
        with self._lock:
            # A forked copy of this process has the socket, and no thread that reads it.
            if self._line is None or self._line.closed or self._line.process != os.getpid():
                self._line = Line(self._path)
            return self._line


class Line:
    """One connection to the host.

    :ivar waiting: requests without an answer, by number.
    :ivar process: who made it.
    """

    def __init__(self, path: str) -> None:
        self.waiting: dict[int, Future[Any]] = {}
        self.process = os.getpid()
        self.closed = False
        self._lock = threading.Lock()
        self._socket = socket.socket(socket.AF_UNIX)
        try:
            self._socket.connect(path)
        except OSError as error:
            self._socket.close()
            raise HostError(f"the host does not answer: {error.strerror or error}", "no_host") from error
        threading.Thread(target=self._read, name="harnessctl-host", daemon=True).start()

    def send(self, message: dict[str, Any]) -> None:
        """Send one message.

        :raises HostError: it is too large, or the host is gone.
        :raises TypeError: what it holds is not JSON.
        """
        data = json.dumps(message).encode() + b"\n"
        if len(data) > MOST_BYTES:
            raise HostError(f"{len(data):,} bytes are too much; {MOST_BYTES:,} fit", "too_large")
        try:
            with self._lock:
                self._socket.sendall(data)
        except OSError as error:
            raise HostError(f"the host is gone: {error.strerror or error}", "no_host") from error

    def take_back(self, number: int) -> None:
        """Nobody waits for the answer to ``number`` any more."""
        if self.waiting.pop(number, None) is not None:
            with contextlib.suppress(HostError):
                self.send({"v": VERSION, "cancel": number})

    def _read(self) -> None:
        with contextlib.suppress(OSError), self._socket.makefile("rb") as lines:
            for line in lines:
                self._hear(json.loads(line))
        self.closed = True
        self.give_up()
        self._socket.close()

    def give_up(self) -> None:
        """The connection has ended: nothing that waits will be answered."""
        with contextlib.suppress(KeyError):
            while True:
                self._fail(self.waiting.popitem()[1], {"message": "the host is gone", "id": "no_host"})

    def _hear(self, message: dict[str, Any]) -> None:
        future = self.waiting.pop(message["id"], None)
        if future is None or not future.set_running_or_notify_cancel():
            return
        if "error" in message:
            self._fail(future, message["error"])
        else:
            future.set_result(message["value"])

    def _fail(self, future: Future[Any], error: dict[str, str]) -> None:
        if future.running() or future.set_running_or_notify_cancel():
            future.set_exception(HostError(error["message"], error["id"]))
