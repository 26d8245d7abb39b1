"""The weights: joined once, checked, never half a file."""

from __future__ import annotations

import errno
import hashlib
import os
from pathlib import Path

import pytest

from harnessctl.domain.errors import HarnessError, MissingExtraError, UsageError
from harnessctl.models import local_weights
from harnessctl.models.local_weights import Weights, cached_weights, installed_parts

CONTENT = bytes(range(256)) * 40
TINY = Weights("tiny", len(CONTENT), hashlib.sha256(CONTENT).hexdigest(), "harnessctl_test_part", 3)


@pytest.fixture
def packages(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """Three packages that hold the slices, on the import path."""
    folder = tmp_path / "site"
    third = len(CONTENT) // 3
    for number, start in enumerate((0, third, 2 * third), start=1):
        data = folder / f"{TINY.prefix}{number}" / "data"
        data.mkdir(parents=True)
        (data.parent / "__init__.py").write_text("raise ImportError('must not be imported')")
        end = len(CONTENT) if number == 3 else start + third
        (data / f"part{number:02d}.bin").write_bytes(CONTENT[start:end])
    monkeypatch.syspath_prepend(str(folder))
    return folder


def join(cache: Path, heard: list[tuple[str, int, int]] | None = None) -> Path:
    def told(what: str, done: int, total: int) -> None:
        if heard is not None:
            heard.append((what, done, total))

    return cached_weights(cache, told, TINY)


def leftovers(cache: Path) -> set[str]:
    return {p.suffix for p in (cache / "models").iterdir()}


def test_joined_in_order_with_progress(packages: Path, tmp_path: Path) -> None:
    """The whole file, told as it grows."""
    heard: list[tuple[str, int, int]] = []
    path = join(tmp_path / "cache", heard)
    assert path.read_bytes() == CONTENT
    assert heard[-1] == ("joining the weights", len(CONTENT), len(CONTENT))
    assert [done for _, done, _ in heard] == sorted(done for _, done, _ in heard)


def test_the_second_time_costs_nothing(packages: Path, tmp_path: Path) -> None:
    """Neither joined nor hashed again, and the packages are not needed."""
    first = join(tmp_path / "cache")
    for part in packages.rglob("*.bin"):
        part.unlink()
    heard: list[tuple[str, int, int]] = []
    assert join(tmp_path / "cache", heard) == first
    assert heard == []


def test_a_touched_file_is_hashed_again_and_kept(packages: Path, tmp_path: Path) -> None:
    """Another time stamp, the same bytes: checked, not joined."""
    path = join(tmp_path / "cache")
    os.utime(path, (1, 1))
    heard: list[tuple[str, int, int]] = []
    join(tmp_path / "cache", heard)
    assert {what for what, _, _ in heard} == {"checking the weights"}


def test_a_damaged_cache_is_joined_again(packages: Path, tmp_path: Path) -> None:
    """One flipped byte of the same length does not get through."""
    path = join(tmp_path / "cache")
    damaged = bytearray(CONTENT)
    damaged[5000] ^= 1
    path.write_bytes(damaged)
    os.utime(path, (1, 1))
    assert join(tmp_path / "cache").read_bytes() == CONTENT


def test_wrong_slices_are_refused(packages: Path, tmp_path: Path) -> None:
    """The digest is pinned; nothing stays behind."""
    part = packages / f"{TINY.prefix}2" / "data" / "part02.bin"
    part.write_bytes(b"x" * part.stat().st_size)
    with pytest.raises(HarnessError, match=f"expected {TINY.sha256}") as caught:
        join(tmp_path / "cache")
    assert caught.value.id == "weights_wrong"
    assert leftovers(tmp_path / "cache") == {".lock"}


def test_no_slices_name_the_extra() -> None:
    """Nothing installed: the command that adds it."""
    with pytest.raises(MissingExtraError) as caught:
        installed_parts(TINY)
    assert caught.value.hint == "from a clone of harnessctl: pip install '.[local]'"


def test_a_missing_slice_is_named(packages: Path) -> None:
    """Some installed: which are not."""
    (packages / f"{TINY.prefix}2" / "data" / "part02.bin").unlink()
    with pytest.raises(UsageError, match="harnessctl-test-part2 not installed"):
        installed_parts(TINY)


def test_a_full_disk_is_said_before_it_fills(
    packages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Too little room: refused, with the folder named."""
    usage = type("usage", (), {"free": 100})
    monkeypatch.setattr(local_weights.shutil, "disk_usage", lambda _: usage)
    with pytest.raises(HarnessError, match=r"not enough space in .*/cache/models") as caught:
        join(tmp_path / "cache")
    assert caught.value.id == "disk_full"


def test_a_disk_that_fills_meanwhile(packages: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The same words, and no half file stays."""

    def full(fd: int) -> None:
        raise OSError(errno.ENOSPC, os.strerror(errno.ENOSPC))

    monkeypatch.setattr(local_weights.os, "fsync", full)
    with pytest.raises(HarnessError) as caught:
        join(tmp_path / "cache")
    assert caught.value.id == "disk_full"
    assert leftovers(tmp_path / "cache") == {".lock"}
