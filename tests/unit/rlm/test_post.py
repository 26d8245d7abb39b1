"""Who reaches whom, what a receipt says, and what becomes of what nobody read."""

from __future__ import annotations

import asyncio
from pathlib import Path
from typing import Any

import pytest

from harnessctl.domain.errors import NotFoundError
from harnessctl.domain.event import EventType
from harnessctl.rlm.inbox import Inbox
from harnessctl.rlm.journal import Journal
from harnessctl.rlm.post import MOST_TEXT, LetterError, Letters, Post
from harnessctl.rlm.recorder import StorageError
from harnessctl.rlm.seat import Seat
from tests.fakes.sessions import Stage, scripted

ROOT = Seat("R")
A, B = ROOT.below("A", "a"), ROOT.below("B", "b")
C = A.below("C", "c")
#: A child of "a" that has its aunt's name.
SHADOW = A.below("SH", "b")


class Desk:
    """One session's letters, with a log of its own."""

    def __init__(self, folder: Path, seat: Seat, post: Post) -> None:
        place = folder / seat.session
        place.mkdir()
        self.stage = Stage(place, scripted(place))
        self.journal: Journal = self.stage.parts().journal
        self.inbox = Inbox(seat.name)
        self.inbox.attach(lambda letter: self.journal.record(EventType.MESSAGE, letter.to_json("queued")))
        self.letters = Letters(seat, post, self.inbox, self.journal)

    async def send(self, to: str, text: str = "x") -> dict[str, str]:
        return await self.letters.handlers()["messages.send"]({"to": to, "text": text})  # type: ignore[no-any-return]

    async def read(self) -> list[tuple[str, str]]:
        found: list[dict[str, Any]] = await self.letters.handlers()["messages.inbox"]({})
        return [(letter["from"], letter["text"]) for letter in found]

    def states(self) -> list[str]:
        return [e.data["state"] for e in self.stage.of("message")]


@pytest.fixture
def desks(tmp_path: Path) -> Any:
    post = Post()
    made = {seat.session: Desk(tmp_path, seat, post) for seat in (ROOT, A, B, C)}
    yield made
    for desk in made.values():
        desk.stage.recorder.close()


async def test_each_calls_the_others_by_what_they_are_to_it(desks: dict[str, Desk]) -> None:
    assert (await desks["A"].send("parent", "up"))["state"] == "queued"
    await desks["A"].send("b", "across")
    await desks["R"].send("a", "down")
    await desks["C"].send("parent", "up twice")
    assert await desks["R"].read() == [("a", "up")]
    assert await desks["B"].read() == [("a", "across")]
    assert await desks["A"].read() == [("parent", "down"), ("c", "up twice")]
    assert await desks["A"].read() == []
    assert desks["A"].states() == ["queued", "queued", "delivered", "delivered"]
    for sender, to in (("R", "parent"), ("R", "c"), ("C", "b"), ("A", "a"), ("A", "root")):
        with pytest.raises(NotFoundError, match="nobody here is called"):
            await desks[sender].send(to)


async def test_a_childs_name_comes_before_a_siblings(desks: dict[str, Desk], tmp_path: Path) -> None:
    shadow = Desk(tmp_path, SHADOW, desks["A"].letters._post)
    await desks["A"].send("b", "to my own")
    assert await shadow.read() == [("parent", "to my own")]
    assert await desks["B"].read() == []
    shadow.stage.recorder.close()


async def test_a_sibling_of_the_same_name_is_called_by_its_path(
    desks: dict[str, Desk], tmp_path: Path
) -> None:
    """Whose letters would come from nobody, and whose own would be reported to nobody."""
    post = desks["A"].letters._post
    shadow = Desk(tmp_path, SHADOW, post)
    await desks["B"].send("a", "from your sibling")
    assert await desks["A"].read() == [("root/b", "from your sibling")]
    await desks["A"].send("root/b", "to my sibling")
    assert await desks["B"].read() == [("a", "to my sibling")]
    await desks["B"].send("a", "unread")
    desks["A"].letters.close()
    ((sender, text),) = await desks["B"].read()
    assert (sender, text.endswith(": unread")) == ("post", True)
    shadow.stage.recorder.close()


async def test_a_receipt_says_delivered_when_somebody_waits_for_it(desks: dict[str, Desk]) -> None:
    waiting = asyncio.create_task(desks["B"].inbox.arrival(200))
    await asyncio.sleep(0)
    assert (await desks["R"].send("b"))["state"] == "delivered"
    await asyncio.wait_for(waiting, 60)
    assert (await desks["R"].send("b"))["state"] == "queued"
    await asyncio.wait_for(desks["B"].inbox.arrival(200), 60)  # something is there already
    assert len(await desks["B"].read()) == 2
    await desks["B"].inbox.arrival(0.01)  # nothing came


async def test_what_an_ended_session_did_not_read_is_reported(desks: dict[str, Desk]) -> None:
    await desks["R"].send("b", "read in time")
    await desks["B"].read()
    await desks["R"].send("b", "never read " + "x" * 300)
    await desks["A"].send("b", "nor this")
    desks["B"].letters.close()
    assert desks["B"].states() == ["queued", "delivered", "queued", "queued", *["undeliverable"] * 2]
    ((sender, text),) = await desks["R"].read()
    assert sender == "post"
    assert text.startswith("b ended without reading your message")
    assert "never read xxx" in text
    assert len(text) < 300
    assert [sender for sender, _ in await desks["A"].read()] == ["post"]
    with pytest.raises(LetterError, match="b has ended"):
        await desks["R"].send("b")


async def test_what_stood_in_no_request_was_not_read(desks: dict[str, Desk]) -> None:
    """A limit may end a session between a message's turn and the request that should have held it."""
    desk = desks["B"]
    await desks["R"].send("b", "in a request")
    for letter in desk.inbox.take():
        desk.journal.record(EventType.MESSAGE, letter.to_json("delivered"))
    desk.journal.view.add(desk.journal._recorder.append(EventType.REQUEST, {"append": [], "digest": ""}))
    await desks["R"].send("b", "in none")
    for letter in desk.inbox.take():
        desk.journal.record(EventType.MESSAGE, letter.to_json("delivered"))
    desk.letters.close()
    ((_, text),) = await desks["R"].read()
    assert text.endswith(": in none")


async def test_a_root_keeps_what_it_has_not_read(desks: dict[str, Desk]) -> None:
    await desks["A"].send("parent", "later")
    desks["R"].letters.close()
    assert desks["R"].states() == ["queued"]
    again = Inbox("root")
    again.restore(desks["R"].journal.events)
    assert [letter.text for letter in again.take()] == ["later"]


async def test_no_receipt_for_what_could_not_be_written(
    desks: dict[str, Desk], monkeypatch: pytest.MonkeyPatch
) -> None:
    def full(*_: object, **__: object) -> None:
        raise StorageError(Path("log"), "no space")

    with monkeypatch.context() as patch:
        patch.setattr(desks["B"].journal, "record", full)
        with pytest.raises(StorageError):
            await desks["R"].send("b")
    assert await desks["B"].read() == []


@pytest.mark.parametrize("text", ["", " \n", "x" * (MOST_TEXT + 1)])
async def test_what_is_no_message(desks: dict[str, Desk], text: str) -> None:
    with pytest.raises(LetterError):
        await desks["R"].send("b", text)
