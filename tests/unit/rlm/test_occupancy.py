"""One session a work tree, whatever became of the last one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from harnessctl.rlm.occupancy import OccupiedError, occupied

HOLD = """
import sys, time
from pathlib import Path
from harnessctl.rlm.occupancy import occupied
with occupied(Path(sys.argv[1]), Path(sys.argv[2]), "FIRST"):
    print("held", flush=True)
    time.sleep(60)
"""


def test_a_second_session_is_refused_by_name_until_the_first_is_gone(tmp_path: Path) -> None:
    state, root = tmp_path / "state", tmp_path / "work"
    root.mkdir()
    holder = subprocess.Popen([sys.executable, "-c", HOLD, state, root], stdout=subprocess.PIPE)
    assert holder.stdout is not None
    assert holder.stdout.readline() == b"held\n"
    with pytest.raises(OccupiedError) as refused, occupied(state, root, "SECOND"):
        pass
    assert f"session FIRST (process {holder.pid})" in refused.value.message
    assert "--worktree" in refused.value.hint
    with occupied(state, tmp_path, "OTHER"):
        pass  # another work tree is free
    os.kill(holder.pid, signal.SIGKILL)
    holder.communicate()
    with occupied(state, root, "SECOND"):
        pass


def test_two_paths_to_one_work_tree_are_one(tmp_path: Path) -> None:
    root, link = tmp_path / "work", tmp_path / "link"
    root.mkdir()
    link.symlink_to(root)
    with (
        occupied(tmp_path / "s", root, "A"),
        pytest.raises(OccupiedError),
        occupied(tmp_path / "s", link, "B"),
    ):
        pass
