"""How a model asks for code to run: the ``ipython`` tool, or one fenced Python block.

What a model writes is taken as it comes: arguments that are not JSON, several calls, missing ids.
A call that cannot be run becomes a problem that the model is told; nothing that was cut off is run.
"""

from __future__ import annotations

import ast
import json
import re
from dataclasses import dataclass
from typing import Any, Literal

from harnessctl.domain.message import TOOL_NAME, ToolCall
from harnessctl.models.port import ModelReply

Protocol = Literal["tool", "fence"]

#: Names of the one tool that models write when they mean it.
_NAMES = frozenset({TOOL_NAME, "python", "functions.ipython", "functions.python", "execute_ipython"})
#: Keys under which the code is found, the documented one first.
_CODE_KEYS = ("code", "input", "source", "script", "cell")
_OPEN = re.compile(r"^[ \t]*(`{3,}|~{3,})[ \t]*(python|py|python3|ipython|ipython3)[ \t]*$", re.IGNORECASE)
_CUT = "Not run: your reply was cut off at the output limit. Write shorter code, in smaller steps."


@dataclass(frozen=True, slots=True)
class Call:
    """One request to run code.

    :ivar id: unique within the reply; "" for a fenced block.
    :ivar code: what to run, None when it cannot be run.
    :ivar problem: why not, as the model is told; None for a call that can be run.
    :ivar note: something the model is told beside the result.
    """

    id: str
    name: str
    arguments: str
    code: str | None = None
    problem: str | None = None
    note: str | None = None

    def to_json(self) -> dict[str, Any]:
        """The call as it stands in a ``reply`` event."""
        data: dict[str, Any] = {"id": self.id or None, "name": self.name, "arguments": self.arguments}
        optional = {"code": self.code, "problem": self.problem, "note": self.note}
        return data | {key: value for key, value in optional.items() if value is not None}


def calls_of(reply: ModelReply, protocol: Protocol) -> tuple[Call, ...]:
    """The calls in ``reply``; none means that the reply's text is the final answer."""
    cut = reply.finish == "length"
    if protocol == "fence":
        call = _fenced(reply.content or "", cut=cut)
        return (call,) if call else ()
    taken: set[str] = set()
    return tuple(_tool_call(call, n, taken, cut=cut) for n, call in enumerate(reply.calls, start=1))


def _tool_call(call: ToolCall, n: int, taken: set[str], *, cut: bool) -> Call:
    name = call.id or f"call_{n}"
    while name in taken:
        name += f"_{n}"
    taken.add(name)
    if call.name not in _NAMES:
        problem = f"Not run: there is no tool {call.name!r}. The only tool is {TOOL_NAME}(code)."
        return Call(name, call.name or "unknown", call.arguments, problem=problem)
    code = _code_of(call.arguments, whole=not cut)
    if code is None:
        problem = (
            _CUT if cut else f'Not run: the arguments must be a JSON object {{"code": "…"}}{_why(call)}.'
        )
        return Call(name, call.name, call.arguments, problem=problem)
    return Call(name, call.name, call.arguments, code=code)


def _code_of(arguments: str, *, whole: bool) -> str | None:
    try:
        # Models put raw line ends into JSON strings; what they mean is plain.
        value = json.loads(arguments, strict=False)
    except ValueError:
        return arguments if whole and _is_python(arguments) else None
    if isinstance(value, str):
        return value
    if not isinstance(value, dict):
        return None
    return next((value[key] for key in _CODE_KEYS if isinstance(value.get(key), str)), None)


def _why(call: ToolCall) -> str:
    try:
        json.loads(call.arguments, strict=False)
    except ValueError as error:
        return f"; they are not JSON: {error}"
    return ""


def _is_python(text: str) -> bool:
    """Whether ``text`` is plain code where a JSON object was expected."""
    if not text.strip() or text.lstrip()[0] in "{[\"'":
        return False
    try:
        ast.parse(text)
    except (SyntaxError, ValueError, RecursionError, MemoryError):
        return False
    return True


def _fenced(text: str, *, cut: bool) -> Call | None:
    """The first fenced Python block."""
    lines = text.replace("\r\n", "\n").split("\n")
    start = next((i for i, line in enumerate(lines) if _OPEN.match(line)), None)
    if start is None:
        return None
    opened = _OPEN.match(lines[start])
    assert opened is not None
    fence = opened.group(1)
    closings = [i for i in range(start + 1, len(lines)) if _closes(lines[i], fence)]
    if not closings:
        if cut:
            return Call("", "fence", "", problem=_CUT)
        closings = [len(lines)]
    end = _best_end(lines, start, closings)
    more = any(_OPEN.match(line) for line in lines[end + 1 :])
    note = (
        "[only the first block of your reply was run: write one block, then read its output]"
        if more
        else None
    )
    return Call("", "fence", "", code="\n".join(lines[start + 1 : end]), note=note)


def _closes(line: str, fence: str) -> bool:
    bare = line.strip()
    return len(bare) >= len(fence) and set(bare) == {fence[0]}


def _best_end(lines: list[str], start: int, closings: list[int]) -> int:
    """The first closing line; a later one where only with it the code is whole (a fence in a string)."""
    for end in closings:
        if _OPEN.match(lines[end - 1]) and end - 1 > start:
            break
        if _is_python("\n".join(lines[start + 1 : end])):
            return end
    return closings[0]
