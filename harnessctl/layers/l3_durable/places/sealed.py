"""Lines kept between calls for speed alone: a line counts only with the right HMAC.

The key lies beside the file (0600), so that another user's line, a torn or a forged one is as if it
were not there. One line: 64 hex digits of HMAC-SHA-256, a space, JSON.
"""

from __future__ import annotations

import contextlib
import hmac
import json
import os
import secrets
from collections.abc import Iterable, Iterator
from pathlib import Path
from typing import Any

from harnessctl.domain.contents import MOST_READ
from harnessctl.domain.plain_files import opened, read_small

#: Bytes after which the file is begun anew; 10,000 verdicts take 2 MB, 10,000 updates 3 MB.
MAX_FILE = 64 * 1024 * 1024
_KEY_BYTES = 32
_MAC_HEX = 64


class SealedLines:
    """The lines of one file.

    :param path: the file, made when something is first appended; None keeps nothing on disk.
    :param key: the HMAC key; see :func:`read_key`.
    """

    def __init__(self, path: Path | None, key: bytes) -> None:
        self.path, self._key = path, key

    def read(self) -> Iterator[Any]:
        """The value of each line that can be trusted."""
        try:
            data = read_small(self.path, MOST_READ) if self.path is not None else b""
        except OSError:
            return
        for line in data.split(b"\n"):
            mac, body = line[:_MAC_HEX], line[_MAC_HEX + 1 :]
            if body and hmac.compare_digest(mac, self._mac(body)):
                yield json.loads(body)

    def append(self, bodies: Iterable[bytes]) -> None:
        """Append a line for each JSON body. A failure costs time at the next call, nothing else."""
        if self.path is None:
            return
        lines = b"".join(self._mac(body) + b" " + body + b"\n" for body in bodies)
        with contextlib.suppress(OSError):
            self.path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            flags = os.O_WRONLY | os.O_CREAT | os.O_APPEND
            if self.path.exists() and self.path.stat().st_size > MAX_FILE:
                flags |= os.O_TRUNC
            handle = opened(self.path, flags)
            try:
                # A torn last line of another process must not swallow our first one.
                os.write(handle, b"\n" + lines)
            finally:
                os.close(handle)

    def _mac(self, body: bytes) -> bytes:
        return hmac.digest(self._key, body, "sha256").hex().encode("ascii")


def read_key(path: Path) -> bytes:
    """The key at ``path``, made (0600) when it is not there or not as we left it.

    A key that others can read or that has another length is replaced, which empties the cache. Where
    nothing can be written, a key for this process alone.
    """
    try:
        status = path.stat()
        data = read_small(path, _KEY_BYTES)
        if len(data) == _KEY_BYTES and status.st_mode & 0o077 == 0 and status.st_uid == os.getuid():
            return data
        path.unlink()
    except OSError:
        pass
    return _new_key(path)


def _new_key(path: Path) -> bytes:
    key = secrets.token_bytes(_KEY_BYTES)
    try:
        path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
        temporary = path.with_name(f"{path.name}.{os.getpid()}")
        handle = os.open(temporary, os.O_WRONLY | os.O_CREAT | os.O_EXCL, 0o600)
        try:
            os.write(handle, key)
        finally:
            os.close(handle)
        try:
            os.link(temporary, path)  # whoever was first wins, so that all agree on one key
        except FileExistsError:
            key = read_small(path, _KEY_BYTES)
        finally:
            temporary.unlink()
    except OSError:
        return key
    return key
