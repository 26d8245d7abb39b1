"""What a kernel's messages mean for a cell. Pure but for the streams it feeds."""

from __future__ import annotations

import asyncio
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from typing import Any

from harnessctl.domain.cell import CellError, CellStatus
from harnessctl.layers.l2_execution.output import Streams
from harnessctl.layers.l2_execution.terminal import valid

#: Sees output as it arrives: (stream, text).
OnOutput = Callable[[str, str], None]

#: ``str(SystemExit())`` and the codes that mean "ended by wish".
_GOOD_EXITS = frozenset({"", "0", "None", "False"})


@dataclass(frozen=True, slots=True)
class KernelSigns:
    """What the code in the kernel tells its owner beside output.

    :ivar final: type of the message with a final answer, ``{"text": …}``.
    :ivar error: class name of the exception that ends a cell after it.
    :ivar skipped: type of the message about output that was not sent, ``{"stream": …, "bytes": …}``.
    :ivar variables: type of the message about variables that a cell changed.
    """

    final: str = ""
    error: str = ""
    skipped: str = ""
    variables: str = ""


@dataclass
class Cell:
    """What has arrived for the cell that runs; between cells, for the next one.

    :ivar message: id of the request that runs it.
    :ivar final: text given to ``final()``.
    :ivar variables: what it changed among the kernel's variables, None for nothing.
    :ivar heard: messages so far.
    :ivar begun: set when the kernel says that it begins with the code.
    :ivar idle: set when the kernel says that it has sent everything.
    """

    streams: Streams
    signs: KernelSigns
    on_output: OnOutput | None = None
    message: str = ""
    final: str | None = None
    variables: Mapping[str, Any] | None = None
    heard: int = 0
    begun: asyncio.Event = field(default_factory=asyncio.Event)
    idle: asyncio.Event = field(default_factory=asyncio.Event)

    def hear(self, message: Mapping[str, Any]) -> None:
        """Take in one message of the iopub channel."""
        self.heard += 1
        kind, content = message["header"]["msg_type"], message["content"]
        own = self.message and message["parent_header"].get("msg_id") == self.message
        if kind == "status":
            if own and content.get("execution_state") == "idle":
                self.idle.set()
        elif kind == "execute_input":
            if own:
                self.begun.set()
        elif kind == "stream":
            self._show(content["name"], content["text"])
        elif kind in ("display_data", "update_display_data", "execute_result"):
            self._display("result" if kind == "execute_result" else "display", content.get("data") or {})
        elif kind == "error" and content.get("ename") != self.signs.error:
            self._show("error", "\n".join(content.get("traceback") or ()) + "\n")
        elif kind == "clear_output":
            self.streams.clear()

    def _show(self, stream: str, text: str) -> None:
        self.streams.feed(stream, text)
        if self.on_output is not None:
            self.on_output(stream, valid(text))

    def _display(self, stream: str, data: Mapping[str, Any]) -> None:
        if self.signs.final in data:
            self.final = valid(str(data[self.signs.final].get("text", "")))
            return
        if self.signs.skipped in data:
            said = data[self.signs.skipped]
            self.streams.skip(str(said["stream"]), int(said["bytes"]))
            return
        if self.signs.variables in data:
            self.variables = data[self.signs.variables]
            return
        parts = [str(data["text/plain"])] if "text/plain" in data else []
        parts += [
            f"[{mime}, {len(str(value)):,} characters, not shown]"
            for mime, value in data.items()
            if mime.startswith(("image/", "application/pdf", "video/", "audio/"))
        ]
        if parts:
            self._show(stream, "\n".join(parts) + "\n")

    def status(
        self, reply: Mapping[str, Any] | None, *, interrupted: bool, timed_out: bool
    ) -> tuple[CellStatus, CellError | None]:
        """How the cell ended, from the kernel's reply; None when it gave none before it died."""
        if reply is None:
            return (CellStatus.TIMEOUT if timed_out else CellStatus.DIED), None
        name, value = str(reply.get("ename", "")), valid(str(reply.get("evalue", "")))
        good = reply.get("status") == "ok"
        if self.final is not None and (good or name == self.signs.error):
            return CellStatus.FINAL, None
        if good or (name == "SystemExit" and value in _GOOD_EXITS):
            return CellStatus.OK, None
        error = CellError(name or str(reply.get("status")), value)
        if timed_out:
            return CellStatus.TIMEOUT, error
        # asyncio tells an awaiting cell of an interrupt by cancelling it.
        if interrupted and name in ("KeyboardInterrupt", "CancelledError"):
            return CellStatus.INTERRUPTED, error
        return CellStatus.ERROR, error
