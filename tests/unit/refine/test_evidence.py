from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harnessctl.domain.errors import RefusedError
from harnessctl.domain.trajectory import Trajectory
from harnessctl.refine.evidence import (
    EXCERPT_BYTES,
    build_evidence,
    check_citations,
    citations,
    refuse_secrets,
)
from harnessctl.refine.redact import Redactor, redactor
from harnessctl.refine.reply import parse_reply
from harnessctl.refine.secrecy import Secrecy
from tests.fakes.refining import edit, reply, scan_tokens
from tests.fakes.trajectories import OUTPUT, SESSION, session

TOKEN = "ghp_" + "q" * 36


def cite(*items: dict[str, Any]) -> Any:
    return parse_reply(reply(edit(evidence=[{"session": "s1", **item} for item in items])))


def problems(trajectory: Trajectory, *items: dict[str, Any]) -> list[str]:
    return [str(p) for p in check_citations(cite(*items), trajectory)]


@pytest.mark.parametrize(
    "item",
    [
        {"event": OUTPUT, "quote": "tracked: app.py"},
        {"event": OUTPUT, "quote": "  tracked: app.py\n"},
        {"event": OUTPUT},
        {"event": 1, "quote": "how many files"},
        {"event": 3, "quote": "subprocess.run(['git', 'ls-files'])"},
        {"event": 3, "quote": "I count.", "session": SESSION},
    ],
)
def test_what_stands_is_accepted(item: dict[str, Any]) -> None:
    assert problems(session(), item) == []


def test_line_ends_do_not_matter_and_other_white_space_does() -> None:
    trajectory = session("one\r\ntwo\rthree\n")
    assert problems(trajectory, {"event": OUTPUT, "quote": "one\ntwo\r\nthree"}) == []
    assert problems(trajectory, {"event": OUTPUT, "quote": "one two"}) != []


@pytest.mark.parametrize(
    ("item", "said"),
    [
        ({"event": 99, "quote": "x"}, "edits[0].evidence[0]: event 99 does not exist; the log ends with 8"),
        ({"event": OUTPUT, "quote": "tracked: other.py"}, "the quote is not in event 5; copy it exactly"),
        ({"event": OUTPUT, "quote": "One file"}, "(it stands in 7, 8)"),
        ({"event": OUTPUT, "quote": "Tracked: app.py"}, "not in event 5"),
        ({"event": OUTPUT, "session": "s2"}, "is session 's1', and another one is named"),
        ({"event": OUTPUT, "quote": "x" * 1001}, "1001 characters"),
    ],
)
def test_what_does_not_stand_is_named(item: dict[str, Any], said: str) -> None:
    (found,) = problems(session(), item)
    assert said in found


def test_an_edit_without_evidence_is_refused() -> None:
    reply_ = parse_reply(reply(edit(evidence=[])))
    assert [p.path for p in check_citations(reply_, session())] == ["edits[0].evidence"]


def test_a_retelling_is_no_evidence() -> None:
    more = [("message", {"text": f"m{n}"}) for n in range(41)]
    reply_ = parse_reply(reply(edit(evidence=None, events=list(range(7, 48)))))
    assert "41 events are cited" in str(check_citations(reply_, session(more=more))[0])


def test_a_changed_event_proves_nothing() -> None:
    whole = session()
    forged = replace(whole.events[OUTPUT], data={**whole.events[OUTPUT].data, "text": "tracked: evil.py"})
    events = (*whole.events[:OUTPUT], forged, *whole.events[OUTPUT + 1 :])
    (found,) = problems(Trajectory(SESSION, events), {"event": OUTPUT, "quote": "tracked: evil.py"})
    assert "damaged" in found


def test_a_secret_in_a_cited_event_is_refused_by_address() -> None:
    reply_ = cite({"event": OUTPUT})
    with pytest.raises(RefusedError, match=rf"{SESSION}#5 .*GitHub token, line 2") as caught:
        refuse_secrets(citations(reply_), session(f"env\nT={TOKEN}\n"), Secrecy(scan_tokens))
    assert TOKEN not in str(caught.value)


def test_a_secret_elsewhere_stops_nothing() -> None:
    refuse_secrets(citations(cite({"event": 1})), session(TOKEN), Secrecy(scan_tokens))


def evidence(trajectory: Trajectory, *items: dict[str, Any], by: Redactor | None = None) -> Any:
    return build_evidence(citations(cite(*items)), trajectory, by or Redactor())


def test_evidence_holds_head_numbers_quotes_and_excerpt() -> None:
    trajectory = session()
    (found,) = evidence(trajectory, {"event": OUTPUT, "quote": "app.py"}, {"event": 3}, {"event": OUTPUT})
    assert (found.head_n, found.head_hash) == (8, trajectory.events[-1].hash)
    assert found.events == (3, 5)
    assert found.quotes == ("app.py",)
    assert [(x.n, x.text, x.cut) for x in found.excerpt][1] == (5, "tracked: app.py\n", False)


def test_excerpt_and_quotes_are_redacted() -> None:
    by = redactor([Path("/home/ada")], ["ada"], ["engine"])
    (found,) = evidence(
        session("ada@engine: /home/ada/app.py"), {"event": OUTPUT, "quote": "/home/ada/app.py"}, by=by
    )
    assert found.excerpt[0].text == "[user]@[host]: ~/app.py"
    assert found.quotes == ("~/app.py",)


@pytest.mark.parametrize("letter", ["x", "ß", "漢", "\ud800"])
def test_a_record_holds_16_kib_of_excerpt_at_most_and_every_quoted_place(letter: str) -> None:
    more = [("message", {"text": letter * 20_000 + f"PLACE-{n}" + letter * 20_000}) for n in range(4)]
    items = [{"event": 7 + n, "quote": f"PLACE-{n}"} for n in range(4)]
    (found,) = evidence(session(more=more), *items, {"event": OUTPUT})
    sizes = [len(x.text.encode("utf-8", "surrogatepass")) for x in found.excerpt]
    assert EXCERPT_BYTES // 2 < sum(sizes) <= EXCERPT_BYTES
    assert [x.cut for x in found.excerpt] == [False, True, True, True, True]
    assert all(f"PLACE-{n}" in found.excerpt[n + 1].text for n in range(4))
    assert found.excerpt[0].text == "tracked: app.py\n"
