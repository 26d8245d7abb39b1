"""Whether evidence still stands: the cited events, quotes and excerpts, held against the session's log.

Quotes and excerpts were redacted before they were written. The log's text is redacted the same way
before they are compared; where a name stood at the edge of a quote, or the log came from another
machine, the marks ``~``, ``[user]`` and ``[host]`` stand for any word.
"""

from __future__ import annotations

import re
from collections.abc import Iterator

from harnessctl.domain.event import event_text
from harnessctl.domain.trajectory import Trajectory
from harnessctl.domain.update import Evidence, ExcerptEvent
from harnessctl.refine.cut import LEFT_OUT
from harnessctl.refine.evidence import plain_lines
from harnessctl.refine.redact import MARKS, Redactor

_WORD = r"[^\s'\"<>|`]+?"


def standing_problems(evidence: Evidence, trajectory: Trajectory, redactor: Redactor) -> tuple[str, ...]:
    """What does not stand, each as ``<session>#<n>: what`` or ``field: what``; empty when all does."""
    session = evidence.session
    if trajectory.session != session:
        return (f"session: the log is that of {trajectory.session}",)
    broken = tuple(_damage(evidence, trajectory))
    if broken:  # what follows a broken link proves nothing
        return broken
    head = trajectory.event(evidence.head_n)
    if head is None:
        return (f"{session}#{evidence.head_n}: the log ends before the head of the chain in the record",)
    if head.hash != evidence.head_hash:
        return (f"{session}#{evidence.head_n}: its hash is not the head of the chain in the record",)
    return tuple(_cited(evidence, trajectory, redactor))


def excerpt_problems(evidence: Evidence) -> tuple[str, ...]:
    """What can be told without the log: quotes that the record's own whole excerpt does not hold."""
    if not evidence.excerpt or any(event.cut for event in evidence.excerpt):
        return ()
    texts = [event.text for event in evidence.excerpt]
    return tuple(
        f"quotes[{n}]: not in the excerpt"
        for n, quote in enumerate(evidence.quotes)
        if not any(_holds(text, quote) for text in texts)
    )


def _damage(evidence: Evidence, trajectory: Trajectory) -> Iterator[str]:
    for problem in trajectory.damage:
        torn = problem.startswith("torn tail") and trajectory.head[0] >= evidence.head_n
        if not torn:  # a live session's last line may be half written
            yield f"{evidence.session}#{trajectory.head[0] + 1}: {problem}"


def _cited(evidence: Evidence, trajectory: Trajectory, redactor: Redactor) -> Iterator[str]:
    texts: dict[int, tuple[str, str]] = {}
    for n in evidence.events:
        event = trajectory.event(n)
        if event is None or n > evidence.head_n:
            yield f"{evidence.session}#{n}: there is no such event"
        else:
            plain = plain_lines(event_text(event))
            texts[n] = plain, redactor.redact(plain)
    for number, quote in enumerate(evidence.quotes):
        if not any(_holds(text, quote) for both in texts.values() for text in both):
            yield f"quotes[{number}]: it stands in none of the cited events"
    for event_excerpt in evidence.excerpt:
        both = texts.get(event_excerpt.n)
        if both is None:
            yield f"excerpt[{event_excerpt.n}]: no cited event"
        elif not any(_is_excerpt(event_excerpt, text) for text in both):
            yield f"{evidence.session}#{event_excerpt.n}: the excerpt is not what the event says"


def _holds(text: str, part: str) -> bool:
    return part in text or re.search(_pattern(part), text) is not None


def _is_excerpt(excerpt: ExcerptEvent, text: str) -> bool:
    parts = LEFT_OUT.split(excerpt.text) if excerpt.cut else [excerpt.text]
    if _in_order(parts, text) and (excerpt.cut or excerpt.text == text):
        return True
    pattern = ".*?".join(_pattern(part) for part in parts)
    return re.fullmatch(pattern + (".*" if excerpt.cut else ""), text, re.DOTALL) is not None


def _in_order(parts: list[str], text: str) -> bool:
    """Whether ``text`` holds the parts one after the other, the first at its beginning."""
    at = 0
    for part in parts:
        at = text.find(part, at)
        if at < 0:
            return False
        at += len(part)
    return text.startswith(parts[0])


def _pattern(part: str) -> str:
    """``part`` as a pattern in which the marks of redaction stand for any word."""
    pieces = re.split("(" + "|".join(map(re.escape, MARKS)) + ")", part)
    return "".join(_WORD if piece in MARKS else re.escape(piece) for piece in pieces)
