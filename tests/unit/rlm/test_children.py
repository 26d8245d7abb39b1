"""The owner of children, with sessions that are played."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path
from typing import Any

import pytest

from harnessctl.domain.errors import UsageError
from harnessctl.domain.limits import Limits, Usage
from harnessctl.domain.outcome import RunStatus
from harnessctl.rlm.budget import Budget
from harnessctl.rlm.children import (
    PARENT_ENDED,
    Census,
    Child,
    ChildEnd,
    ChildRefusedError,
    Children,
    ChildSpec,
)
from harnessctl.rlm.recorder import StorageError
from harnessctl.rlm.seat import Seat
from tests.fakes.sessions import Stage, scripted

SEAT = Seat("S")


class Played:
    """A child that ends when it is told to."""

    def __init__(self, spec: ChildSpec) -> None:
        self.spec = spec
        self.ending: asyncio.Future[ChildEnd] = asyncio.get_running_loop().create_future()
        self.stopped: list[str] = []
        self.closed = False

    async def run(self) -> ChildEnd:
        return await self.ending

    def stop(self, reason: str) -> None:
        self.stopped.append(reason)
        if not self.ending.done():
            self.ending.set_result(ChildEnd(RunStatus.INTERRUPTED, reason))

    def close(self) -> None:
        self.closed = True


class Family:
    """A parent with an empty log, and the children it was given."""

    def __init__(self, folder: Path, limits: Limits) -> None:
        self.stage = Stage(folder, scripted(folder))
        self.budget = Budget(limits)
        self.census = Census(limits)
        self.played: dict[str, Played] = {}
        parts = self.stage.parts()
        self.journal = parts.journal
        self.children = Children(SEAT, self.journal, self.budget, self.census, self._spawn, 12.5)

    def _spawn(self, spec: ChildSpec) -> Played:
        self.played[spec.seat.name] = played = Played(spec)
        return played

    async def ask(self, do: str, **what: Any) -> Any:
        return await self.children.handlers()[f"rlm.{do}"](what)

    def states(self) -> list[tuple[str, str]]:
        return [(e.data["name"], e.data["state"]) for e in self.stage.of("child")]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path


@asynccontextmanager
async def family(folder: Path, limits: Limits | None = None) -> AsyncIterator[Family]:
    one = Family(folder, limits or Limits())
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        one.children.begin(group)
        yield one
        await one.children.end(PARENT_ENDED)
    one.stage.recorder.close()


async def test_a_child_gets_its_place_its_limits_and_its_parents_deadline(folder: Path) -> None:
    async with family(folder) as one:
        told = await one.ask("spawn", task="look", name="alice", max_turns=3, max_tokens=500, max_time=1.5)
        spec = one.played["alice"].spec
        assert told == {"name": "alice", "session": spec.seat.session}
        assert (spec.seat.node, spec.seat.depth, spec.seat.parent) == ("root/alice", 1, "S")
        assert (spec.turns, spec.tokens, spec.wall_s, spec.deadline) == (3, 500, 1.5, 12.5)


async def test_names_are_made_up_around_those_that_are_taken(folder: Path) -> None:
    async with family(folder) as one:
        for name in ("child-2", None, None):
            await one.ask("spawn", task="x", name=name)
        assert list(one.played) == ["child-2", "child-3", "child-4"]
        with pytest.raises(ChildRefusedError, match="there is a child child-2 already, running"):
            await one.ask("spawn", task="x", name="child-2")


async def test_an_answer_is_waited_for_and_kept(folder: Path) -> None:
    async with family(folder) as one:
        await one.ask("spawn", task="x", name="alice")
        assert (await one.ask("wait", name="alice", timeout=0.01))["state"] == "running"
        one.budget.used["root/alice"] = Usage(prompt=7, cost_usd=0.5)
        one.played["alice"].ending.set_result(ChildEnd(RunStatus.SUCCESS, "no_gates", "", "Found."))
        told = await one.ask("wait", name="alice")
        assert (told["state"], told["answer"], told["tokens"], told["cost_usd"]) == ("done", "Found.", 7, 0.5)
        assert "answer" not in (await one.ask("list"))[0]
        assert (await one.ask("cancel", name="alice"))["state"] == "done"  # it was over before
        assert one.states() == [("alice", "started"), ("alice", "done")]


async def test_what_is_over_the_limits_is_refused_and_not_counted(folder: Path) -> None:
    async with family(folder, Limits(children=2)) as one:
        with pytest.raises(ChildRefusedError):
            await one.ask("spawn", task="")
        assert one.census.started == 0
        await one.ask("spawn", task="x")
        await one.ask("spawn", task="x")
        with pytest.raises(ChildRefusedError, match="limit of 2 children"):
            await one.ask("spawn", task="x")
    deep = Census(Limits(depth=2))
    deep.check(2)
    with pytest.raises(ChildRefusedError, match="depth limit is 2, and this session is at depth 2"):
        deep.check(3)


async def test_a_full_disk_starts_no_child(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    async with family(folder) as one:

        def full(*_: object, **__: object) -> None:
            raise StorageError(folder, "no space")

        with monkeypatch.context() as patch:
            patch.setattr(one.journal, "record", full)
            with pytest.raises(StorageError):
                await one.ask("spawn", task="x", name="alice")
        assert one.played["alice"].closed
        assert await one.ask("list") == []


async def test_the_end_of_the_parent_reaches_every_child(folder: Path) -> None:
    async with family(folder) as one:
        await one.ask("spawn", task="x", name="a")
        await one.ask("spawn", task="x", name="b")
        one.played["b"].ending.set_exception(RuntimeError("a defect"))
        assert (await one.ask("wait", name="b"))["detail"] == "RuntimeError: a defect"
        await one.children.end(PARENT_ENDED)
        assert one.played["a"].stopped == [PARENT_ENDED]
        assert [state for state in one.states() if state[1] != "started"] == [
            ("b", "failed"),
            ("a", "cancelled"),
        ]


async def test_children_of_a_session_that_is_picked_up(folder: Path) -> None:
    one = Family(folder, Limits())
    on, over = (ChildSpec(SEAT.below(name.upper(), name), "x") for name in ("on", "over"))
    played = Played(on)
    end = ChildEnd(RunStatus.SUCCESS, answer="Before.")
    known = ChildSpec(SEAT.below("K", "known"), "x")
    one.children.restore([Child(on, session=played), Child(over, end), Child(known, end, recorded=True)])
    async with asyncio.timeout(60), asyncio.TaskGroup() as group:
        one.children.begin(group)
        assert (await one.ask("wait", name="over"))["answer"] == "Before."
        assert [c["state"] for c in await one.ask("list")] == ["running", "done", "done"]
        played.stop("cancelled")
    assert one.states() == [("over", "done"), ("on", "cancelled")]  # what stood in the log is not said again
    one.stage.recorder.close()


async def test_a_defect_is_told_without_the_groups_around_it(folder: Path) -> None:
    async with family(folder) as one:
        await one.ask("spawn", task="x", name="odd")
        deep = ExceptionGroup("a", [ExceptionGroup("b", [ZeroDivisionError("the reason")])])
        one.played["odd"].ending.set_exception(deep)
        told = await one.ask("wait", name="odd")
    assert (told["state"], told["detail"]) == ("failed", "ZeroDivisionError: the reason")


async def test_limits_may_be_written_as_floats_and_are_whole_numbers(folder: Path) -> None:
    async with family(folder) as one:
        await one.ask("spawn", task="x", name="a", max_tokens=1e5, max_turns=3.0, max_time=2)
        spec = one.played["a"].spec
        assert (spec.tokens, spec.turns, spec.wall_s) == (100_000, 3, 2.0)
        assert (type(spec.tokens), type(spec.turns)) == (int, int)
        for wrong in ({"max_turns": 2.5}, {"max_tokens": 0}, {"max_time": -1}, {"max_turns": True}):
            with pytest.raises(UsageError, match=r"is no (number|time)") as caught:
                await one.ask("spawn", task="x", **wrong)
            assert "leave it out" in caught.value.hint
