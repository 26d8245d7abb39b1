from __future__ import annotations

import pytest

from harnessctl.layers.l3_durable.files.tools import asks_for, tool_list, widened


@pytest.mark.parametrize(
    ("value", "tools"),
    [
        ("Read, Write,Edit", ("Read", "Write", "Edit")),
        ("Bash(git add:*) Read", ("Bash(git add:*)", "Read")),
        ("Bash(git add:*, x), Read", ("Bash(git add:*, x)", "Read")),
        (["Read", " Bash(ls *) "], ("Read", "Bash(ls *)")),
        ("", ()),
        ("*", ("*",)),
        ({"a": "b"}, ()),
        ("mcp__server__tool", ("mcp__server__tool",)),
        ("(unbalanced Read", ("unbalanced", "Read")),
    ],
)
def test_lists_in_their_three_forms(value: object, tools: tuple[str, ...]) -> None:
    assert tool_list(value) == tools


@pytest.mark.parametrize(
    ("before", "after", "said"),
    [
        ({"tools": "Read"}, {"tools": ["Read", "Bash"]}, "'tools' adds Bash"),
        ({"tools": "Read"}, {}, "'tools' no longer limits"),
        ({"tools": "Read"}, {"tools": "*"}, "'tools' no longer limits"),
        ({"allowed-tools": "Read"}, {"allowed-tools": "Read Write"}, "'allowed-tools' adds Write"),
        ({"disallowedTools": "Bash, Write"}, {"disallowedTools": "Write"}, "no longer names Bash"),
        ({}, {"hooks": {"x": "y"}}, "'hooks' runs programs"),
        ({}, {"mcpServers": ["x"]}, "'mcpServers' runs programs"),
        ({"permissionMode": "plan"}, {"permissionMode": "bypassPermissions"}, "skips every permission"),
    ],
)
def test_widening_is_said(before: dict[str, object], after: dict[str, object], said: str) -> None:
    (what,) = widened(before, after)
    assert said in what


@pytest.mark.parametrize(
    ("before", "after"),
    [
        ({"tools": "Read, Write"}, {"tools": ["Read"]}),
        ({"tools": "*"}, {}),
        ({}, {"tools": "Read"}),
        ({"hooks": {"x": "y"}}, {"hooks": {"x": "y"}}),
        ({"disallowedTools": "Bash"}, {"disallowedTools": "Bash, Write"}),
        ({"permissionMode": "bypassPermissions"}, {"permissionMode": "bypassPermissions"}),
    ],
)
def test_what_stays_or_narrows_is_not(before: dict[str, object], after: dict[str, object]) -> None:
    assert widened(before, after) == ()


def test_a_new_entry_is_asked_what_it_brings() -> None:
    assert asks_for({"tools": "Read", "hooks": {}}) == ()
    assert len(asks_for({"hooks": {"a": "b"}, "mcpServers": ["x"]})) == 2
