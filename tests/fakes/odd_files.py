"""What can stand where a plain file is expected; code with the user's rights can put any of these there."""

from __future__ import annotations

import os
import socket
from collections.abc import Callable
from pathlib import Path


def _socket(path: Path) -> None:
    here = os.open(".", os.O_RDONLY)
    os.chdir(path.parent)  # a socket's path may have 107 bytes
    try:
        with socket.socket(socket.AF_UNIX) as made:
            made.bind(path.name)
    finally:
        os.fchdir(here)
        os.close(here)


def _sparse(path: Path) -> None:
    """Larger than any memory, and takes no room."""
    path.touch(mode=0o600)
    os.truncate(path, 10**13)


#: Each is put at a path where nothing is.
ODD: dict[str, Callable[[Path], object]] = {
    "pipe": os.mkfifo,
    "folder": Path.mkdir,
    "socket": _socket,
    "device": lambda path: path.symlink_to("/dev/zero"),
    "sparse": _sparse,
}
#: Those that nothing can be written into either.
NOT_PLAIN = [name for name in ODD if name != "sparse"]
