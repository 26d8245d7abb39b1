"""Which lock files are a dead process's, and which are never touched."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from harnessctl.layers.l3_durable.git import moving as module
from harnessctl.layers.l3_durable.git.lost_race import HeldError, LostRaceError
from harnessctl.layers.l3_durable.git.moving import ANNOUNCED, moving

ROOT = Path(__file__).parents[5]
REF = "refs/heads/harness"
NEW = "ab" * 20

MOVER = """
import os, signal, sys, time
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from harnessctl.layers.l3_durable.git.moving import moving
common, ref, new, lock, text, end = Path(sys.argv[2]), *sys.argv[3:]
with moving(common, ref, new or None):
    if lock:
        (common / lock).write_text(text)
    print("ready", flush=True)
    if end == "die":
        os.kill(os.getpid(), signal.SIGKILL)
    time.sleep(60)
"""


@pytest.fixture
def common(tmp_path: Path) -> Path:
    (tmp_path / "refs/heads").mkdir(parents=True)
    return tmp_path


def mover(common: Path, new: str, lock: str, text: str, end: str = "die") -> subprocess.Popen[bytes]:
    """A process that begins a move, makes ``lock`` with ``text``, and dies or stays."""
    command = [sys.executable, "-c", MOVER, str(ROOT), str(common), REF, new, lock, text, end]
    process = subprocess.Popen(command, stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    if end == "die":
        assert process.wait(timeout=60) == -signal.SIGKILL
        process.stdout.close()
    return process


def moves(common: Path, new: str | None = NEW) -> bool:
    """Whether a move can begin now."""
    try:
        with moving(common, REF, new):
            return True
    except LostRaceError:
        return False


def test_a_lock_with_the_announced_commit_is_removed_at_once(common: Path) -> None:
    mover(common, NEW, f"{REF}.lock", NEW + "\n")
    assert moves(common)
    assert not (common / f"{REF}.lock").exists()


@pytest.mark.parametrize(
    ("new", "lock"), [(NEW, f"{REF}.lock"), ("", f"{REF}.lock"), ("", "packed-refs.lock")]
)
def test_an_unwritten_lock_is_removed_when_it_is_old_enough(
    common: Path, monkeypatch: pytest.MonkeyPatch, new: str, lock: str
) -> None:
    monkeypatch.setattr(module, "MADE_WITHIN", 60.0)
    monkeypatch.setattr(module, "STALE", 60.0)
    mover(common, new, lock, "")
    assert not moves(common, new or None)
    assert (common / lock).exists()
    monkeypatch.setattr(module, "STALE", 0.0)
    assert moves(common, new or None)
    assert not (common / lock).exists()
    assert (common / ANNOUNCED).read_bytes() == b""


def test_a_live_process_keeps_its_lock_however_long_it_takes(
    common: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(module, "STALE", 0.0)
    monkeypatch.setattr(module, "PATIENCE", 0.2)
    process = mover(common, NEW, f"{REF}.lock", "", "stay")
    os.kill(process.pid, signal.SIGSTOP)
    assert not moves(common)
    assert (common / f"{REF}.lock").exists()
    process.kill()
    process.communicate()
    assert moves(common)


@pytest.mark.parametrize("within", [module.MADE_WITHIN, 1e9])
def test_a_lock_that_somebody_made_later_is_not_the_dead_ones(
    common: Path, monkeypatch: pytest.MonkeyPatch, within: float
) -> None:
    """With the bound on when it was made taken out, it would be removed."""
    monkeypatch.setattr(module, "MADE_WITHIN", within)
    mover(common, NEW, "", "")
    begun = (common / ANNOUNCED).stat().st_mtime
    lock = common / f"{REF}.lock"
    lock.touch()
    os.utime(common / ANNOUNCED, (begun - 60, begun - 60))
    os.utime(lock, (begun - 30, begun - 30))
    assert moves(common) is (within == 1e9)
    assert lock.exists() is (within != 1e9)


def test_a_lock_with_another_commit_is_not_the_dead_ones(common: Path) -> None:
    mover(common, NEW, f"{REF}.lock", "cd" * 20 + "\n")
    old = time.time() - 60
    os.utime(common / f"{REF}.lock", (old, old))
    assert not moves(common)
    assert (common / f"{REF}.lock").exists()


def test_a_lock_that_was_there_first_is_named_and_nothing_is_announced(common: Path) -> None:
    lock = common / f"{REF}.lock"
    lock.touch()
    with pytest.raises(HeldError) as caught, moving(common, REF, NEW):
        pass
    assert caught.value.lock == lock
    assert (common / ANNOUNCED).read_bytes() == b""
    os.utime(lock, (0, 0))
    assert not moves(common)


def test_a_torn_announcement_is_none(common: Path) -> None:
    (common / ANNOUNCED).write_bytes(b"refs/heads/har")
    lock = common / "refs/heads/har.lock"
    lock.touch()
    assert moves(common)
    assert lock.exists()
