"""Whole sessions against a scripted model, the kernel played."""

from __future__ import annotations

import asyncio
import json
import os
import sys
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harnessctl.domain.cell import CellError, CellStatus
from harnessctl.domain.errors import HarnessError
from harnessctl.domain.event import EventType
from harnessctl.domain.limits import Limits, Usage
from harnessctl.domain.message import Message, ToolCall
from harnessctl.layers.l0_weights import ModelIdentity
from harnessctl.models.failures import TryError
from harnessctl.models.port import ModelReply, ModelRequest, OnText, OnWait, ProviderError
from harnessctl.models.retry import RetryPolicy, with_retries
from harnessctl.rlm import session
from harnessctl.rlm.asides import Asides
from harnessctl.rlm.door import Door
from harnessctl.rlm.inbox import Inbox
from harnessctl.rlm.kernels import kernel_starter
from harnessctl.rlm.log import read_trajectory
from harnessctl.rlm.loop import WAITS, run_turn
from harnessctl.rlm.post import LetterError, Letters, Post
from harnessctl.rlm.recorder import SPARE_NAME, StorageError
from harnessctl.rlm.reopen import Addition
from harnessctl.rlm.seat import Seat
from harnessctl.rlm.session import run_session
from tests.fakes.kernels import FakeKernel, ran
from tests.fakes.runtime import StillFence
from tests.fakes.sessions import Stage, scripted


def code(text: str, content: str | None = None) -> dict[str, Any]:
    return {"code": text, "content": content}


class Answers:
    """A model that answers from Python values; an exception is raised, a coroutine function awaited."""

    identity = ModelIdentity("fake", "m")

    def __init__(self, *replies: Any) -> None:
        self.replies = list(replies)
        self.requests: list[ModelRequest] = []

    async def complete(
        self, request: ModelRequest, *, on_text: OnText | None = None, on_wait: OnWait | None = None
    ) -> ModelReply:
        self.requests.append(request)
        reply = self.replies.pop(0)
        if callable(reply):
            reply = await reply()
        if isinstance(reply, Exception):
            raise reply
        assert isinstance(reply, ModelReply)
        return reply

    def count_tokens(self, messages: tuple[Message, ...]) -> int:
        return 10 * len(messages)

    async def aclose(self) -> None:
        return None


def once(true: Callable[[], object], act: Callable[[], object]) -> asyncio.Task[None]:
    """Do ``act`` as soon as ``true`` holds."""

    async def wait() -> None:
        while not true():  # noqa: ASYNC110 - no event is set
            await asyncio.sleep(0.01)
        act()

    return asyncio.create_task(wait())


def cells(*codes: str, prompt: int = 100) -> ModelReply:
    calls = tuple(ToolCall(f"c{i}", "ipython", json.dumps({"code": c})) for i, c in enumerate(codes))
    return ModelReply(None, calls, "tool_calls", Usage(prompt=prompt, completion=5, calls=1))


def says(text: str | None, finish: str = "stop") -> ModelReply:
    return ModelReply(text, (), finish, Usage(prompt=100, completion=5, calls=1))


async def test_a_session_from_task_to_answer(tmp_path: Path) -> None:
    stage = Stage(tmp_path, scripted(tmp_path, code("len(files)", "I count."), {"content": "Three."}))
    stage.kernels[0].runs = [ran("3\n")]
    end = await stage.run("how many?")
    assert (end.ending.status, end.ending.reason, end.ending.answer) == ("success", "no_gates", "Three.")
    kinds = [str(e.type) for e in stage.recorder.events]
    assert kinds == [
        "header",
        "task",
        "request",
        "reply",
        "cell",
        "output",
        "result",
        "request",
        "reply",
        "end",
    ]
    assert stage.kernels[0].codes == ["len(files)"]
    assert stage.kernels[0].closed
    assert stage.shown() == ["3\n[cell 1: ok, 0.0 s]"]
    assert not read_trajectory(tmp_path / "session").damage
    assert [e.turn for e in stage.recorder.events] == [0, 0, 1, 1, 1, 1, 1, 2, 2, 0]


