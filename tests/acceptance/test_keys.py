"""Keys: a probe that finds one in a process without protection finds none in ours.

The tests run as an unprivileged user, also when the suite is root's.
"""

from __future__ import annotations

import json
import os
import shlex
import shutil
import subprocess
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.conftest import COMMAND
from tests.fakes.openai_server import Fail, FakeOpenAI, Say

pytestmark = [
    pytest.mark.kernel,
    pytest.mark.timeout(600),  # a probe looks at every file below /tmp, and some machines have many
    pytest.mark.skipif(sys.platform != "linux", reason="/proc is Linux's"),
]

#: In two halves: the whole key must stand in the planted variables alone.
#: Its own in each process of the tests: others run beside it as the same user.
HALVES = ("planted-key-", uuid.uuid4().hex)
KEY = "".join(HALVES)
PROBE = Path(__file__).with_name("probe.py").read_text()
NOBODY = 65534


@dataclass(frozen=True)
class User:
    """An unprivileged user's home and repository.

    :ivar began: when it was made, in seconds since 1970: no file of before can hold what is planted later.
    """

    home: Path
    uid: int | None
    began: float

    def environment(self, **more: str) -> dict[str, str]:
        return {
            "PATH": os.environ["PATH"],
            "HOME": str(self.home),
            "XDG_STATE_HOME": str(self.home / "state"),
            "XDG_CONFIG_HOME": str(self.home / "config"),
            "XDG_CACHE_HOME": str(self.home / "cache"),
            "TMPDIR": str(self.home / "tmp"),
            "LANG": "C.UTF-8",
            "PROBE_HALVES": " ".join(HALVES),
            "PROBE_SINCE": str(self.began - 1),  # clocks of file systems are coarse
            **more,
        }

    def start(self, *command: str, **more: str) -> subprocess.Popen[bytes]:
        return subprocess.Popen(
            command if self.uid is None else as_user(self.uid, command),
            env=self.environment(**more),
            stdout=subprocess.PIPE,
        )

    def call(self, *command: str, **more: str) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            command if self.uid is None else as_user(self.uid, command),
            cwd=self.home / "repo",
            env=self.environment(**more),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            text=True,
            check=False,
            timeout=500,
        )


def as_user(uid: int, command: tuple[str, ...]) -> list[str]:
    """``command`` as another user.

    Where the tests' Python lies below a folder that is shut to others (root's own Python in root's
    home), the command sees, in a mount namespace of its own, an open folder there with only what it needs.
    """
    drop = ["setpriv", f"--reuid={uid}", f"--regid={uid}", "--clear-groups", "--"]
    needed = [Path(sys.base_prefix), Path(sys.prefix), Path(__file__).parents[2]]
    shut = [p for place in needed for p in (place, *place.parents) if not p.stat().st_mode & 0o001]
    if not shut:
        return [*drop, *command]
    script = ["set -e", "kept=$(mktemp -d)"]
    top = min(shut, key=lambda path: len(path.parts))
    inside = [place for place in needed if place.is_relative_to(top)]
    for n, place in enumerate(inside):
        script += [f"mkdir $kept/{n}", f"mount --bind {shlex.quote(str(place))} $kept/{n}"]
    script.append(f"mount -t tmpfs -o mode=755 none {shlex.quote(str(top))}")
    for n, place in enumerate(inside):
        script += [f"mkdir -p {shlex.quote(str(place))}", f"mount --bind $kept/{n} {shlex.quote(str(place))}"]
    script.append('exec "$@"')
    return ["unshare", "--mount", "sh", "-c", "\n".join(script), "sh", *drop, *command]


@pytest.fixture
def user() -> Iterator[User]:
    home = Path(tempfile.mkdtemp(prefix="hk-user-", dir="/tmp"))
    uid = NOBODY if os.geteuid() == 0 else None
    for name in ("repo", "state", "config", "cache", "tmp"):
        (home / name).mkdir()
    (home / ".gitconfig").write_text("[user]\n\tname = A\n\temail = a@example.com\n")
    if uid is not None:
        for path in (home, *home.iterdir()):
            os.chown(path, uid, uid)
    user = User(home, uid, time.time())
    assert user.call("git", "init", "-q", ".").returncode == 0
    assert user.call("git", "commit", "-q", "--allow-empty", "-m", "first").returncode == 0
    reachable = user.call(str(COMMAND), "--help")
    assert reachable.returncode == 0, f"an unprivileged user must be able to run {COMMAND}: {reachable}"
    yield user
    shutil.rmtree(home, ignore_errors=True)


#: What of the probe takes no time.
ENVIRONMENTS = """
import os, pathlib
key = "".join(os.environ["PROBE_HALVES"].split()).encode()
for process in pathlib.Path("/proc").glob("[0-9]*"):
    try:
        if key in (process / "environ").read_bytes():
            print("environ of", (process / "comm").read_text())
    except OSError:
        pass
"""
#: A shell that stays while its argument runs below it, with the same environment.
SHELL = ("sh", "-c", '"$@"; exit $?', "sh")


