"""What models write when they want code to run."""

from __future__ import annotations

import json

import pytest

from harnessctl.domain.message import ToolCall
from harnessctl.models.port import ModelReply
from harnessctl.rlm.protocol import calls_of


def tools(
    *arguments: str, name: str = "ipython", finish: str = "tool_calls", ids: str = "abcd"
) -> ModelReply:
    calls = tuple(ToolCall(i, name, a) for i, a in zip(ids, arguments, strict=False))
    return ModelReply(None, calls, finish)


@pytest.mark.parametrize(
    ("arguments", "code"),
    [
        ('{"code": "print(1)"}', "print(1)"),
        ('{"code": "a\nb"}', "a\nb"),
        ('{"input": "x = 1"}', "x = 1"),
        (json.dumps("x = 1"), "x = 1"),
        ("import os\nprint(os.getcwd())", "import os\nprint(os.getcwd())"),
        ('{"code": ""}', ""),
    ],
)
def test_arguments_that_can_be_run(arguments: str, code: str) -> None:
    (call,) = calls_of(tools(arguments), "tool")
    assert (call.code, call.problem) == (code, None)


@pytest.mark.parametrize(
    "arguments", ['{"code": "print(1)', "{}", "[]", "17", '{"code": 3}', "", "what should I do?", '{"code"']
)
def test_arguments_that_cannot(arguments: str) -> None:
    (call,) = calls_of(tools(arguments), "tool")
    assert call.code is None
    assert call.problem is not None
    assert call.problem.startswith("Not run: the arguments must be a JSON object")


def test_what_was_cut_off_is_never_run() -> None:
    for arguments in ('{"code": "rm -rf build', "import shutil"):
        (call,) = calls_of(tools(arguments, finish="length"), "tool")
        assert call.code is None
        assert "cut off" in (call.problem or "")
    (fenced,) = calls_of(ModelReply("```python\nimport shutil\nshutil.rm", finish="length"), "fence")
    assert fenced.code is None
    assert "cut off" in (fenced.problem or "")


def test_an_unknown_tool_is_named() -> None:
    (call,) = calls_of(tools('{"code": "1"}', name="browser"), "tool")
    assert call.problem == "Not run: there is no tool 'browser'. The only tool is ipython(code)."


def test_ids_are_made_where_they_are_missing_or_twice() -> None:
    reply = ModelReply(None, tuple(ToolCall(i, "ipython", '{"code": "1"}') for i in ("", "x", "x")))
    assert [c.id for c in calls_of(reply, "tool")] == ["call_1", "x", "x_3"]


def test_text_alone_is_no_call() -> None:
    assert calls_of(ModelReply("The answer is 3."), "tool") == ()
    assert calls_of(ModelReply("The answer is 3."), "fence") == ()
    # With tools a fenced block is part of an answer, not a wish to run it.
    assert calls_of(ModelReply("Use this:\n```python\nx\n```"), "tool") == ()
    assert calls_of(ModelReply("Run this:\n```bash\nls\n```"), "fence") == ()


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("I look.\n```python\nprint(1)\n```\nThen more.", "print(1)"),
        ("```py\na\nb\n```", "a\nb"),
        ("```Python\nx\n```", "x"),
        ("~~~python\nx\n~~~", "x"),
        ("````python\ns = '''\n```\n'''\n````", "s = '''\n```\n'''"),
        ("```python\ns = '''\n```bash\nls\n```\n'''\n```", "s = '''\n```bash\nls\n```\n'''"),
        ("```python\nprint(1)", "print(1)"),
        ("```python\n%%bash\nls\n```", "%%bash\nls"),
        ("```python\nthis is (not python\n```\ntext", "this is (not python"),
        ("```python\r\nx = 1\r\n```", "x = 1"),
    ],
)
def test_fenced_code(text: str, code: str) -> None:
    (call,) = calls_of(ModelReply(text), "fence")
    assert call.code == code


def test_only_the_first_block_is_run_and_that_is_said() -> None:
    (call,) = calls_of(ModelReply("```python\n1\n```\nOutput: 1\n```python\n2\n```"), "fence")
    assert call.code == "1"
    assert "only the first block" in (call.note or "")


def test_a_call_says_in_the_log_why_it_was_not_run() -> None:
    (call,) = calls_of(tools("{}"), "tool")
    assert set(call.to_json()) == {"id", "name", "arguments", "problem"}
