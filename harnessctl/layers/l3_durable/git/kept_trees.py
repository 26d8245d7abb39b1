"""What runs kept of the work tree's files, and its removal with the last session that needs it."""

from __future__ import annotations

import json
import time
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

from harnessctl.domain.contents import MOST_READ
from harnessctl.domain.plain_files import read_small

#: Seconds that a file stays although nothing names it, while a session runs: its log may not name it yet.
GRACE_S = 86_400.0


def sweep(keep: Path, wanted: Collection[str], *, running: bool) -> int:
    """Remove kept states other than ``wanted``, and contents that no state left names; the bytes freed.

    :param keep: folder of :class:`harnessctl.layers.l3_durable.git.worktree.GitWorkTree`.
    :param wanted: tree hashes.
    :param running: a session runs: what is younger than :data:`GRACE_S` stays too.
    """
    before = time.time() - GRACE_S if running else float("inf")
    names = {tree.removeprefix("sha256:") for tree in wanted}
    freed = sum(_remove(path) for path in _files(keep / "trees", before) if path.name not in names)
    named = {digest for path in _files(keep / "trees", float("inf")) for digest in _digests(path)}
    return freed + sum(_remove(path) for path in _files(keep / "blobs", before) if path.name not in named)


def _files(folder: Path, before: float) -> Iterator[Path]:
    """Files below ``folder`` that were last needed before that time."""
    for path in list(folder.rglob("*")) if folder.is_dir() else ():
        with suppress(OSError):
            if path.is_file() and path.stat().st_mtime < before:
                yield path


def _digests(manifest: Path) -> Iterator[str]:
    with suppress(OSError, ValueError, AttributeError):
        yield from (row[1] for row in json.loads(read_small(manifest, MOST_READ)).values())


def _remove(path: Path) -> int:
    with suppress(OSError):
        size = path.stat().st_size
        path.unlink()
        return size
    return 0
