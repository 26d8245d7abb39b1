from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harnessctl.domain.safe_text import hidden_characters, visible, visible_line


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("\x1b[31mred", "\\x1b[31mred"),
        ("a\u202eb", "a\\u202eb"),
        ("tag\U000e0041", "tag\\U000e0041"),
        ("a\u200bb", "a\\u200bb"),
        ("one\r\ntwo\ttab\n", "one\ntwo\ttab\n"),
        ("over\rwrite", "over\\rwrite"),
        ("caf\udce9", "caf\\udce9"),
        ("a\u200db", "a\\u200db"),
        ("\x9b31m", "\\x9b31m"),
        ("plain — ünïcödé", "plain — ünïcödé"),
    ],
)
def test_hidden_characters_become_visible(text: str, shown: str) -> None:
    assert visible(text) == shown


@pytest.mark.parametrize(
    "text",
    [
        "می\u200cخواهم",  # Persian: ZWNJ inside a word
        "ക്\u200d",  # Malayalam: ZWJ after a virama
        "क्\u200dष",  # Hindi
        "👩\u200d💻",  # an emoji of two joined
        "❤\ufe0f and 1\ufe0f⃣",
    ],
)
def test_words_that_need_joiners_pass(text: str) -> None:
    assert visible(text) == text
    assert list(hidden_characters(text)) == []


def test_two_joiners_in_a_row_are_hidden() -> None:
    assert list(hidden_characters("می\u200c\u200cخ"))


@given(st.text(st.characters(codec=None)))
def test_nothing_a_terminal_obeys_survives(text: str) -> None:
    shown = visible(text)
    shown.encode("utf-8")
    assert not any(c < " " and c not in "\n\t" for c in shown)
    assert not any("\x7f" <= c <= "\x9f" for c in shown)
    assert "\n" not in visible_line(text)
    assert not list(hidden_characters(shown))