async def test_requests_can_be_put_together_again_from_the_log(tmp_path: Path) -> None:
    model = Answers(cells("1"), says(None), cells("2", "3"), says("Done."))
    await Stage(tmp_path, model, kernels=[FakeKernel(ran("x", CellStatus.ERROR))]).run()
    sent = [[m.to_json() for m in r.messages] for r in model.requests]
    whole: dict[int, list[Any]] = {}
    for event in read_trajectory(tmp_path / "session").events:
        if event.type == "request":
            data = event.data
            before = whole[data["prefix"]][: data["keep"]] if data["prefix"] is not None else []
            whole[event.n] = before + data["append"]
    assert list(whole.values()) == sent


async def test_with_fences(tmp_path: Path) -> None:
    stage = Stage(tmp_path, scripted(tmp_path, code("1 + 1"), {"content": "Two."}, tools=False))
    end = await stage.run()
    assert end.ending.answer == "Two."
    assert stage.of("request")[1].data["append"][-1]["role"] == "user"
    assert stage.of("cell")[0].data["call"] is None


async def test_several_calls_in_one_reply_run_in_order(tmp_path: Path) -> None:
    stage = Stage(tmp_path, Answers(cells("a", "b", "c"), says("ok")))
    stage.kernels[0].runs = [ran(), ran(status=CellStatus.ERROR, error=CellError("X", "y")), ran()]
    await stage.run()
    assert stage.kernels[0].codes == ["a", "b", "c"]
    assert [e.data["call"] for e in stage.of("result")] == ["c0", "c1", "c2"]


async def test_calls_after_a_lost_kernel_are_not_run_and_told_so(tmp_path: Path) -> None:
    dead = ran(status=CellStatus.DIED, signal="SIGKILL", kernel_lost=True)
    stage = Stage(
        tmp_path, Answers(cells("a", "b"), cells("c"), says("ok")), kernels=[FakeKernel(dead), FakeKernel()]
    )
    await stage.run()
    assert [k.codes for k in stage.kernels] == [["a"], ["c"]]
    assert stage.shown()[1] == "Not run: the call before it ended with status died."
    assert "all variables are gone" in stage.shown()[0]
    assert stage.shown()[2].startswith("[the kernel was lost before this cell")
    assert [e.data["what"] for e in stage.of("repair")] == ["kernel_restart"]


async def test_a_kernel_that_keeps_dying_ends_the_session(tmp_path: Path) -> None:
    def dead() -> FakeKernel:
        return FakeKernel(ran(status=CellStatus.DIED, exit_code=3, kernel_lost=True))

    replies = [cells("x") for _ in range(20)]
    stage = Stage(tmp_path, Answers(*replies), kernels=[dead() for _ in range(20)])
    end = await stage.run()
    assert (end.ending.status, end.ending.reason) == ("failed", "kernel_lost")


async def test_final_ends_at_once_with_the_value(tmp_path: Path) -> None:
    """loop-10."""
    stage = Stage(tmp_path, Answers(cells("final(x)", "never")))
    stage.kernels[0].runs = [ran(status=CellStatus.FINAL, final="[1, 2]")]
    end = await stage.run()
    assert end.ending.answer == "[1, 2]"
    assert stage.kernels[0].codes == ["final(x)"]


async def test_a_malformed_call_is_answered_and_not_run(tmp_path: Path) -> None:
    broken = ModelReply(None, (ToolCall("a", "ipython", '{"code": "x'),), "tool_calls", Usage(calls=1))
    stage = Stage(tmp_path, Answers(broken, says("Sorry.")))
    await stage.run()
    assert stage.kernels[0].codes == []
    answer = stage.of("request")[1].data["append"][-1]
    assert (answer["role"], answer["tool_call_id"]) == ("tool", "a")
    assert answer["content"].startswith("Not run: the arguments must be a JSON object")


async def test_three_empty_replies_end_as_incomplete(tmp_path: Path) -> None:
    """loop-03."""
    model = Answers(says(None), says(""), says(" "), says("never"))
    end = await Stage(tmp_path, model).run()
    assert (end.ending.status, end.ending.reason, end.ending.answer) == ("incomplete", "empty_reply", None)
    assert len(model.requests) == 3
    assert "Your reply was empty" in model.requests[1].messages[-1].content


