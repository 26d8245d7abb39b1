"""The installed command in a hermetic home."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

COMMAND = Path(sys.executable).parent / "harnessctl"


@dataclass(frozen=True)
class Done:
    """What one call of the command left."""

    code: int
    out: str
    err: str

    def json(self) -> Any:
        return json.loads(self.out)


Run = Callable[..., Done]


def outside_pytest() -> dict[str, str]:
    """The environment without pytest's mark: ipykernel does not watch file descriptors where it sees it."""
    return {name: value for name, value in os.environ.items() if name != "PYTEST_CURRENT_TEST"}


@pytest.fixture
def harnessctl(home: Path) -> Run:
    """``harnessctl(*args, cwd=..., env=..., input=..., code=0)``; fails the test on another exit code."""

    def call(
        *args: str | Path,
        cwd: Path,
        env: dict[str, str] | None = None,
        input: str = "",  # noqa: A002 - as in subprocess
        code: int | None = 0,
        timeout: float = 120,
    ) -> Done:
        own = {}
        if "doctor" in args[:1]:  # it looks into the temporary folder, where other tests have theirs
            (home / "tmp").mkdir(exist_ok=True)
            own = {"TMPDIR": str(home / "tmp")}
        done = subprocess.run(
            [COMMAND, *map(str, args)],
            cwd=cwd,
            env={**outside_pytest(), **own, **(env or {})},
            input=input.encode(),
            capture_output=True,
            timeout=timeout,
            check=False,
        )
        result = Done(
            done.returncode, done.stdout.decode(errors="replace"), done.stderr.decode(errors="replace")
        )
        if code is not None:
            assert result.code == code, f"harnessctl {' '.join(map(str, args))}: {result}"
        return result

    return call


class Script:
    """Writes ``scripted:`` files."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.count = 0

    def __call__(self, *lines: dict[str, Any]) -> str:
        self.count += 1
        path = self.folder / f"script-{self.count}.jsonl"
        path.write_text("".join(json.dumps(line) + "\n" for line in lines))
        return f"scripted:{path}"


@pytest.fixture
def script(tmp_path: Path) -> Script:
    """``script({...}, {...})`` gives a model name that plays these replies."""
    return Script(tmp_path)


@dataclass(frozen=True)
class Logs:
    """Reads session logs without harnessctl's own code."""

    state: Path

    def newest(self) -> list[dict[str, Any]]:
        """Events of the newest session's log, without one that is being written."""
        logs = sorted(self.state.glob("harnessctl/*/sessions/*/log.jsonl"), key=lambda p: p.parent.name)
        return [json.loads(line) for line in logs[-1].read_bytes().rpartition(b"\n")[0].splitlines()]

    def first_request(self) -> str:
        """The newest session's first request, as text."""
        return json.dumps(next(e for e in self.newest() if e["type"] == "request")["data"]["append"])


@pytest.fixture
def logs(home: Path) -> Logs:
    """Logs below the hermetic state directory."""
    return Logs(home / "state")
