"""What Ctrl-C means."""

from __future__ import annotations

from harnessctl.rlm.interrupts import Interrupts


def test_first_the_running_thing_then_the_session() -> None:
    heard: list[str] = []
    interrupts = Interrupts()
    interrupts.attach(lambda: heard.append("stop"))
    with interrupts.aim(lambda: heard.append("cell")):
        interrupts.press()
        assert heard == ["cell"]
        interrupts.press()
    assert heard == ["cell", "stop"]
    assert interrupts.stopped == "interrupted"


def test_with_nothing_running_the_session_ends_at_once() -> None:
    heard: list[str] = []
    interrupts = Interrupts()
    interrupts.attach(lambda: heard.append("stop"))
    interrupts.press()
    assert heard == ["stop"]


def test_after_a_turn_without_a_press_the_next_one_is_a_first_one() -> None:
    heard: list[str] = []
    interrupts = Interrupts()
    interrupts.attach(lambda: heard.append("stop"))
    for _ in range(3):
        with interrupts.aim(lambda: heard.append("cell")):
            interrupts.press()
        interrupts.turn_over()
        interrupts.turn_over()
    assert heard == ["cell"] * 3


def test_a_second_press_may_come_when_the_first_has_ended_its_turn() -> None:
    heard: list[str] = []
    interrupts = Interrupts()
    interrupts.attach(lambda: heard.append("stop"))
    with interrupts.aim(lambda: heard.append("cell")):
        interrupts.press()
    interrupts.turn_over()
    with interrupts.aim(lambda: heard.append("model")):
        interrupts.press()
    assert heard == ["cell", "stop"]


def test_an_end_asked_for_before_the_session_stands_is_not_lost() -> None:
    heard: list[str] = []
    interrupts = Interrupts()
    interrupts.end("terminated")
    interrupts.attach(lambda: heard.append("stop"))
    assert (heard, interrupts.stopped) == (["stop"], "terminated")


def test_terminate_does_not_aim() -> None:
    heard: list[str] = []
    interrupts = Interrupts()
    interrupts.attach(lambda: heard.append("stop"))
    with interrupts.aim(lambda: heard.append("cell")):
        interrupts.end("terminated")
    assert heard == ["stop"]
