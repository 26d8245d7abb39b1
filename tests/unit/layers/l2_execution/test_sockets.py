"""Sockets in short folders."""

from __future__ import annotations

import shutil
import socket
import tempfile
from pathlib import Path

import pytest

from harnessctl.layers.l2_execution.sockets import (
    SOCKET_PATH_LIMIT,
    connection,
    short_folder,
    write_connection,
)


@pytest.fixture
def long_folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    folder = tmp_path / ("é" * 60)
    folder.mkdir(parents=True)
    monkeypatch.setattr(tempfile, "tempdir", str(folder))
    return folder


def test_a_long_temporary_folder_is_passed_over(long_folder: Path) -> None:
    folder = short_folder(("", str(long_folder), "/nowhere/at/all"))
    try:
        assert not folder.is_relative_to(long_folder)
        assert folder.stat().st_mode & 0o777 == 0o700
        with socket.socket(socket.AF_UNIX) as probe:
            probe.bind(f"{connection(folder)['ip']}-5")
    finally:
        shutil.rmtree(folder)


def test_length_is_counted_in_bytes(tmp_path: Path) -> None:
    base = "/tmp/" + "é" * 42
    assert len(base) < SOCKET_PATH_LIMIT - 22 < len(base.encode())
    Path(base).mkdir(exist_ok=True)
    try:
        folder = short_folder((base,))
        assert not folder.is_relative_to(base)
        shutil.rmtree(folder)
    finally:
        shutil.rmtree(base)


def test_the_key_is_private_and_new_each_time(tmp_path: Path) -> None:
    one, two = connection(tmp_path), connection(tmp_path)
    assert one["key"] != two["key"]
    assert write_connection(tmp_path, one).stat().st_mode & 0o777 == 0o600
