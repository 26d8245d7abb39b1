"""What stands for a file's content, told in bounded time: a sparse file takes no room and has any size."""

from __future__ import annotations

import os
from collections.abc import Iterator
from typing import BinaryIO

#: Bytes of a file that are read; of a larger one :data:`PIECE` at either end.
MOST_READ = 256 * 1024 * 1024
PIECE = 1024 * 1024
#: Bytes that one look at many files reads of those above :data:`PIECE`: sparse ones may be many, too.
MOST_IN_ALL = 8 * 1024 * 1024 * 1024


class Room:
    """What one look at many files may read; what it decides depends on their sizes and order alone."""

    def __init__(self) -> None:
        self._left = MOST_IN_ALL

    def takes(self, size: int) -> bool:
        """Whether the next file, of ``size`` bytes, is read whole; also to be asked of one that is known."""
        if size <= PIECE:
            return True
        if size > MOST_READ:
            return False
        self._left -= size
        return self._left >= 0


def contents(file: BinaryIO, info: os.stat_result, *, whole: bool) -> Iterator[bytes]:
    """The content in pieces; where not ``whole``, that of both ends, and what its inode says.

    :param info: of the file; what is appended to it from then on is left alone.
    """
    size = info.st_size
    for start, end in [(0, size)] if whole else [(0, PIECE), (size - PIECE, size)]:
        file.seek(start)
        while piece := file.read(min(PIECE, end - start)):
            start += len(piece)
            yield piece
    if not whole:
        yield f"{size} {info.st_ino} {info.st_mtime_ns} {info.st_ctime_ns}".encode()
