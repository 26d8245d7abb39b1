"""How events are said in plain lines."""

from __future__ import annotations

import errno
import io
from typing import Any

import pytest

from harnessctl.cli.watching import (
    Notes,
    PlainLines,
    clipped,
    cost_words,
    counted,
    event_lines,
    pin_words,
    wait_line,
)
from harnessctl.models.port import Attempt
from tests.fakes.trajectories import build


def lines(kind: str, data: dict[str, Any]) -> list[str]:
    return event_lines(build([("header", {}), ("task", {}), (kind, data)]).events[-1])


@pytest.mark.parametrize(
    ("pin", "said"),
    [
        ({"commit": None, "source": "empty"}, "no harness"),
        ({"commit": "a" * 40, "source": "lock"}, "harness aaaaaaaaaaaa (pinned)"),
        ({"commit": "a" * 40, "source": "tip"}, "harness aaaaaaaaaaaa (unpinned)"),
        ({"commit": "a" * 40, "source": "head"}, "harness aaaaaaaaaaaa (unpinned, at HEAD)"),
        (
            {"commit": "a" * 40, "source": "lock", "note": "same entries"},
            "harness aaaaaaaaaaaa (pinned; same entries)",
        ),
    ],
)
def test_which_harness(pin: dict[str, Any], said: str) -> None:
    assert pin_words(pin) == said


def test_events_in_words() -> None:
    header = {"session": "S", "pin": {"source": "empty"}, "python": {"why": "the project's .venv"}}
    assert lines("header", header) == ["session S, no harness, Python: the project's .venv"]
    assert lines("reply", {"content": "I look.", "calls": [{}]}) == ["turn 1: I look."]
    assert lines("reply", {"content": "The answer.", "calls": []}) == []
    assert lines("reply", {"error": {"kind": "auth", "message": "no key"}}) == ["turn 1: auth: no key"]
    assert lines("cell", {"cell": 2, "code": "a\nb"}) == ["In [2]:", "    a", "    b"]
    assert lines("result", {"text": "x\n[cell 2: ok]"}) == ["    x", "    [cell 2: ok]"]
    assert lines("output", {"text": "x"}) == []


def test_long_text_keeps_its_ends() -> None:
    assert clipped("\n".join("abcdefgh"), 4) == "a\nb\n[... 4 lines ...]\ng\nh"
    assert clipped("a\nb\n", 4) == "a\nb"


def test_waits_and_counts() -> None:
    assert wait_line(Attempt("rate_limit", 429, "slow down", 3.0), 3.0) == "rate_limit 429; next try in 3.0 s"
    assert (counted(1, "cell"), counted(1200, "cell")) == ("1 cell", "1,200 cells")


def test_what_a_gate_said() -> None:
    passed = {"text": "gate tests: passed (exit 0)\nall fine", "status": "passed", "ms": 1234}
    assert lines("gate", passed) == ["gate tests: passed (exit 0), 1.2 s"]
    failed = {"text": "gate tests: failed (exit 1)\nFAIL", "status": "failed", "ms": 500}
    assert lines("gate", failed) == ["gate tests: failed (exit 1), 0.5 s", "    FAIL"]


def test_a_price_is_told_or_said_to_be_unknown() -> None:
    assert (cost_words(0.00123), cost_words(0.0), cost_words(None)) == (", $0.0012", "", ", price unknown")


def test_an_answer_that_a_gate_sends_back_is_shown(capsys: pytest.CaptureFixture[str]) -> None:
    gate = {"text": "gate tests: failed (exit 1)", "status": "failed", "ms": 500, "left": 1}
    steps = [("reply", {"content": "All fine.", "calls": []}), ("gate", gate), ("gate", gate)]
    watcher = PlainLines()
    for event in build([("header", {}), ("task", {}), *steps]).events[2:]:
        watcher.event(event)
    assert capsys.readouterr().err.splitlines() == [
        "turn 1: All fine.",
        "gate tests: failed (exit 1), 0.5 s",
        "gate tests: failed (exit 1), 0.5 s",
    ]


def test_nobody_at_a_closed_terminal_says_yes(monkeypatch: pytest.MonkeyPatch) -> None:
    class Closed(io.StringIO):
        def readline(self, *_: object) -> str:
            raise OSError(errno.EIO, "Input/output error")

    monkeypatch.setattr("sys.stdin", Closed())
    assert Notes().ask("gates of harness.toml") is False
