"""The door between a session's kernel and its host: what code in a cell can ask for.

A Unix socket in a folder of the user's own, JSON lines. From the kernel
``{"v": 1, "id": 7, "do": "history.search", "with": {…}}``, and ``{"v": 1, "cancel": 7}`` when nobody waits
any more; back ``{"id": 7, "value": …}`` or ``{"id": 7, "error": {"id": …, "message": …}}``. Answers come in
any order. Each room hands in what it does, by name; the door knows none of them.

Whoever may open the socket has the user's rights already: this is no wall, see ``docs/design``.
"""

from __future__ import annotations

import asyncio
import contextlib
import json
from collections.abc import Awaitable, Callable, Mapping
from pathlib import Path
from typing import Any, Protocol

from harnessctl.domain.errors import HarnessError
from harnessctl.rlm.ending import EndSession
from harnessctl.rlm.kernel_api.host import MOST_BYTES, VERSION

#: Does one kind of request: what the cell gave -> a value that is JSON. Its HarnessError reaches the cell.
Handler = Callable[[Mapping[str, Any]], Awaitable[Any]]
_NAME = "door"


class Room(Protocol):
    """Whoever does something for cells."""

    def handlers(self) -> Mapping[str, Handler]:
        """By the name of the request."""
        ...


class DoorError(HarnessError):
    """A request that the door itself refuses."""

    def __init__(self, message: str) -> None:
        super().__init__(message, id="bad_request", hint="use the functions that the kernel comes with")


class Door:
    """Answers the requests of one session's kernels, as many at once as they send."""

    def __init__(self) -> None:
        self._handlers: dict[str, Handler] = {}
        self._servers: list[asyncio.Server] = []
        self._visits: set[asyncio.Task[None]] = set()

    def admit(self, room: Room) -> None:
        """Answer what ``room`` does, from now on."""
        self._handlers.update(room.handlers())

    async def listen(self, folder: Path) -> Path:
        """Listen in ``folder``, which is private to the user; the socket there.

        :raises OSError: no socket can be made.
        """
        path = folder / _NAME
        # Kept before it serves: whoever is cancelled in between leaves nothing open.
        server = await asyncio.start_unix_server(self._visit, path, limit=MOST_BYTES, start_serving=False)
        self._servers.append(server)
        await server.start_serving()
        return path

    async def close(self) -> None:
        """Give up what is being done, and listen no more. Closing twice is harmless."""
        while self._servers:
            self._servers.pop().close()
        visits = tuple(self._visits)
        for visit in visits:
            visit.cancel()
        await asyncio.gather(*visits, return_exceptions=True)

    async def _visit(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        """One connection: a kernel's, or that of a process that a cell forked."""
        visit = asyncio.current_task()
        assert visit is not None
        self._visits.add(visit)
        work: dict[int, asyncio.Task[None]] = {}
        # What is no message of ours ends the connection, however it is wrong. A cancelled task of a
        # connection would be reported as an error by asyncio; it is over in any case.
        with contextlib.suppress(Exception, asyncio.CancelledError):
            while line := await reader.readline():
                self._take(json.loads(line), work, writer)
        for task in work.values():
            task.cancel()
        await asyncio.gather(*work.values(), return_exceptions=True)
        writer.close()
        with contextlib.suppress(ConnectionError):
            await writer.wait_closed()
        self._visits.discard(visit)

    def _take(
        self, message: Mapping[str, Any], work: dict[int, asyncio.Task[None]], writer: asyncio.StreamWriter
    ) -> None:
        if "cancel" in message:
            if (task := work.get(message["cancel"])) is not None:
                task.cancel()
            return
        number = int(message["id"])
        work[number] = task = asyncio.create_task(self._answer(number, message, writer))
        task.add_done_callback(lambda _: work.pop(number, None))

    async def _answer(self, number: int, message: Mapping[str, Any], writer: asyncio.StreamWriter) -> None:
        try:
            data = json.dumps({"id": number, "value": await self._do(message)})
        except HarnessError as error:
            data = _refusal(number, error.id, error.words)
        except EndSession as end:
            data = _refusal(number, end.ending.reason, end.ending.detail or end.ending.reason)
        except Exception as error:
            # A cell must not wait for ever for what went wrong here.
            data = _refusal(number, "internal", f"{message.get('do')}: {type(error).__name__}: {error}")
        with contextlib.suppress(ConnectionError):
            writer.write(data.encode() + b"\n")
            await writer.drain()

    async def _do(self, message: Mapping[str, Any]) -> Any:
        if message.get("v") != VERSION:
            raise DoorError(f"messages of version {message.get('v')!r} are not known here")
        handler = self._handlers.get(str(message.get("do")))
        if handler is None:
            raise DoorError(f"there is nothing called {message.get('do')!r}")
        return await handler(message.get("with") or {})


def _refusal(number: int, id: str, message: str) -> str:  # noqa: A002 - the message's key
    return json.dumps({"id": number, "error": {"id": id, "message": message}})
