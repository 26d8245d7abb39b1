"""Finding words in a session's log: an SQLite full-text index beside it, or a plain scan.

The index is made from the log and thrown away at any doubt: another version, another log, a damaged
file, a full disk. It lags behind; what it does not hold yet is scanned. It keeps no texts, only where
words stand.

A *document* is an event with its text. Left out are events whose text another document has (a cell's
code is in its reply, a result's in its outputs), and cells that looked into the history, with the
replies that asked for it: they hold the words that somebody searched for, and would be found in place
of what they quote.
"""

from __future__ import annotations

import re
import shutil
import sqlite3
from collections.abc import Iterator, Sequence
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harnessctl.domain.event import Event, EventType, event_text, is_aside

INDEX_NAME = "recall.sqlite"
#: Of the tables and of what becomes a document.
VERSION = "1"
#: Documents in one transaction.
BATCH = 500
#: Events that a search takes into the index itself; more are scanned, and left to the builder.
INLINE = 2_000
#: Documents with all of the words that make others needless.
ENOUGH = 3
#: Bytes that must be free beside the index: the log comes first.
SPARE_BYTES = 64 * 1024 * 1024
#: Characters that a hit quotes.
QUOTED = 240

_TYPES = frozenset(
    {
        EventType.TASK,
        EventType.REPLY,
        EventType.OUTPUT,
        EventType.RESULT,
        EventType.MESSAGE,
        EventType.PROPOSE,
        EventType.GATE,
        EventType.CHILD,
    }
)
_LOOKS = re.compile(r"\bhistory\s*\.\s*(?:search|expand|outline|blob)\b")
_WORD = re.compile(r"\w")


@dataclass(frozen=True, slots=True)
class Hit:
    """A document that was found.

    :ivar words: how many of the wanted words it holds.
    """

    n: int
    words: int
    quote: str


def looks_back(code: str) -> bool:
    """Whether ``code`` calls the history, as far as its text tells."""
    return _LOOKS.search(code) is not None


def documents(events: Sequence[Event], start: int, stop: int) -> Iterator[tuple[int, str]]:
    """(event, text) of the documents among ``events[start:stop]``, which begins and ends between turns."""
    looked = _looking(events, start, stop)
    printed: Any = None
    for at in range(start, stop):
        event = events[at]
        data, cell = event.data, event.data.get("cell")
        if event.type is EventType.OUTPUT:
            printed = cell
        if event.type not in _TYPES or event.n in looked or (cell is not None and -1 - cell in looked):
            continue
        if event.type is EventType.RESULT and cell is not None and cell == printed:
            continue
        if event.type is EventType.MESSAGE and data.get("state") != "delivered":
            continue
        if is_aside(event) and data.get("consumer") == "summary":
            continue
        text = event_text(event)
        if text.strip():
            yield event.n, text


def _looking(events: Sequence[Event], start: int, stop: int) -> set[int]:
    """Replies that asked for the history, and cells that did as ``-1 - cell``."""
    found: set[int] = set()
    for at in range(start, stop):
        event = events[at]
        if event.type is EventType.CELL and looks_back(str(event.data.get("code"))):
            found |= {int(event.data.get("reply") or -1), -1 - int(event.data["cell"])}
        elif event.type is EventType.RESULT and event.data.get("recalled") and event.data.get("cell"):
            found.add(-1 - int(event.data["cell"]))
            found |= {
                int(e.data.get("reply") or -1)
                for e in events[max(start, at - 200) : at]
                if e.type is EventType.CELL and e.data.get("cell") == event.data["cell"]
            }
    return found


