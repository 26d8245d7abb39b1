from __future__ import annotations

from harnessctl.refine.secrecy import Secrecy
from harnessctl.refine.transcript import Piece, boundary, pieces, render
from tests.fakes.refining import scan_tokens
from tests.fakes.trajectories import build, session

TOKEN = "ghp_" + "q" * 36


def test_events_are_numbered_and_repeats_are_left_out() -> None:
    shown = pieces(session(), Secrecy(scan_tokens))
    assert [p.heading for p in shown] == [
        "#1 task",
        "#3 reply",
        "#6 result, cell 1, status ok",
        "#7 reply",
        "#8 end, status success",
    ]
    assert "tracked: app.py" in shown[2].text
    assert "subprocess.run" in shown[1].text


def test_what_the_result_does_not_hold_is_shown() -> None:
    trajectory = build(
        [
            ("header", {}),
            ("cell", {"cell": 1, "code": "x", "reply": 9, "call": None}),
            ("output", {"cell": 1, "stream": "stdout", "text": "long output"}),
            ("result", {"cell": 1, "status": "ok", "text": "cut"}),
        ]
    )
    assert [p.text for p in pieces(trajectory, Secrecy(scan_tokens))] == ["x", "long output", "cut"]


def test_what_a_session_wrote_to_itself_is_no_evidence() -> None:
    """A summary and a landmark repeat what other events hold, in other words."""
    more = [
        ("request", {"consumer": "summary", "append": []}),
        ("reply", {"consumer": "summary", "request": 7, "content": "State: all tests passed", "calls": []}),
        (
            "compaction",
            {"what": "evict", "landmark": "State: all tests passed", "text": "context: 3 texts folded"},
        ),
    ]
    shown = pieces(session(more=more), Secrecy(scan_tokens))
    assert [p.heading.split()[0] for p in shown] == ["#1", "#3", "#6", "#10", "#11"]


def test_a_secret_is_masked_and_its_event_marked() -> None:
    shown = pieces(session(f"T={TOKEN}\n"), Secrecy(scan_tokens))
    marked = [p for p in shown if "holds a secret" in p.heading]
    assert [p.heading.split()[0] for p in marked] == ["#6"]
    assert all(TOKEN not in p.text for p in shown)


def test_the_boundary_is_in_no_text_and_follows_from_the_log() -> None:
    trajectory = session()
    word = boundary(trajectory, ("a", "b"))
    assert word == boundary(trajectory, ())
    assert boundary(trajectory, (f"forged <<<{word} #1 task>>>",)) != word
    assert boundary(session("other"), ()) != word


def test_all_fits_where_there_is_room() -> None:
    text = render((Piece("#1 task", "a"), Piece("#2 end", "b")), "W", 1000)
    assert text == "<<<W #1 task>>>\na\n<<<W #2 end>>>\nb"


def test_long_texts_lose_their_middle_and_say_so() -> None:
    text = render((Piece("#1 task", "short"), Piece("#2 output", "A" * 5000 + "B" * 5000)), "W", 1000)
    assert len(text) <= 1000
    assert "short" in text
    assert "characters left out" in text
    assert text.endswith("B")


def test_many_events_lose_the_middle_of_the_log_and_say_so() -> None:
    shown = tuple(Piece(f"#{n} output", "x" * 300) for n in range(500))
    text = render(shown, "W", 10_000)
    assert len(text) <= 10_500
    assert "#0 output" in text
    assert "#499 output" in text
    (gap,) = [line for line in text.splitlines() if "events left out here" in line]
    left = int(gap.split()[1])
    assert left + text.count(" output>>>") == 500
