"""A run whose state folder has two megabytes: it ends in order, and goes on when there is space again."""

from __future__ import annotations

import os
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from harnessctl.rlm.log import read_trajectory
from tests.acceptance.conftest import Run, Script
from tests.conftest import Git
from tests.fakes.killing import check_history

pytestmark = pytest.mark.kernel


@pytest.fixture
def small(tmp_path: Path) -> Iterator[Path]:
    """A file system of 2 MB; only root can make one."""
    path = tmp_path / "small"
    path.mkdir()
    made = subprocess.run(
        ["mount", "-t", "tmpfs", "-o", "size=2m", "none", path], capture_output=True, check=False
    )
    if made.returncode:
        pytest.skip("a small file system needs the right to mount")
    yield path
    subprocess.run(["umount", "-l", path], check=True)


def grow(path: Path) -> None:
    subprocess.run(["mount", "-o", "remount,size=40m", path], check=True)


def steps(printed: int, count: int = 80) -> list[dict[str, str]]:
    code = "open('trace', 'a').write('{k}\\n')\nv{k} = {k}\nprint('x' * {n})"
    lines = [{"content": f"step {k}", "code": code.format(k=k, n=printed)} for k in range(1, count + 1)]
    return [*lines, {"content": "All done."}]


@pytest.mark.parametrize(
    ("printed", "left_kb"), [(15_000, 2048), (200_000, 2048), (15_000, 90), (15_000, 120)]
)
def test_it_ends_as_storage_and_is_picked_up(
    harnessctl: Run, script: Script, repo: Git, small: Path, printed: int, left_kb: int
) -> None:
    env = {"XDG_STATE_HOME": str(small)}
    (small / "fill").write_bytes(os.urandom((2048 - left_kb) * 1024))
    model = script(*steps(printed))
    options = ("--json", "--max-turns", "200", "--model", model, "go")
    result = harnessctl("run", *options, cwd=repo.root, env=env, code=1).json()
    assert (result["status"], result["reason"]) == ("failed", "storage")
    folder = next(small.glob(f"harnessctl/*/sessions/{result['session']}"))
    old = (folder / "log.jsonl").read_bytes()
    before = read_trajectory(folder)
    assert not before.damage
    assert before.events[-1].data["reason"] == "storage"

    harnessctl("sessions", "resume", "--json", cwd=repo.root, env=env, code=1)
    assert (folder / "log.jsonl").read_bytes().startswith(old)

    grow(small)
    done = harnessctl("sessions", "resume", "--json", cwd=repo.root, env=env).json()
    assert done["answer"] == "All done."
    assert (folder / "log.jsonl").read_bytes().startswith(old)
    lines = (repo.root / "trace").read_text().split()
    assert lines == sorted(set(lines), key=int)
    assert len(lines) >= 79
    trajectory = read_trajectory(folder)
    assert not trajectory.damage
    check_history(trajectory.events)


def test_without_any_space_there_is_one_error(
    harnessctl: Run, script: Script, repo: Git, small: Path
) -> None:
    with (small / "fill").open("wb") as file, pytest.raises(OSError):  # noqa: PT011 - any: it is full then
        file.write(os.urandom(4 << 20))
    env = {"XDG_STATE_HOME": str(small)}
    model = script({"content": "x"})
    done = harnessctl("run", "--json", "--model", model, "x", cwd=repo.root, env=env, code=1)
    assert done.json()["error"]["id"] == "storage"
