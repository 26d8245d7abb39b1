"""What `list` and `check --staged` must not do: open a socket, or load what only runs need."""

from __future__ import annotations

import json
import os
import subprocess
import sys

import pytest

from tests.acceptance.conftest import Run
from tests.conftest import Git

PROBE = """
import json, sys
sockets = []
sys.addaudithook(lambda event, args: sockets.append(event) if event.startswith("socket.") else None)
from harnessctl.cli.main import run
code = run(sys.argv[1:])
heavy = [m for m in ("litellm", "openai", "jupyter_client", "httpx", "ipykernel", "rich") if m in sys.modules]
print("PROBE" + json.dumps({"code": code, "sockets": sockets, "heavy": heavy}), file=sys.stderr)
"""


def probe(git: Git, *args: str) -> dict[str, object]:
    done = subprocess.run(
        [sys.executable, "-c", PROBE, *args],
        cwd=git.root,
        env=os.environ,
        capture_output=True,
        text=True,
        check=True,
    )
    return dict(json.loads(done.stderr.split("PROBE")[-1]))


@pytest.mark.parametrize(
    "args", [("list",), ("list", "--json"), ("check", "--staged"), ("prompt",), ("--help",)]
)
def test_no_socket_and_nothing_heavy(harnessctl: Run, repo: Git, args: tuple[str, ...]) -> None:
    harnessctl("init", cwd=repo.root)
    harnessctl("add", "memory/x", cwd=repo.root, input="---\ndescription: a lesson\n---\nBody\n")
    repo.write(".harness/memory/staged.md", "---\ndescription: staged\n---\n")
    repo("add", "-A")
    assert probe(repo, *args) == {"code": 0, "sockets": [], "heavy": []}


def test_the_probe_sees_a_socket() -> None:
    code = PROBE.replace("code = run(sys.argv[1:])", "import socket; socket.socket(); code = 0")
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert "socket.__new__" in done.stderr
