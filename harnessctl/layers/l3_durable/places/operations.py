"""The host's own log of the refs and locks it moved, so that the fence can tell its moves from others'.

Kept outside the repository. The same user can forge it; that is said in the documents.
"""

from __future__ import annotations

import errno
import json
import os
import time
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

from harnessctl.domain.errors import HarnessError

FILE = "operations.jsonl"


@dataclass(frozen=True, slots=True)
class Operation:
    """``what`` is a full ref name, with commits, or ``harness.lock``, with digests of its bytes.

    :ivar why: in a word, as in the reflog; "" of what is no ref.
    """

    what: str
    old: str | None
    new: str | None
    why: str = ""


class Operations:
    """Appends to and reads one repository's log."""

    def __init__(self, state_dir: Path | None) -> None:
        self._path = state_dir / FILE if state_dir else None

    def moved(self, what: str, old: str | None, new: str | None, why: str = "") -> None:
        """Append one move, in one write; the caller makes it afterwards.

        :raises HarnessError: ``write_failed``: it could not be noted.
        """
        if self._path is None:
            return
        record = {"t": time.time(), "pid": os.getpid(), "what": what, "old": old, "new": new, "why": why}
        # A torn last line of another process must not swallow ours.
        line = f"\n{json.dumps(record, sort_keys=True)}\n".encode()
        try:
            handle = os.open(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_CLOEXEC, 0o600)
            try:
                if os.write(handle, line) != len(line):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            finally:
                os.close(handle)
        except OSError as error:
            raise HarnessError(
                f"cannot write {self._path}: {error.strerror}",
                id="write_failed",
                hint="check free space and the permissions of the state folder; nothing was moved",
            ) from error

    def read(self) -> Iterator[Operation]:
        """Moves in order; a line that cannot be read is no move we know of."""
        if self._path is None or not self._path.exists():
            return
        for line in self._path.read_bytes().splitlines():
            try:
                data = json.loads(line)
                yield Operation(str(data["what"]), data["old"], data["new"], str(data.get("why", "")))
            except (ValueError, KeyError, TypeError):
                continue
