"""Evidence held against a log, redaction included; pure."""

from __future__ import annotations

from dataclasses import replace
from pathlib import PurePath

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harnessctl.domain.event import event_text
from harnessctl.domain.trajectory import Trajectory
from harnessctl.domain.update import Evidence, ExcerptEvent
from harnessctl.refine.evidence import build_evidence
from harnessctl.refine.redact import Redactor, redactor
from harnessctl.refine.reply import Citation
from harnessctl.refine.standing import excerpt_problems, standing_problems
from tests.fakes.trajectories import OUTPUT, session

HERE = redactor([PurePath("/home/zelda")], ["zelda"], ["engine.example.org"])
ELSEWHERE = redactor([PurePath("/home/mo-b")], ["mo-b"], ["other"])


def made(trajectory: Trajectory, quote: str, by: Redactor = HERE) -> Evidence:
    """Evidence as refining builds it."""
    (found,) = build_evidence((Citation("e", trajectory.session, OUTPUT, quote),), trajectory, by)
    return found


@pytest.mark.parametrize(
    "quote",
    [
        "tracked: app.py",
        "/home/zelda/work",
        "zelda/work",
        "by zelda on engine.example.org",
        "elda on eng",
        "on engine.example.org",
        "~ and [user]",
    ],
)
@pytest.mark.parametrize("reader", [HERE, ELSEWHERE], ids=["this machine", "another"])
def test_what_refining_wrote_stands(quote: str, reader: Redactor) -> None:
    output = "tracked: app.py in /home/zelda/work by zelda on engine.example.org, ~ and [user]\n"
    trajectory = session(output)
    assert standing_problems(made(trajectory, quote), trajectory, reader) == ()


@given(st.text(min_size=1, max_size=200), st.data())
def test_any_part_of_any_output_stands(output: str, data: st.DataObject) -> None:
    trajectory = session(output)
    event = trajectory.event(OUTPUT)
    assert event is not None
    text = event_text(event)
    start = data.draw(st.integers(0, len(text)))
    end = data.draw(st.integers(start, len(text)))
    assert standing_problems(made(trajectory, text[start:end]), trajectory, HERE) == ()


def test_a_long_event_stands_by_the_parts_that_were_kept() -> None:
    trajectory = session("begin " + "x" * 40_000 + " the quote " + "y" * 40_000 + " end\n")
    evidence = made(trajectory, "the quote")
    assert evidence.excerpt[0].cut
    assert standing_problems(evidence, trajectory, HERE) == ()
    text = evidence.excerpt[0].text.replace(" end", " END")
    planted = replace(evidence, excerpt=(ExcerptEvent(OUTPUT, text, True),))
    assert standing_problems(planted, trajectory, HERE)


def test_each_field_is_named() -> None:
    trajectory = session()
    good = made(trajectory, "tracked: app.py")
    name = trajectory.session
    for changes, problem in (
        ({"session": "01JDXYZ0000000000000000001"}, f"session: the log is that of {name}"),
        ({"head_n": 99}, f"{name}#99: the log ends before the head of the chain in the record"),
        ({"head_hash": "0" * 64}, f"{name}#8: its hash is not the head of the chain in the record"),
        ({"events": (OUTPUT, 98)}, f"{name}#98: there is no such event"),
        ({"quotes": ("tracked: app.pz",)}, "quotes[0]: it stands in none of the cited events"),
        ({"excerpt": (ExcerptEvent(1, "x", False),)}, "excerpt[1]: no cited event"),
        (
            {"excerpt": (ExcerptEvent(OUTPUT, "tracked: app.p", False),)},
            f"{name}#{OUTPUT}: the excerpt is not what the event says",
        ),
    ):
        found = standing_problems(replace(good, **changes), trajectory, HERE)  # type: ignore[arg-type]
        assert found == (problem,)


def test_damage_is_told_before_anything_else_and_a_torn_tail_behind_the_head_is_none() -> None:
    trajectory = session()
    evidence = made(trajectory, "tracked: app.py")
    cut = Trajectory(trajectory.session, trajectory.events[:4], ("line 5 (byte 9): the hash is not that",))
    (found,) = standing_problems(evidence, cut, HERE)
    assert found.startswith(f"{trajectory.session}#4: ")
    torn = replace(trajectory, damage=("torn tail: 3 bytes after event 8",))
    assert standing_problems(evidence, torn, HERE) == ()


def test_without_a_log_a_whole_excerpt_must_hold_the_quotes() -> None:
    evidence = made(session(), "tracked: app.py")
    assert excerpt_problems(evidence) == ()
    assert excerpt_problems(replace(evidence, quotes=("made up",))) == ("quotes[0]: not in the excerpt",)
    assert excerpt_problems(replace(evidence, quotes=("made up",), excerpt=())) == ()
    cut = replace(evidence, quotes=("made up",), excerpt=(replace(evidence.excerpt[0], cut=True),))
    assert excerpt_problems(cut) == (), "what was cut away may have held it"
