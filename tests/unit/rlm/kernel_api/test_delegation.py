"""Handles and messages in a cell, the host played."""

from __future__ import annotations

from concurrent.futures import Future
from typing import Any

import pytest

from harnessctl.rlm.kernel_api.asides import Llm
from harnessctl.rlm.kernel_api.delegation import ChildError, Rlm
from harnessctl.rlm.kernel_api.host import HostError
from harnessctl.rlm.kernel_api.letters import Messages

ENDED = {"name": "a", "state": "failed", "status": "budget_exhausted", "reason": "turns", "detail": "3 of 3"}


class Played:
    """A host with ready answers; an exception is raised, a future handed out as it is."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[tuple[str, dict[str, Any]]] = []

    def submit(self, do: str, **what: Any) -> Future[Any]:
        self.asked.append((do, what))
        answer = self.answers.pop(0)
        if isinstance(answer, Future):
            return answer
        future: Future[Any] = Future()
        if isinstance(answer, Exception):
            future.set_exception(answer)
        else:
            future.set_result(answer)
        return future

    def call(self, do: str, **what: Any) -> Any:
        return self.submit(do, **what).result()


async def test_a_handle_gives_the_answer_or_says_why_there_is_none() -> None:
    host = Played(
        {"name": "a", "session": "S"},
        {"name": "a", "state": "done", "answer": "Found."},
        {"name": "a", "state": "running"},
        ENDED,
    )
    handle = Rlm(host)("look", name="a", max_turns=3)  # type: ignore[arg-type]
    assert host.asked[0][1]["max_turns"] == 3
    assert (handle.name, handle.session) == ("a", "S")
    assert await handle == "Found."
    with pytest.raises(TimeoutError, match="child a still runs"):
        handle.wait(timeout=0.1)
    with pytest.raises(ChildError, match=r"child a: budget_exhausted \(turns, 3 of 3\)") as caught:
        await handle
    assert (caught.value.status, caught.value.reason) == ("budget_exhausted", "turns")


def test_another_kernel_finds_a_child_by_name() -> None:
    host = Played({"name": "a", "session": "S"}, {"state": "cancelled"}, {"state": "cancelled"})
    rlm = Rlm(host)  # type: ignore[arg-type]
    assert rlm.cancel("a") == "cancelled"
    assert [do for do, _ in host.asked] == ["rlm.get", "rlm.cancel"]


def letter(number: int) -> dict[str, str]:
    return {"id": str(number), "from": "a", "text": "x"}


def test_what_arrives_for_a_cell_that_was_interrupted_is_for_the_next_one() -> None:
    late: Interrupted = Interrupted()
    host = Played(late, [letter(2)])
    messages = Messages(host)  # type: ignore[arg-type]
    with pytest.raises(KeyboardInterrupt):
        messages.inbox()
    late.set_result([letter(1)])
    assert messages.inbox() == [letter(1), letter(2)]


class Interrupted(Future[Any]):
    """Ctrl-C arrives in the first wait for it."""

    pressed = False

    def exception(self, timeout: float | None = None) -> BaseException | None:
        if not self.pressed:
            self.pressed = True
            raise KeyboardInterrupt
        return super().exception(timeout)


def test_a_wait_takes_nothing_and_comes_before_the_inbox() -> None:
    host = Played(None, [letter(1)], HostError("gone"), [letter(2)])
    messages = Messages(host)  # type: ignore[arg-type]
    assert messages.inbox(timeout=2) == [letter(1)]
    assert host.asked == [("messages.wait", {"timeout": 2}), ("messages.inbox", {})]
    with pytest.raises(HostError):
        messages.inbox()
    assert messages.inbox() == [letter(2)]


def test_a_batch_with_a_wrong_prompt_asks_for_nothing() -> None:
    host = Played()
    with pytest.raises(TypeError, match="a prompt is text"):
        Llm(host).batch(["a", "b", ""])  # type: ignore[arg-type]
    assert host.asked == []


def test_a_batch_that_breaks_off_takes_back_what_was_asked() -> None:
    first: Future[Any] = Future()

    class Breaking(Played):
        def submit(self, do: str, **what: Any) -> Future[Any]:
            if self.asked:
                raise KeyboardInterrupt
            return super().submit(do, **what)

    with pytest.raises(KeyboardInterrupt):
        Llm(Breaking(first)).batch(["a", "b"])  # type: ignore[arg-type]
    assert first.cancelled()
