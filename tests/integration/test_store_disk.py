"""Disks that are full or read-only: words, and nothing half done."""

from __future__ import annotations

import os
import subprocess
import sys
from collections import Counter
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from harnessctl.cli.main import run
from harnessctl.domain.errors import HarnessError
from harnessctl.layers.l3_durable.places.operations import Operations
from tests.conftest import Git
from tests.fakes.harness import add, fsck_is_clean, land, propose, started, store_of, text_of


@pytest.fixture
def disk(tmp_path: Path) -> Iterator[Path]:
    """A small file system of its own."""
    place = tmp_path / "disk"
    place.mkdir()
    mount = ["mount", "-t", "tmpfs", "-o", "size=2m", "tmpfs", str(place)]
    if sys.platform != "linux" or os.geteuid() != 0 or subprocess.run(mount, capture_output=True).returncode:
        pytest.skip("only root mounts a file system")
    yield place
    subprocess.run(["umount", "-l", str(place)], check=True)


@pytest.fixture
def small(disk: Path) -> Git:
    """A repository with a harness on that file system."""
    git = Git(disk / "repo")
    git.root.mkdir()
    git("init", "-q", "--template=")
    git("commit", "-q", "--allow-empty", "-m", "first")
    land(started(git), "a", "one")
    return git


def fill(disk: Path, leave: int) -> Path:
    """Take all the room but about ``leave`` bytes."""
    info = os.statvfs(disk)
    path = disk / "filler"
    path.write_bytes(b"x" * max(0, info.f_bavail * info.f_frsize - leave))
    return path


@pytest.mark.parametrize("state_too", [False, True])
def test_a_full_disk_is_said_and_nothing_is_half_done(
    small: Git, disk: Path, monkeypatch: pytest.MonkeyPatch, state_too: bool
) -> None:
    if state_too:
        monkeypatch.setenv("XDG_STATE_HOME", str(disk / "state"))
    ends: Counter[str] = Counter()
    for pages in range(14):
        waiting = propose(store_of(small), "c", f"three {pages}")
        filler = fill(disk, pages * 4096)
        end = error_of(lambda: store_of(small).accept(waiting.id))  # noqa: B023 - called at once
        filler.unlink()
        ends[end] += 1
        landed = store_of(small).content(small("rev-parse", "harness")).has_record(waiting.id)
        assert landed is (end == "")
        assert [p.id for p in store_of(small).proposals()][-1:] == ([] if landed else [waiting.id])
        assert list((small.root / ".git").rglob("*.lock")) == []
        assert list((small.root / ".git/objects").glob("tmp_*")) == []
        if not landed:
            store_of(small).accept(waiting.id)
    assert ends.keys() <= {"", "write_failed", "moved_ref"}
    assert ends["write_failed"] >= 1, ends
    assert ends.total() - ends[""] >= 3, ends
    assert ends[""] >= 1
    assert fsck_is_clean(small)


def error_of(work: Callable[[], object]) -> str:
    """Id of the error that ``work`` ends with, "" for none."""
    try:
        work()
    except HarnessError as error:
        return error.id
    return ""


def test_a_full_disk_ends_the_command_with_1(
    small: Git, disk: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    proposal = propose(store_of(small), "b", "two")
    fill(disk, 0)
    monkeypatch.chdir(small.root)
    assert run(["review", "accept", proposal.id]) == 1
    said = capsys.readouterr().err
    assert "cannot write into the repository" in said
    assert "no space left" in said.lower()
    assert text_of(small, "b") is None


def test_a_lock_that_cannot_be_written_is_said_after_the_landing(
    small: Git, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    proposal = propose(store_of(small), "b", "two")
    before = (small.root / "harness.lock").read_bytes()

    def full(*_: object) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr("harnessctl.layers.l3_durable.store.write_atomically", full)
    monkeypatch.chdir(small.root)
    assert run(["review", "accept", "--pin", proposal.id]) == 1
    said = capsys.readouterr().err
    assert "harness.lock could not be written" in said
    assert "is landed" in said
    assert text_of(small, "b") == "two"
    assert (small.root / "harness.lock").read_bytes() == before


def unnoted(monkeypatch: pytest.MonkeyPatch, what: str) -> None:
    """From now on moves of ``what`` cannot be noted: the disk is full."""
    noted = Operations.moved

    def moved(self: Operations, name: str, old: str | None, new: str | None, why: str = "") -> None:
        if name == what:
            self = Operations(Path("/dev/full"))
        noted(self, name, old, new, why)

    monkeypatch.setattr(Operations, "moved", moved)


def test_a_lock_whose_move_cannot_be_noted_is_said_after_the_landing(
    repo: Git, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    proposal = propose(started(repo), "b", "two")
    before = (repo.root / "harness.lock").read_bytes()
    unnoted(monkeypatch, "harness.lock")
    monkeypatch.chdir(repo.root)
    assert run(["review", "accept", "--pin", proposal.id]) == 1
    said = capsys.readouterr().err
    assert "harness.lock could not be written: cannot write" in said
    assert "is landed" in said
    assert "nothing was moved" not in said
    assert text_of(repo, "b") == "two"
    assert (repo.root / "harness.lock").read_bytes() == before


def test_a_setting_is_not_written_before_its_note(repo: Git, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else a run's fence takes our own move for a stranger's, and the user reads that nothing was moved."""
    with monkeypatch.context() as patch:
        unnoted(patch, "harness.branch")
        with pytest.raises(HarnessError) as caught:
            started(repo)
    assert caught.value.id == "not_configured"
    assert "branch 'harness' is made" in caught.value.message
    assert repo("config", "harness.branch", check=False) == ""
    assert store_of(repo).pin().commit == repo("rev-parse", "harness"), "as the hint says"


@pytest.mark.parametrize("fresh", [False, True])
def test_a_read_only_repository_is_read_and_refuses_landings_in_words(
    small: Git, disk: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], fresh: bool
) -> None:
    """A fresh one has no id yet, and nothing that reads may need one."""
    if fresh:
        small("config", "--unset", "harness.repositoryId")
    subprocess.run(["mount", "-o", "remount,ro", str(disk)], check=True)
    monkeypatch.chdir(small.root)
    for verb in (["list", "--at", "harness"], ["show", "memory/a", "--at", "harness"], ["log"], ["status"]):
        assert run(verb) == 0, capsys.readouterr().err
    assert run(["check", "--rev", "harness"]) == 0
    capsys.readouterr()
    (disk.parent / "b.md").write_text("---\ndescription: b\n---\nb\n")
    assert run(["add", "memory/b", str(disk.parent / "b.md")]) == 1
    assert "cannot write into the repository" in capsys.readouterr().err


def test_a_state_folder_that_cannot_be_written_stops_no_reading(
    repo: Git, home: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    add(started(repo), "a", "one")
    monkeypatch.setenv("XDG_STATE_HOME", "/proc/nowhere")
    monkeypatch.chdir(repo.root)
    for verb in (["list", "--at", "harness"], ["show", "memory/a", "--at", "harness"], ["log"]):
        assert run(verb) == 0, capsys.readouterr().err
