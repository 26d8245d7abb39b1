"""Who runs, told by start time."""

from __future__ import annotations

import os
import subprocess
import sys
from dataclasses import replace
from pathlib import Path

from harnessctl.layers.l2_execution.registration import Registration, forget, same_process, start_time


def test_a_process_is_known_by_its_start(tmp_path: Path) -> None:
    mine = Registration(os.getpid(), start_time(os.getpid()), os.getppid(), start_time(os.getppid()), "/x")
    mine.write(tmp_path)
    read = Registration.read(tmp_path)
    assert read == mine
    assert read.alive() == (os.getpid(), os.getppid())
    stranger = replace(mine, started=mine.started - 100)
    assert stranger.alive() == (os.getppid(),)
    forget(tmp_path)
    forget(tmp_path)
    assert Registration.read(tmp_path) is None


def test_a_zombie_does_not_run() -> None:
    with subprocess.Popen([sys.executable, "-c", "pass"]) as process:
        started = start_time(process.pid)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert not same_process(process.pid, started)
    assert start_time(2**31 - 1) == 0.0


def test_a_damaged_file_is_none(tmp_path: Path) -> None:
    (tmp_path / "kernel.json").write_text('{"pid": 1')
    assert Registration.read(tmp_path) is None
