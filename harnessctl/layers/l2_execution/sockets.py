"""Where a kernel's Unix sockets stand: a short folder, private to the user."""

from __future__ import annotations

import json
import secrets
import tempfile
from collections.abc import Mapping
from pathlib import Path

from harnessctl.domain.errors import HarnessError

#: Bytes of a Unix socket path that every supported system takes: 107 on Linux, 103 on macOS.
SOCKET_PATH_LIMIT = 103
#: Name of every socket in the folder, before ``-1`` to ``-5``.
_STEM = "k"
_CHANNELS = ("shell", "iopub", "stdin", "control", "hb")


def short_folder(candidates: tuple[str, ...]) -> Path:
    """A new folder with mode 0700 whose socket paths can be bound.

    Tried in order: ``candidates``, the system's temporary folder, ``/tmp``. Length counts in bytes.

    :raises HarnessError: none is short enough or writable.
    """
    for base in (*candidates, tempfile.gettempdir(), "/tmp"):  # noqa: S108 - mkdtemp makes it private
        room = SOCKET_PATH_LIMIT - len(f"/harnessctl-abcdefgh/{_STEM}-1".encode())
        if base and len(base.encode()) <= room:
            try:
                return Path(tempfile.mkdtemp(prefix="harnessctl-", dir=base))
            except OSError:
                continue
    raise HarnessError(
        f"no folder for the kernel's sockets: the path must be at most {SOCKET_PATH_LIMIT} bytes",
        id="socket_path",
        hint="set TMPDIR to a short, writable folder",
    )


def connection(folder: Path) -> dict[str, object]:
    """Connection information for a new kernel whose sockets stand in ``folder``."""
    ports = {f"{channel}_port": n for n, channel in enumerate(_CHANNELS, start=1)}
    return {
        **ports,
        "transport": "ipc",
        "ip": str(folder / _STEM),
        "key": secrets.token_hex(32),
        "signature_scheme": "hmac-sha256",
        "kernel_name": "",
    }


def write_connection(folder: Path, info: Mapping[str, object]) -> Path:
    """Write the connection file, readable by the user alone; its path."""
    path = folder / "connection.json"
    path.touch(mode=0o600)
    path.write_text(json.dumps(info))
    return path


def bound(folder: Path) -> bool:
    """Whether the kernel has bound the sockets that cells need."""
    return all((folder / f"{_STEM}-{_CHANNELS.index(name) + 1}").exists() for name in ("shell", "iopub"))
