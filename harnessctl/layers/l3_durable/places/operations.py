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

from harnessctl.domain.contents import MOST_READ
from harnessctl.domain.errors import HarnessError
from harnessctl.domain.plain_files import opened, read_small

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
            handle = opened(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
            try:
                if os.write(handle, line) != len(line):
                    raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))
            finally:
                os.close(handle)
        except OSError as error:
            raise HarnessError(
                f"cannot write {self._path}: {error.strerror}",
                id="write_failed",
                hint="check free space, the rights of the state folder, and what this is; nothing was moved",
            ) from error

    def read(self) -> Iterator[Operation]:
        """Moves in order; a line that cannot be read is no move we know of.

        :raises HarnessError: ``read_failed``: a pipe or another thing is there, or more than a log.
        """
        try:
            data = read_small(self._path, MOST_READ) if self._path else b""
        except (FileNotFoundError, NotADirectoryError):
            return
        except OSError as error:
            raise HarnessError(
                f"cannot read {self._path}: {error.strerror}",
                id="read_failed",
                hint="put away what stands there; a new one is begun",
            ) from error
        for line in data.splitlines():
            try:
                data = json.loads(line)
                yield Operation(str(data["what"]), data["old"], data["new"], str(data.get("why", "")))
            except (ValueError, KeyError, TypeError):
                continue
