"""Messages that wait: order, the log's view of them, and what a resumed session delivers."""

from __future__ import annotations

from pathlib import Path

from harnessctl.domain.event import EventType
from harnessctl.rlm.inbox import Inbox, Letter
from tests.fakes.sessions import Stage, scripted


def test_first_in_first_out_and_never_twice() -> None:
    inbox, seen = Inbox(), list[Letter]()
    inbox.put("early")
    inbox.attach(seen.append)
    inbox.put("late")
    inbox.put("  \n")
    assert [letter.text for letter in seen] == ["early", "late"]
    assert [letter.text for letter in inbox.take()] == ["early", "late"]
    assert inbox.take() == ()


async def test_who_waited_in_vain_is_forgotten() -> None:
    inbox = Inbox()
    for _ in range(3):
        await inbox.arrival(0.001)
    assert not inbox.asked
    assert not inbox._askers


async def test_a_message_typed_while_it_works_is_in_the_next_request(tmp_path: Path) -> None:
    model = scripted(tmp_path, {"content": "a", "code": "1"}, {"content": "Done."})
    stage = Stage(tmp_path, model)
    stage.kernels[0].runs = [lambda _: stage.inbox.put("use tabs") or _ran()]  # type: ignore[func-returns-value]
    await stage.run()
    states = [(e.data["text"], e.data["state"]) for e in stage.of("message")]
    assert states == [("use tabs", "queued"), ("use tabs", "delivered")]
    appended = [m["content"] for e in stage.of("request")[1:] for m in e.data["append"]]
    assert appended[-1] == "use tabs"


async def test_a_message_that_comes_with_the_answer_goes_on(tmp_path: Path) -> None:
    """The answer was given without it: the model is asked again."""
    model = scripted(tmp_path, {"content": "Done."}, {"content": "Done with tabs."})
    stage = Stage(tmp_path, model)
    complete = model.complete

    async def late(*args: object, **more: object) -> object:
        reply = await complete(*args, **more)  # type: ignore[arg-type]
        if not stage.of("message"):
            stage.inbox.put("with tabs, please")
        return reply

    model.complete = late  # type: ignore[method-assign,assignment]
    end = await stage.run()
    assert end.ending.answer == "Done with tabs."


async def test_what_was_queued_and_not_delivered_waits_again(tmp_path: Path) -> None:
    stage = Stage(tmp_path, scripted(tmp_path, {"content": "Done."}))
    for key, state in (("1", "queued"), ("2", "queued"), ("1", "delivered")):
        data = {"id": key, "from": "user", "to": "root", "text": f"text {key}", "state": state}
        stage.recorder.append(EventType.MESSAGE, data)
    inbox = Inbox()
    inbox.restore(stage.recorder.events)
    seen: list[Letter] = []
    inbox.attach(seen.append)
    assert seen == []  # it stands in the log already
    assert [letter.text for letter in inbox.take()] == ["text 2"]
    stage.recorder.close()


def _ran():  # type: ignore[no-untyped-def]
    from tests.fakes.kernels import ran

    return ran("x")
