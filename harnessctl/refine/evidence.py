"""Evidence: every cited event exists, every quote stands in it, and a reviewer can read it.

A quote stands when it is found in the event's text (:func:`harnessctl.domain.event.event_text`)
character by character; only line ends (CRLF, CR) are read as LF on both sides, and white space
around the quote is dropped. Nothing else is forgiven: a quote that almost stands was made up.
"""

from __future__ import annotations

from collections.abc import Iterable

from harnessctl.domain.event import Event, event_text
from harnessctl.domain.trajectory import Trajectory
from harnessctl.domain.update import Evidence, ExcerptEvent
from harnessctl.refine.cut import around, shares
from harnessctl.refine.redact import Redactor
from harnessctl.refine.reply import Citation, Problem, Reply
from harnessctl.refine.secrecy import Secrecy

#: UTF-8 bytes that the excerpts of one record may take (CONTRACT 2).
EXCERPT_BYTES = 16 * 1024
#: Events one update may cite: more is a retelling, not evidence.
MAX_EVENTS = 40
#: Characters of one quote.
MAX_QUOTE = 1000
#: What a single session is called in the prompt.
LABEL = "s1"


def plain_lines(text: str) -> str:
    """``text`` with every line end as LF."""
    return text.replace("\r\n", "\n").replace("\r", "\n")


def quoted(citation: Citation) -> str:
    """The quote as it is looked for and kept."""
    return plain_lines(citation.quote).strip()


def citations(reply: Reply) -> tuple[Citation, ...]:
    """All citations of a reply, in order."""
    return tuple(c for edit in reply.edits for c in edit.evidence)


def refuse_secrets(cited: Iterable[Citation], trajectory: Trajectory, secrecy: Secrecy) -> None:
    """Stop before anything is written when a cited event holds a secret.

    :raises RefusedError: names ``<session>#<n>``, the kind of secret and its line.
    """
    for n in sorted({c.event for c in cited}):
        event = trajectory.event(n)
        if event is not None:
            secrecy.refuse(event_text(event), f"{trajectory.session}#{n}")


def check_citations(reply: Reply, trajectory: Trajectory) -> tuple[Problem, ...]:
    """What is wrong with the evidence of ``reply``; empty when all of it stands."""
    problems: list[Problem] = []
    for edit in reply.edits:
        if not edit.evidence:
            problems.append(Problem(f"{edit.path}.evidence", "no event is cited; cite at least one"))
        for citation in edit.evidence:
            message = _wrong(citation, trajectory)
            if message:
                problems.append(Problem(citation.path, message))
    numbers = {c.event for c in citations(reply)}
    if len(numbers) > MAX_EVENTS:
        problems.append(Problem("edits", f"{len(numbers)} events are cited; {MAX_EVENTS} at most"))
    return tuple(problems)


def _wrong(citation: Citation, trajectory: Trajectory) -> str:
    if citation.session not in ("", LABEL, trajectory.session):
        return f"the log given is session '{LABEL}', and another one is named"
    event = trajectory.event(citation.event)
    if event is None:
        return f"event {citation.event} does not exist; the log ends with {trajectory.head[0]}"
    if event.hash != event.expected_hash():
        return f"event {citation.event} is damaged in the log and proves nothing"
    quote = quoted(citation)
    if len(quote) > MAX_QUOTE:
        return f"the quote has {len(quote)} characters; quote the {MAX_QUOTE} that matter, or fewer"
    if not quote_stands(quote, event):
        return f"the quote is not in event {citation.event}; copy it exactly" + _elsewhere(quote, trajectory)
    return ""


def quote_stands(quote: str, event: Event) -> bool:
    """Whether ``quote`` (line ends as LF) is in the event's text."""
    return quote in plain_lines(event_text(event))


def _elsewhere(quote: str, trajectory: Trajectory) -> str:
    places = [str(event.n) for event in trajectory.events if quote_stands(quote, event)]
    return f" (it stands in {', '.join(places[:5])})" if places else ""


def build_evidence(
    cited: tuple[Citation, ...], trajectory: Trajectory, redactor: Redactor
) -> tuple[Evidence, ...]:
    """Evidence for the record: numbers, quotes and a redacted excerpt of checked citations.

    Call after :func:`refuse_secrets` and :func:`check_citations`.
    """
    if not cited:
        return ()
    numbers = tuple(sorted({c.event for c in cited}))
    quotes = tuple(dict.fromkeys(redactor.redact(quoted(c)) for c in cited if quoted(c)))
    head_n, head_hash = trajectory.head
    return (
        Evidence(
            session=trajectory.session,
            head_n=head_n,
            head_hash=head_hash,
            events=numbers,
            quotes=quotes,
            excerpt=_excerpt(numbers, quotes, trajectory, redactor),
        ),
    )


def _excerpt(
    numbers: tuple[int, ...], quotes: tuple[str, ...], trajectory: Trajectory, redactor: Redactor
) -> tuple[ExcerptEvent, ...]:
    events = [event for n in numbers if (event := trajectory.event(n)) is not None]
    texts = [redactor.redact(plain_lines(event_text(event))) for event in events]
    rooms = shares([_bytes(text) for text in texts], EXCERPT_BYTES)
    excerpt = []
    for event, text, room in zip(events, texts, rooms, strict=True):
        spans = [(at, at + len(quote)) for quote in quotes if (at := text.find(quote)) >= 0]
        kept, cut = _fit(text, spans, room)
        excerpt.append(ExcerptEvent(event.n, kept, cut))
    return tuple(excerpt)


def _fit(text: str, spans: list[tuple[int, int]], room: int) -> tuple[str, bool]:
    """``text`` in ``room`` bytes: characters are cut until the bytes fit, never inside one."""
    if _bytes(text) <= room:
        return text, False
    limit = min(len(text) - 1, room)
    kept, _ = around(text, spans, limit)
    while _bytes(kept) > room and limit > 0:
        limit = limit * room // (_bytes(kept) + 1)
        kept, _ = around(text, spans, limit)
    return kept, True


def _bytes(text: str) -> int:
    return len(text.encode("utf-8", "surrogatepass"))
