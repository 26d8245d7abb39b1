"""How a running session is shown: live on a terminal, plain lines in a pipe, JSON lines for programs.

Everything goes to stderr, so that stdout holds the answer alone; JSON lines are the exception.
"""

from __future__ import annotations

import json
import sys
import time
from collections.abc import Mapping
from typing import TYPE_CHECKING, Any, Self

from harnessctl.cli.output import note
from harnessctl.commands.sessions import Mask, masked
from harnessctl.domain.event import Event, EventType, is_aside
from harnessctl.domain.safe_text import visible
from harnessctl.models.port import Attempt

if TYPE_CHECKING:
    from rich.console import Console
    from rich.live import Live

#: Lines of a cell's code and of its result shown while it runs.
CODE_LINES = 12
RESULT_LINES = 15
#: Characters of a child's task.
TASK_SHOWN = 80
INDENT = "    "


class Notes:
    """Says only what must be said.

    :ivar said: the last reply, where it was shown as it came.
    :param mask: hides secrets in what is shown.
    """

    said = ""

    def __init__(self, mask: Mask = str) -> None:
        self._mask = mask
        self._over: set[str] = set()

    def __enter__(self) -> Self:
        return self

    def __exit__(self, *_: object) -> None:
        return None

    def event(self, event: Event) -> None:
        """Not shown."""

    def text(self, delta: str) -> None:
        """Not shown."""

    def output(self, stream: str, text: str) -> None:
        """Not shown."""

    def wait(self, attempt: Attempt, seconds: float) -> None:
        """A line."""
        self.note(wait_line(attempt, seconds))

    def note(self, text: str) -> None:
        """A line."""
        note(self._mask(text))

    def ask(self, text: str) -> bool:
        """Ask the user, who sits at a terminal, for a yes; anything else is a no."""
        note(text)
        print("Let them run, now and from now on? [y/N] ", end="", file=sys.stderr, flush=True)
        try:
            answer = sys.stdin.readline()
        except OSError:  # the terminal was closed: nobody said yes
            return False
        return answer.strip().lower() in ("y", "yes")

    def progress(self, what: str, done: int, total: int) -> None:
        """Something long before the first reply, such as loading a model: said when it is over."""
        if total and done >= total and what not in self._over:
            self._over.add(what)
            note(f"{what}: done")


class EventLines(Notes):
    """Each event as a JSON line on stdout."""

    def event(self, event: Event) -> None:
        """One line, as it stands in the log but for secrets."""
        line = json.dumps(masked(event, self._mask).record(), sort_keys=True, separators=(",", ":"))
        print(line, flush=True)


class PlainLines(Notes):
    """A few lines for each turn, without colour or cursor movement."""

    def __init__(self, mask: Mask = str) -> None:
        super().__init__(mask)
        self._answer = ""

    def event(self, event: Event) -> None:
        """What happened, in words. An answer is printed at the end, unless a gate sends it back."""
        lines = event_lines(event)
        if event.type is EventType.REPLY and not lines and not is_aside(event):
            self._answer = f"turn {event.turn}: {clipped(str(event.data.get('content') or ''), RESULT_LINES)}"
        elif event.type is EventType.GATE and event.data.get("left") and self._answer:
            lines, self._answer = [self._answer, *lines], ""
        if lines:
            self.note("\n".join(lines))


