"""What a cell gave, as the model is shown it: short, with counts where something was left out."""

from __future__ import annotations

from collections.abc import Mapping

from harnessctl.domain.cell import CellRun, CellStatus, Output
from harnessctl.layers.l1_context.tokens import BYTES_A_TOKEN

#: Tokens one result may take when the window is large or unknown.
MOST_TOKENS = 4_000
#: Tokens it may always take.
LEAST_TOKENS = 400
#: Share of the window that one result may take.
WINDOW_SHARE = 8

_LOST = "The kernel and all variables are gone; the next cell runs in a new kernel. Files on disk stay."
_LOOP = ("RuntimeError", "A loop runs already: write `await f()` instead of asyncio.run(f()).")
_HINTS: Mapping[str, tuple[str, str]] = {
    "running event loop": _LOOP,
    "event loop is already running": _LOOP,  # loop.run_until_complete
    "Line magic function `%%": ("UsageError", "%%bash must be the first line of its cell."),
    "does not support input requests": (
        "StdinNotImplementedError",
        "Nobody can answer input(): put the value into the code.",
    ),
}


def result_budget(window: int | None) -> int:
    """Characters that one result may take, for a model with ``window`` tokens."""
    tokens = MOST_TOKENS if window is None else min(MOST_TOKENS, max(LEAST_TOKENS, window // WINDOW_SHARE))
    return tokens * BYTES_A_TOKEN


def result_text(cell: int, run: CellRun, budget: int) -> str:
    """The result of cell number ``cell`` in about ``budget`` characters.

    The error and how the cell ended are never left out; of output, head and tail stay.
    """
    error = _error(run)
    shown = [o for o in run.outputs if o.stream != "error" and o.text.strip()]
    room = max(budget - len(error), budget // 4)
    parts = [_labelled(o, room // max(1, len(shown))) for o in shown]
    parts += [error] if error else []
    parts.append(_ending(cell, run, nothing=not parts))
    return "\n".join(parts)


def shorten(text: str, room: int) -> str:
    """Head and tail of ``text``, cut at line ends where one is near, with a count between them."""
    if len(text) <= room:
        return text
    head, tail = text[: room * 2 // 3], text[-(room - room * 2 // 3) :]
    at = head.rfind("\n")
    head = head[: at + 1] if at > len(head) // 2 else head
    at = tail.find("\n")
    tail = tail[at + 1 :] if 0 <= at < len(tail) // 2 else tail
    left_out = len(text) - len(head) - len(tail)
    return f"{head.rstrip()}\n[... {left_out:,} of {len(text):,} characters left out ...]\n{tail}"


def _labelled(output: Output, room: int) -> str:
    text = shorten(output.text.rstrip(), room)
    label = {"stdout": "", "result": "", "stderr": "[stderr]\n"}.get(output.stream, f"[{output.stream}]\n")
    return label + text


def _error(run: CellRun) -> str:
    text = "\n".join(o.text.rstrip() for o in run.outputs if o.stream == "error")
    if not text and run.error is not None and not _said(run, run.error.value):
        text = f"{run.error.name}: {run.error.value}"
    if run.status is CellStatus.INTERRUPTED:
        return ""
    hint = _hint(run)
    return "\n".join(part for part in (shorten(text, 3_000), hint) if part)


def _said(run: CellRun, message: str) -> bool:
    """IPython prints some of its own errors on stderr."""
    return bool(message) and any(message in o.text for o in run.outputs if o.stream == "stderr")


def _hint(run: CellRun) -> str:
    for words, (name, hint) in _HINTS.items():
        if run.error is not None and run.error.name == name and words in run.error.value:
            return f"[hint] {hint}"
    return ""


def _ending(cell: int, run: CellRun, *, nothing: bool) -> str:
    seconds = run.ms / 1000
    said = {
        CellStatus.OK: "no output" if nothing else "ok",
        CellStatus.FINAL: "final answer given",
        CellStatus.ERROR: "error",
        CellStatus.INTERRUPTED: "the user interrupted it; what it did until then stays done",
        CellStatus.TIMEOUT: "stopped at its time limit; what it did until then stays done",
        CellStatus.DIED: f"the kernel died: {_death(run)}",
    }[run.status]
    lost = f" {_LOST}" if run.kernel_lost else ""
    return f"[cell {cell}: {said}, {seconds:.1f} s]{lost}"


def _death(run: CellRun) -> str:
    if run.signal:
        memory = ", perhaps for want of memory" if run.signal == "SIGKILL" else ""
        return f"ended by {run.signal}{memory}"
    return f"exit code {run.exit_code}" if run.exit_code is not None else "no reason known"
