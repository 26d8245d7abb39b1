"""A run whose state folder has two megabytes: it ends in order, and goes on when there is space again."""

from __future__ import annotations

import contextlib
import json
import os
import random
import shutil
import signal
import subprocess
from collections.abc import Iterator
from pathlib import Path

import pytest

from harnessctl.rlm.log import read_trajectory
from tests.acceptance.conftest import COMMAND, Run, Script
from tests.conftest import Git
from tests.fakes.killing import Round, check_history, processes_of, until, write_script

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


@pytest.mark.slow
@pytest.mark.parametrize("seed", range(3))
def test_killed_around_the_moment_when_the_disk_is_full(
    repo: Git, small: Path, tmp_path: Path, seed: int
) -> None:
    """200 turns in 2 MB: killed as it fills up, killed again on the full disk, then there is space."""
    choose, turns = random.Random(seed), 200
    model = write_script(tmp_path / "script.jsonl", turns, "\nprint('x' * 15_000)")
    played = Round(repo.root, small, model, turns, choose)
    env = {**os.environ, "XDG_STATE_HOME": str(small)}

    def begin(*arguments: str) -> subprocess.Popen[bytes]:
        command = [COMMAND, *arguments, "--json"]
        return subprocess.Popen(
            command, cwd=repo.root, env=env, stdout=subprocess.PIPE, stdin=subprocess.DEVNULL
        )

    def stopped(host: subprocess.Popen[bytes]) -> None:
        host.kill()
        out, _ = host.communicate(timeout=60)
        played.kills.append("host" if host.returncode == -signal.SIGKILL else "storage")
        assert host.returncode == -signal.SIGKILL or b"storage" in out, out
        played.session = played.folder.name
        played.seen.append(played.log.read_bytes())
        assert until(lambda: not processes_of(played.session))

    def free() -> int:
        return shutil.disk_usage(small).free

    near = choose.randrange(40, 140) * 1024  # a turn takes about 32 KiB
    host = begin("run", "--model", model, "--max-turns", "400", "go")
    assert until(lambda: host.poll() is not None or free() < near, 120)
    stopped(host)
    for _ in range(4):
        host = begin("sessions", "resume", played.session)
        with contextlib.suppress(subprocess.TimeoutExpired):
            host.wait(choose.random() * 1.5)
        stopped(host)
    assert "host" in played.kills
    assert free() < 200 * 1024
    grow(small)
    host = begin("sessions", "resume", played.session)
    out, _ = host.communicate(timeout=120)
    assert json.loads(out)["answer"] == "All done."
    played.check()


def test_without_any_space_there_is_one_error(
    harnessctl: Run, script: Script, repo: Git, small: Path
) -> None:
    with (small / "fill").open("wb") as file, pytest.raises(OSError):  # noqa: PT011 - any: it is full then
        file.write(os.urandom(4 << 20))
    env = {"XDG_STATE_HOME": str(small)}
    model = script({"content": "x"})
    done = harnessctl("run", "--json", "--model", model, "x", cwd=repo.root, env=env, code=1)
    assert done.json()["error"]["id"] == "storage"