def probe_in_a_run(
    user: User, server: FakeOpenAI, *options: str, below: tuple[str, ...] = ()
) -> tuple[str, str, Any]:
    """(what the probe printed, stderr, the result) of a run whose key is planted.

    :param below: the command that starts the run, with the key in its environment too.
    """
    planted = {**server.environment, "OPENAI_API_KEY": KEY}
    run = (str(COMMAND), "run", "--json", "--model", "openai/fake", *options, "look around")
    done = user.call(*below, *run, **planted)
    assert done.stdout, done.stderr
    result = json.loads(done.stdout)
    assert KEY not in done.stdout + done.stderr
    logs = list(user.home.glob("state/harnessctl/*/sessions/*/log.jsonl"))
    (log,) = logs
    text = log.read_text()
    assert KEY not in text
    told = [e for e in map(json.loads, text.splitlines()) if e["type"] == "result"]
    return (told[0]["data"]["text"] if told else ""), done.stderr, result


def test_the_probe_finds_a_key_where_nothing_protects_it(user: User) -> None:
    """The control: a process of the same user, started in the same way, with the same key."""
    code = "import os, time; key = os.environ['OPENAI_API_KEY']; print(key, flush=True); time.sleep(600)"
    victim = user.start(sys.executable, "-c", code, OPENAI_API_KEY=KEY)
    assert victim.stdout
    victim.stdout.readline()
    try:
        (user.home / "state" / "leak").write_text(KEY)
        said = user.call(sys.executable, "-c", PROBE).stdout
    finally:
        victim.kill()
        victim.communicate()
    assert f"environ of {victim.pid}" in said
    assert f"memory of {victim.pid}" in said
    assert f"file {user.home}/state/leak" in said


def test_the_probe_finds_none_in_a_run(user: User) -> None:
    with FakeOpenAI([Say("I look.", code=PROBE), Say("Done.")]) as server:
        said, _, result = probe_in_a_run(user, server)
    assert "FOUND []" in said, said
    assert result["status"] == "success"
    assert server.requests[0].headers["authorization"] == f"Bearer {KEY}"
    assert not [p for p in user.home.rglob("*") if p.is_file() and KEY.encode() in p.read_bytes()]


def test_without_the_closed_process_it_would(user: User) -> None:
    """The guard is what holds: the same run with `close_memory` taken out."""
    code = (
        "import sys, harnessctl.layers.l2_execution.protection as p; p.close_memory = lambda: False;"
        "from harnessctl.cli.main import main; main(sys.argv[1:])"
    )
    with FakeOpenAI([Say("I look.", code=PROBE), Say("Done.")]) as server:
        planted = {**server.environment, "OPENAI_API_KEY": KEY}
        user.call(sys.executable, "-c", code, "run", "--json", "--model", "openai/fake", "x", **planted)
    told = json.dumps(server.requests[1].messages)
    assert "environ of" in told
    assert "memory of" in told


def test_a_key_that_the_server_repeats_is_not_logged(user: User) -> None:
    with FakeOpenAI([Fail(401, f"Incorrect API key provided: {KEY}")]) as server:
        _, _, result = probe_in_a_run(user, server)
    assert (result["status"], result["reason"]) == ("failed", "provider_error")
    assert "Incorrect API key provided: [key]" in result["detail"]


def test_a_shell_that_holds_the_key_is_named(user: User) -> None:
    """The shell above is open to the same user: `run` says so, and names the variable."""
    with FakeOpenAI([Say("Done.")]) as server:
        done = user.call(
            "sh",
            "-c",
            f"{COMMAND} run --model openai/fake x; true",
            **{**server.environment, "OPENAI_API_KEY": KEY},
        )
    assert "has OPENAI_API_KEY in its environment" in done.stderr
    assert "Only --sandbox prevents that" in done.stderr
    assert KEY not in done.stderr


@pytest.mark.parametrize("shell", [False, True])
def test_in_the_sandbox_the_probe_finds_none(user: User, shell: bool) -> None:
    """As an unprivileged user; also below a shell that holds the key, and beside a process that does."""
    with FakeOpenAI([Say("I look.", code=PROBE), Say("Done.")]) as server:
        if shell:
            beside = user.start("sleep", "600", OPENAI_API_KEY=KEY)
        said, stderr, result = probe_in_a_run(user, server, "--sandbox", below=SHELL if shell else ())
        if shell:
            beside.kill()
            beside.communicate()
    assert "FOUND []" in said, (said, stderr)
    assert "Only --sandbox" not in stderr
    assert result["sandbox"] == {"network": True}


def test_below_a_shell_without_the_sandbox_it_would(user: User) -> None:
    """The control: a cell finds the key in the environment of a process above the run."""
    with FakeOpenAI([Say("I look.", code=ENVIRONMENTS), Say("Done.")]) as server:
        user.call(
            *SHELL,
            *(str(COMMAND), "run", "--json", "--model", "openai/fake", "look around"),
            **{**server.environment, "OPENAI_API_KEY": KEY},
        )
    assert "environ of sh" in json.dumps(server.requests[1].messages)


@pytest.mark.skipif(os.geteuid() != 0, reason="root is what it is about")
@pytest.mark.parametrize("options", [[], ["--sandbox"]])
def test_as_root(user: User, options: list[str]) -> None:
    root = replace(user, uid=None)
    os.chown(user.home / "repo", 0, 0)
    shutil.rmtree(user.home / "repo" / ".git")
    assert root.call("git", "init", "-q", ".").returncode == 0
    with FakeOpenAI([Say("I look.", code=PROBE), Say("Done.")]) as server:
        said, stderr, _ = probe_in_a_run(root, server, *options)
    if options:
        assert "FOUND []" in said, (said, stderr)
        assert "You are root" not in stderr
    else:
        assert "You are root" in stderr
        assert "Only --sandbox prevents that" in stderr
        assert "environ of" in said
