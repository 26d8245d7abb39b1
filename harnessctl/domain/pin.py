"""The pin: the revision that runs read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any


class Mode(StrEnum):
    """Where landed state lives: an orphan branch, or ``.harness/`` beside the code."""

    BRANCH = "branch"
    IN_TREE = "in-tree"


class PinSource(StrEnum):
    """What decided the pin of a run."""

    FLAG = "flag"
    LOCK = "lock"
    TIP = "tip"
    HEAD = "head"
    EMPTY = "empty"


@dataclass(frozen=True, slots=True)
class Lock:
    """Content of ``harness.lock`` (CONTRACT 4)."""

    schema: int
    branch: str
    commit: str
    tree: str
    entries: str


@dataclass(frozen=True, slots=True)
class Pin:
    """A resolved pin.

    :ivar commit: full commit id; "" for :attr:`PinSource.EMPTY`.
    :ivar entries: entries digest.
    :ivar note: said to the user when resolution was not by commit ("same entries as …").
    """

    source: PinSource
    branch: str
    commit: str
    tree: str
    entries: str
    mode: Mode | None = None
    note: str = ""

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Pin:
        """Inverse of :meth:`to_json`."""
        return cls(
            source=PinSource(data["source"]),
            branch=str(data["branch"]),
            commit=str(data.get("commit") or ""),
            tree=str(data.get("tree") or ""),
            entries=str(data["entries"]),
            mode=Mode(data["mode"]) if data.get("mode") else None,
            note=str(data.get("note") or ""),
        )

    def to_json(self) -> dict[str, object]:
        """The pin as it stands in a session's header and in ``result.json``."""
        return {
            "source": self.source.value,
            "branch": self.branch,
            "commit": self.commit or None,
            "tree": self.tree or None,
            "entries": self.entries,
            "mode": self.mode.value if self.mode else None,
            "note": self.note or None,
        }
