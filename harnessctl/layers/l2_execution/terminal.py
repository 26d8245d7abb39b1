"""Text as a terminal would show it: carriage returns overwrite, escape sequences vanish.

A progress bar that redraws itself ten thousand times is one line. Memory stays bounded: a line that
never ends is let go of in pieces, after which nothing can overwrite the piece.
"""

from __future__ import annotations

import re
from collections.abc import Callable

#: Lines above the current one that cursor movement can still reach (nested progress bars).
REACH = 20
#: Characters of one line kept changeable.
LINE_LIMIT = 16_384

_PLAIN = re.compile(r"[^\x00-\x08\x0b-\x1f\x7f-\x9f]+\Z")
_TOKEN = re.compile(
    r"\x1b\[([0-9;?]*)[ -/]*([@-~])"  # CSI: 1 parameters, 2 final
    r"|\x1b[\]PX^_].*?(?:\x07|\x1b\\)"  # OSC and other strings
    r"|\x1b[ -/]*[0-~]"  # two-character escapes
    r"|(\t|[^\x00-\x1f\x7f-\x9f]+)"  # 3 text
    r"|[\x00-\x1f\x7f-\x9f]",
    re.DOTALL,
)
#: An escape sequence that the next piece of text may complete.
_UNFINISHED = re.compile(r"\x1b(?:\[[0-9;?]*[ -/]*|[\]PX^_][^\x07\x1b]{0,4096}\x1b?|[ -/]*)?\Z")


class Terminal:
    """Shows text line by line; finished lines go to ``emit``.

    :param emit: receives text that can no longer change, line ends included.
    """

    def __init__(self, emit: Callable[[str], None]) -> None:
        self._emit = emit
        self._lines = [""]
        self._row = 0
        self._column = 0
        self._waiting = ""

    def feed(self, text: str) -> None:
        """Show some more text."""
        if not self._waiting and self._at_end() and _PLAIN.match(text):
            self._append(text)
            return
        text = self._waiting + text
        unfinished = _UNFINISHED.search(text)
        self._waiting = unfinished.group() if unfinished else ""
        for token in _TOKEN.finditer(text, 0, unfinished.start() if unfinished else len(text)):
            self._token(token)

    def flush(self) -> None:
        """Emit what is still changeable: the cell has ended."""
        self._emit("\n".join(self._lines))
        self.clear()

    def clear(self) -> None:
        """Forget what is still changeable."""
        self._lines, self._row, self._column, self._waiting = [""], 0, 0, ""

    def _at_end(self) -> bool:
        return self._row == len(self._lines) - 1 and self._column == len(self._lines[-1])

    def _append(self, text: str) -> None:
        """The fast way: text without control characters but LF and tab, at the very end."""
        parts = ("\n".join(self._lines) + text).rsplit("\n", REACH)
        if len(parts) > REACH:
            self._emit(parts.pop(0) + "\n")
        self._lines, self._row = parts, len(parts) - 1
        self._trim()
        self._column = len(self._lines[-1])

    def _trim(self) -> None:
        line = self._lines[-1]
        if len(line) > LINE_LIMIT:
            keep = LINE_LIMIT // 4
            self._emit("\n".join([*self._lines[:-1], line[:-keep]]))
            self._lines, self._row = [line[-keep:]], 0
            self._column = max(0, self._column - (len(line) - keep))

    def _token(self, token: re.Match[str]) -> None:
        text = token.group()
        if text == "\n":
            self._newline()
        elif text == "\r":
            self._column = 0
        elif text == "\b":
            self._column = max(0, self._column - 1)
        elif token.group(2):
            self._control(token.group(1), token.group(2))
        elif token.group(3):
            self._overwrite(text)

    def _newline(self) -> None:
        self._row += 1
        self._column = 0
        if self._row == len(self._lines):
            self._lines.append("")
        if len(self._lines) > REACH:
            self._emit(self._lines.pop(0) + "\n")
            self._row -= 1

    def _overwrite(self, text: str) -> None:
        line = self._lines[self._row].ljust(self._column)
        self._lines[self._row] = line[: self._column] + text + line[self._column + len(text) :]
        self._column += len(text)
        if self._row == len(self._lines) - 1:
            self._trim()

    def _control(self, parameters: str, final: str) -> None:
        first = parameters.split(";")[0]
        count = int(first) if first.isdigit() else 0
        if final == "K":
            self._erase_line(count)
        elif final == "A":
            self._row = max(0, self._row - max(1, count))
        elif final == "B":
            self._row = min(len(self._lines) - 1, self._row + max(1, count))
        elif final == "C":
            self._column = min(LINE_LIMIT, self._column + max(1, count))
        elif final == "D":
            self._column = max(0, self._column - max(1, count))
        elif final == "G":
            self._column = min(LINE_LIMIT, max(0, count - 1))

    def _erase_line(self, what: int) -> None:
        line = self._lines[self._row]
        if what == 0:
            self._lines[self._row] = line[: self._column]
        elif what == 1:
            self._lines[self._row] = " " * self._column + line[self._column :]
        else:
            self._lines[self._row] = ""


def plain(text: str) -> str:
    """All of ``text`` as a terminal would show it."""
    parts: list[str] = []
    terminal = Terminal(parts.append)
    terminal.feed(text)
    terminal.flush()
    return "".join(parts)


def valid(text: str) -> str:
    r"""``text`` with lone surrogates written as ``\ud800``, so that it has a UTF-8 form."""
    return text.encode("utf-8", "backslashreplace").decode("utf-8")
