"""Children in real sessions: real kernels, a scripted model, one tree."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import psutil
import pytest
from jsonschema import Draft202012Validator

from harnessctl.commands.building import RunPorts, RunSpec
from harnessctl.commands.run import RunOutcome, run
from harnessctl.domain.event import Event
from harnessctl.domain.limits import Limits
from harnessctl.domain.pin import Pin, PinSource
from harnessctl.domain.snapshot import Snapshot
from harnessctl.layers.l2_execution.python import PythonChoice
from harnessctl.rlm.clock import SystemClock
from harnessctl.rlm.interrupts import Interrupts
from harnessctl.rlm.log import read_trajectory
from harnessctl.rlm.result import result_schema
from tests.fakes.runtime import PlainTree, SeenWatcher, StillFence
from tests.fakes.sessions import scripted

pytestmark = pytest.mark.kernel

PIN = Pin(PinSource.EMPTY, "harness", "", "", "sha256:0")


class Tree:
    """A folder, a script, and the sessions that a run there left."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "work"
        self.root.mkdir()
        self.watcher = SeenWatcher()
        self.interrupts = Interrupts()
        self.sessions = folder / "state" / "repo" / "sessions"
        self.outcome: RunOutcome

    async def run(
        self, *lines: dict[str, Any], snapshot: Snapshot | None = None, **more: Any
    ) -> dict[str, Any]:
        spec = RunSpec(
            "do it",
            PythonChoice(sys.executable, "harnessctl's own"),
            more.pop("limits", Limits()),
            variables=dict(os.environ),
        )
        tree = PlainTree(self.root)
        model = scripted(self.folder, *lines)
        ports = RunPorts(model, tree, StillFence(), SystemClock(), self.watcher, self.interrupts, **more)
        self.outcome = await run(
            spec,
            snapshot or Snapshot(),
            PIN,
            ports,
            state_dir=self.sessions.parent,
            machine_dir=self.sessions.parent.parent,
        )
        result = self.outcome.result.to_json()
        Draft202012Validator(result_schema()).validate(result)
        assert not left_running(self.sessions)
        return result

    def log(self, name: str = "root") -> tuple[Event, ...]:
        """The log of the session called ``name``."""
        for folder in self.sessions.iterdir():
            trajectory = read_trajectory(folder)
            assert not trajectory.damage
            if trajectory.events[0].data["name"] == name:
                return trajectory.events
        raise AssertionError(f"no session {name}")

    def of(self, kind: str, name: str = "root") -> list[dict[str, Any]]:
        return [dict(e.data) for e in self.log(name) if e.type == kind]

    def printed(self, name: str = "root") -> str:
        return "".join(str(e["text"]) for e in self.of("result", name))


def left_running(sessions: Path) -> list[int]:
    """Processes that belong to a session below ``sessions``."""
    names = {folder.name for folder in sessions.iterdir()}
    found = []
    for process in psutil.process_iter():
        try:
            mark = process.environ().get("HARNESSCTL_KERNEL")
        except (psutil.Error, OSError):
            continue
        if mark in names and process.status() != psutil.STATUS_ZOMBIE:
            found.append(process.pid)
    return found


@pytest.fixture
def tree(tmp_path: Path) -> Tree:
    return Tree(tmp_path)


async def test_a_child_works_and_answers(tree: Tree) -> None:
    ask = (
        "h = rlm('count the files', name='alice')\nprint(repr(h), h.state)\nprint(await h)\nprint(rlm.list())"
    )
    result = await tree.run(
        {"content": "I ask.", "code": ask},
        {"content": "Done."},
        {"for": "alice", "content": "I look.", "code": "x = 6 * 7\nprint(x)"},
        {"for": "alice", "content": "There are 42."},
    )
    assert result["answer"] == "Done."
    assert "There are 42." in tree.printed()
    assert set(result["usage"]["nodes"]) == {"root", "root/alice"}
    total = result["usage"]["total"]
    assert total["tokens"] == sum(n["tokens"] for n in result["usage"]["nodes"].values())
    header = tree.of("header", "alice")[0]
    assert (header["parent"], header["depth"]) == (result["session"], 1)
    states = [(c["name"], c["state"]) for c in tree.of("child")]
    assert states == [("alice", "started"), ("alice", "done")]
    assert "42" in tree.printed("alice")
