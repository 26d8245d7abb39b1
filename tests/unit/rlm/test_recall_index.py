"""Finding words in a log, with an index and without one."""

from __future__ import annotations

import sqlite3
from pathlib import Path
from typing import Any

import pytest

from harnessctl.domain.event import Event
from harnessctl.rlm import recall_index
from harnessctl.rlm.recall_index import INDEX_NAME, Hit, Index, documents, words_of
from tests.fakes.trajectories import build

Step = tuple[str, dict[str, Any]]


def turn(number: int, code: str, printed: str, **result: Any) -> list[Step]:
    call = {"id": "c", "name": "ipython", "arguments": "{}", "code": code}
    start = 2 + (number - 1) * 5
    return [
        ("request", {"consumer": "root"}),
        ("reply", {"request": start, "content": f"Step {number}.", "calls": [call]}),
        ("cell", {"cell": number, "code": code, "reply": start + 1, "call": "c"}),
        ("output", {"cell": number, "stream": "stdout", "text": printed, "bytes": 1, "cut": 0, "blob": None}),
        ("result", {"cell": number, "call": "c", "status": "ok", "text": f"{printed}\n[cell: ok]", **result}),
    ]


def log(*turns: list[Step], task: str = "do it") -> tuple[Event, ...]:
    steps: list[Step] = [("header", {}), ("task", {"text": task})]
    for one in turns:
        steps += one
    return build([*steps, ("request", {"consumer": "root"})]).events


def found(index: Index, events: tuple[Event, ...], words: str, k: int = 8) -> list[int]:
    return [hit.n for hit in index.search(events, len(events) - 1, words, k)]


PRINTED = [
    "the staging database listens on port 54713\nsecond line",
    "the production database is read only",
    "db_port = 54713 in config/settings.toml",
    "数据库连接超时",
    'a "quoted" value and a\\path, 50% off; NEAR(x) AND NOT y*',
]


@pytest.fixture(params=["index", "scan"])
def index(tmp_path: Path, request: pytest.FixtureRequest, monkeypatch: pytest.MonkeyPatch) -> Index:
    """Both ways must find the same."""
    if request.param == "scan":
        monkeypatch.setattr(recall_index, "SPARE_BYTES", 1 << 60)
    return Index(tmp_path)


@pytest.mark.parametrize(
    ("words", "first"),
    [
        ("staging database port", 5),
        ("STAGING Port", 5),
        ("production", 10),
        ("port 54713 settings", 15),
        ("连接超时", 20),
        ("quoted value", 25),
        ("stagin", 5),
        ("how many files", 1),
    ],
)
def test_the_best_comes_first(index: Index, words: str, first: int) -> None:
    events = log(*(turn(n, f"step({n})", text) for n, text in enumerate(PRINTED, 1)), task="count the files")
    assert found(index, events, words)[0] == first
    index.close()


@pytest.mark.parametrize(
    "words",
    [
        '"',
        '""',
        "AND",
        "NEAR(",
        "text:",
        "port*",
        "^port",
        "-port",
        "(",
        "port OR",
        "a\0b",
        "\ud800",
        "{x} + y",
        "'; DROP",
    ],
)
def test_words_are_words_and_never_syntax(index: Index, words: str) -> None:
    events = log(*(turn(n, f"step({n})", text) for n, text in enumerate(PRINTED, 1)))
    assert isinstance(found(index, events, words), list)
    assert 10 in found(index, events, f"{words} production")
    index.close()


def test_words_of_a_query() -> None:
    assert words_of('  Port "port" 54713 -- (x) port') == ["port", "54713", "(x)"]
    assert words_of("-- ** ()") == []


def test_a_search_does_not_find_itself(index: Index) -> None:
    """What a cell found is a copy; the question holds the words too. Both would come before the source."""
    fact = "the staging database listens on port 54713"
    looking = turn(2, 'history.search("staging database port")', f"#5 {fact} staging database port")
    alias = turn(3, 'h("staging database port")', f"#5 {fact} staging database port", recalled=True)
    events = log(turn(1, "look()", fact), looking, alias, turn(4, "go()", "on"))
    assert found(index, events, "staging database port") == [5]
    assert {n for n, _ in documents(events, 0, len(events) - 1)}.isdisjoint(range(8, 17)), (
        "7 and 12 are requests"
    )
    index.close()


