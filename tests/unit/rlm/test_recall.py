"""What cells can have back of their session: to the character, by address."""

from __future__ import annotations

import asyncio
import base64
import json
from collections.abc import AsyncIterator, Callable
from pathlib import Path

import pytest
import pytest_asyncio

from harnessctl.domain.errors import HarnessError, UsageError
from harnessctl.layers.l1_context.landmarks import Address, parse_address
from harnessctl.rlm import recall
from harnessctl.rlm.log import LOG_NAME
from harnessctl.rlm.recall_index import INDEX_NAME
from tests.fakes.recalling import Session


@pytest_asyncio.fixture
async def session(tmp_path: Path) -> AsyncIterator[Session]:
    made = Session(tmp_path)
    made.turn(1, "the port is 54713\n")
    made.turn(2, "nothing here\n")
    yield made
    await made.recall.aclose()
    made.recorder.close()


@pytest.mark.parametrize(
    ("text", "address"),
    [
        ("#12", Address("", 12, 12)),
        ("12", Address("", 12, 12)),
        (" #12-40 ", Address("", 12, 40)),
        ("#12-#40", Address("", 12, 40)),
        ("12–40", Address("", 12, 40)),
        ("01jabc#3-4", Address("01JABC", 3, 4)),
        *((bad, None) for bad in ("", "#", "x", "#4-3", "#-1", "1.5", "a#b", "../x#1", "#1,#2", "01JABC")),
    ],
)
def test_addresses(text: str, address: Address | None) -> None:
    assert parse_address(text) == address
    if address is not None:
        assert parse_address(str(address)) == address


async def test_an_event_and_a_range(session: Session) -> None:
    assert await session.expand("#5") == "the port is 54713\n"
    assert await session.expand("#1") == "find the port"
    assert json.loads(await session.expand("#2")) == session.journal.events[2].data
    several = await session.expand("S1#3-6")
    assert "--- #3 reply, turn 1 ---\nStep 1." in several
    assert "--- #5 stdout of cell 1, turn 1 ---\nthe port is 54713" in several
    lines = (session.folder / LOG_NAME).read_bytes().splitlines(keepends=True)
    assert (await session.expand("#2-6", raw=True)).encode() == b"".join(lines[2:7])


@pytest.mark.parametrize(
    ("address", "words"),
    [
        ("#99", "no event #99"),
        ("#4-99", "the log has 12 events, #0 to #11"),
        ("x", "'x' is no address"),
        ("OTHER#1", "no session OTHER below this one"),
    ],
)
async def test_what_is_not_there_is_said(session: Session, address: str, words: str) -> None:
    with pytest.raises(HarnessError) as caught:
        await session.expand(address)
    assert words in f"{caught.value.message}; {caught.value.hint}"


async def test_odd_numbers_are_refused_in_words(session: Session) -> None:
    for call, what in (("outline", {"first": "a"}), ("outline", {"last": 1.5}), ("search", {"k": "many"})):
        with pytest.raises(UsageError, match="is no number"):
            await session.ask(f"history.{call}", words="x", **what)


async def test_output_that_lies_beside_the_log(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    raw = b"head \xff\x00 " + "é".encode() * 2000 + b" tail"
    n = session.turn(3, "head … tail", raw)
    monkeypatch.setattr(recall, "SLICE", 100)
    assert (await session.expand(f"#{n}")).encode("utf-8", "surrogateescape") == raw
    found, at = b"", 0
    while at is not None:
        part = await session.ask("history.blob", address=f"#{n}", at=at)
        found, at = found + base64.b64decode(part["bytes"]), part["next"]
    assert found == raw
    with pytest.raises(HarnessError, match="has no blob"):
        await session.ask("history.blob", address="#5")
    assert f'whole: history.expand("#{n}")' in await session.expand(f"#{n - 1}-{n}")


async def test_a_search_and_what_it_marks(session: Session) -> None:
    session.turn(3, "on\n")
    session.record("request", 4, consumer="root", digest="")
    session.record("cell", 4, cell=4, code="h.search(1)", reply=0, call="c")
    hits = await session.ask("history.search", words="port 54713")
    assert hits[:1] == [{"address": "#5", "turn": 1, "type": "stdout", "text": "the port is 54713"}]
    assert session.recall.looked(4)
    assert not session.recall.looked(3)


async def test_words_in_any_shape(session: Session) -> None:
    session.turn(3, "on\n")
    for words in ("port", ["port", 54713], "", None, "\0", "\ud800"):
        assert isinstance(await session.ask("history.search", words=words), list)
    assert len(await session.ask("history.search", words="port", k=1)) == 1


async def test_a_childs_log_and_nobody_elses(tmp_path: Path, session: Session) -> None:
    child, grandchild = Session(tmp_path, "C1", "S1"), Session(tmp_path, "G1", "C1")
    stranger = Session(tmp_path, "X1")
    for one in (child, grandchild, stranger):
        one.turn(1, f"secret of {one.folder.name}")
    assert await session.expand("C1#5") == "secret of C1"
    assert await session.expand("g1#5") == "secret of G1"
    assert "turn 1: Step 1." in await session.ask("history.outline", session="C1")
    for address in ("X1#5", "NONE#1"):
        with pytest.raises(HarnessError, match="no session"):
            await session.expand(address)
    with pytest.raises(HarnessError, match="no session S1 below"):
        await child.expand("S1#5")
    for one in (child, grandchild, stranger):
        one.recorder.close()


async def test_an_outline(session: Session) -> None:
    for number in range(3, 200):
        session.turn(number, "x")
    session.record("request", 200, consumer="root", digest="")
    whole = await session.ask("history.outline", first=None, last=None)
    lines = whole.splitlines()
    assert len(lines) <= 62
    assert lines[0] == "#1 task: find the port"
    assert lines[1] == "#2-21 turns 1-4: Step 1. look() [4 ok]"
    some = (await session.ask("history.outline", first=10, last=12)).splitlines()
    assert some == [f"#{5 * n - 3}-{5 * n + 1} turn {n}: Step {n}. look() [1 ok]" for n in (10, 11, 12)]
    await session.expand(some[0].split()[0])


async def test_the_index_keeps_up_beside_the_turns(session: Session, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(recall, "BATCH", 20)
    for number in range(3, 60):
        session.turn(number, f"xq{number}z")
        session.recall.keep_up()
        await asyncio.sleep(0)
    await until(lambda: session.recall._index.behind(session.recall._settled()) < 20)
    assert (session.folder / INDEX_NAME).exists()
    assert (await session.ask("history.search", words="xq30z"))[0]["turn"] == 30


async def test_an_index_that_fails_is_left_to_the_next_turn(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    tries: list[int] = []

    def broken(*_: object) -> None:
        tries.append(1)
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr(recall, "BATCH", 1)
    monkeypatch.setattr(session.recall._index, "catch_up", broken)
    session.recall.keep_up()
    await until(lambda: bool(tries) and not session.recall._busy)
    await asyncio.sleep(0.05)
    assert tries == [1]


async def test_what_is_being_taken_in_at_the_end_is_the_last(
    session: Session, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recall, "BATCH", 1)
    for number in range(3, 40):
        session.turn(number, f"xq{number}z")
    session.recall.keep_up()
    await session.recall.aclose()
    await asyncio.sleep(0.05)
    assert session.recall._index._connection is None
    session.recall.keep_up()
    assert session.recall._thread is None


async def until(true: Callable[[], bool]) -> None:
    for _ in range(6000):
        if true():
            return
        await asyncio.sleep(0.01)
    raise AssertionError("not within a minute")
