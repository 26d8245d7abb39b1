"""What readers of a log rely on: of each type of record the keys and what they hold.

The chain shows that a log is as it was written, not that harnessctl wrote it: any program of the user
can chain records. So whoever reads a record may rely on this table, and on nothing more of
``docs/design/event-log.md``. Keys that are not listed are not looked at. It is compiled once and costs
a small part of what reading a record does.

A key with ``!`` has been written always. A value is a type, or a tuple of what it may be, a mapping with
keys of its own, a list of equal values (of two where two are given), or one of some words. A log's first
record is a header, or says that the header was torn.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Collection, Mapping
from dataclasses import dataclass
from typing import Any

from harnessctl.domain.event import Event, EventType
from harnessctl.domain.limits import MOST
from harnessctl.domain.outcome import RunStatus
from harnessctl.domain.pin import Mode, PinSource

#: Finds fault with a value of the right type: "" or words such as ``.name is -1``.
_Look = Callable[[Any], str]
#: Ids are ULIDs; what counts is that the folder of that name is one of the sessions' own.
_FOLDER = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]{0,63}")
#: Where a text left: an event, or a call of a reply.
_PLACE = re.compile(r"[0-9]{1,15}(/[0-9]{1,15})?")


@dataclass(frozen=True, slots=True)
class _Each:
    """A mapping with keys that nobody can list."""

    value: Any


class _Absent:
    """Stands for a key that is not there."""


class _Session:
    """The id of a session."""


class _Count:
    """A number from 0 on; with a fraction where it is a price or a time."""


_TEXT, _WORDS = (str, None), ([str], None)
_AMOUNT = (_Count, float, None)
_DIGESTS = _Each(str)
_USAGE = {
    **dict.fromkeys(("prompt", "completion", "cached", "calls", "tokens"), (_Count, None)),
    "cost_usd": _AMOUNT,
}
_PRICE = {"prompt!": (_Count, float), "completion!": (_Count, float), "cached": _AMOUNT}
#: What a header states, and the ``repair`` of a resume states anew.
_STATED = {
    "model": {
        "provider!": str,
        "name!": str,
        "window": (_Count, None),
        "max_output": (_Count, None),
        "price": (_PRICE, None),
    },
    "model_name": _TEXT,
    "protocol": ("tool", "fence"),
    "limits": {
        **dict.fromkeys(("turns", "tokens", "children"), (_Count, None)),
        **dict.fromkeys(("cost_usd", "wall_s"), _AMOUNT),
        "depth": _Count,
        "cell_s": (_Count, float),
    },
    "harness_state": _DIGESTS,
}
_GATE_SPEC = {"name!": str, "command!": str, "inputs!": [str], "timeout_s": (_Count, float), "attempts": int}
_VARIABLES = {"set": (_Each([str, str]), None), "gone": _WORDS, "more": (_Count, None)}
_PROPOSAL = {
    "session": _TEXT,
    "events": [_Count],
    **dict.fromkeys(("entry!", "summary!", "refused!"), str),
    "update!": _TEXT,
    "commit": _TEXT,
}
_CALL = {"id": _TEXT, "name!": str, **dict.fromkeys(("arguments", "code", "problem", "note"), _TEXT)}

_TABLE: Mapping[EventType, Mapping[str, Any]] = {
    EventType.HEADER: {
        **_STATED,
        **dict.fromkeys(("session", "root", "tree"), str),
        **dict.fromkeys(("parent", "name", "node", "agent"), _TEXT),
        "depth": (_Count, None),
        "pin": {
            "source!": tuple(map(str, PinSource)),
            "branch!": str,
            "commit": _TEXT,
            "tree": _TEXT,
            "entries!": str,
            "mode": (*map(str, Mode), None),
            "note": _TEXT,
        },
        "skipped": [str],
        "python": {"path!": str, "why": _TEXT, "kernel": _TEXT},
        "gates": {"specs!": [_GATE_SPEC], "allowed": [str], "extra": [str], "inputs": _Each(_DIGESTS)},
        "sandbox": ({"network": bool}, None),
        "linked": ({"from!": str, "commit!": str}, None),
        "repository_files_tokens": (_Count, None),
    },
    EventType.TASK: {"text!": str},
    EventType.REQUEST: {
        "consumer": _TEXT,
        "append": [{"role!": str, "content": _TEXT}],
        "counted": (_Count, None),
        "estimate": (_Count, None),
    },
    EventType.REPLY: {
        "request!": _Count,
        "content": _TEXT,
        "calls": ([_CALL], None),
        "finish": _TEXT,
        "usage": (_USAGE, None),
        "error": {"kind": _TEXT, "message": _TEXT},
        "consumer": _TEXT,
    },
    EventType.CELL: {"cell!": _Count, "code!": str, "reply": (_Count, None), "call": _TEXT},
    EventType.OUTPUT: {"cell": (_Count, None), "stream": str, "text!": str, "blob": _TEXT},
    EventType.RESULT: {
        "cell": (_Count, None),
        "call": _TEXT,
        "status": str,
        "text": _TEXT,
        "ms": _AMOUNT,
        "answer": _TEXT,
        "variables": (_VARIABLES, None),
    },
    EventType.CHILD: {
        "child!": _Session,
        "name!": str,
        **dict.fromkeys(("state", "reason", "detail", "task", "agent", "model"), _TEXT),
        "status": tuple(map(str, RunStatus)),
        "usage": (_USAGE, None),
    },
    EventType.MESSAGE: {**dict.fromkeys(("id!", "from!", "to!", "text!", "state!"), str), "by": _TEXT},
    EventType.PROPOSE: {
        "text": _TEXT,
        "entry": str,
        "action": str,
        "edit": dict,
        "shown": (dict, None),
    },
    EventType.GATE: {
        "name!": str,
        "command": _TEXT,
        "status!": str,
        "ms!": (_Count, float),
        "text": _TEXT,
        "changed_inputs": _WORDS,
        "left": (int, None),
    },
    EventType.COMPACTION: {
        "folded": ([(int, str)], None),
        "stands": _WORDS,
        "evicted": ([[int, int]], None),
        "landmark": _TEXT,
        "summary": (_Each(_TEXT), None),
        "text": _TEXT,
    },
    EventType.CHECKPOINT: {"proposals": ([_PROPOSAL], None)},
    EventType.REPAIR: {
        **_STATED,
        **dict.fromkeys(("what", "text", "entry", "file", "call"), _TEXT),
        "files": [str],
    },
    EventType.END: {
        "status!": tuple(map(str, RunStatus)),
        **dict.fromkeys(("reason", "detail", "answer", "tree"), _TEXT),
        "verified": bool,
        "usage": (_USAGE, None),
        "harness_state": (_DIGESTS, None),
        "moved": _WORDS,
    },
}


def fault_of(event: Event) -> str:
    """What in the data of ``event`` is not as every reader may rely on; "" for nothing."""
    if event.n == 0 and event.type not in (EventType.HEADER, EventType.REPAIR):
        return f"event 0 is a {event.type}, not a header"
    said = _LOOKS[event.type](event.data)
    if not said and event.type is EventType.REPLY and event.data["request"] >= event.n:
        said = f".request is {event.data['request']}, which comes later"
    if not said and event.type is EventType.COMPACTION:
        said = _misfit(event.data)
    return f"event {event.n}: {event.type}{said}" if said else ""


def _misfit(data: Mapping[str, Any]) -> str:
    """What in a compaction does not fit together."""
    places, stands, spans = data.get("folded") or (), data.get("stands"), data.get("evicted")
    odd = next((p for p in places if not _PLACE.fullmatch(str(p))), None)
    if odd is not None or (stands is None and any(isinstance(p, str) for p in places)):
        return f".folded holds {_shown(odd)}"
    if stands is not None and len(stands) != len(places):
        return f".stands has {len(stands)} texts for {len(places)} places"
    if spans and data.get("landmark") is None:
        return ".landmark is missing"
    return ""


def _keys(table: Mapping[str, Any]) -> _Look:
    """Looks at a mapping with the keys of ``table``."""
    rows = []
    for name, spec in table.items():
        types, look = _compiled(spec)
        needed = name.endswith("!")
        rows.append((name.rstrip("!"), types if needed else types | {_Absent}, look))

    def look_at(value: Any) -> str:
        for name, types, look in rows:
            found = value.get(name, _ABSENT)
            kind = type(found)
            if kind not in types:
                return f".{name} is {_shown(found)}"
            if look is not None and found is not None and kind is not _Absent and (said := look(found)):
                return f".{name}{said}"
        return ""

    return look_at


def _compiled(spec: Any) -> tuple[frozenset[type], _Look | None]:
    """The types that a value may have, and what looks closer at it."""
    if isinstance(spec, tuple):
        words = frozenset(one for one in spec if isinstance(one, str))
        parts = [_compiled(one) for one in spec if not isinstance(one, str)]
        types = frozenset().union(*(kinds for kinds, _ in parts)) | ({str} if words else set())
        looks = [look for _, look in parts if look is not None]
        return types, _among(words) if words else looks[0] if looks else None
    if isinstance(spec, Mapping):
        return frozenset({dict}), _keys(spec)
    if isinstance(spec, list):
        types, look = _compiled(spec[0])
        count = len(spec) if len(spec) > 1 else None
        return frozenset({list}), lambda value: _every(value, types, look, count)
    if isinstance(spec, _Each):
        types, look = _compiled(spec.value)
        return frozenset({dict}), lambda value: _every(value.values(), types, look)
    if spec is _Count:
        return frozenset({int}), _count
    if spec is _Session:
        return frozenset({str}), _session
    return frozenset({type(None) if spec is None else spec}), None


def _every(
    values: Collection[Any], types: frozenset[type], look: _Look | None, count: int | None = None
) -> str:
    if count is not None and len(values) != count:
        return f" has {len(values)} parts, not {count}"
    for value in values:
        if type(value) not in types:
            return f" holds {_shown(value)}"
        if look is not None and value is not None and (said := look(value)):
            return said
    return ""


def _among(words: frozenset[str]) -> _Look:
    return lambda value: "" if value in words else f" is {_shown(value)}"


def _count(value: float) -> str:
    return "" if 0 <= value <= MOST else f" is {_shown(value)}"


def _session(value: str) -> str:
    return "" if _FOLDER.fullmatch(value) else f" is {_shown(value)}"


def _shown(value: object) -> str:
    """A value in words: long ones by their beginning, large ones by their kind."""
    if value is _ABSENT:
        return "missing"
    if isinstance(value, dict | list):
        return "a mapping" if isinstance(value, dict) else "a list"
    return "null" if value is None else repr(value)[:40]


_ABSENT = _Absent()
_LOOKS = {kind: _keys(table) for kind, table in _TABLE.items()}
