"""Cutting text to size, always saying how much is missing.

Sizes are whatever the caller counts in; the functions here count characters. A cut is marked where
it was made, so that neither a model nor a reviewer takes a part for the whole.
"""

from __future__ import annotations

import re
from collections.abc import Sequence

#: The mark that stands where characters were left out.
LEFT_OUT = re.compile(r"\n\[… \d+ characters left out …\]\n")


def shares(sizes: Sequence[int], total: int) -> list[int]:
    """How much of ``total`` each of ``sizes`` gets: small ones whole, large ones an equal rest.

    The shares sum to ``total`` at most, and none is larger than its size.
    """
    given = [0] * len(sizes)
    left = max(total, 0)
    order = sorted(range(len(sizes)), key=lambda i: sizes[i])
    for done, index in enumerate(order):
        given[index] = min(sizes[index], left // (len(order) - done))
        left -= given[index]
    return given


def head_and_tail(text: str, limit: int) -> tuple[str, bool]:
    """(``text`` in ``limit`` characters, whether it was cut); what leaves is the middle."""
    return around(text, (), limit)


def around(text: str, keep: Sequence[tuple[int, int]], limit: int) -> tuple[str, bool]:
    """(``text`` in ``limit`` characters, whether it was cut), the spans ``keep`` first.

    :param keep: (start, end) of what must stay as far as ``limit`` allows: the quoted places. Room
        that is left goes half around them and half to the head and tail of the text.
    """
    if len(text) <= limit:
        return text, False
    room = limit - _MARK_ROOM * (len(keep) + 1)
    if room <= 0:
        return text[: max(limit, 0)], True
    spans: list[tuple[int, int]] = []
    for start, end in sorted(keep):
        size = min(end - start, room)
        spans.append((start, start + size))
        room -= size
    margin = room // (4 * len(spans)) if spans else 0
    spans = [(max(start - margin, 0), min(end + margin, len(text))) for start, end in spans]
    edge = (room - 2 * margin * len(spans)) // 2
    return _join(text, [(0, edge), *spans, (len(text) - edge, len(text))]), True


#: Characters one mark may take; a text has fewer than 10**12 characters.
_MARK_ROOM = 45


def _join(text: str, spans: Sequence[tuple[int, int]]) -> str:
    parts: list[str] = []
    at = 0
    for start, end in sorted(spans):
        if end <= at:
            continue
        if start > at:
            parts.append(f"\n[… {start - at} characters left out …]\n")
        parts.append(text[max(start, at) : end])
        at = end
    if at < len(text):
        parts.append(f"\n[… {len(text) - at} characters left out …]\n")
    return "".join(parts)
