"""The sandbox, made by the real bubblewrap: what is writable, what is hidden, what ends with it."""

from __future__ import annotations

import asyncio
import os
import signal
import subprocess
import sys
import time
import uuid
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path

import pytest

from harnessctl.domain.errors import UsageError
from harnessctl.layers.l2_execution.sandbox import Sandbox
from tests.conftest import Git

HEARS = """
import pathlib, signal, time
signal.signal(signal.SIGINT, lambda *_: pathlib.Path("told").write_text("interrupted"))
pathlib.Path("begun").touch()
while True:
    time.sleep(0.05)
"""
pytestmark = pytest.mark.skipif(sys.platform != "linux", reason="bubblewrap is for Linux")


@pytest.fixture
def box(repo: Git, home: Path) -> Sandbox:
    state = home / "state"
    (state / "harnessctl").mkdir(parents=True)
    (state / "harnessctl" / "log.jsonl").write_text("secret history")
    return Sandbox(
        repo.root,
        home,
        git_dirs=(repo.root / ".git",),
        hidden=(state / "harnessctl",),
        shown=(Path(sys.prefix),),
    )


def sh(box: Sandbox, script: str, *writable: Path) -> subprocess.CompletedProcess[str]:
    return subprocess.run(
        box.wrap(["/bin/sh", "-c", script], writable), capture_output=True, text=True, check=False
    )


def test_the_work_tree_is_writable_and_nothing_else(box: Sandbox, home: Path, repo: Git) -> None:
    own = f"t-{uuid.uuid4()}"
    done = sh(
        box,
        f"echo hi > made.txt; git status --short; for f in .git/config .git/refs/x /usr/x /etc/x; do "
        f"(echo x >> $f) 2>/dev/null && echo wrote $f; done; echo x > {home}/x; "
        f"echo t > /tmp/{own} && cat /tmp/{own}",
    )
    assert done.stdout == "?? made.txt\nt\n", done
    assert (repo.root / "made.txt").read_text() == "hi\n"
    assert not Path("/tmp", own).exists()
    assert not (home / "x").exists()


def test_git_cannot_move_a_ref(box: Sandbox, repo: Git) -> None:
    before = repo("rev-parse", "HEAD")
    done = sh(box, "git -c user.name=x -c user.email=x commit --allow-empty -m x; git branch other")
    assert done.returncode != 0
    assert (repo("rev-parse", "HEAD"), repo("branch", "--list", "other")) == (before, "")


def test_state_and_credentials_are_not_there(box: Sandbox, home: Path) -> None:
    (home / ".ssh").mkdir()
    (home / ".ssh" / "id_ed25519").write_text("PRIVATE")
    (home / ".netrc").write_text("machine x password PRIVATE")
    seen = sh(box, f"cat {home}/.ssh/* {home}/.netrc; find {home}/state -type f").stdout
    assert seen == ""
    assert "PRIVATE" in subprocess.run(["cat", home / ".netrc"], capture_output=True, text=True).stdout


def test_no_process_of_the_machine_is_seen(box: Sandbox) -> None:
    sleeper = subprocess.Popen(["sleep", "300"], env={"PLANTED_KEY": "sk-4711"})
    look = "cat /proc/[0-9]*/environ | tr '\\0' '\\n' | grep -c 4711; ls /proc | grep -c '^[0-9]'"
    try:
        outside = subprocess.run(["/bin/sh", "-c", look], capture_output=True, text=True, check=False).stdout
        inside = sh(box, look).stdout.split()
    finally:
        sleeper.kill()
        sleeper.wait()
    assert int(outside.split()[0]) > 0
    assert inside[0] == "0"
    assert int(inside[1]) < 10


def test_no_rights_are_left_to_mount_it_away(box: Sandbox) -> None:
    done = sh(box, "mount -o remount,rw / ; umount /proc; grep CapEff /proc/self/status")
    assert "CapEff:\t0000000000000000" in done.stdout


@pytest.mark.parametrize("network", [True, False])
def test_network_by_choice(box: Sandbox, network: bool) -> None:
    import socket

    listener = socket.create_server(("127.0.0.1", 0))
    port = listener.getsockname()[1]
    code = f"import socket; socket.create_connection(('127.0.0.1', {port}), 2); print('through')"
    done = subprocess.run(
        replace(box, network=network).wrap([sys.executable, "-c", code]),
        capture_output=True,
        text=True,
        check=False,
    )
    listener.close()
    assert done.stdout == ("through\n" if network else ""), done.stderr


def test_a_writable_folder_below_what_is_emptied(box: Sandbox, tmp_path: Path) -> None:
    place = tmp_path / "sockets"
    place.mkdir()
    assert sh(box, f"echo 1 > {place}/k").returncode != 0
    assert sh(box, f"echo 1 > {place}/k", place).returncode == 0
    assert (place / "k").read_text() == "1\n"


async def test_it_survives_the_interrupt_and_ends_with_its_owner(box: Sandbox, repo: Git) -> None:
    """As a kernel does: its own handler, whatever it inherited."""
    process = subprocess.Popen(box.wrap([sys.executable, "-c", HEARS]), start_new_session=True)  # noqa: ASYNC220
    try:
        await until(lambda: (repo.root / "begun").exists())
        os.killpg(process.pid, signal.SIGINT)
        await until(lambda: (repo.root / "told").exists())
        assert process.poll() is None
    finally:
        os.killpg(process.pid, signal.SIGKILL)
        process.wait()
    assert (repo.root / "told").read_text() == "interrupted"


async def until(done: Callable[[], bool], seconds: float = 60.0) -> None:
    end = time.monotonic() + seconds
    while not done():
        assert time.monotonic() < end
        await asyncio.sleep(0.02)


def test_a_missing_bubblewrap_is_named(box: Sandbox, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    box.check()
    monkeypatch.setenv("PATH", str(tmp_path))
    with pytest.raises(UsageError) as caught:
        box.check()
    assert caught.value.id == "no_sandbox"
    assert "apt-get install bubblewrap" in caught.value.hint


def test_a_bubblewrap_that_cannot_is_named(
    box: Sandbox, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    fake = tmp_path / "bwrap"
    fake.write_text("#!/bin/sh\necho 'bwrap: No permissions to create new namespace' >&2\nexit 1\n")
    fake.chmod(0o755)
    monkeypatch.setenv("PATH", f"{tmp_path}:{os.environ['PATH']}")
    with pytest.raises(UsageError, match="No permissions to create new namespace"):
        box.check()
