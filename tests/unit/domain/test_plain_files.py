"""Files that may be something else: never waited for, never read without end."""

from __future__ import annotations

import os
import threading
import time
from pathlib import Path

import pytest

from harnessctl.domain.plain_files import NotPlainError, make, opened, read_small, remove_folder
from tests.fakes.odd_files import NOT_PLAIN, ODD

pytestmark = pytest.mark.timeout(30)


@pytest.mark.parametrize("odd", NOT_PLAIN)
@pytest.mark.parametrize(
    "flags", [os.O_RDONLY, os.O_WRONLY | os.O_APPEND | os.O_CREAT, os.O_RDWR, os.O_WRONLY | os.O_TRUNC]
)
def test_what_is_no_plain_file_is_not_opened(tmp_path: Path, odd: str, flags: int) -> None:
    ODD[odd](path := tmp_path / "x")
    before = set(os.listdir("/proc/self/fd"))
    with pytest.raises(NotPlainError) as raised:
        opened(path, flags)
    assert raised.value.strerror == "Is a directory" if odd == "folder" else odd in str(raised.value.strerror)
    assert set(os.listdir("/proc/self/fd")) <= before


def test_a_plain_file_is_read_up_to_its_limit(tmp_path: Path) -> None:
    (path := tmp_path / "x").write_bytes(b"12345")
    assert read_small(path, 5) == b"12345"
    with pytest.raises(OSError, match="too large: 5 bytes, and 4 are read"):
        read_small(path, 4)
    assert read_small("/dev/null", 4) == b""
    assert read_small("/proc/self/stat", 100_000), "one that does not tell its size"
    with pytest.raises(OSError, match="too large"):
        read_small("/proc/self/stat", 4)
    with pytest.raises(FileNotFoundError):
        read_small(tmp_path / "absent", 5)


@pytest.mark.parametrize("odd", ODD)
def test_what_stands_in_the_place_of_a_folder_goes_without_being_opened(tmp_path: Path, odd: str) -> None:
    ODD[odd](path := tmp_path / "x")
    remove_folder(path)
    assert not os.path.lexists(path)
    ((target := tmp_path / "target") / "kept").mkdir(parents=True)
    path.symlink_to(target)
    remove_folder(path)
    assert not os.path.lexists(path)
    remove_folder(path)
    assert (target / "kept").is_dir()


@pytest.mark.parametrize("odd", ODD)
def test_what_is_not_small_is_not_read(tmp_path: Path, odd: str) -> None:
    ODD[odd](path := tmp_path / "x")
    with pytest.raises(OSError, match="x"):
        read_small(path, 1_000)


@pytest.mark.parametrize("first", [0.0, 0.3])
def test_a_pipe_that_is_handed_over_is_read_to_its_end(tmp_path: Path, first: float) -> None:
    os.mkfifo(path := tmp_path / "x")

    def write() -> None:
        time.sleep(first)
        with path.open("wb") as file:
            for _ in range(3):
                file.write(b"1" * 100_000)
                file.flush()
                time.sleep(0.1)

    writer = threading.Thread(target=write)
    writer.start()
    assert read_small(path, 300_000, patience=10) == b"1" * 300_000
    writer.join()


def test_a_pipe_that_stays_open_is_given_up(tmp_path: Path) -> None:
    os.mkfifo(path := tmp_path / "x")
    for hold in (False, True):
        held = os.open(path, os.O_RDWR) if hold else -1
        with pytest.raises(TimeoutError, match="pipe"):
            read_small(path, 10, patience=0.2)
        if hold:
            os.write(held, b"1" * 11)
            with pytest.raises(OSError, match="too large"):
                read_small(path, 10, patience=5)
            os.close(held)


@pytest.mark.parametrize("odd", [name for name in ODD if name != "folder"])
def test_a_new_file_takes_the_place_of_what_stood_there(tmp_path: Path, odd: str) -> None:
    ODD[odd](path := tmp_path / "x")
    with make(path) as file:
        file.write(b"new")
    assert path.read_bytes() == b"new"
    assert not path.is_symlink()


def test_a_new_file_is_not_written_through_a_link(tmp_path: Path) -> None:
    (kept := tmp_path / "kept").write_text("kept")
    (tmp_path / "x").symlink_to(kept)
    make(tmp_path / "x").close()
    assert kept.read_text() == "kept"
