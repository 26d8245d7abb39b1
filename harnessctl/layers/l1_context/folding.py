"""What of a view can be said shorter: outputs of completed turns first, and at last the active request.

Both are proposals over a view; a ``compaction`` event makes them true.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass

from harnessctl.layers.l1_context.blocks import Part, PartKind, Place, arguments_of, code_of
from harnessctl.layers.l1_context.landmarks import output_landmark, shortened
from harnessctl.layers.l1_context.room import Meter
from harnessctl.layers.l1_context.view import View

#: Tokens that are left of each long piece of the active request, first of what is not the user's own.
LEAST_CUT = 150
#: How often a cut that came out too long is tried shorter.
TRIES = 12
#: What the user said is cut last.
_USERS = frozenset({PartKind.TASK, PartKind.SAID})
_CUTTABLE = _USERS | {PartKind.OUTPUT, PartKind.NOTE, PartKind.REPLY}


@dataclass(frozen=True, slots=True)
class Piece:
    """A text that can be said shorter.

    :ivar tokens: what it takes.
    """

    place: Place
    n: int
    text: str
    tokens: int
    users: bool = False
    code: bool = False


def foldable(view: View) -> tuple[Part, ...]:
    """Outputs of completed turns whose landmark is shorter, oldest first; never those of the newest reply."""
    return tuple(
        part
        for block in view.blocks[: view.newest]
        for part in block.parts
        if part.kind is PartKind.OUTPUT
        and part.whole
        and len(part.text) > len(output_landmark(part.n, part.text))
    )


def folds(view: View, goal: int | None, meter: Meter) -> dict[Place, str]:
    """Landmarks for the oldest outputs, until the view takes ``goal`` tokens; for all of them with None."""
    found: dict[Place, str] = {}
    left = meter.all(tuple(view.messages))
    for part in foldable(view):
        if goal is not None and left <= goal:
            break
        found[part.n] = output_landmark(part.n, part.text)
        left -= meter.text(part.text) - meter.text(found[part.n])
    return found


def cuts(view: View, goal: int, meter: Meter) -> dict[Place, str]:
    """Head and tail for the longest texts, until the view takes ``goal`` tokens, as far as that goes.

    Long texts give most: all are cut to one length. What the user said is cut after everything else.
    """
    pieces = list(_pieces(view, meter))
    over = meter.all(tuple(view.messages)) - goal
    found: dict[Place, str] = {}
    for users in (False, True):
        if over <= 0:
            break
        some = [piece for piece in pieces if piece.users is users]
        cap = _cap([piece.tokens for piece in some], over)
        for piece in some:
            if piece.tokens > cap:
                found[piece.place], tokens = _cut(piece, cap, meter)
                over -= piece.tokens - tokens
    return found


def _pieces(view: View, meter: Meter) -> Iterator[Piece]:
    for block in view.blocks[1:]:
        for part in block.parts:
            if part.kind in _CUTTABLE:
                yield Piece(part.n, part.n, part.text, meter.text(part.text), part.kind in _USERS)
        for at, call in enumerate(block.calls):
            yield Piece(f"{block.n}/{at}", block.n, code_of(call), meter.text(call.arguments), code=True)


def _cap(sizes: list[int], over: int) -> int:
    """The length to which texts of these sizes must be cut to give ``over`` tokens."""
    low, high = LEAST_CUT, max([LEAST_CUT, *sizes])
    while low < high:
        middle = (low + high + 1) // 2
        if sum(max(0, size - middle) for size in sizes) >= over:
            low = middle
        else:
            high = middle - 1
    return low


def _cut(piece: Piece, cap: int, meter: Meter) -> tuple[str, int]:
    """The text in about ``cap`` tokens, and how many it took."""
    room = len(piece.text) * cap // piece.tokens
    text, tokens = piece.text, piece.tokens
    for _ in range(TRIES):
        text = shortened(piece.n, piece.text, room, comment=piece.code)
        tokens = meter.text(arguments_of(text) if piece.code else text)
        if tokens <= cap:
            break
        room = room * 4 // 5
    return (text, tokens) if tokens < piece.tokens else (piece.text, piece.tokens)
