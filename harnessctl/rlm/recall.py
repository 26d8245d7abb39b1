"""What cells can have back of their session: ``history.search``, ``history.expand``, ``history.outline``.

Everything that ever left the view is in the log, and in blobs beside it. Long answers go in slices, so that
no message of the door is too long.
"""

from __future__ import annotations

import asyncio
import base64
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

from harnessctl.domain.canonical import canonical_json
from harnessctl.domain.errors import NotFoundError, UsageError
from harnessctl.domain.event import Event, EventType, event_text, is_aside
from harnessctl.layers.l1_context.landmarks import Address, parse_address
from harnessctl.layers.l1_context.outline import outline
from harnessctl.rlm.door import Handler
from harnessctl.rlm.given import count
from harnessctl.rlm.journal import Journal
from harnessctl.rlm.log import LOG_NAME, read_blob, read_trajectory
from harnessctl.rlm.recall_index import BATCH, Index

#: Characters, or bytes, of one answer.
SLICE = 1_000_000
#: Hits at most.
MOST_HITS = 100
#: Hits when a cell does not say how many.
USUAL_HITS = 8
#: Generations between a session and one whose log it may read.
MOST_GENERATIONS = 16


class Recall:
    """The history of one session, for its cells; a room of the door.

    :param folder: the session's; those of other sessions lie beside it.
    """

    def __init__(self, journal: Journal, folder: Path) -> None:
        self._journal = journal
        self._folder = folder
        self._index = Index(folder)
        self._thread: ThreadPoolExecutor | None = None
        self._busy = self._closed = False
        self._looked: set[int] = set()
        self._long = "", ""

    def handlers(self) -> Mapping[str, Handler]:
        """For the door."""
        return {
            "history.search": self._search,
            "history.expand": self._expand,
            "history.blob": self._blob,
            "history.outline": self._outline,
        }

    def looked(self, cell: int) -> bool:
        """Whether a cell looked into the history while it ran: what it printed is no new source."""
        return cell in self._looked

    def keep_up(self) -> None:
        """After a turn: let the index take in what is new, beside everything else."""
        stop = self._settled()
        if not self._busy and not self._closed and self._index.behind(stop) >= BATCH:
            self._busy = True
            self._submit(self._index.catch_up, self._journal.events, stop, 4 * BATCH).add_done_callback(
                self._built
            )

    async def aclose(self) -> None:
        """End the thread; what it does is finished first, which takes less than a second."""
        thread, self._thread, self._closed = self._thread, None, True
        if thread is not None:
            await asyncio.get_running_loop().run_in_executor(thread, self._index.close)
            thread.shutdown(wait=True, cancel_futures=True)

    def _submit(self, action: Any, *arguments: Any) -> asyncio.Future[Any]:
        if self._thread is None:
            # One thread: the index is used by one at a time, and searches wait for a batch at most.
            self._thread = ThreadPoolExecutor(1, thread_name_prefix="recall")
        return asyncio.get_running_loop().run_in_executor(self._thread, action, *arguments)

    def _built(self, done: asyncio.Future[Any]) -> None:
        self._busy = False
        # What failed once is left to the next turn, and not tried over and over.
        if not done.cancelled() and done.exception() is None:
            self.keep_up()

    def _settled(self) -> int:
        """The event from which on the running turn stands: it is in view, and not over."""
        last = self._journal.tally.last_request
        return last.n if last is not None else 0

    def _note(self) -> None:
        self._looked.add(self._journal.tally.cells)

    async def _search(self, what: Mapping[str, Any]) -> list[dict[str, Any]]:
        self._note()
        words = what.get("words")
        words = words if isinstance(words, str) else " ".join(map(str, words or ()))
        k = min(MOST_HITS, count("k", what.get("k")) or USUAL_HITS)
        events, stop = self._journal.events, self._settled()
        hits = await self._submit(self._index.search, events, stop, words, k)
        return [_shown(events[hit.n], hit.quote) for hit in hits]

    async def _expand(self, what: Mapping[str, Any]) -> dict[str, Any]:
        """A slice of the text; ``next`` is where the following one begins, None at the end."""
        self._note()
        address = _address(what)
        events = await self._events(address)
        folder = self._of(address.session)
        at, raw = int(what.get("at") or 0), bool(what.get("raw"))
        key = f"{address} {raw}"
        text = (
            self._long[1]
            if at and self._long[0] == key
            else await asyncio.to_thread(_text, events, folder, raw)
        )
        left = len(text) > at + SLICE
        self._long = (key, text) if left else ("", "")
        return {"text": text[at : at + SLICE], "next": at + SLICE if left else None}

    async def _blob(self, what: Mapping[str, Any]) -> dict[str, Any]:
        """A slice of an output's raw bytes, in base64."""
        self._note()
        address = _address(what)
        (event, *_) = await self._events(address)
        digest = event.data.get("blob")
        if not digest:
            raise NotFoundError(
                f"event {address} has no blob", id="no_blob", hint="history.expand gives all there is of it"
            )
        data = await asyncio.to_thread(read_blob, self._of(address.session), str(digest))
        at = int(what.get("at") or 0)
        return {
            "bytes": base64.b64encode(data[at : at + SLICE]).decode(),
            "next": at + SLICE if at + SLICE < len(data) else None,
        }

    async def _outline(self, what: Mapping[str, Any]) -> str:
        self._note()
        session = str(what.get("session") or "").upper()
        events = self._journal.events if self._own(session) else await self._others(session)
        told = events[: self._settled()] if self._own(session) else events
        return outline(told, count("first", what.get("first")), count("last", what.get("last")))

    async def _events(self, address: Address) -> Sequence[Event]:
        own = self._own(address.session)
        events = self._journal.events if own else await self._others(address.session)
        if address.last >= len(events):
            said = f"{len(events):,} events, #0 to #{len(events) - 1}"
            raise NotFoundError(f"no event {address}", id="no_event", hint=f"the log has {said}")
        return events[address.first : address.last + 1]

    def _own(self, session: str) -> bool:
        return session in ("", self._folder.name.upper())

    def _of(self, session: str) -> Path:
        return self._folder if self._own(session) else self._folder.parent / session

    async def _others(self, session: str) -> Sequence[Event]:
        """The log of a session below this one.

        :raises NotFoundError: there is none.
        """
        lost = NotFoundError(
            f"no session {session} below this one", id="no_session", hint="write #n for this session's own"
        )
        if not session.isalnum() or not (self._of(session) / LOG_NAME).exists():
            raise lost
        trajectory = await asyncio.to_thread(read_trajectory, self._of(session))
        parent = trajectory.header.get("parent")
        for _ in range(MOST_GENERATIONS):
            if not parent:
                raise lost
            if self._own(str(parent).upper()):
                return trajectory.events
            above = await asyncio.to_thread(read_trajectory, self._of(str(parent)))
            parent = above.header.get("parent")
        raise lost


