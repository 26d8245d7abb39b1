"""Bounded buffers: what is kept of output of any length."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harnessctl.layers.l2_execution.output import RAW_WORTH, TEXT_EACH, HeadTail, Spool, Streams

PIECES = st.lists(st.text(alphabet="abcdefgh\n", max_size=30), max_size=20)


@given(PIECES, st.integers(1, 20))
def test_head_and_tail_are_those_of_the_whole(pieces: list[str], each: int) -> None:
    whole = "".join(pieces)
    kept = HeadTail(each)
    for piece in pieces:
        kept.add(piece)
    if len(whole) <= 2 * each:
        assert (kept.text(), kept.cut) == (whole, 0)
    else:
        left_out = len(whole) - 2 * each
        assert kept.cut == left_out
        assert kept.text() == f"{whole[:each]}\n[... {left_out:,} bytes left out ...]\n{whole[-each:]}"


@given(PIECES, st.integers(1, 20))
def test_the_raw_file_gives_back_the_same(pieces: list[str], each: int) -> None:
    whole = "".join(pieces).encode()
    spool = Spool(Path("/tmp"), each)
    for piece in pieces:
        spool.add(piece.encode())
    got = b"".join(spool.chunks())
    spool.close()
    if len(whole) <= 2 * each:
        assert got == whole
    else:
        left_out = len(whole) - 2 * each
        assert got == whole[:each] + f"\n[... {left_out:,} bytes left out ...]\n".encode() + whole[-each:]


def test_short_output_has_no_raw_file(tmp_path: Path) -> None:
    streams = Streams(tmp_path)
    streams.feed("stdout", "hello\n")
    streams.feed("stderr", "\x1b[31moh\x1b[0m\n")
    shown = [(o.stream, o.text, o.bytes, o.cut, o.raw) for o in streams.outputs()]
    assert shown == [("stdout", "hello\n", 6, 0, None), ("stderr", "oh\n", 12, 0, None)]


def test_long_output_is_cut_with_a_count_and_kept_raw(tmp_path: Path) -> None:
    streams = Streams(tmp_path)
    lines = [f"line {i}\n" for i in range(20_000)]
    for line in lines:
        streams.feed("stdout", line)
    (output,) = streams.outputs()
    whole = "".join(lines)
    assert output.bytes == len(whole)
    assert output.cut == len(whole) - 2 * TEXT_EACH
    assert output.text.startswith("line 0\n")
    assert output.text.endswith("line 19999\n")
    assert output.raw is not None
    assert b"".join(output.raw.chunks()) == whole.encode()
    output.raw.close()


def test_progress_bars_keep_their_raw_bytes_too(tmp_path: Path) -> None:
    streams = Streams(tmp_path)
    for i in range(10_000):
        streams.feed("stderr", f"\r{i} done")
    (output,) = streams.outputs()
    assert (output.text, output.cut) == ("9999 done", 0)
    assert output.bytes > RAW_WORTH
    assert output.raw is not None
    output.raw.close()


def test_what_the_kernel_did_not_send_is_counted(tmp_path: Path) -> None:
    streams = Streams(tmp_path)
    streams.feed("stdout", "x" * 100_000)
    streams.skip("stdout", 5_000)
    streams.feed("stdout", "y" * 100_000)
    (output,) = streams.outputs()
    assert output.bytes == 205_000
    assert output.cut == 205_000 - 2 * TEXT_EACH
    assert output.raw is not None
    output.raw.close()


def test_clearing_forgets_what_was_shown(tmp_path: Path) -> None:
    streams = Streams(tmp_path)
    streams.feed("stdout", "old\n")
    streams.clear()
    streams.feed("stdout", "new\n")
    assert [o.text for o in streams.outputs()] == ["new\n"]


@pytest.mark.parametrize("size", [1, 31, 32, 33, 64, 65, 200])
def test_one_piece_larger_than_everything(size: int) -> None:
    spool = Spool(Path("/tmp"), 32)
    data = bytes(i % 251 for i in range(size))
    spool.add(data)
    got = b"".join(spool.chunks())
    spool.close()
    assert got[:32] == data[:32]
    assert got.endswith(data[-min(size, 32) :])