class Index:
    """The index of one log. Used in one thread at a time.

    :param folder: of the session.
    """

    def __init__(self, folder: Path) -> None:
        self.path = folder / INDEX_NAME
        self._folder = folder
        self._connection: sqlite3.Connection | None = None
        self._head = 0
        self._without = False

    def behind(self, stop: int) -> int:
        """How many events before ``stop`` it does not hold."""
        return 0 if self._without else stop - self._head

    def search(self, events: Sequence[Event], stop: int, words: str, k: int) -> list[Hit]:
        """The ``k`` documents before event ``stop`` that fit ``words`` best: most words first.

        :param words: taken as words, whatever they hold.
        """
        wanted = words_of(words)
        if not wanted or not stop:
            return []
        found = self._found(events, stop, wanted, k)
        hits = [_hit(events[n], wanted) for n in found]
        # A stable sort: among equals the index's own order stays.
        return sorted((hit for hit in hits if hit.words), key=lambda hit: -hit.words)[:k]

    def catch_up(self, events: Sequence[Event], stop: int, most: int) -> None:
        """Take in up to ``most`` events before ``stop``. Where that fails, scans find the same."""
        if self._without or stop <= self._head:
            return
        try:
            self._open(events)
            self._add(events, min(stop, _boundary(events, self._head + most, stop)))
        except (sqlite3.Error, OSError):
            self._give_up()

    def close(self) -> None:
        """Let go of the file. Closing twice is harmless."""
        if self._connection is not None:
            self._connection.close()
            self._connection = None

    def _found(self, events: Sequence[Event], stop: int, wanted: list[str], k: int) -> list[int]:
        indexed: list[int] = []
        if not self._without:
            if stop - self._head <= INLINE or not self._head:
                self.catch_up(events, stop, INLINE)
            try:
                indexed = self._query(wanted, k)
            except (sqlite3.Error, OSError):
                self._rebuild(events, stop)
                indexed = self._query_or_nothing(wanted, k)
        start = 0 if self._without else self._head
        scanned = scan(events, start, stop, wanted, k)
        if not indexed and not scanned:
            # Parts of words, and scripts without spaces between them.
            scanned += scan(events, 0, start, wanted, k)
        return list(dict.fromkeys([*indexed, *scanned]))

    def _query_or_nothing(self, wanted: list[str], k: int) -> list[int]:
        try:
            return [] if self._without else self._query(wanted, k)
        except (sqlite3.Error, OSError):
            self._give_up()
            return []

    def _rebuild(self, events: Sequence[Event], stop: int) -> None:
        self.close()
        with suppress(OSError):
            self.path.unlink()
        self._head = 0
        self.catch_up(events, stop, INLINE)

    def _give_up(self) -> None:
        """Do without for the rest of the session, and give back the space."""
        self._without, self._head = True, 0
        self.close()
        for name in (INDEX_NAME, f"{INDEX_NAME}-journal"):
            with suppress(OSError):  # a folder may stand there
                (self._folder / name).unlink()

    def _open(self, events: Sequence[Event]) -> None:
        """Open the file; start a new one where it is not this log's.

        :raises OSError: there is too little space.
        """
        if shutil.disk_usage(self._folder).free < SPARE_BYTES:
            raise OSError("too little space for an index")
        if self._connection is None:
            try:
                self._connect()
                self._head = self._held(events)
            except (sqlite3.DatabaseError, ValueError):
                self._head = 0
            if not self._head:
                self._begin()

    def _connect(self) -> None:
        self._connection = sqlite3.connect(self.path, check_same_thread=False, isolation_level=None)
        # A killed process rolls back; what a loss of power does to it is found out and built again.
        self._connection.execute("PRAGMA synchronous=OFF")
        self._connection.execute("PRAGMA journal_mode=TRUNCATE")

    def _held(self, events: Sequence[Event]) -> int:
        """How many events it holds; 0 when it is not of this log."""
        rows = dict(self._run("SELECT key, value FROM meta"))
        head = int(rows.get("head", 0))
        known = 0 < head <= len(events) and rows.get("hash") == events[head - 1].hash
        return head if known and rows.get("version") == VERSION else 0

    def _begin(self) -> None:
        self.close()
        self.path.unlink(missing_ok=True)
        self.path.touch(mode=0o600)
        self._connect()
        self._run("CREATE TABLE meta (key TEXT PRIMARY KEY, value TEXT)")
        self._run("CREATE VIRTUAL TABLE docs USING fts5(text, content='', tokenize='unicode61')")

    def _add(self, events: Sequence[Event], stop: int) -> None:
        if stop <= self._head:
            return
        assert self._connection is not None
        rows = documents(events, self._head, stop)
        self._run("BEGIN")
        self._connection.executemany("INSERT INTO docs(rowid, text) VALUES (?, ?)", _plain(rows))
        state = [("version", VERSION), ("head", str(stop)), ("hash", events[stop - 1].hash)]
        self._connection.executemany("INSERT OR REPLACE INTO meta VALUES (?, ?)", state)
        self._run("COMMIT")
        self._head = stop

    def _query(self, wanted: list[str], k: int) -> list[int]:
        """Documents with all of the words; where there are few, with any of them or their beginnings."""
        quoted = [f'"{word}"' for word in wanted]
        found = self._match(" AND ".join(quoted), k)
        if len(found) < min(k, ENOUGH):
            found += self._match(" OR ".join(f"{word}*" for word in quoted), k)
        return list(dict.fromkeys(found))

    def _match(self, query: str, k: int) -> list[int]:
        sql = "SELECT rowid FROM docs WHERE docs MATCH ? ORDER BY rank LIMIT ?"
        return [int(row[0]) for row in self._run(sql, query, k)]

    def _run(self, sql: str, *values: object) -> list[tuple[str, str]]:
        if self._connection is None:
            raise OSError("no index")
        return self._connection.execute(sql, values).fetchall()