async def test_a_provider_error_ends_as_failed_and_its_usage_is_booked(tmp_path: Path) -> None:
    error = ProviderError("too long", kind="overflow", status=400, usage=Usage(prompt=7, calls=1))
    stage = Stage(tmp_path, Answers(error))
    end = await stage.run()
    assert (end.ending.status, end.ending.reason) == ("failed", "provider_error")
    assert "too long" in end.ending.detail
    assert end.usage.prompt == 7
    assert stage.of("reply")[0].data["error"] == {"kind": "overflow", "status": 400, "message": "too long"}


async def test_the_turn_limit(tmp_path: Path) -> None:
    stage = Stage(tmp_path, Answers(*[cells("1")] * 9), Limits(turns=3))
    end = await stage.run()
    assert (end.ending.status, end.ending.reason) == ("budget_exhausted", "turns")
    assert len(stage.of("request")) == 3


async def test_the_token_limit_is_passed_by_at_most_one_call(tmp_path: Path) -> None:
    model = Answers(*[cells("1", prompt=400)] * 9)
    end = await Stage(tmp_path, model, Limits(tokens=1000)).run()
    assert (end.ending.status, end.ending.reason) == ("budget_exhausted", "tokens")
    assert end.usage.tokens < 1000
    # The first request is estimated at 20, the second at what the first one used and two new messages.
    assert [r.max_output for r in model.requests] == [980, 175]


async def test_the_wall_clock_ends_a_waiting_model(tmp_path: Path) -> None:
    stage = Stage(tmp_path, Answers(lambda: asyncio.sleep(60)), Limits(wall_s=0.2))
    end = await stage.run()
    assert (end.ending.status, end.ending.reason) == ("budget_exhausted", "wall")
    assert stage.of("end")[0].data["status"] == "budget_exhausted"
    assert (end.usage.calls, end.usage.tokens, end.usage.estimated) == (1, 20, True)


async def unreachable() -> ModelReply:
    """No provider is reached, and the next try is far."""

    async def attempt() -> ModelReply:
        raise TryError("unavailable", "connection refused", None, True)

    return await with_retries(attempt, policy=RetryPolicy(base_s=120))


async def test_a_wait_between_tries_uses_nothing(tmp_path: Path) -> None:
    """Neither the limit that ends it nor an interrupt makes a request of it."""
    stage = Stage(tmp_path, Answers(unreachable, unreachable), Limits(wall_s=1))
    pressing = once(lambda: stage.model.requests, stage.interrupts.press)  # type: ignore[attr-defined]
    end = await stage.run()
    await pressing
    assert (end.ending.status, end.ending.reason) == ("budget_exhausted", "wall")
    assert [event.data["usage"]["calls"] for event in stage.of("reply")] == [0, 0]
    assert end.usage == Usage()


async def test_a_question_that_waits_between_tries_uses_nothing(tmp_path: Path) -> None:
    parts = Stage(tmp_path, Answers(unreachable)).parts()
    asides = Asides(parts.journal, parts.model, parts.budget)
    with pytest.raises(TimeoutError):
        async with asyncio.timeout(0.2):
            await asides.ask("llm", (Message("user", "x"),))
    assert parts.budget.total == Usage()


async def test_a_cell_may_not_run_beyond_the_wall_clock(tmp_path: Path) -> None:
    stage = Stage(tmp_path, Answers(cells("1"), says("ok")), Limits(wall_s=50, cell_s=600))
    await stage.run()
    assert 40 < stage.kernels[0].limits[0] <= 50


async def test_the_first_press_interrupts_the_cell_and_the_model_is_told(tmp_path: Path) -> None:
    stage = Stage(tmp_path, Answers(cells("wait", "next"), says("I stopped.")))
    pressing = once(lambda: stage.kernels[0].codes, stage.interrupts.press)
    end = await stage.run()
    await pressing
    assert end.ending.status == "success"
    assert "the user interrupted it" in stage.shown()[0]
    assert stage.kernels[0].codes == ["wait"]


async def test_the_first_press_interrupts_a_reply_and_the_model_is_told(tmp_path: Path) -> None:
    model = Answers(lambda: asyncio.sleep(60), says("Yes?"))
    stage = Stage(tmp_path, model)
    pressing = once(lambda: model.requests, stage.interrupts.press)
    end = await stage.run()
    await pressing
    assert end.ending.answer == "Yes?"
    assert "The user interrupted your reply" in model.requests[1].messages[-1].content
    assert model.requests[1].place == 0


