"""``sessions export``: a session for other programs (JSON lines) or for reading (one HTML file)."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from harnessctl.commands.session_tree import family_of
from harnessctl.commands.sessions import Mask, SessionSummary, ShownSession, masked
from harnessctl.domain.canonical import canonical_json
from harnessctl.domain.event import Event, EventType, is_aside
from harnessctl.rlm.log import LOG_NAME, open_log, read_trajectory
from harnessctl.rlm.tally import seconds_of

#: Bytes read at a time from a log that is copied.
CHUNK = 1 << 20
#: Characters of one recorded output on a page, at each end; the log has the rest.
PAGE_OUTPUT = 20_000


def masked_lines(folder: Path, mask: Mask) -> Iterator[bytes]:
    """The log's records as JSON lines, secrets masked; then those of all sessions below it.

    ``hash`` and ``prev`` stay those of the log: they name the original record, and do not fit a line in
    which something was masked, which ``"masked": true`` says.
    """
    for one in family_of(folder):
        for event in read_trajectory(one).events:
            shown = masked(event, mask)
            record = shown.record()
            if shown.data != event.data:
                record["masked"] = True
            yield canonical_json(record) + b"\n"


def original_bytes(folder: Path) -> Iterator[bytes]:
    """The log as it stands on disk, secrets and all."""
    with open_log(folder / LOG_NAME) as file:
        while data := file.read(CHUNK):
            yield data


@dataclass
class PageCell:
    """One cell on a page.

    :ivar result: what the model was shown, None for a cell without a result.
    :ivar outputs: (stream, text) where the log holds more than the model was shown.
    """

    n: int
    number: int
    code: str
    result: str | None = None
    status: str = ""
    seconds: float = 0.0
    outputs: list[tuple[str, str]] = field(default_factory=list)


@dataclass
class PageTurn:
    """One turn: what was said to the model before it, its reply, its cells."""

    number: int
    n: int
    at: float
    text: str = ""
    error: str = ""
    usage: Mapping[str, Any] = field(default_factory=dict)
    cells: list[PageCell] = field(default_factory=list)


@dataclass
class PageNote:
    """Something between turns: the task, a message, a repair, a gate.

    :ivar kind: ``task``, ``message``, ``repair``, ``gate`` or ``end``.
    """

    kind: str
    n: int
    title: str
    text: str


@dataclass(frozen=True)
class Sample:
    """Tokens at one moment: seconds since the start, of this call, and of all calls so far."""

    at: float
    turn: int
    prompt: int
    completion: int
    total: int


@dataclass(frozen=True)
class Page:
    """A session as a page shows it; every text is masked already."""

    summary: SessionSummary
    header: Mapping[str, Any]
    items: tuple[PageTurn | PageNote, ...]
    samples: tuple[Sample, ...]
    seconds: float
    damage: tuple[str, ...]
    head: str


def page_of(shown: ShownSession) -> Page:
    """What a page about ``shown`` holds, in the order in which it happened."""
    events = shown.events
    start = seconds_of(events[0].t) if events else 0.0
    builder = _Builder(start)
    for event in events:
        builder.add(event)
    header = events[0].data if events and events[0].type is EventType.HEADER else {}
    last = seconds_of(events[-1].t) - start if events else 0.0
    head = f"{events[-1].n} {events[-1].hash}" if events else ""
    return Page(shown.summary, header, tuple(builder.items), tuple(builder.samples), last, shown.damage, head)


class _Builder:
    def __init__(self, start: float) -> None:
        self.items: list[PageTurn | PageNote] = []
        self.samples: list[Sample] = []
        self._start = start
        self._turn: PageTurn | None = None
        self._cell: PageCell | None = None
        self._total = 0

    def add(self, event: Event) -> None:
        """Take in one event."""
        data = event.data
        match event.type:
            case EventType.REQUEST if is_aside(event):
                pass
            case EventType.REPLY if is_aside(event):
                self._total += int((data.get("usage") or {}).get("tokens") or 0)
            case EventType.REQUEST:
                self._turn = PageTurn(event.turn, event.n, seconds_of(event.t) - self._start)
                self.items.append(self._turn)
            case EventType.REPLY if self._turn is not None:
                self._reply(event, self._turn)
            case EventType.CELL if self._turn is not None:
                self._cell = PageCell(event.n, int(data["cell"]), str(data["code"]))
                self._turn.cells.append(self._cell)
            case EventType.OUTPUT if self._cell is not None:
                self._cell.outputs.append((str(data.get("stream")), str(data["text"])))
            case EventType.RESULT:
                self._result(event)
            case _:
                self._note(event)

    def _reply(self, event: Event, turn: PageTurn) -> None:
        data = event.data
        usage = data.get("usage") or {}
        turn.n, turn.usage = event.n, usage
        turn.text = str(data.get("content") or "")
        if "error" in data:
            turn.error = f"{data['error'].get('kind')}: {data['error'].get('message')}"
        self._total += int(usage.get("tokens") or 0)
        prompt, completion = int(usage.get("prompt") or 0), int(usage.get("completion") or 0)
        at = seconds_of(event.t) - self._start
        self.samples.append(Sample(at, event.turn, prompt, completion, self._total))

    def _result(self, event: Event) -> None:
        data = event.data
        cell, self._cell = self._cell, None
        if cell is None or data.get("cell") != cell.number:
            self._note(event)
            return
        cell.result, cell.status = str(data.get("text") or ""), str(data.get("status"))
        cell.seconds = int(data.get("ms") or 0) / 1000
        # Only what the model was not shown is worth a second look.
        cell.outputs = [(s, _shortened(t)) for s, t in cell.outputs if t.strip() not in cell.result]

    def _note(self, event: Event) -> None:
        data, text = event.data, str(event.data.get("text") or "")
        if event.type is EventType.MESSAGE and data.get("state") == "queued":
            return
        titles = {
            EventType.TASK: "Task",
            EventType.MESSAGE: f"Message from {data.get('from')}",
            EventType.REPAIR: f"Repair: {str(data.get('what')).replace('_', ' ')}",
            EventType.GATE: f"Gate {data.get('name')}: {data.get('status')}",
            EventType.RESULT: "Not run",
            EventType.PROPOSE: "Proposed",
            EventType.CHILD: f"Child {data.get('name')} {data.get('state')}",
        }
        if event.type is EventType.CHILD:
            text = str(data.get("task") or data.get("detail") or data.get("child"))
        if event.type is EventType.END:
            reason = f" ({data.get('reason')})" if data.get("reason") else ""
            said = str(data.get("answer") or data.get("detail") or "")
            self.items.append(PageNote("end", event.n, f"End: {data.get('status')}{reason}", said))
        elif event.type in titles and (text or event.type is EventType.GATE):
            self.items.append(PageNote(str(event.type), event.n, titles[event.type], text))


def _shortened(text: str) -> str:
    if len(text) <= 2 * PAGE_OUTPUT:
        return text
    left_out = len(text) - 2 * PAGE_OUTPUT
    return f"{text[:PAGE_OUTPUT]}\n[... {left_out:,} characters left out here ...]\n{text[-PAGE_OUTPUT:]}"
