"""Which folders of sockets count as left, with real sockets in them."""

from __future__ import annotations

import os
import socket
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from harnessctl.domain.errors import HarnessError
from harnessctl.layers.l2_execution.left_sockets import STARTING_S, left_folders, remove_left


@pytest.fixture
def base() -> Iterator[Path]:
    """A short folder: socket paths have a limit."""
    with tempfile.TemporaryDirectory(prefix="hs-") as name:
        yield Path(name)


def bound(path: Path) -> socket.socket:
    server = socket.socket(socket.AF_UNIX)
    server.bind(str(path))
    server.listen(1)
    return server


def age(folder: Path) -> None:
    os.utime(folder, (time.time() - STARTING_S - 60,) * 2)


def left(base: Path, name: str = "harnessctl-ab12cd_f") -> Path:
    """As a killed session leaves it."""
    folder = base / name
    folder.mkdir(mode=0o700)
    (folder / "connection.json").write_text("{}")
    for stem in ("k-1", "door"):
        bound(folder / stem).close()
    age(folder)
    return folder


def test_a_left_folder_is_found_and_removed(base: Path) -> None:
    folder = left(base)
    assert left_folders([base]) == (folder,)
    remove_left([folder])
    assert list(base.iterdir()) == []


def test_a_folder_where_a_process_listens_is_left_alone(base: Path) -> None:
    folder = left(base)
    (folder / "k-1").unlink()
    with bound(folder / "k-1"):
        age(folder)
        assert left_folders([base]) == ()
        with pytest.raises(HarnessError):
            remove_left([folder])
        assert len(list(folder.iterdir())) == 3


@pytest.mark.parametrize("what", ["young", "open", "strange file", "folder in it", "link", "other name"])
def test_what_is_not_surely_ours_and_old_is_left_alone(base: Path, what: str) -> None:
    folder = left(base, "harnessctl-config-1" if what == "other name" else "harnessctl-ab12cd_f")
    if what == "young":
        os.utime(folder)
    elif what == "open":
        folder.chmod(0o755)
    elif what == "strange file":
        (folder / "notes.txt").write_text("mine")
    elif what == "folder in it":
        (folder / "connection.json").unlink()
        (folder / "connection.json").mkdir()
    elif what == "link":
        folder.rename(base / "elsewhere")
        folder.symlink_to(base / "elsewhere")
    if what != "young" and what != "link":
        age(folder)
    assert left_folders([base]) == ()
