"""Sessions longer than the model's window: nothing exceeds it, nothing is lost."""

from __future__ import annotations

import asyncio
import re
from collections.abc import Callable
from contextlib import suppress
from pathlib import Path
from typing import Any

import pytest

from harnessctl.domain.cell import CellRun
from harnessctl.domain.event import Event, EventType
from harnessctl.domain.limits import Limits
from harnessctl.layers.l1_context.blocks import Block, Part, PartKind
from harnessctl.layers.l1_context.view import View
from harnessctl.models.port import ModelReply, ModelRequest, ProviderError
from harnessctl.rlm import loop
from harnessctl.rlm.clock import SilentWatcher, SystemClock
from harnessctl.rlm.journal import Journal
from harnessctl.rlm.log import read_log
from harnessctl.rlm.recorder import Recorder
from tests.fakes.kernels import FakeKernel
from tests.fakes.long_sessions import SUMMARY, LongModel, check_compactions, long_kernel
from tests.fakes.sessions import Stage

WINDOW = 8_000


async def long_run(folder: Path, model: LongModel, task: str = "do it", turns: int = 100) -> Stage:
    stage = Stage(folder, model, Limits(turns=None))
    stage.kernels[0].runs = long_kernel(turns).runs
    stage.waiting = list(stage.kernels)
    end = await stage.run(task)
    assert end.ending.answer == "Done.", end.ending
    return stage


def fits(model: LongModel) -> None:
    """Every request leaves room for a reply, also where the provider counts a little more than we do."""
    for request in [*model.requests, *model.summaries]:
        output = request.max_output or 0
        tokens = model.count_tokens(request.messages) * (model.scale or 1.0)
        assert tokens <= WINDOW * 0.95 - 500, tokens
        assert tokens + min(output, 500) <= WINDOW
        assert request.messages[0].role == "system"


def reopened(folder: Path, protocol: str = "tool") -> View:
    recorder = Recorder.open(folder / "session", SystemClock())
    view = Journal(recorder, View("SYSTEM", protocol), SilentWatcher()).view  # type: ignore[arg-type]
    recorder.close()
    return view


@pytest.mark.parametrize("turns", [120, pytest.param(1000, marks=pytest.mark.slow)])
async def test_no_request_exceeds_the_window(tmp_path: Path, turns: int) -> None:
    """With outputs large and small, twelve cells in one reply, long code, and 1,000 turns."""
    model = LongModel(turns, WINDOW)
    stage = await long_run(tmp_path, model, turns=turns)
    fits(model)
    assert len(model.requests) == turns + 1
    assert model.summaries
    assert check_compactions(stage.recorder.events, "SYSTEM", "tool") > turns / 50
    assert all("do it" in request.messages[1].content for request in model.requests)


async def test_a_resume_sees_the_same_bytes(tmp_path: Path) -> None:
    model = LongModel(60, WINDOW)
    stage = await long_run(tmp_path, model)
    last = next(e for e in reversed(stage.recorder.events) if e.type is EventType.REQUEST)
    view = View("SYSTEM", "tool")
    for event in stage.recorder.events[: last.n]:
        view.add(event)
    messages, _ = view.ready()
    assert messages == model.requests[-1].messages
    assert view.digest() == last.data["digest"]
    opened = reopened(tmp_path)
    assert opened.messages[: len(messages)] == list(messages)
    assert put_together(stage.recorder.events, last) == [m.to_json() for m in messages]


def put_together(events: list[Event], request: Event) -> list[object]:
    """A request's messages as any reader finds them, from the events alone."""
    data = request.data
    before = put_together(events, events[data["prefix"]])[: data["keep"]] if data["keep"] else []
    return [*before, *data["append"]]


async def test_with_fences(tmp_path: Path) -> None:
    model = LongModel(150, WINDOW, tools=False)
    stage = await long_run(tmp_path, model, turns=150)
    fits(model)
    assert check_compactions(stage.recorder.events, "SYSTEM", "fence")


@pytest.mark.parametrize("task", ["word " * 60_000, "0123456789abcdef" * 20_000, "仕事を続ける" * 20_000])
async def test_a_huge_task_is_shown_by_head_and_tail(tmp_path: Path, task: str) -> None:
    model = LongModel(40, WINDOW)
    stage = await long_run(tmp_path, model, task)
    fits(model)
    shown = model.requests[0].messages[1].content
    assert shown.startswith(task[:200])
    assert shown.endswith(task[-200:])
    assert "event #1 of this session has them" in shown
    assert stage.recorder.events[1].data["text"] == task
    check_compactions(stage.recorder.events, "SYSTEM", "tool")


