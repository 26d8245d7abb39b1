"""Addresses of events, and the texts that stand where something left the view.

An address is ``#12`` or ``#12-40`` in the session itself, ``<session-id>#12`` anywhere.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

#: First and last event of what left, both included.
Span = tuple[int, int]

_PLAIN = re.compile(r"\s*(\d+)(?:\s*[-–]\s*(\d+))?\s*\Z")
_WITH_SESSION = re.compile(r"\s*([0-9A-Za-z]*)#(\d+)(?:\s*[-–]\s*#?(\d+))?\s*\Z")


@dataclass(frozen=True, slots=True)
class Address:
    """Events ``first`` to ``last`` of a session; "" is the session that asks."""

    session: str
    first: int
    last: int

    def __str__(self) -> str:
        return f"{self.session}{span_text((self.first, self.last))}"


def parse_address(text: str) -> Address | None:
    """The address that ``text`` is; None when it is none, or runs backwards."""
    plain, whole = _PLAIN.match(text), _WITH_SESSION.match(text)
    if plain is not None:
        session, first, last = "", plain[1], plain[2]
    elif whole is not None:
        session, first, last = whole[1].upper(), whole[2], whole[3]
    else:
        return None
    address = Address(session, int(first), int(last or first))
    return address if address.first <= address.last else None


def span_text(span: Span) -> str:
    """``#12`` or ``#12-40``."""
    first, last = span
    return f"#{first}" if first == last else f"#{first}-{last}"


def spans_text(spans: Iterable[Span]) -> str:
    """``#2-49, #51-97``."""
    return ", ".join(map(span_text, spans))


def within(n: int, spans: Sequence[Span]) -> bool:
    """Whether event ``n`` lies in one of ``spans``."""
    return any(first <= n <= last for first, last in spans)


def output_landmark(n: int, text: str) -> str:
    """What stands for a result that left the view: how it ended, and where it can be read."""
    last = text.rstrip().rpartition("\n")[2]
    end = f" {last}" if last.startswith("[cell ") and len(last) < 300 else ""
    return f"[output left out to fit the window: {len(text):,} characters, event #{n} of this session.{end}]"


def shortened(n: int, text: str, room: int, *, comment: bool = False) -> str:
    """Head and tail of the text of event ``n``, in about ``room`` characters, around a landmark.

    :param comment: the text is Python: the landmark becomes a comment in it.
    """
    mark = f"[... {{left:,}} characters left out to fit the window; event #{n} of this session has them ...]"
    room = max(0, room - len(mark))
    head, tail = text[: room * 2 // 3], text[len(text) - room // 3 :]
    left = len(text) - len(head) - len(tail)
    sign = "# " if comment else ""
    return f"{head}\n{sign}{mark.format(left=left)}\n{tail}"


def span_landmark(spans: Sequence[Span], summary: str) -> str:
    """What stands for turns that left the view."""
    said = spans_text(spans)
    first = span_text(spans[0])
    return (
        f"[Earlier turns left this view to fit the window: events {said} of this session. In a cell, "
        f'history.expand("{first}") reads them, history.search("words") finds in them. '
        f"What they came to:]\n{summary}"
    )
