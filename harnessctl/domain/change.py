"""What a run changed in the work tree."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal


@dataclass(frozen=True, slots=True)
class FileChange:
    """One file that differs between two states of the work tree.

    :ivar path: relative to the root of the work tree, as git prints it.
    :ivar status: ``A`` added, ``M`` modified, ``D`` deleted.
    :ivar added: lines added, 0 for a binary file.
    :ivar removed: lines removed, 0 for a binary file.
    """

    path: str
    status: Literal["A", "M", "D"]
    added: int
    removed: int
    binary: bool = False

    def to_json(self) -> dict[str, object]:
        """The change as it stands in ``result.json``."""
        return {
            "path": self.path,
            "status": self.status,
            "added": self.added,
            "removed": self.removed,
            "binary": self.binary,
        }
