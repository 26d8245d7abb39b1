"""The lock file: read, written, and refused with words."""

from __future__ import annotations

from pathlib import Path

import pytest

from harnessctl.domain.errors import ConflictError, UsageError
from harnessctl.domain.pin import Lock
from harnessctl.layers.l3_durable.files.lock import (
    conflicting_commits,
    parse_lock,
    read_lock,
    render_lock,
    write_atomically,
)

LOCK = Lock(1, 'we"ird\\name', "a" * 40, "b" * 40, "sha256:" + "c" * 64)


def test_what_is_written_reads_back() -> None:
    assert parse_lock(render_lock(LOCK)) == LOCK


def test_conflict_markers_are_named_with_the_way_out() -> None:
    ours, theirs = (render_lock(Lock(1, "h", c * 40, "b" * 40, LOCK.entries)).decode() for c in "ad")
    data = f"<<<<<<< HEAD\n{ours}=======\n{theirs}>>>>>>> side\n".encode()
    with pytest.raises(ConflictError) as caught:
        parse_lock(data)
    assert caught.value.id == "lock_conflict"
    assert "pin --resolve" in caught.value.hint
    assert conflicting_commits(data) == ("a" * 40, "d" * 40)


@pytest.mark.parametrize(
    "data",
    [
        b"",
        b"schema = 1\n",
        b"schema = 2\nbranch='h'\ncommit='" + b"a" * 40 + b"'\n",
        b"not toml",
        b"\xff",
        render_lock(LOCK).replace(b"sha256:", b"md5:"),
        render_lock(LOCK).replace(b"a" * 40, b"HEAD"),
    ],
)
def test_anything_else_is_a_bad_lock(data: bytes, tmp_path: Path) -> None:
    with pytest.raises(UsageError) as caught:
        parse_lock(data)
    assert caught.value.id == "bad_lock"
    path = tmp_path / "harness.lock"
    path.write_bytes(data)
    assert read_lock(path, tolerant=True) is None


def test_a_write_that_fails_leaves_the_old_file_and_nothing_else(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    path = tmp_path / "harness.lock"
    path.write_bytes(b"old")
    monkeypatch.setattr("os.fsync", _fail)
    with pytest.raises(OSError, match="disk"):
        write_atomically(path, b"new")
    assert [p.name for p in tmp_path.iterdir()] == ["harness.lock"]
    assert path.read_bytes() == b"old"


def _fail(handle: int) -> None:
    raise OSError(28, "disk full")