@pytest.mark.parametrize("scale", [0.5, 0.9, 1.5, 2.5])
async def test_a_provider_that_counts_otherwise(tmp_path: Path, scale: float) -> None:
    """What it counted for the last request sets our own count right."""
    model = LongModel(100, WINDOW, provider_scale=scale)
    await long_run(tmp_path, model)
    fits(model)


async def test_without_a_model_for_it_the_summary_comes_from_the_log(tmp_path: Path) -> None:
    model = LongModel(100, WINDOW, summary=None)
    stage = await long_run(tmp_path, model)
    fits(model)
    left = [e.data for e in stage.of("compaction") if e.data["what"] == "evict"]
    assert {data["by"] for data in left} == {"log"}
    assert "unavailable: no summary today" in left[0]["note"]
    assert re.search(r"#\d+ Step 1\d: ", left[0]["summary"]["decisions"])
    assert left[0]["landmark"].count("#1 do it") == 1


async def test_a_summary_is_booked_and_no_turn(tmp_path: Path) -> None:
    model = LongModel(100, WINDOW, provider_scale=1.0)
    stage = await long_run(tmp_path, model)
    asked = [e for e in stage.of("request") if e.data["consumer"] == "summary"]
    said = [e for e in stage.of("reply") if e.data.get("consumer") == "summary"]
    assert len(asked) == len(said) == len(model.summaries)
    assert all(not e.data["tool"] for e in asked)
    spent = sum(e.data["usage"]["prompt"] for e in stage.of("reply"))
    assert stage.recorder.events[-1].data["usage"]["prompt"] == spent
    assert [e.data["place"] for e in asked] == list(range(len(asked)))
    left = [e.data for e in stage.of("compaction") if e.data["what"] == "evict"]
    assert left[0]["by"] == "model"
    assert "State: step by step" in left[0]["landmark"]
    assert SUMMARY not in str([m.content for m in model.requests[-1].messages])


async def test_what_the_user_said_last_stays(tmp_path: Path) -> None:
    """In the middle of what leaves: the landmark then names what stood before it and after it."""
    model = LongModel(120, WINDOW)
    stage = Stage(tmp_path, model, Limits(turns=None))
    stage.kernels[0].runs = before_run(long_kernel(120), 20, lambda: stage.inbox.put("leave main alone"))
    stage.waiting = list(stage.kernels)
    await stage.run()
    check_compactions(stage.recorder.events, "SYSTEM", "tool")
    said = next(e.n for e in stage.of("message") if e.data["state"] == "delivered")
    spans = [e.data["evicted"] for e in stage.of("compaction") if "evicted" in e.data][-1]
    assert spans[0][1] < said < spans[1][0]
    assert f"#{spans[0][0]}-{spans[0][1]}, #{spans[1][0]}" in model.requests[-1].messages[1].content
    assert "leave main alone" in model.requests[-1].messages[1].content


def before_run(kernel: FakeKernel, number: int, action: Callable[[], object]) -> list[Any]:
    """The kernel's runs; ``action`` happens while cell ``number`` (from 0) runs."""
    play: Any = kernel.runs[number]

    def acting(code: str) -> CellRun:
        action()
        run: CellRun = play(code)
        return run

    return [*kernel.runs[:number], acting, *kernel.runs[number + 1 :]]


async def test_a_cell_can_ask_for_it(tmp_path: Path) -> None:
    model = LongModel(12, None)
    stage = Stage(tmp_path, model)
    parts = stage.parts()
    handler = parts.compaction.handlers()["context.compact"]

    def ask() -> None:
        with suppress(StopIteration):  # it waits for nothing
            handler({}).send(None)  # type: ignore[attr-defined]

    stage.kernels[0].runs = before_run(long_kernel(20), 9, ask)
    stage.waiting = list(stage.kernels)
    stage.parts = lambda: parts  # type: ignore[method-assign]
    await stage.run()
    (event,) = stage.of("compaction")
    assert (event.data["why"], event.data["what"], event.turn) == ("request", "evict", 11)
    assert [m.role for m in model.requests[10].messages] == ["system", "user", "assistant", "tool"]
    assert check_compactions(stage.recorder.events, "SYSTEM", "tool") == 1


