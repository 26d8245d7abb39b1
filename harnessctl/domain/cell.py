"""What running one cell gave, as the layers hand it to each other."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Protocol


class CellStatus(StrEnum):
    """How a cell ended.

    ``final`` is a cell that called ``final(value)``; ``died`` one whose kernel ended under it.
    """

    OK = "ok"
    ERROR = "error"
    INTERRUPTED = "interrupted"
    TIMEOUT = "timeout"
    DIED = "died"
    FINAL = "final"


class Raw(Protocol):
    """Raw output kept outside memory until someone decides whether to keep it."""

    def chunks(self) -> Iterator[bytes]:
        """The bytes in order; where the middle was left out a line says how much."""
        ...

    def close(self) -> None:
        """Free it."""
        ...


@dataclass(frozen=True)
class Output:
    """All of one stream's output in one cell.

    :ivar stream: ``stdout``, ``stderr``, ``display``, ``result`` or ``error``.
    :ivar text: as a terminal would show it, head and tail when it was long.
    :ivar bytes: raw bytes that arrived.
    :ivar cut: bytes of the shown form that ``text`` leaves out.
    :ivar raw: the raw bytes where ``text`` leaves some out or they are many, else None.
    """

    stream: str
    text: str
    bytes: int
    cut: int = 0
    raw: Raw | None = None


@dataclass(frozen=True)
class CellError:
    """An exception that ended a cell: its class name and its message."""

    name: str
    value: str


@dataclass(frozen=True)
class CellRun:
    """One cell, run.

    :ivar ms: wall clock milliseconds.
    :ivar final: text handed to ``final()``, None when it was not called.
    :ivar signal: name of the signal that ended the kernel, None when none did.
    :ivar exit_code: the kernel's exit code, None while it lives.
    :ivar kernel_lost: the kernel is gone, and with it every variable.
    :ivar variables: what the cell changed among the kernel's variables, as the kernel told it:
        ``{"set": {name: [type, size]}, "gone": [name], "more": n}``; None for no change.
    """

    status: CellStatus
    outputs: tuple[Output, ...]
    ms: int
    error: CellError | None = None
    final: str | None = None
    signal: str | None = None
    exit_code: int | None = None
    kernel_lost: bool = False
    variables: Mapping[str, Any] | None = None
