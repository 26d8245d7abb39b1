"""What the model is shown of a cell."""

from __future__ import annotations

import pytest

from harnessctl.domain.cell import CellError, CellRun, CellStatus, Output
from harnessctl.layers.l1_context.result_text import result_budget, result_text, shorten


def run(status: CellStatus = CellStatus.OK, *outputs: Output, **more: object) -> CellRun:
    return CellRun(status=status, outputs=outputs, ms=1234, **more)  # type: ignore[arg-type]


def out(text: str, stream: str = "stdout") -> Output:
    return Output(stream, text, len(text.encode()))


def test_silence_is_said() -> None:
    assert result_text(1, run(), 1000) == "[cell 1: no output, 1.2 s]"


def test_streams_are_told_apart() -> None:
    shown = result_text(2, run(CellStatus.OK, out("a\n"), out("oh\n", "stderr"), out("3\n", "result")), 1000)
    assert shown == "a\n[stderr]\noh\n3\n[cell 2: ok, 1.2 s]"


def test_long_output_keeps_head_and_tail_and_counts_what_is_missing() -> None:
    text = "".join(f"line {i}\n" for i in range(5000))
    shown = result_text(1, run(CellStatus.OK, out(text)), 4000)
    assert shown.startswith("line 0\n")
    assert "line 4999" in shown
    assert f"of {len(text) - 1:,} characters left out" in shown
    assert len(shown) < 4300


def test_the_error_survives_any_amount_of_output() -> None:
    failed = run(
        CellStatus.ERROR,
        out("x" * 100_000),
        out("Traceback\nValueError: no", "error"),
        error=CellError("ValueError", "no"),
    )
    shown = result_text(1, failed, 2000)
    assert shown.endswith("Traceback\nValueError: no\n[cell 1: error, 1.2 s]")
    assert len(shown) < 2300


def test_sys_exit_with_a_code_is_shown_though_nothing_was_printed() -> None:
    shown = result_text(1, run(CellStatus.ERROR, error=CellError("SystemExit", "1")), 1000)
    assert shown == "SystemExit: 1\n[cell 1: error, 1.2 s]"


def test_hints() -> None:
    loop = CellError("RuntimeError", "asyncio.run() cannot be called from a running event loop")
    assert "write `await f()`" in result_text(1, run(CellStatus.ERROR, error=loop), 1000)
    again = CellError("RuntimeError", "This event loop is already running")
    assert "write `await f()`" in result_text(1, run(CellStatus.ERROR, error=again), 1000)
    ask = CellError("StdinNotImplementedError", "this frontend does not support input requests.")
    assert "Nobody can answer input()" in result_text(1, run(CellStatus.ERROR, error=ask), 1000)


@pytest.mark.parametrize(
    ("more", "said"),
    [
        ({"signal": "SIGKILL"}, "ended by SIGKILL, perhaps for want of memory"),
        ({"signal": "SIGSEGV"}, "ended by SIGSEGV"),
        ({"exit_code": 3}, "exit code 3"),
        ({}, "no reason known"),
    ],
)
def test_death_is_said_with_what_is_lost(more: dict[str, object], said: str) -> None:
    shown = result_text(1, run(CellStatus.DIED, kernel_lost=True, **more), 1000)
    assert f"the kernel died: {said}" in shown
    assert "all variables are gone" in shown


def test_an_interrupt_shows_no_traceback() -> None:
    stopped = run(
        CellStatus.INTERRUPTED,
        out("step 1\n"),
        out("Traceback...", "error"),
        error=CellError("KeyboardInterrupt", ""),
    )
    shown = result_text(1, stopped, 1000)
    assert "Traceback" not in shown
    assert shown.startswith("step 1\n[cell 1: the user interrupted it")


def test_the_budget_follows_the_window() -> None:
    assert result_budget(None) == 16_000
    assert result_budget(8_000) == 4_000
    assert result_budget(1_000) == 1_600


def test_shortening_prefers_line_ends() -> None:
    text = "\n".join(f"row {i}" for i in range(1000))
    head, middle, tail = shorten(text, 300).partition("\n[... ")
    assert middle
    assert all(line.startswith("row ") for line in head.split("\n"))
    assert tail.splitlines()[1].startswith("row ")
    assert shorten("short", 300) == "short"
