"""Files as git names them: what the rules judge, whoever read them (index, commit, proposal, work tree)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

FILE = 0o100644
EXECUTABLE = 0o100755
SYMLINK = 0o120000
GITLINK = 0o160000


@dataclass(frozen=True, slots=True)
class TreeItem:
    """One file of a ``.harness/`` tree.

    :ivar path: relative to ``.harness/``, with ``/``; bytes that are not UTF-8 stand as lone
        surrogates (``os.fsdecode``), so that no name is lost and none raises.
    :ivar mode: git's mode, one of the constants above or something older.
    :ivar oid: id of the blob, hex: the key under which verdicts are kept.
    :ivar read: the blob's bytes; not called for gitlinks nor for what :attr:`size` rules out.
    :ivar size: bytes where they are known, else -1.
    :ivar measure: tells the bytes without reading them, where that is possible.
    """

    path: str
    mode: int
    oid: str
    read: Callable[[], bytes]
    size: int = -1
    measure: Callable[[], int] | None = None

    def known_size(self) -> int:
        """Bytes as far as they can be told without reading; -1 when they cannot."""
        return self.measure() if self.size < 0 and self.measure is not None else self.size

    def length(self) -> int:
        """Bytes of the content."""
        size = self.known_size()
        return size if size >= 0 else len(self.read())
