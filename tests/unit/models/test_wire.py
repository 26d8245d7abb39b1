"""What goes out, and how pieces become a reply."""

from __future__ import annotations

import json

from harnessctl.domain.message import Message, ToolCall
from harnessctl.models.wire import Assembly, outgoing


def test_plain_messages_go_out_as_they_are() -> None:
    """Nothing is added to text."""
    messages = (Message("system", "a"), Message("user", "b"), Message("assistant", "c"))
    assert outgoing(messages) == [m.to_json() for m in messages]


def test_lone_surrogates_are_replaced() -> None:
    """UTF-8 has none; the text around them stays."""
    (sent,) = outgoing((Message("user", "a\udc80b"),))
    assert sent["content"] == "a\ufffdb"
    json.dumps(sent, ensure_ascii=False).encode("utf-8")


def test_arguments_that_are_no_object_are_wrapped() -> None:
    """Providers parse the arguments of past calls."""
    calls = tuple(
        ToolCall(str(i), "ipython", text) for i, text in enumerate(['{"code": "1"}', '{"co', "[1]", "\udc80"])
    )
    (sent,) = outgoing((Message("assistant", "", calls),))
    arguments = [c["function"]["arguments"] for c in sent["tool_calls"]]
    assert arguments[0] == '{"code": "1"}'
    assert [json.loads(a)["code"] for a in arguments[1:]] == ['{"co', "[1]", "\udc80"]
    assert sent["content"] is None


def test_pieces_of_calls_are_joined_by_index() -> None:
    """Interleaved pieces find their call."""
    parts = Assembly()
    parts.add_call(0, "a", "ipython", "")
    parts.add_call(1, "b", "ipython", '{"code"')
    parts.add_call(0, None, None, "{}")
    parts.add_call(1, None, None, ": 1}")
    assert parts.calls() == (ToolCall("a", "ipython", "{}"), ToolCall("b", "ipython", '{"code": 1}'))


def test_calls_that_share_an_index_are_told_apart() -> None:
    """Some servers number every call 0."""
    parts = Assembly()
    parts.add_call(0, "a", "ipython", "1")
    parts.add_call(0, "b", "ipython", "2")
    assert [(c.id, c.arguments) for c in parts.calls()] == [("a", "1"), ("b", "2")]


def test_missing_and_double_ids_are_made_unique() -> None:
    """A result must name its call."""
    parts = Assembly()
    for index, given in enumerate(["x", "x", None]):
        parts.add_call(index, given, "ipython", "{}")
    assert len({c.id for c in parts.calls()}) == 3


def test_no_text_is_none() -> None:
    """An empty reply has no content."""
    assert Assembly().content is None
