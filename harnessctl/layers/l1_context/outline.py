"""A log in a few lines: what each turn set out to do, how its cells ended, and where it stands."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable
from dataclasses import dataclass, field

from harnessctl.domain.event import Event, EventType, event_text, is_aside
from harnessctl.layers.l1_context.landmarks import span_text

#: Lines of an outline; more turns share one.
MOST_LINES = 60
#: Characters that a line quotes.
QUOTED = 100
#: Events between turns that have a line of their own.
_OWN_LINE = frozenset({EventType.TASK, EventType.GATE, EventType.PROPOSE, EventType.CHILD, EventType.END})


@dataclass
class Entry:
    """What one line tells: events ``first`` to ``last``.

    :ivar turns: first and last turn; (0, 0) for what belongs to none.
    :ivar cells: how many cells ended how.
    """

    first: int
    last: int
    turns: tuple[int, int] = (0, 0)
    text: str = ""
    cells: Counter[str] = field(default_factory=Counter)

    def line(self) -> str:
        """As it is shown."""
        a, b = self.turns
        turns = "" if not b else f" turn {a}:" if a == b else f" turns {a}-{b}:"
        cells = ", ".join(f"{count} {status}" for status, count in sorted(self.cells.items()))
        ended = f" [{cells}]" if cells else ""
        return f"{span_text((self.first, self.last))}{turns} {self.text}{ended}".rstrip()


def outline(events: Iterable[Event], first: int | None = None, last: int | None = None) -> str:
    """One line a turn, fewer where there are many; what the user said, gates and the end between them.

    :param first: turn to begin with, with ``last`` to end with.
    """
    entries = [
        e
        for e in _entries(events)
        if (first is None or e.turns[1] >= first) and (last is None or e.turns[0] <= last)
        if e.turns[1] or (first is None and last is None)
    ]
    turns = sum(bool(entry.turns[1]) for entry in entries)
    together = -(-turns // MOST_LINES)
    return "\n".join(entry.line() for entry in _joined(entries, max(1, together)))


def _entries(events: Iterable[Event]) -> list[Entry]:
    found: list[Entry] = []
    current: Entry | None = None
    for event in events:
        if event.type is EventType.REQUEST and not is_aside(event):
            if current is not None and current.turns == (event.turn, event.turn):
                continue  # the same turn asked a second time
            current = Entry(event.n, event.n, (event.turn, event.turn))
            found.append(current)
        elif event.type in _OWN_LINE or (
            event.type is EventType.MESSAGE and event.data.get("state") != "queued"
        ):
            found.append(Entry(event.n, event.n, text=f"{event.type}: {_said(event)}"))
        elif current is not None and event.turn == current.turns[0]:
            _add(current, event)
    return found


def _said(event: Event) -> str:
    if event.type is EventType.CHILD:
        words = (event.data.get("name"), event.data.get("state"), event.data.get("reason"))
        return " ".join(str(word) for word in words if word)
    return _quoted(event_text(event))


def _add(entry: Entry, event: Event) -> None:
    entry.last = event.n
    if event.type is EventType.REPLY and not is_aside(event):
        error = event.data.get("error")
        entry.text = f"({error.get('kind')})" if error else _quoted(event_text(event))
    elif event.type is EventType.RESULT:
        entry.cells[str(event.data.get("status"))] += 1


def _joined(entries: list[Entry], together: int) -> list[Entry]:
    """Neighbouring turns as one entry, ``together`` of them at most."""
    found: list[Entry] = []
    for entry in entries:
        last = found[-1] if found else None
        if (
            last is None
            or not entry.turns[1]
            or not last.turns[1]
            or entry.turns[1] - last.turns[0] >= together
        ):
            found.append(entry)
            continue
        cells = last.cells + entry.cells
        found[-1] = Entry(last.first, entry.last, (last.turns[0], entry.turns[1]), last.text, cells)
    return found


def _quoted(text: str) -> str:
    line = " ".join(text.split())
    return line if len(line) <= QUOTED else f"{line[: QUOTED - 1]}…"
