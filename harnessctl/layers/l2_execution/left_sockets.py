"""Folders with a kernel's sockets that sessions which were killed left in the temporary folders."""

from __future__ import annotations

import os
import re
import socket
import stat
import tempfile
import time
from collections.abc import Collection, Iterable, Mapping
from contextlib import suppress
from pathlib import Path

from harnessctl.domain.errors import HarnessError

#: As :func:`harnessctl.layers.l2_execution.sockets.short_folder` names them.
_NAME = re.compile(r"harnessctl-[a-z0-9_]{8}")
_FILES = frozenset(("connection.json",))
#: Seconds for which a folder is nobody's business: a kernel that starts has not bound its sockets yet.
STARTING_S = 300.0


def socket_bases(variables: Mapping[str, str]) -> tuple[Path, ...]:
    """Where such folders are made: ``XDG_RUNTIME_DIR`` and the temporary folder."""
    bases = (variables.get("XDG_RUNTIME_DIR", ""), tempfile.gettempdir())
    return tuple(dict.fromkeys(Path(base) for base in bases if base))


def left_folders(bases: Iterable[Path]) -> tuple[Path, ...]:
    """This user's folders of sockets directly in ``bases`` at which no process listens, sorted."""
    return tuple(sorted(path for base in bases for path in _named(base) if _is_left(path)))


def remove_left(folders: Iterable[Path]) -> None:
    """Remove the folders that are still left; nothing but sockets and connection files is taken away.

    :raises HarnessError: ``in_use``: a process listens there again.
    :raises OSError: one cannot be removed.
    """
    for folder in folders:
        if not folder.exists():
            continue
        if not _is_left(folder):
            raise HarnessError(f"{folder} is in use", id="in_use", hint="run doctor again")
        _remove(folder)


def remove_dead(folder: Path, bases: Collection[Path]) -> None:
    """Remove the folder of a kernel that has ended, if ``folder`` is such a one in ``bases``."""
    if folder.parent in bases and _NAME.fullmatch(folder.name) and _is_left(folder, 0.0):
        with suppress(OSError):
            _remove(folder)


def _remove(folder: Path) -> None:
    for path in folder.iterdir():
        path.unlink()
    folder.rmdir()


def _named(base: Path) -> list[Path]:
    try:
        return [path for path in base.iterdir() if _NAME.fullmatch(path.name)]
    except OSError:
        return []


def _is_left(folder: Path, age_s: float = STARTING_S) -> bool:
    """Whether it is this user's alone, not new, holds what we put there and no more, and nobody listens."""
    try:
        status = folder.lstat()
        if not _is_ours(status) or time.time() - status.st_mtime < age_s:
            return False
        files = list(folder.iterdir())
        modes = {path: path.lstat().st_mode for path in files}
    except OSError:
        return False
    sockets = [path for path, mode in modes.items() if stat.S_ISSOCK(mode)]
    known = {path for path, mode in modes.items() if stat.S_ISREG(mode) and path.name in _FILES}
    if not known.issuperset(modes.keys() - set(sockets)):
        return False
    return bool(files) and all(map(_is_refused, sockets))


def _is_ours(status: os.stat_result) -> bool:
    private = stat.S_ISDIR(status.st_mode) and stat.S_IMODE(status.st_mode) == 0o700
    return private and status.st_uid == os.getuid()


def _is_refused(path: Path) -> bool:
    with socket.socket(socket.AF_UNIX, socket.SOCK_STREAM) as client:
        client.settimeout(0.5)
        try:
            client.connect(str(path))
        except ConnectionRefusedError:
            return True
        except OSError:
            return False
    return False
