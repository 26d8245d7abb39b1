"""What a landing verb answers."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from harnessctl.domain.finding import Finding
from harnessctl.domain.pin import Lock
from harnessctl.domain.update import Record


@dataclass(frozen=True)
class Landed:
    """A change that was made.

    :ivar record: None for ``init``.
    :ivar commit: "" where files were written into the work tree for the user to commit.
    :ivar lock: the lock, when it was written or moved.
    :ivar pushed: whether the commit is on the remote; None without a remote.
    :ivar pinned: whether the next run reads a lock.
    :ivar unread: landed updates that the next run will not read.
    :ivar warnings: what the lint rules say about the touched entries.
    :ivar written: work-tree files, in in-tree mode.
    :ivar finished: an earlier ``init`` made the branch and was stopped; this one did the rest.
    """

    record: Record | None
    commit: str
    lock: Lock | None = None
    pushed: bool | None = None
    pinned: bool = False
    unread: int = 0
    written: tuple[Path, ...] = ()
    warnings: tuple[Finding, ...] = ()
    finished: bool = False

    def to_json(self) -> dict[str, object]:
        """The landing as ``--json`` prints it."""
        return {
            "update": self.record.id if self.record else None,
            "type": self.record.type.value if self.record else None,
            "commit": self.commit or None,
            "entries": [c.id for c in self.record.entries] if self.record else [],
            "lock": self.lock.commit if self.lock else None,
            "pushed": self.pushed,
            "unread": self.unread,
            "written": [str(path) for path in self.written],
            "warnings": [finding.to_json() for finding in self.warnings],
        }
