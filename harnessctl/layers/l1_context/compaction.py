"""Making a view smaller: what folds, what leaves, what stands for it. One ``compaction`` event tells it all.

Three steps, each only as far as it is needed: outputs of completed turns fold, oldest first; then the
oldest turns leave, and one landmark with a summary stands for everything that ever left; and when the
active request alone is too large, its longest texts are shown by head and tail.
"""

from __future__ import annotations

from collections.abc import Awaitable, Callable
from dataclasses import dataclass, replace
from typing import Any, Literal

from harnessctl.layers.l1_context.eviction import Leaving, leaving
from harnessctl.layers.l1_context.folding import cuts, folds
from harnessctl.layers.l1_context.landmarks import span_landmark, spans_text, within
from harnessctl.layers.l1_context.room import Meter, Room
from harnessctl.layers.l1_context.summary import CHARS, Summary
from harnessctl.layers.l1_context.view import View

Why = Literal["threshold", "overflow", "request"]
#: Turns of fewer tokens are not worth a landmark.
LEAST_LEAVING = 200
#: Characters that a person is told of why no model wrote the summary.
NOTED = 200


@dataclass(frozen=True, slots=True)
class Summarised:
    """A summary and where it comes from.

    :ivar by: ``model`` or ``log``.
    :ivar note: why no model wrote it, "" when one did.
    """

    summary: Summary
    by: Literal["model", "log"]
    note: str = ""


#: Writes the summary of what leaves.
Summarise = Callable[[Leaving], Awaitable[Summarised]]


async def compact(
    view: View, room: Room, meter: Meter, why: Why, summarise: Summarise
) -> dict[str, Any] | None:
    """Data of the ``compaction`` event that makes ``view`` small enough; None when nothing can leave.

    ``view`` stays as it is: it takes the event in like any other. With ``request`` everything leaves that
    may.
    """
    every = why == "request"
    trial = view.trial()
    before = meter.all(tuple(trial.messages))
    stands = folds(trial, None if every or why == "overflow" else room.low, meter)
    trial.put(list(stands), list(stands.values()))
    gone = _leaving(trial, view, room, meter, every=every)
    data: dict[str, Any] = {}
    if gone is not None:
        done = await summarise(gone)
        summary = _bounded(done.summary, gone.room, meter)
        landmark = span_landmark(gone.spans, summary.text())
        data = {
            "evicted": [list(span) for span in gone.spans],
            "landmark": landmark,
            "summary": summary.to_json(),
            "by": done.by,
            "note": done.note,
        }
        trial.evict(-1, gone.spans, landmark)
    if room.most is not None and meter.all(tuple(trial.messages)) > room.most:
        cut = cuts(trial, min(room.most, room.high or room.most), meter)
        trial.put(list(cut), list(cut.values()))
        stands |= cut
    if gone is not None:
        stands = {p: text for p, text in stands.items() if not within(int(str(p).split("/")[0]), gone.spans)}
    if not stands and gone is None:
        return None
    after = meter.all(tuple(trial.messages))
    return {
        "what": "evict" if gone is not None else "fold",
        "why": why,
        "folded": list(stands),
        "stands": list(stands.values()),
        **data,
        "estimate": [before, after],
        "text": _said(len(stands), gone, (before, after), str(data.get("note") or "")),
    }


def _leaving(trial: View, view: View, room: Room, meter: Meter, *, every: bool) -> Leaving | None:
    """The turns that leave after folding, with the texts they had before it; None where it does not pay."""
    now = meter.all(tuple(trial.messages))
    if not every and (room.middle is None or now <= room.middle):
        return None
    goal = None if every or room.low is None else max(0, room.low - room.summary)
    gone = leaving(trial, goal, meter)
    pressed = every or (room.most is not None and now > room.most)
    if gone is None or gone.tokens < (LEAST_LEAVING if pressed else max(LEAST_LEAVING, room.summary)):
        return None
    # A summary must not take what it is to give.
    share = min(room.summary, gone.tokens // 2)
    texts = {part.n: part.text for block in view.blocks for part in block.parts}
    pieces = tuple(
        (n, kind, texts.get(n, text) if kind == "output" else text) for n, kind, text in gone.pieces
    )
    return replace(gone, pieces=pieces, room=share)


def _bounded(summary: Summary, tokens: int, meter: Meter) -> Summary:
    """The summary in at most ``tokens``."""
    characters = tokens * CHARS
    bounded = summary.within(characters)
    while meter.text(bounded.text()) > tokens and characters > 40:
        characters = characters * 3 // 4
        bounded = summary.within(characters)
    return bounded


def _said(folded: int, gone: Leaving | None, tokens: tuple[int, int], note: str) -> str:
    """The sentence for people."""
    parts = [f"{folded} text{'' if folded == 1 else 's'} folded"] if folded else []
    parts += [f"events {spans_text(gone.spans)} left the view"] if gone is not None else []
    why = f"; the summary is from the log ({note[:NOTED]})" if note else ""
    return f"context: {' and '.join(parts)}; about {tokens[0]:,} tokens became {tokens[1]:,}{why}"
