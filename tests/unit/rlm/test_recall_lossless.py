"""10,000 generated events: what leaves the view can be read again, to the byte, by the addresses it left."""

from __future__ import annotations

import json
import random
from pathlib import Path
from typing import Any

from harnessctl.domain.event import EventType, event_text
from harnessctl.domain.message import Message
from harnessctl.layers.l1_context.compaction import Summarised, compact
from harnessctl.layers.l1_context.eviction import Leaving
from harnessctl.layers.l1_context.room import Meter, Room, room_of
from harnessctl.layers.l1_context.summary import Summary
from harnessctl.layers.l1_context.view import View, view_of
from harnessctl.models.tokens import estimate_messages
from harnessctl.rlm.clock import SilentWatcher, SystemClock
from harnessctl.rlm.journal import Journal
from harnessctl.rlm.log import LOG_NAME, read_log
from harnessctl.rlm.recall import Recall
from harnessctl.rlm.recorder import Recorder
from tests.fakes.long_sessions import check_compactions

EVENTS = 10_000
#: What makes texts hard: escapes, other scripts, lone surrogates, line ends, nothing at all.
PIECES = (
    *(
        "plain words ",
        "\n",
        "\r\n",
        "\t",
        "\x00",
        "\x1b[31m",
        '"',
        "\\",
        "é",
        "数据",
        "🙂",
        "\ud800",
        "\u2028",
    ),
    *("#12-40 ", "</entry>", "```\n", "[cell 3: ok, 0.1 s]", " " * 40, "x" * 300),
)


class Generator:
    """Random turns, written as a session writes them, and compactions of every kind between them."""

    def __init__(self, journal: Journal, seed: int) -> None:
        self.journal, self.chance = journal, random.Random(seed)
        self.cells = self.turns = 0

    def text(self, most: int = 30) -> str:
        return "".join(self.chance.choices(PIECES, k=self.chance.randrange(most)))

    def record(self, kind: str, **data: Any) -> int:
        return self.journal.record(EventType(kind), data, turn=self.turns).n

    def begin(self) -> None:
        self.record("header", session="S", harness_state={})
        self.record("task", text=self.text(60) or "do it")

    async def step(self) -> None:
        chance = self.chance.random()
        if chance < 0.75:
            self.turn()
        elif chance < 0.85:
            self.record(
                "message", id="m", **{"from": "user"}, to="root", text=self.text() or "hm", state="delivered"
            )
        elif chance < 0.9:
            self.record(
                "gate", name="g", command="make", status="failed", text=self.text() or "g", left=1, ms=1
            )
        elif chance < 0.93:
            self.record("repair", what="resume", text=self.text() or "picked up")
        elif chance < 0.94:
            self.record("task", text=self.text() or "more")
        elif chance < 0.97:
            request = self.record("request", consumer="llm", append=[])
            self.record("reply", consumer="llm", request=request, content=self.text(), calls=[])
        else:
            await self.compact()

    def turn(self) -> None:
        self.turns += 1
        messages, keep = self.journal.view.ready()
        last = self.journal.tally.last_request
        told = {"prefix": last.n if last and keep else None, "keep": keep if last else 0}
        told["append"] = [m.to_json() for m in messages[told["keep"] :]]
        request = self.record("request", consumer="root", digest=self.journal.view.digest(), **told)
        calls = [self.call(at) for at in range(self.chance.choice([0, 1, 1, 1, 1, 2, 3]))]
        self.record("reply", request=request, content=self.text(), calls=calls, usage={}, finish="stop")
        for call in calls:
            if "problem" not in call:
                self.cell(call)

    def call(self, at: int) -> dict[str, Any]:
        code = self.text()
        call = {"id": f"c{at}", "name": "ipython", "arguments": json.dumps({"code": code})}
        return call | ({"problem": "Not run."} if self.chance.random() < 0.1 else {"code": code})

    def cell(self, call: dict[str, Any]) -> None:
        self.cells += 1
        self.record("cell", cell=self.cells, code=call["code"], reply=0, call=call["id"])
        text = self.text(200)
        blob = None
        if self.chance.random() < 0.02:
            blob = self.journal.blob([self.chance.randbytes(3000)])
        self.record("output", cell=self.cells, stream="stdout", text=text, bytes=1, cut=0, blob=blob)
        self.record(
            "result", cell=self.cells, call=call["id"], status="ok", text=f"{text}\n[cell {self.cells}: ok]"
        )

    async def compact(self) -> None:
        room = room_of(self.chance.choice([4_000, 8_000, 20_000]), None)
        why = self.chance.choice(["threshold", "threshold", "request", "overflow"])
        if why == "overflow":
            room = Room().at_most(self.chance.randrange(500, 4_000))
        self.journal.view.ready()
        data = await compact(self.journal.view, room, Meter(estimate_messages), why, summarised)  # type: ignore[arg-type]
        if data is not None:
            self.record("compaction", **data)


async def summarised(gone: Leaving) -> Summarised:
    return Summarised(Summary(state=f"{len(gone.pieces)} pieces left"), "model")


async def test_nothing_is_lost(tmp_path: Path) -> None:
    folder = tmp_path / "S"
    recorder = Recorder.create(folder, SystemClock())
    journal = Journal(recorder, View("system", "tool"), SilentWatcher())
    generator = Generator(journal, 6)
    generator.begin()
    while len(journal.events) < EVENTS:
        await generator.step()
    events = list(journal.events)
    assert check_compactions(events, "system", "tool") > 50
    await every_event_comes_back(journal, folder)
    sent = journal.view.ready()
    recorder.close()
    again = read_log(folder / LOG_NAME)
    assert again.events == tuple(events)
    view = view_of(again.events, "system", "tool")
    assert view.ready() == sent
    requests_hold_together(again.events)


async def every_event_comes_back(journal: Journal, folder: Path) -> None:
    history = Recall(journal, folder)
    lines = (folder / LOG_NAME).read_bytes().splitlines(keepends=True)
    blobs = 0
    for event, line in zip(journal.events, lines, strict=True):
        expand = history.handlers()["history.expand"]
        got = await expand({"address": f"#{event.n}"})
        assert got["next"] is None
        if event.data.get("blob"):
            blobs += 1
            raw = (folder / "blobs" / str(event.data["blob"])).read_bytes()
            assert got["text"].encode("utf-8", "surrogateescape") == raw
        elif event_text(event):
            assert got["text"] == event_text(event)
        else:
            assert json.loads(got["text"]) == event.data
        record = await expand({"address": f"#{event.n}", "raw": True})
        assert record["text"].encode() == line
    assert blobs > 10
    await history.aclose()


def requests_hold_together(events: tuple[Any, ...]) -> None:
    """Each request, put together as any reader would, has the digest that it states."""
    messages: dict[int, list[Any]] = {}
    for event in events:
        if event.type is EventType.REQUEST and event.data["consumer"] == "root":
            data = event.data
            before = messages[data["prefix"]][: data["keep"]] if data["keep"] else []
            messages[event.n] = [*before, *data["append"]]
            view = View("", "tool")
            view.messages = [Message.from_json(m) for m in messages[event.n]]
            assert view.digest() == data["digest"]
