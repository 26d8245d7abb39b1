"""A kernel that runs nothing: plays what it is told for each cell."""

from __future__ import annotations

import asyncio
from collections.abc import Callable

from harnessctl.domain.cell import CellRun, CellStatus, Output


def ran(text: str = "", status: CellStatus = CellStatus.OK, **more: object) -> CellRun:
    """A cell that printed ``text``."""
    outputs = (Output("stdout", text, len(text.encode())),) if text else ()
    return CellRun(status=status, outputs=outputs, ms=1, **more)  # type: ignore[arg-type]


class FakeKernel:
    """Plays ``runs`` in order, then empty good cells; a callable is called with the code."""

    def __init__(self, *runs: CellRun | Callable[[str], CellRun]) -> None:
        self.runs = list(runs)
        self.codes: list[str] = []
        self.limits: list[float] = []
        self.alive = True
        self.closed = 0
        self.interrupted = asyncio.Event()

    async def execute(
        self, code: str, *, limit_s: float, on_output: Callable[[str, str], None] | None = None
    ) -> CellRun:
        self.codes.append(code)
        self.limits.append(limit_s)
        if code == "wait":
            await self.interrupted.wait()
            return ran("partly", CellStatus.INTERRUPTED)
        run = self.runs.pop(0) if self.runs else ran()
        run = run(code) if callable(run) else run
        for output in run.outputs:
            if on_output is not None:
                on_output(output.stream, output.text)
        self.alive = not run.kernel_lost
        return run

    def interrupt(self) -> None:
        self.interrupted.set()

    async def close(self) -> None:
        self.closed += 1
        self.alive = False