def test_the_running_turn_is_not_searched(index: Index) -> None:
    events = log(turn(1, "a()", "alpha"), turn(2, "b()", "alpha beta"))
    assert [hit.n for hit in index.search(events, 7, "alpha", 8)] == [5]
    index.close()


def test_a_hit_quotes_the_line_that_matters(index: Index) -> None:
    text = "first line\n" * 300 + "here the port is 54713 now\n" + "last line\n" * 300
    events = log(turn(1, "a()", text))
    (hit,) = index.search(events, 7, "port 54713", 8)
    assert hit == Hit(5, 2, "here the port is 54713 now last line last line")
    index.close()


def test_what_is_new_is_found_at_once_and_taken_in_later(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(recall_index, "INLINE", 10)
    events = log(*(turn(n, f"step({n})", f"fact number {n} xq{n}z") for n in range(1, 60)))
    index = Index(tmp_path)
    for number in (1, 30, 59):
        assert found(index, events, f"xq{number}z") == [number * 5]
    behind = index.behind(len(events) - 1)
    assert behind > 200
    while index.behind(len(events) - 1):
        index.catch_up(events, len(events) - 1, 20)
    assert found(index, events, "xq59z") == [295]
    index.close()


def test_it_goes_on_where_it_was(tmp_path: Path) -> None:
    events = log(*(turn(n, f"step({n})", f"xq{n}z") for n in range(1, 20)))
    first = Index(tmp_path)
    assert found(first, events[:53], "xq3z") == [15]
    first.close()
    before = (tmp_path / INDEX_NAME).stat().st_ino
    again = Index(tmp_path)
    assert found(again, events, "xq19z") == [95]
    assert (tmp_path / INDEX_NAME).stat().st_ino == before
    assert (tmp_path / INDEX_NAME).stat().st_mode & 0o077 == 0
    again.close()


def damage(path: Path, how: str) -> None:
    if how == "missing":
        path.unlink()
    elif how == "no database":
        path.write_bytes(b"something else" * 100)
    elif how == "empty":
        path.write_bytes(b"")
    elif how == "torn":
        path.write_bytes(path.read_bytes()[: path.stat().st_size // 2])
    elif how == "scrambled":
        data = bytearray(path.read_bytes())
        data[4096:] = bytes(len(data) - 4096)
        path.write_bytes(bytes(data))
    else:
        with sqlite3.connect(path) as connection:
            connection.execute("UPDATE meta SET value = '0' WHERE key = ?", (how,))
        connection.close()


@pytest.mark.parametrize(
    "how", ["missing", "no database", "empty", "torn", "scrambled", "version", "hash", "head"]
)
def test_a_spoiled_index_is_made_again(tmp_path: Path, how: str) -> None:
    events = log(*(turn(n, f"step({n})", f"xq{n}z common words") for n in range(1, 200)))
    index = Index(tmp_path)
    assert found(index, events, "xq77z") == [385]
    index.close()
    damage(tmp_path / INDEX_NAME, how)
    again = Index(tmp_path)
    assert found(again, events, "xq77z") == [385]
    assert len(found(again, events, "common", 100)) == 100
    assert (tmp_path / INDEX_NAME).exists()
    again.close()


def test_an_index_of_another_log_is_not_believed(tmp_path: Path) -> None:
    index = Index(tmp_path)
    other = log(turn(1, "a()", "only in the other log"), turn(2, "b()", "x"))
    assert found(index, other, "other") == [5]
    index.close()
    index = Index(tmp_path)
    events = log(turn(1, "a()", "alpha"), turn(2, "b()", "beta"))
    assert found(index, events, "other") == []
    assert found(index, events, "beta") == [10]
    index.close()


class SmallDisk(Index):
    """One whose disk is full after a few pages."""

    def _connect(self) -> None:
        super()._connect()
        self._run("PRAGMA max_page_count=12")


def test_a_full_disk_costs_the_index_and_nothing_else(tmp_path: Path) -> None:
    events = log(*(turn(n, f"step({n})", f"xq{n}z " + "words " * 200 + str(n)) for n in range(1, 100)))
    index = SmallDisk(tmp_path)
    assert found(index, events, "xq99z") == [495]
    assert list(tmp_path.iterdir()) == []
    assert index.behind(len(events)) == 0
    assert found(index, events, "xq1z") == [5]
    index.close()
