"""Which turns leave a view when folding does not give enough, and the addresses of what they held."""

from __future__ import annotations

from bisect import bisect_right
from collections.abc import Iterable, Sequence
from dataclasses import dataclass

from harnessctl.layers.l1_context.blocks import Block, Part, PartKind, code_of
from harnessctl.layers.l1_context.landmarks import Span
from harnessctl.layers.l1_context.room import Meter
from harnessctl.layers.l1_context.view import View


@dataclass(frozen=True, slots=True)
class Leaving:
    """What leaves.

    :ivar spans: everything that has left after this, as the one landmark will say.
    :ivar pieces: (event, kind, text) of what leaves now, in order.
    :ivar earlier: text of the landmark that leaves with it, "" when there is none.
    :ivar tokens: what leaves takes.
    :ivar room: tokens that what stands for it may take.
    """

    spans: tuple[Span, ...]
    pieces: tuple[tuple[int, str, str], ...]
    earlier: str
    tokens: int
    room: int = 0


def leaving(view: View, goal: int | None, meter: Meter) -> Leaving | None:
    """The oldest turns, until what stays takes ``goal`` tokens; all but the newest with None.

    The task, the user's last message and the newest reply with its results never leave. None: there is
    nothing that could.
    """
    start = _start(view, goal, meter)
    gone = [
        block for block in view.blocks[1:start] if _parts(block, view.pinned) or block.role == "assistant"
    ]
    if not gone or start == len(view.blocks):
        return None
    kept = {n for block in view.blocks[start:] for n in _numbers(block)} | view.pinned
    numbers = {n for block in gone for n in _own(block, view.pinned)}
    earlier = next((p.text for b in gone for p in b.parts if p.kind is PartKind.LANDMARK), "")
    ends = [end for span in view.evicted for end in span]
    tokens = sum(_tokens(block, view.pinned, meter) for block in gone)
    pieces = tuple(piece for block in gone for piece in _told(block, view.pinned))
    return Leaving(runs([*ends, *numbers], kept), pieces, earlier, tokens) if numbers else None


def runs(numbers: Iterable[int], kept: Iterable[int]) -> tuple[Span, ...]:
    """The fewest spans that hold all of ``numbers`` and none of ``kept``."""
    stay = sorted(kept)
    spans: list[Span] = []
    for n in sorted(set(numbers)):
        if spans and bisect_right(stay, n) == bisect_right(stay, spans[-1][0]):
            spans[-1] = spans[-1][0], n
        else:
            spans.append((n, n))
    return tuple(spans)


def _start(view: View, goal: int | None, meter: Meter) -> int:
    """Where what stays begins: at the reply from which on everything fits, the newest at the latest."""
    newest = view.newest
    if goal is None or newest == len(view.blocks):
        return newest
    sizes = [meter.all((message,)) - meter.extra for message in view.messages]
    pinned = [p for b in view.blocks[1:newest] for p in b.parts if p.n in view.pinned]
    left = goal - meter.extra - sizes[0] - sum(sizes[newest:]) - sum(meter.text(p.text) for p in pinned)
    start = newest
    for at in range(newest - 1, 0, -1):
        left -= sizes[at]
        if left < 0:
            break
        if view.blocks[at].role == "assistant":
            start = at
    return start


def _tokens(block: Block, pinned: frozenset[int], meter: Meter) -> int:
    if block.role == "user":
        return sum(meter.text(part.text) for part in _parts(block, pinned))
    return meter.all((block.message(),)) - meter.extra


def _parts(block: Block, pinned: frozenset[int]) -> list[Part]:
    return [part for part in block.parts if part.n not in pinned]


def _numbers(block: Block) -> set[int]:
    return {part.n for part in block.parts} | ({block.n} if block.role != "user" else set())


def _own(block: Block, pinned: frozenset[int]) -> set[int]:
    """Events of ``block`` that leave with it; a landmark's own event is none of them."""
    marks = {part.n for part in block.parts if part.kind is PartKind.LANDMARK}
    return _numbers(block) - marks - pinned


def _told(block: Block, pinned: frozenset[int]) -> Sequence[tuple[int, str, str]]:
    """What a summary is made of."""
    silent = (PartKind.FRAME, PartKind.LANDMARK)
    said = [(p.n, str(p.kind), p.text) for p in _parts(block, pinned) if p.kind not in silent]
    return [*said, *((block.n, "code", code_of(call)) for call in block.calls)]
