"""Who runs, told by start time."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import replace
from pathlib import Path

import pytest

from harnessctl.config import KERNEL_MARK
from harnessctl.layers.l2_execution.registration import (
    Registration,
    end_left_over,
    forget,
    same_process,
    start_time,
)


@contextmanager
def sleeping(variable: str) -> Iterator[int]:
    """The id of a process with that variable in its environment."""
    command = [sys.executable, "-c", "import time; print(flush=True); time.sleep(600)"]
    with subprocess.Popen(command, env={**os.environ, variable: "s"}, stdout=subprocess.PIPE) as process:
        assert process.stdout is not None
        process.stdout.readline()
        yield process.pid
        process.kill()


def test_a_process_is_known_by_its_start_and_its_mark(tmp_path: Path) -> None:
    """Whoever writes the file can name any process; its environment was given when it started."""
    with sleeping(KERNEL_MARK) as kernel, sleeping("OTHER") as stranger:
        known = Registration(kernel, start_time(kernel), stranger, start_time(stranger), "/x")
        known.write(tmp_path)
        assert Registration.read(tmp_path) == known
        assert known.alive() == (kernel,)
        assert replace(known, started=known.started - 100).alive() == ()
        assert end_left_over(tmp_path, "s") == 1
        assert start_time(stranger)
    forget(tmp_path)
    assert Registration.read(tmp_path) is None


def test_nobody_ends_what_it_descends_from(tmp_path: Path) -> None:
    code = (
        "import sys\nfrom pathlib import Path\n"
        "from harnessctl.layers.l2_execution.registration import end_left_over\n"
        "print(end_left_over(Path(sys.argv[1]), 's'))"
    )
    command = [sys.executable, "-c", code, str(tmp_path)]
    outer = f"import subprocess; print('lives', subprocess.run({command!r}))"
    environment = {**os.environ, KERNEL_MARK: "s"}
    done = subprocess.run(
        [sys.executable, "-c", outer], env=environment, capture_output=True, text=True, check=True
    )
    assert done.stdout.startswith("0\nlives"), done


def test_a_zombie_does_not_run() -> None:
    with subprocess.Popen([sys.executable, "-c", "pass"]) as process:
        started = start_time(process.pid)
        os.waitid(os.P_PID, process.pid, os.WEXITED | os.WNOWAIT)
        assert not same_process(process.pid, started)
    assert start_time(2**31 - 1) == 0.0


@pytest.mark.parametrize(
    "text",
    [
        '{"pid": 1',
        "[" * 60_000,
        *(
            json.dumps({"pid": 7, "started": 1.0, "guard": 8, "guard_started": 1.0, "folder": "", **wrong})
            for wrong in (
                {"pid": -1},
                {"pid": "7"},
                {"pid": float("inf")},
                {"pid": 10**30},
                {"guard": True},
                {"started": "now"},
                {"started": float("nan")},
                {"folder": None},
                {"more": 1},
            )
        ),
    ],
)
def test_a_damaged_file_is_none(tmp_path: Path, text: str) -> None:
    (tmp_path / "kernel.json").write_text(text)
    assert Registration.read(tmp_path) is None
