"""A session's events as the refiner reads them: numbered, masked, without repeats, cut to size."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harnessctl.domain.canonical import sha256_hex
from harnessctl.domain.event import Event, EventType, event_text, is_aside
from harnessctl.domain.trajectory import Trajectory
from harnessctl.refine.cut import head_and_tail, shares
from harnessctl.refine.secrecy import Secrecy

#: An event that is shown gets at least this many characters, or all it has.
LEAST_SHOWN = 160
#: Types that hold nothing a lesson could be drawn from.
_SILENT = frozenset({EventType.HEADER, EventType.REQUEST, EventType.CHECKPOINT, EventType.COMPACTION})


@dataclass(frozen=True, slots=True)
class Piece:
    """One event to show: its heading and its masked text, not yet cut."""

    heading: str
    text: str


def pieces(trajectory: Trajectory, secrecy: Secrecy) -> tuple[Piece, ...]:
    """What is to be shown of ``trajectory``, in order.

    Left out: events without text, text that another shown event repeats whole (a cell's code
    stands in the reply that called it, its output in the result that the model saw), and what a session
    wrote to itself about its own earlier part.
    """
    replies = {e.n: event_text(e) for e in trajectory.events if e.type is EventType.REPLY}
    results = {e.data.get("cell"): event_text(e) for e in trajectory.events if e.type is EventType.RESULT}
    shown: list[Piece] = []
    for event in trajectory.events:
        text = event_text(event)
        if event.type in _SILENT or not text.strip() or _is_summary(event):
            continue
        if event.type is EventType.CELL and text.strip() in replies.get(_number(event.data, "reply"), ""):
            continue
        if event.type is EventType.OUTPUT and text.strip() in results.get(event.data.get("cell"), ""):
            continue
        masked = secrecy.mask(text)
        marks = ", holds a secret" if masked != text else ""
        shown.append(Piece(f"#{event.n} {_heading(event, secrecy)}{marks}", masked))
    return tuple(shown)


def _is_summary(event: Event) -> bool:
    return is_aside(event) and event.data.get("consumer") == "summary"


def _number(data: Mapping[str, object], key: str) -> int:
    value = data.get(key)
    return value if isinstance(value, int) else -1


def _heading(event: Event, secrecy: Secrecy) -> str:
    words: list[str] = [event.type.value]
    for key in ("cell", "stream", "status", "name"):
        value = event.data.get(key)
        if isinstance(value, int | str) and value != "":
            words.append(f"{key} {secrecy.mask(str(value))[:60]}")
    return ", ".join(words).replace("\n", " ")


def boundary(trajectory: Trajectory, texts: tuple[str, ...]) -> str:
    """A word to mark data with that no text in ``texts`` holds.

    It follows from the log's last hash, so no text inside the log could have known it, and the same
    log gives the same request.
    """
    word = sha256_hex(f"refine {trajectory.head[1]}".encode())[:12]
    while any(word in text for text in texts):
        word = sha256_hex(word.encode())[:12]
    return word


def render(shown: tuple[Piece, ...], word: str, room: int) -> str:
    """The log in about ``room`` characters.

    Long texts lose their middle, equally; where even that does not fit, whole events in the middle
    of the log leave. Both are said where they happen.
    """
    frame = len(word) + 12
    fixed = sum(len(piece.heading) + frame for piece in shown)
    least = fixed + sum(min(len(piece.text), LEAST_SHOWN) for piece in shown)
    if least > room and len(shown) > 2:
        keep = max(2, len(shown) * room // least)
        first, last = keep // 4 or 1, keep - (keep // 4 or 1)
        gap = Piece(f"{len(shown) - first - last} events left out here", "")
        if first + last < len(shown):
            shown = (*shown[:first], gap, *shown[len(shown) - last :])
        fixed = sum(len(piece.heading) + frame for piece in shown)
    rooms = shares([len(piece.text) for piece in shown], room - fixed)
    lines: list[str] = []
    for piece, size in zip(shown, rooms, strict=True):
        lines.append(f"<<<{word} {piece.heading}>>>")
        if piece.text:
            lines.append(head_and_tail(piece.text, size)[0])
    return "\n".join(lines)
