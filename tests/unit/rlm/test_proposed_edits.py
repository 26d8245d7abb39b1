"""From what a cell gives to an edit with evidence; from events to what stands."""

from __future__ import annotations

from typing import Any

import pytest

from harnessctl.domain.errors import UsageError
from harnessctl.domain.event import Event, EventType
from harnessctl.rlm.proposed_edits import edit_of, proposed_by_entry, standing

WISH = {"id": "memory/x", "description": "d", "content": "c", "why": "because"}


def log(*items: tuple[str, dict[str, Any]]) -> list[Event]:
    return [
        Event.make(n=n, t="", type=EventType(kind), turn=0, data=data, prev="0" * 64)
        for n, (kind, data) in enumerate(items)
    ]


SEEN = (
    ("task", {"text": "count"}),
    ("reply", {"content": "look"}),
    ("cell", {"cell": 1, "code": "print(1)", "reply": 1}),
    ("output", {"text": "tracked: 2\r\n"}),
    ("result", {"text": "tracked: 2"}),
    ("reply", {"content": "propose, evidence tracked: 99"}),
    ("cell", {"cell": 2, "code": "harness.propose(evidence='tracked: 99')", "reply": 5}),
)


def numbers(edit: dict[str, Any]) -> list[int]:
    return [one["event"] for one in edit["evidence"]]


def test_without_evidence_the_last_results_and_the_asking_cell_are_cited() -> None:
    edit = edit_of(WISH, log(*SEEN))
    assert numbers(edit) == [4, 6]
    assert (edit["kind"], edit["name"], edit["action"], edit["reason"]) == (
        "memory",
        "x",
        "create",
        "because",
    )


def test_a_quote_is_looked_for_in_what_was_seen_before() -> None:
    edit = edit_of({**WISH, "evidence": "tracked: 2"}, log(*SEEN))
    assert edit["evidence"][0] == {"session": "", "event": 4, "quote": "tracked: 2"}
    with pytest.raises(UsageError, match="stands in nothing"):
        edit_of({**WISH, "evidence": "tracked: 99"}, log(*SEEN))


@pytest.mark.parametrize(
    ("given", "wanted"),
    [
        (3, [3, 6]),
        ([3, 3, {"event": 4, "quote": "tracked"}], [3, 4, 6]),
        ("01KA0000000000000000000000#2", [2, 6]),
    ],
)
def test_events_can_be_named(given: Any, wanted: list[int]) -> None:
    assert numbers(edit_of({**WISH, "evidence": given}, log(*SEEN))) == wanted


@pytest.mark.parametrize(
    ("change", "words"),
    [
        ({"why": "  "}, "why is needed"),
        ({"why": 4}, "why is needed"),
        ({"id": "lesson/x"}, "is not an entry id"),
        ({"id": ""}, "is not an entry id"),
        ({"id": 5}, "the id is a text"),
        ({"content": ""}, "content needed: there is no memory/x yet"),
        ({"content": None, "description": None}, "description and content needed"),
        ({"evidence": [True]}, "is no evidence"),
        ({"evidence": [""]}, "is no evidence"),
        ({"evidence": [None]}, "is no evidence"),
    ],
)
def test_what_is_wrong_is_said(change: dict[str, Any], words: str) -> None:
    with pytest.raises(UsageError, match=words):
        edit_of({**WISH, **change}, log(*SEEN))


def test_kind_and_name_do_as_well_as_an_id() -> None:
    edit = edit_of({**WISH, "id": "", "kind": "skill", "name": "audit"}, log(*SEEN))
    assert (edit["kind"], edit["name"]) == ("skill", "audit")


def proposed(entry: str, action: str) -> tuple[str, dict[str, Any]]:
    shown = None if action == "delete" else {"id": entry, "description": "d", "files": {}}
    return "propose", {"entry": entry, "action": action, "edit": {"action": action}, "shown": shown}


def test_the_action_follows_from_what_there_is() -> None:
    only_text = {"id": "memory/x", "content": "c", "why": "w"}
    assert edit_of(only_text, log(*SEEN), {"memory/x"})["action"] == "update"
    assert edit_of(only_text, log(*SEEN, proposed("memory/x", "create")))["action"] == "update"
    gone = log(*SEEN, proposed("memory/x", "delete"))
    assert edit_of(WISH, gone, {"memory/x"})["action"] == "create"


def test_what_stands_is_the_last_of_each_entry() -> None:
    events = log(
        proposed("memory/x", "create"), proposed("memory/y", "create"), proposed("memory/x", "delete")
    )
    assert [(e["id"], e["proposed"]) for e in standing(events)] == [
        ("memory/x", "delete"),
        ("memory/y", "create"),
    ]
    assert [e.n for e in proposed_by_entry(events)["memory/x"]] == [0, 2]