async def test_the_second_press_ends_in_order(tmp_path: Path) -> None:
    model = Answers(lambda: asyncio.sleep(60), lambda: asyncio.sleep(60))
    stage = Stage(tmp_path, model)
    pressing = [once(lambda n=n: len(model.requests) == n, stage.interrupts.press) for n in (1, 2)]
    end = await stage.run()
    await asyncio.gather(*pressing)
    assert (end.ending.status, end.ending.reason) == ("interrupted", "interrupted")
    assert stage.of("end")[0].data["reason"] == "interrupted"
    assert stage.kernels[0].closed


async def test_terminate_ends_a_running_cell_in_order(tmp_path: Path) -> None:
    stage = Stage(tmp_path, Answers(cells("wait")))
    ending = once(lambda: stage.kernels[0].codes, lambda: stage.interrupts.end("terminated"))
    end = await stage.run()
    await ending
    assert (end.ending.status, end.ending.reason) == ("interrupted", "terminated")
    assert [str(e.type) for e in stage.recorder.events][-2:] == ["cell", "end"]
    assert stage.kernels[0].closed


async def test_a_kernel_that_does_not_start_fails_the_session_when_it_is_needed(tmp_path: Path) -> None:
    async def start() -> Any:
        raise HarnessError("the kernel did not start", id="kernel_start")

    end = await Stage(tmp_path, Answers(says("No code needed.")), start=start).run()
    assert end.ending.status == "success"
    other = tmp_path / "other"
    other.mkdir()
    end = await Stage(other, Answers(cells("1")), start=start).run()
    assert (end.ending.status, end.ending.reason) == ("failed", "kernel_start")


