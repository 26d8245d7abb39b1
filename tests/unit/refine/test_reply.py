from __future__ import annotations

import json
from typing import Any

import pytest

from harnessctl.domain.ids import Kind
from harnessctl.refine.reply import Citation, ReplyRejectedError, parse_reply
from tests.fakes.refining import edit, reply


@pytest.mark.parametrize(
    "form",
    ["{}", "```json\n{}\n```", "Here it is:\n\n{}\n\nI hope {{this}} helps.", "<think>{{a: b}}</think>{}"],
    ids=["plain", "fence", "text around", "braces before"],
)
def test_the_object_is_found(form: str) -> None:
    text = form.replace("{}", "\0").replace("{{", "{").replace("}}", "}").replace("\0", reply(edit()))
    (found,) = parse_reply(text).edits
    assert (found.action, found.kind, found.name) == ("create", Kind.MEMORY, "count-files")
    assert found.evidence == (Citation("edits[0].evidence[0]", "s1", 5, "tracked: app.py"),)
    assert found.title is None


def test_no_edits_is_a_good_reply() -> None:
    assert parse_reply('{"edits": []}').edits == ()


def test_bare_event_numbers_are_citations() -> None:
    (found,) = parse_reply(reply(edit(evidence=None, events=[3, 5]))).edits
    assert found.evidence == (Citation("edits[0].events[0]", "", 3), Citation("edits[0].events[1]", "", 5))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        ("", "holds no JSON object"),
        ("nothing to learn", "holds no JSON object"),
        ('{"summary": "x"}', "has no 'edits'"),
        ('{"edits": [}', "broken: Expecting value, line 1 column 12"),
        ('{"edits": []} or {"edits": []}', "2 JSON objects"),
        ('{"edits": [], "edits": []}', "'edits' is given twice"),
        ('{"edits": [], "summary": "\\ud800"}', "surrogate"),
        ('{"edits": ' + "[" * 200_000, "nested too deeply"),
        ("{" * 100_000, "is broken"),
    ],
    ids=["empty", "prose", "no edits", "broken", "two", "twice", "surrogate", "deep", "braces"],
)
def test_what_is_no_reply_is_said(text: str, said: str) -> None:
    with pytest.raises(ReplyRejectedError, match=r"^reply: ") as caught:
        parse_reply(text)
    assert said in str(caught.value)


@pytest.mark.parametrize(
    ("changes", "place"),
    [
        ({"action": "replace"}, "edits[0].action"),
        ({"kind": "lesson"}, "edits[0].kind"),
        ({"name": "Count Files"}, "edits[0].name"),
        ({"name": None}, "edits[0]"),
        ({"content": None}, "edits[0]"),
        ({"files": {"a": 1}}, "edits[0].files.a"),
        ({"status": "sure"}, "edits[0].status"),
        ({"evidence": [{"session": "s1", "event": "5"}]}, "edits[0].evidence[0].event"),
        ({"evidence": [{"session": "s1", "event": -1}]}, "edits[0].evidence[0].event"),
        ({"evidence": None, "events": [True]}, "edits[0].events[0]"),
    ],
)
def test_the_schema_names_the_place(changes: dict[str, Any], place: str) -> None:
    with pytest.raises(ReplyRejectedError) as caught:
        parse_reply(reply(edit(**changes)))
    assert [p.path for p in caught.value.problems] == [place]


def test_a_reply_cut_at_the_limit_is_named_as_such() -> None:
    with pytest.raises(ReplyRejectedError, match="output limit"):
        parse_reply(reply(edit())[:-20], cut=True)


def test_all_texts_are_listed() -> None:
    value = edit(files={"scripts/x.sh": "TEXT-1"}, title="TEXT-2", content="TEXT-3", kind="skill")
    raw = json.dumps({"summary": "TEXT-4", "rationale": "TEXT-5", "edits": [value]})
    texts = [text for _, text in parse_reply(raw).texts()]
    assert all(f"TEXT-{n}" in texts for n in range(1, 6))