class Screen(Notes):
    """Live on a terminal: the reply as it streams, cells, output, and a line with time, tokens and cost."""

    def __init__(self, mask: Mask = str) -> None:
        super().__init__(mask)
        self._begun = time.monotonic()
        self._state = "starting"
        self._turn = self._cells = self._tokens = 0
        self._cost: float | None = 0.0
        self._unsaid = self.said = ""
        self._manner = "", ""
        self._live: Live | None = None
        self._console: Console

    def __enter__(self) -> Self:
        from rich.console import Console
        from rich.live import Live

        self._console = Console(stderr=True, highlight=False)
        self._live = Live(console=self._console, transient=True, get_renderable=self._status)
        self._live.start()
        return self

    def __exit__(self, *_: object) -> None:
        if self._live is not None:
            self._say_rest()
            self._live.stop()

    def event(self, event: Event) -> None:
        """Turns, cells, results, and what they used."""
        data = event.data
        if event.type is EventType.HEADER:
            self._print("\n".join(event_lines(event)), "dim")
        elif is_aside(event):
            if event.type is EventType.REPLY:
                self._book(data.get("usage") or {})
        elif event.type is EventType.REQUEST:
            self._turn, self._state, self.said = event.turn, "the model answers", ""
        elif event.type is EventType.REPLY:
            self._say_rest()
            self._book(data.get("usage") or {})
            if "error" in data:
                self._print(f"{data['error'].get('kind')}: {data['error'].get('message')}", "red")
        elif event.type is EventType.CELL:
            self._cells, self._state = int(data["cell"]), f"cell {data['cell']} runs"
            self._print(f"In [{data['cell']}]:", "cyan")
            self._code(str(data["code"]))
        elif event.type is EventType.RESULT:
            self._say_rest()
            good = data.get("status") in ("ok", "final")
            self._print(last_line(data), "cyan" if good else "red")
        elif event.type is EventType.PROPOSE:
            self._print("\n".join(event_lines(event)), "cyan")
        elif event.type is EventType.CHILD:
            self._book(data.get("usage") or {})
            self._print("\n".join(event_lines(event)), "cyan")
        elif event.type is EventType.REPAIR and data.get("text"):
            self._print(str(data["text"]), "yellow")
        elif event.type is EventType.GATE:
            self._state = "gates run"
            self._print("\n".join(event_lines(event)), "green" if data.get("status") == "passed" else "red")

    def ask(self, text: str) -> bool:
        """As the base class, with the status line out of the way."""
        if self._live is None:
            return super().ask(text)
        self._live.stop()
        try:
            return super().ask(text)
        finally:
            self._live.start()

    def text(self, delta: str) -> None:
        """The model's words, line by line."""
        self.said += delta
        self._say(delta, "", "")

    def output(self, stream: str, text: str) -> None:
        """A cell's output, line by line."""
        self._say(text, "red" if stream in ("stderr", "error") else "dim", INDENT)

    def wait(self, attempt: Attempt, seconds: float) -> None:
        """Why nothing happens, and for how long."""
        self._print(wait_line(attempt, seconds), "yellow")

    def note(self, text: str) -> None:
        """A line."""
        self._print(text, "yellow")

    def progress(self, what: str, done: int, total: int) -> None:
        """How far something long before the first reply is."""
        self._state = f"{what} {100 * done // total} %" if total else what

    def _status(self) -> Any:
        from rich.spinner import Spinner
        from rich.text import Text

        cost = cost_words(self._cost)
        seconds = time.monotonic() - self._begun
        used = f"{counted(self._cells, 'cell')}, {self._tokens:,} tokens{cost}, {seconds:.0f} s"
        line = f"turn {self._turn}, {self._state}; {used}"
        return Spinner("dots", Text(line, style="dim"))

    def _book(self, usage: Mapping[str, Any]) -> None:
        self._tokens += int(usage.get("tokens") or 0)
        spent = usage.get("cost_usd")
        self._cost = None if self._cost is None or spent is None else self._cost + float(spent)

    def _say(self, text: str, style: str, indent: str) -> None:
        """Whole lines now, the unfinished one when it is finished: the status line stays below."""
        *lines, self._unsaid = (self._unsaid + text).rsplit("\n", 1)
        self._manner = style, indent
        if lines:
            self._print(_indented_by(indent, lines[0]), style)

    def _say_rest(self) -> None:
        if self._unsaid:
            style, indent = self._manner
            self._print(_indented_by(indent, self._unsaid), style)
            self._unsaid = ""

    def _code(self, code: str) -> None:
        from rich.padding import Padding
        from rich.syntax import Syntax

        shown = clipped(self._mask(code), CODE_LINES)
        code_lines = Syntax("\n".join(map(visible, shown.split("\n"))), "python", background_color="default")
        self._console.print(Padding(code_lines, (0, 0, 0, len(INDENT))))

    def _print(self, text: str, style: str) -> None:
        from rich.text import Text

        shown = "\n".join(visible(line) for line in self._mask(text).split("\n"))
        self._console.print(Text(shown, style=style))


