"""Output as a terminal would show it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harnessctl.layers.l2_execution.terminal import LINE_LIMIT, Terminal, plain, valid


@pytest.mark.parametrize(
    ("raw", "shown"),
    [
        ("a\rb", "b"),
        ("longer\rab", "abnger"),
        (" 10%\r 20%\r100%\n", "100%\n"),
        ("x\r\ny\r\n", "x\ny\n"),
        ("\x1b[31mred\x1b[0m and \x1b[1;4mbold\x1b[m", "red and bold"),
        ("abc\b\bX", "aXc"),
        ("long text\r\x1b[Kshort", "short"),
        ("one\ntwo\x1b[A\rONE\n", "ONE\ntwo"),
        ("a\n\n\x1b[2Ab", "b\n\n"),
        ("\x1b]0;a title\x07text", "text"),
        ("\x1b]8;;http://x\x1b\\link\x1b]8;;\x1b\\", "link"),
        ("bell\x07 and nul\x00 end", "bell and nul end"),
        ("tab\tstays", "tab\tstays"),
        ("\x1b[5Gat five", "    at five"),
        ("unfinished \x1b[3", "unfinished "),
        ("é\u4e2d\n", "é\u4e2d\n"),
    ],
)
def test_control_characters(raw: str, shown: str) -> None:
    assert plain(raw) == shown


@given(
    st.lists(st.sampled_from(["a", "bc", "\n", "\r", "\b", "\x1b[K", "\x1b[A", "\x1b[31m", "\t", "\x1b[2C"])),
    st.integers(1, 3),
)
def test_it_does_not_matter_how_the_text_is_cut_into_pieces(parts: list[str], size: int) -> None:
    text = "".join(parts)
    seen: list[str] = []
    terminal = Terminal(seen.append)
    for start in range(0, len(text), size):
        terminal.feed(text[start : start + size])
    terminal.flush()
    assert "".join(seen) == plain(text)


@given(st.text(alphabet=st.characters(exclude_categories=("Cc", "Cs")) | st.just("\n"), max_size=200))
def test_text_without_control_characters_is_unchanged(text: str) -> None:
    assert plain(text) == text


def test_ten_thousand_progress_updates_are_one_line() -> None:
    terminal = Terminal(lines := [])  # type: ignore[arg-type,var-annotated]
    terminal._emit = lines.append
    for i in range(10_000):
        terminal.feed(f"\r{i:5} {'#' * 60}")
    terminal.flush()
    assert "".join(lines) == f" 9999 {'#' * 60}"


def test_a_line_without_end_does_not_stay_in_memory() -> None:
    seen: list[str] = []
    terminal = Terminal(seen.append)
    for _ in range(100):
        terminal.feed("x" * 10_000)
        assert len(terminal._lines[-1]) <= LINE_LIMIT
    terminal.flush()
    assert "".join(seen) == "x" * 1_000_000


def test_lone_surrogates_get_a_form() -> None:
    assert valid("a\ud800b") == "a\\ud800b"
    valid("\udfff\ud800").encode("utf-8")
