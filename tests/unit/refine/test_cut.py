from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harnessctl.refine.cut import around, head_and_tail, shares


@given(st.lists(st.integers(0, 10_000), max_size=30), st.integers(-5, 50_000))
def test_shares_fit_and_give_small_ones_whole(sizes: list[int], total: int) -> None:
    given_ = shares(sizes, total)
    assert sum(given_) <= max(total, 0)
    assert all(share <= size for share, size in zip(given_, sizes, strict=True))
    if sum(sizes) <= total:
        assert given_ == sizes


def test_shares_cut_the_largest() -> None:
    assert shares([10, 1000, 20], 100) == [10, 70, 20]


def test_a_text_that_fits_is_whole() -> None:
    assert head_and_tail("short", 5) == ("short", False)


def test_the_middle_leaves_and_the_cut_says_how_much() -> None:
    kept, cut = head_and_tail("A" * 500 + "B" * 500, 200)
    assert cut
    assert len(kept) <= 200
    assert kept.startswith("AAA")
    assert kept.endswith("BBB")
    left = int(kept.split("[… ")[1].split()[0])
    assert left == 1000 - kept.count("A") - kept.count("B")


def test_quoted_places_stay() -> None:
    text = "x" * 5000 + "THE QUOTE" + "y" * 5000
    kept, cut = around(text, [(5000, 5009)], 400)
    assert cut
    assert "THE QUOTE" in kept
    assert kept.count("left out") == 2


@given(st.integers(1, 3000), st.lists(st.tuples(st.integers(0, 2999), st.integers(1, 80)), max_size=5))
def test_never_longer_than_asked(limit: int, places: list[tuple[int, int]]) -> None:
    text = "z" * 3000
    spans = [(start, min(start + size, 3000)) for start, size in places]
    assert len(around(text, spans, limit)[0]) <= limit


@pytest.mark.parametrize("limit", [0, 1, 44])
def test_no_room_for_a_mark(limit: int) -> None:
    assert head_and_tail("w" * 100, limit) == ("w" * limit, True)