async def test_a_full_disk_ends_as_failed_storage(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    stage = Stage(tmp_path, Answers(cells("1"), says("x")))

    def full(code: str) -> Any:
        monkeypatch.setattr("os.write", lambda fd, data: len(data) // 2)
        return ran("some output")

    stage.kernels[0].runs = [full]
    end = await stage.run()
    monkeypatch.undo()
    assert (end.ending.status, end.ending.reason) == ("failed", "storage")
    assert not read_trajectory(tmp_path / "session").damage


async def test_harness_state_that_moved_is_said(tmp_path: Path) -> None:
    stage = Stage(tmp_path, Answers(cells("git update-ref"), says("Done.")))

    def move(code: str) -> Any:
        stage.fence.state["refs/heads/harness"] = "sha256:2"
        return ran()

    stage.kernels[0].runs = [move]
    end = await stage.run()
    assert (end.ending.status, end.ending.reason, end.moved) == (
        "success",
        "ref_moved",
        ("refs/heads/harness",),
    )


async def test_files_that_can_no_longer_be_listed_are_said(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    stage = Stage(tmp_path, Answers(cells("os.mkfifo('.gitignore')"), says("Done.")))

    def refused() -> str:
        raise HarnessError("git would wait at a pipe", id="git_failed")

    def spoil(code: str) -> Any:
        monkeypatch.setattr(stage.tree, "tree_hash", refused)
        return ran()

    stage.kernels[0].runs = [spoil]
    end = await stage.run()
    assert (end.ending.status, end.ending.reason, end.tree) == ("success", "no_gates", "")
    assert (end.ending.detail, end.verified) == ("git would wait at a pipe", False)


async def test_what_the_watcher_sees(tmp_path: Path) -> None:
    stage = Stage(tmp_path, scripted(tmp_path, code("1", "Look."), {"content": "Done."}))
    stage.kernels[0].runs = [ran("out\n")]
    await stage.run()
    assert stage.watcher.events == list(stage.recorder.events)
    assert stage.watcher.outputs == [("stdout", "out\n")]
    assert "Done." in "".join(stage.watcher.words)


async def test_each_request_says_its_place(tmp_path: Path) -> None:
    model = Answers(cells("1"), cells("2"), says("Done."))
    await Stage(tmp_path, model).run()
    assert [r.place for r in model.requests] == [0, 1, 2]


async def test_an_expected_failure_without_a_reason_of_its_own(tmp_path: Path) -> None:
    async def start() -> FakeKernel:
        raise HarnessError("no folder for the kernel's sockets", id="socket_path")

    stage = Stage(tmp_path, scripted(tmp_path, {"content": "go", "code": "1"}), start=start)
    end = await stage.run()
    assert (end.ending.status, end.ending.reason) == ("failed", "error")
    assert end.ending.detail == "no folder for the kernel's sockets"


async def test_an_interrupt_while_it_waits_for_the_call_of_another_session(tmp_path: Path) -> None:
    stage = Stage(tmp_path, Answers(says("Done.")), Limits(tokens=9000))
    parts = stage.parts()
    held = await parts.budget.reserve("root/alice", 100, Answers.identity, 8000)
    header = {"session": "S", "harness_state": {}, "tree": ""}
    opening = (Addition(EventType.HEADER, header), Addition(EventType.TASK, {"text": "x"}))
    task = asyncio.create_task(run_session(opening, parts, stage.tree, StillFence()))
    await once(lambda: stage.interrupts._aim, stage.interrupts.press)
    await asyncio.sleep(0)
    assert stage.watcher.notes == [WAITS]
    assert not task.done()
    parts.budget.book(held, Usage(prompt=100))
    assert (await task).ending.answer == "Done."
    stage.recorder.close()


async def test_a_request_that_cannot_be_written_holds_nothing_back(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Another session of the tree would wait for it for ever."""
    parts = Stage(tmp_path, scripted(tmp_path, {"content": "x"})).parts()
    parts.journal.record(EventType.HEADER, {"session": "S"})
    parts.journal.record(EventType.TASK, {"text": "do it"})

    def full(*_: object, **__: object) -> None:
        raise StorageError(Path("log"), "no space")

    monkeypatch.setattr(parts.journal, "record", full)
    asides = Asides(parts.journal, parts.model, parts.budget)
    for call in (run_turn(parts, 1), asides.ask("llm", (Message("user", "x"),))):
        with pytest.raises(StorageError):
            await call
    assert not parts.budget._reserved


async def test_a_session_begins_in_the_space_that_is_held_for_its_end(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """It can be listed, and picked up when there is more space."""
    stage = Stage(tmp_path, scripted(tmp_path, {"content": "x"}))
    recorder, write = stage.recorder, stage.recorder._write

    def full(line: bytes) -> None:
        if (recorder.folder / SPARE_NAME).exists():
            raise StorageError(recorder.folder, "no space")
        write(line)

    monkeypatch.setattr(recorder, "_write", full)
    end = await stage.run()
    assert (end.ending.status, end.ending.reason) == ("failed", "storage")
    assert [e.type for e in read_trajectory(recorder.folder).events] == ["header", "task", "end"]


async def test_after_a_defect_nobody_can_write_to_the_session(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    async def broken(*_: object) -> None:
        raise ZeroDivisionError("a defect")

    monkeypatch.setattr(session, "run_turn", broken)
    stage, post = Stage(tmp_path, scripted(tmp_path, {"content": "x"})), Post()
    parts, seat = stage.parts(), Seat("S").below("C", "child")
    parts = replace(parts, letters=Letters(seat, post, parts.inbox, parts.journal))
    opening = (Addition(EventType.HEADER, {"session": "C"}), Addition(EventType.TASK, {"text": "x"}))
    with pytest.raises(ExceptionGroup):
        await run_session(opening, parts, stage.tree, stage.fence)
    post.join(Seat("S"), Inbox())
    with pytest.raises(LetterError, match="child has ended") as caught:
        post.send(Seat("S"), "child", "hello")
    assert "rlm.get('child')" in caught.value.hint


async def test_a_start_that_nobody_wants_any_more_leaves_no_sockets(tmp_path: Path) -> None:
    door, environment = Door(), {"XDG_RUNTIME_DIR": str(tmp_path)}
    start = kernel_starter(sys.executable, tmp_path, tmp_path, environment, tmp_path / "e.json", door)
    starting = asyncio.ensure_future(start())
    await asyncio.sleep(0)
    assert os.listdir(tmp_path)
    starting.cancel()
    await asyncio.gather(starting, return_exceptions=True)
    await door.close()
    assert os.listdir(tmp_path) == []