def _address(what: Mapping[str, Any]) -> Address:
    text = str(what.get("address"))
    address = parse_address(text)
    if address is None:
        raise UsageError(
            f"{text!r} is no address",
            id="bad_address",
            hint='"#12", "#12-40", or "<session>#12" for a child\'s',
        )
    return address


def _shown(event: Event, quote: str) -> dict[str, Any]:
    """A hit as cells get it."""
    return {"address": f"#{event.n}", "turn": event.turn, "type": _kind(event), "text": quote}


def _kind(event: Event) -> str:
    if event.type is EventType.REPLY and is_aside(event):
        return str(event.data["consumer"])
    return str(event.data.get("stream") or event.type) if event.type is EventType.OUTPUT else str(event.type)


def _text(events: Sequence[Event], folder: Path, raw: bool) -> str:
    """One event's whole text, also that beside the log; several with a line above each; or their lines."""
    if raw:
        return b"".join(event.to_line() for event in events).decode("ascii")
    if len(events) == 1:
        return whole_text(events[0], folder)
    return "\n".join(f"--- {_head(event)} ---\n{event_text(event)}".rstrip("\n") for event in events)


def whole_text(event: Event, folder: Path) -> str:
    """The text of ``event`` to the character.

    Output of which the log holds head and tail comes from its blob; bytes that are no UTF-8 are lone
    surrogates, as ``surrogateescape`` has them. An event without text is its data as canonical JSON.
    """
    if event.type is EventType.OUTPUT and event.data.get("blob"):
        return read_blob(folder, str(event.data["blob"])).decode("utf-8", "surrogateescape")
    return event_text(event) or canonical_json(event.data).decode()


def _head(event: Event) -> str:
    data = event.data
    cell = f" of cell {data['cell']}" if data.get("cell") is not None else ""
    turn = f", turn {event.turn}" if event.turn else ""
    more = f'; whole: history.expand("#{event.n}")' if data.get("blob") else ""
    return f"#{event.n} {_kind(event)}{cell}{turn}{more}"
