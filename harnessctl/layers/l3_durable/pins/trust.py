"""Which programs of a repository the user lets run: asked once for each set of them, and remembered.

A clone brings gates, and may name a Python inside itself; both are programs that somebody else chose.
What is trusted is the digest of exactly these: any change asks again. The record is a file of the
user's own, and code with the user's rights could write it too: it guards against what a repository
brings, not against what already runs here.
"""

from __future__ import annotations

import os
from collections.abc import Mapping, Sequence
from pathlib import Path

from harnessctl.domain.canonical import canonical_json, sha256_hex
from harnessctl.domain.plain_files import opened, read_small

FILE = "trusted"
#: Bytes of it that are read; a line has 72.
MOST = 16 * 1024 * 1024


class Trust:
    """One repository's trusted digests, a line each."""

    def __init__(self, state_dir: Path) -> None:
        self._path = state_dir / FILE

    def holds(self, digest: str) -> bool:
        """Whether the user has trusted this set."""
        try:
            return digest in read_small(self._path, MOST).decode("ascii").split()
        except (OSError, UnicodeDecodeError):
            return False

    def remember(self, digest: str) -> None:
        """Trust this set from now on."""
        if self.holds(digest):
            return
        handle = opened(self._path, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        try:
            os.write(handle, f"{digest}\n".encode("ascii"))
        finally:
            os.close(handle)


def programs_digest(gates: Sequence[Mapping[str, object]], python: str | None) -> str:
    """``sha256:`` digest of what a repository would have run."""
    return "sha256:" + sha256_hex(canonical_json({"gates": list(gates), "python": python}))
