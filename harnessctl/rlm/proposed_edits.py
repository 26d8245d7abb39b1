"""From what a cell gave to ``harness.propose`` to an edit, and from ``propose`` events to what stands.

Pure. An edit is a JSON object as a refiner writes it (CONTRACT 9); its evidence is this session's own
events: those that the cell names, quotes that are looked for, or else the last results, and in any case
the cell that asks.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from typing import Any

from harnessctl.domain.errors import UsageError
from harnessctl.domain.event import Event, EventType, event_text
from harnessctl.domain.ids import EntryId, is_ulid

#: Results before the asking cell that stand for evidence where none is named.
LAST_RESULTS = 3
#: Keys of an edit that are taken over as they are.
_TEXTS = ("title", "description", "content", "status", "expected_outcome", "how_to_see")
#: Events in which a quote is looked for: what the session was told, did and saw.
_QUOTABLE = frozenset(
    {EventType.TASK, EventType.REPLY, EventType.CELL, EventType.OUTPUT, EventType.RESULT, EventType.MESSAGE}
)


def edit_of(wish: Mapping[str, Any], events: Sequence[Event], known: Collection[str] = ()) -> dict[str, Any]:
    """The edit that a cell wishes.

    :param wish: what the cell gave; keys it left out are absent or None.
    :param known: ids of the entries that the session reads.
    :raises UsageError: no name, no reason, or evidence that is not there.
    """
    entry = _entry_of(wish)
    reason = wish.get("why")
    if not isinstance(reason, str) or not reason.strip():
        raise _bad("why is needed: what happened in this session that others should know")
    edit: dict[str, Any] = {"kind": entry.kind.value, "name": entry.name, "reason": reason}
    edit |= {key: wish[key] for key in _TEXTS if wish.get(key) not in (None, "")}
    if wish.get("files"):
        edit["files"] = wish["files"]
    edit["action"] = wish.get("action") or ("update" if _stands(str(entry), known, events) else "create")
    missing = [key for key in ("description", "content") if key not in edit]
    if edit["action"] == "create" and missing:
        raise _bad(f"{' and '.join(missing)} needed: there is no {entry} yet")
    edit["evidence"] = _evidence(wish.get("evidence"), events)
    return edit


def proposed_by_entry(events: Sequence[Event]) -> dict[str, list[Event]]:
    """The ``propose`` events by entry, each in its order."""
    found: dict[str, list[Event]] = {}
    for event in events:
        if event.type is EventType.PROPOSE and "edit" in event.data:
            found.setdefault(str(event.data.get("entry")), []).append(event)
    return found


def standing(events: Sequence[Event]) -> list[dict[str, Any]]:
    """What the session's proposals make of each entry, for cells: the entry and ``proposed``: the action.

    An entry that would be gone has an id and no files.
    """
    found = []
    for entry, group in proposed_by_entry(events).items():
        last = group[-1].data
        gone = {"id": entry, "description": "", "files": {}, "module": "", "flags": []}
        found.append({**(last.get("shown") or gone), "proposed": last.get("action")})
    return found


def _bad(message: str) -> UsageError:
    return UsageError(message, id="bad_edits", hint="help(harness.propose) says what is wanted")


def _entry_of(wish: Mapping[str, Any]) -> EntryId:
    named = wish.get("id") or f"{wish.get('kind') or ''}/{wish.get('name') or ''}"
    if not isinstance(named, str):
        raise _bad("the id is a text: kind/name")
    return EntryId.parse(named)


def _stands(entry: str, known: Collection[str], events: Sequence[Event]) -> bool:
    """Whether there is such an entry for the session: pinned, or proposed and not proposed away."""
    group = proposed_by_entry(events).get(entry)
    if group:
        return bool(group[-1].data.get("action") != "delete")
    return entry in known


def _evidence(given: Any, events: Sequence[Event]) -> list[dict[str, Any]]:
    """Citations, each once, the asking cell last."""
    cell = next((e for e in reversed(events) if e.type is EventType.CELL), None)
    # A quote stands in the reply and the cell that give it: what they saw came before.
    before = events if cell is None else [e for e in events if e.n < int(cell.data.get("reply", cell.n))]
    items = [given] if isinstance(given, str | int | Mapping) else given or ()
    cited = [_citation(item, before) for item in items]
    if not cited:
        results = [e for e in before if e.type is EventType.RESULT][-LAST_RESULTS:]
        cited = [{"session": "", "event": e.n} for e in results]
    if cell is not None:
        cited.append({"session": "", "event": cell.n})
    return [one for at, one in enumerate(cited) if one not in cited[:at]]


def _citation(item: Any, events: Sequence[Event]) -> dict[str, Any]:
    """One item of evidence: an event's number or address, a quote, or number and quote in a mapping.

    :raises UsageError: it is none of these, or the quote stands nowhere.
    """
    if isinstance(item, int) and not isinstance(item, bool):
        return {"session": "", "event": item}
    if isinstance(item, Mapping) and isinstance(item.get("event"), int):
        quote = item.get("quote")
        return {"session": "", "event": item["event"], **({"quote": quote} if quote else {})}
    if not isinstance(item, str) or not item.strip():
        raise _bad(f"{str(item)[:80]!r} is no evidence: give quotes, or numbers of events")
    session, mark, number = item.partition("#")
    if mark and number.isdigit() and is_ulid(session):
        return {"session": session, "event": int(number)}
    return {"session": "", "event": _where(item, events), "quote": item}


def _where(quote: str, events: Sequence[Event]) -> int:
    wanted = _plain(quote).strip()
    for event in reversed(events):
        if event.type in _QUOTABLE and wanted in _plain(event_text(event)):
            return event.n
    raise _bad(f"the quote stands in nothing that this session saw before this cell: {quote[:80]!r}")


def _plain(text: str) -> str:
    return text.replace("\r\n", "\n").replace("\r", "\n")