def wait_line(attempt: Attempt, seconds: float) -> str:
    """A failed call and the wait after it, in words."""
    status = f" {attempt.status}" if attempt.status else ""
    return f"{attempt.kind}{status}; next try in {seconds:.1f} s"


def event_lines(event: Event) -> list[str]:
    """An event as plain lines, none for what a reader need not see."""
    data = event.data
    match event.type:
        case EventType.HEADER:
            box = data.get("sandbox")
            boxed = "" if box is None else f", in a sandbox with{'' if box['network'] else 'out'} network"
            where = f"session {data['session']}, {pin_words(data['pin'])}"
            return [f"{where}, Python: {data['python']['why']}{boxed}"]
        case EventType.REPLY if is_aside(event):
            return []
        case EventType.REPLY if "error" in data:
            return [f"turn {event.turn}: {data['error'].get('kind')}: {data['error'].get('message')}"]
        case EventType.REPLY:
            content = str(data.get("content") or "").strip()
            return (
                [f"turn {event.turn}: {clipped(content, RESULT_LINES)}"] if content and data["calls"] else []
            )
        case EventType.CELL:
            return [f"In [{data['cell']}]:", *_indented(clipped(str(data["code"]), CODE_LINES))]
        case EventType.RESULT:
            return _indented(clipped(str(data["text"]), RESULT_LINES))
        case EventType.PROPOSE:
            return [f"proposes to {data.get('text')}"]
        case EventType.GATE:
            first, *rest = str(data["text"]).split("\n")
            failed = data.get("status") != "passed" and rest
            shown = _indented(clipped("\n".join(rest), RESULT_LINES)) if failed else []
            return [f"{first}, {data['ms'] / 1000:.1f} s", *shown]
        case EventType.CHILD:
            return [child_line(data)]
        case EventType.REPAIR:
            return [str(data["text"])] if data.get("text") else []
        case _:
            return []


def child_line(data: Mapping[str, Any]) -> str:
    """A child's beginning or its end, in words."""
    if data.get("state") == "started":
        task = " ".join(str(data.get("task") or "").split())
        return f"child {data['name']} started: {task if len(task) <= TASK_SHOWN else f'{task[:TASK_SHOWN]}…'}"
    why = ": ".join(filter(None, (str(data.get("reason") or ""), str(data.get("detail") or ""))))
    usage = data.get("usage") or {}
    said = f" ({why})" if why and data.get("state") != "done" else ""
    used = f"{int(usage.get('tokens') or 0):,} tokens{cost_words(usage.get('cost_usd'))}"
    return f"child {data['name']} {data['state']}{said}, {used}"


def counted(number: int, what: str) -> str:
    """``1 cell``, ``2 cells``."""
    return f"{number:,} {what}{'' if number == 1 else 's'}"


def cost_words(dollars: float | None) -> str:
    """``, $0.0012``; nothing for what was free, and that it is not known where it is not."""
    if dollars is None:
        return ", price unknown"
    return f", ${dollars:.4f}" if dollars else ""


def pin_words(pin: Mapping[str, Any]) -> str:
    """Which harness a run reads, and whether that is pinned."""
    commit, source = str(pin.get("commit") or "")[:12], pin.get("source")
    if not commit:
        return "no harness"
    said = {"lock": "pinned", "flag": "named with --at", "tip": "unpinned", "head": "unpinned, at HEAD"}
    words = said.get(str(source), source)
    note = f"; {pin['note']}" if pin.get("note") and str(pin["note"]) not in str(words) else ""
    return f"harness {commit} ({words}{note})"


def last_line(data: Mapping[str, Any]) -> str:
    """The line of a result that says how the cell ended."""
    return str(data.get("text") or "").rstrip().rpartition("\n")[2]


def clipped(text: str, lines: int) -> str:
    """The first and last lines of a long text."""
    rows = text.rstrip().split("\n")
    if len(rows) <= lines:
        return "\n".join(rows)
    head, tail = rows[: lines // 2], rows[-(lines // 2) :]
    return "\n".join([*head, f"[... {len(rows) - len(head) - len(tail)} lines ...]", *tail])


def _indented(text: str) -> list[str]:
    return [INDENT + line for line in text.split("\n")]


def _indented_by(indent: str, text: str) -> str:
    return "\n".join(indent + line for line in text.split("\n"))