async def test_a_log_of_before_reads_as_it_was(tmp_path: Path) -> None:
    """A fold whose event names outputs and not what stands for them."""
    stage = await long_run(tmp_path, LongModel(6, None), turns=6)
    results = [e.n for e in stage.of("result") if len(e.data["text"]) > 200]
    recorder = Recorder.open(tmp_path / "session", SystemClock())
    recorder.append(EventType.COMPACTION, {"what": "fold", "folded": results, "text": "left"})
    recorder.close()
    content = read_log(tmp_path / "session" / "log.jsonl")
    assert not content.damage
    texts = "\n".join(m.content for m in reopened(tmp_path).messages)
    for n in results:
        assert f"event #{n} of this session." in texts


class Narrow(LongModel):
    """One that takes fewer tokens than its identity says."""

    def __init__(self, turns: int, window: int | None, takes: int) -> None:
        super().__init__(turns, window)
        self.takes, self.refused = takes, 0

    async def complete(self, request: ModelRequest, **more: Any) -> ModelReply:
        if self.count_tokens(request.messages) > self.takes:
            self.refused += 1
            raise ProviderError("maximum context length", kind="overflow", status=400)
        return await super().complete(request, **more)


@pytest.mark.parametrize("window", [None, 200_000])
async def test_a_window_that_nobody_knew(tmp_path: Path, window: int | None) -> None:
    """Each refusal makes the next request smaller; the session goes on."""
    model = Narrow(120, window, takes=9_000)
    stage = await long_run(tmp_path, model, turns=120)
    compactions = stage.of("compaction")
    assert model.refused == len(compactions) > 3
    assert {e.data["why"] for e in compactions} == {"overflow"}
    assert all(after < before * 0.7 for before, after in (e.data["estimate"] for e in compactions))
    assert check_compactions(stage.recorder.events, "SYSTEM", "tool") == len(compactions)


async def test_a_summary_that_the_user_interrupts(tmp_path: Path) -> None:
    class Slow(LongModel):
        async def complete(self, request: ModelRequest, **more: Any) -> ModelReply:
            if request.consumer == "summary":
                asyncio.get_running_loop().call_later(0.05, stage.interrupts.press)
                await asyncio.sleep(60)
            return await super().complete(request, **more)

    stage = Stage(tmp_path, Slow(60, WINDOW), Limits(turns=None))
    stage.kernels[0].runs = long_kernel(60).runs
    stage.waiting = list(stage.kernels)
    end = await stage.run()
    assert end.ending.answer == "Done."
    left = [e.data for e in stage.of("compaction") if e.data["what"] == "evict"]
    assert left
    assert {data["by"] for data in left} == {"log"}
    replies = [e.data for e in stage.of("reply") if e.data.get("consumer") == "summary"]
    assert {data["error"]["kind"] for data in replies} == {"interrupted"}
    assert all(data["usage"]["prompt"] for data in replies), "what it may have used is booked"


async def test_a_summary_that_nobody_can_pay(tmp_path: Path) -> None:
    """The limit ends the session at its own next call, and not in the middle of a compaction."""
    model = LongModel(200, WINDOW, provider_scale=1.0)
    stage = Stage(tmp_path, model, Limits(turns=None, tokens=150_000))
    stage.kernels[0].runs = long_kernel(200).runs
    stage.waiting = list(stage.kernels)
    end = await stage.run()
    assert (end.ending.status, end.ending.reason) == ("budget_exhausted", "tokens")
    assert end.usage.tokens <= 150_000
    assert stage.recorder.events[-1].type is EventType.END


async def test_a_task_with_no_room_ends_the_session(tmp_path: Path) -> None:
    stage = Stage(tmp_path, LongModel(5, 1_000))
    parts = stage.parts()
    parts.journal.view.blocks[0] = Block("system", 0, [Part(0, PartKind.SYSTEM, "rules " * 2_000)])
    parts.journal.view.messages[0] = parts.journal.view.blocks[0].message()
    stage.parts = lambda: parts  # type: ignore[method-assign]
    end = await stage.run()
    assert (end.ending.status, end.ending.reason) == ("failed", "provider_error")
    assert end.ending.detail.startswith("overflow: the task alone takes about ")
    assert stage.of("request") == []


async def test_without_the_pin_the_task_would_leave(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(View, "pinned", property(lambda self: frozenset()))
    model = LongModel(60, WINDOW)
    await long_run(tmp_path, model, "the very task", turns=60)
    assert any("the very task" not in str(request.messages) for request in model.requests)


async def test_without_making_room_requests_would_exceed_the_window(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def nothing(*_: object) -> None:
        return None

    monkeypatch.setattr(loop, "make_room", nothing)
    model = LongModel(60, WINDOW)
    await long_run(tmp_path, model, turns=60)
    with pytest.raises(AssertionError):
        fits(model)