def words_of(text: str) -> list[str]:
    """The words in ``text``, each once, without what FTS would take for syntax."""
    plain = text.encode("utf-8", "replace").decode().replace("\0", " ").replace('"', " ")
    return list(dict.fromkeys(word for word in plain.casefold().split() if _WORD.search(word)))


def scan(events: Sequence[Event], start: int, stop: int, wanted: list[str], k: int) -> list[int]:
    """The ``k`` documents that hold most of the words, each also as a part of a longer one."""
    found = []
    for n, text in documents(events, start, stop):
        lower = text.casefold()
        count = sum(word in lower for word in wanted)
        if count:
            found.append((-count, n))
    return [n for _, n in sorted(found)[:k]]


def _hit(event: Event, wanted: list[str]) -> Hit:
    text = event_text(event)
    lower = text.casefold()
    return Hit(
        event.n, sum(all(part in lower for part in _parts(word)) for word in wanted), quote(text, wanted)
    )


def _parts(word: str) -> list[str]:
    """What FTS makes of a word with other characters in it."""
    return re.findall(r"\w+", word)


def quote(text: str, wanted: list[str]) -> str:
    """The line with most of the words, and what follows it, shortened around the first of them."""
    lines = text.splitlines() or [""]
    scores = [sum(word in line.casefold() for word in wanted) for line in lines]
    at = max(range(len(lines)), key=lambda n: (scores[n], -n))
    said = " ".join(" ".join(lines[at : at + 3]).split())
    lower = said.casefold()
    places = [lower.find(word) for word in wanted if word in lower]
    start = max(0, min(places, default=0) - QUOTED // 4)
    head, tail = "…" if start else "", "…" if len(said) > start + QUOTED else ""
    return f"{head}{said[start : start + QUOTED]}{tail}"


def _boundary(events: Sequence[Event], near: int, stop: int) -> int:
    """The first place from ``near`` on, ``stop`` at the latest, where a turn begins."""
    for at in range(near, stop):
        if events[at].type is EventType.REQUEST and not is_aside(events[at]):
            return at
    return stop


def _plain(rows: Iterator[tuple[int, str]]) -> Iterator[tuple[int, str]]:
    """SQLite takes no lone surrogates."""
    for n, text in rows:
        yield n, text.encode("utf-8", "replace").decode()
