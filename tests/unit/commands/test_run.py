"""``run`` as a use case: what it refuses, what it leaves behind."""

from __future__ import annotations

import json
import os
import sys
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest
from jsonschema import Draft202012Validator

from harnessctl.commands.loading import check_loads
from harnessctl.commands.run import KERNEL_RIGHTS, RunOutcome, RunPorts, RunSpec, run
from harnessctl.domain.entry import Entry, EntryFile
from harnessctl.domain.errors import ExitCode, HarnessError, UsageError
from harnessctl.domain.finding import Finding, Severity
from harnessctl.domain.ids import EntryId
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

PIN = Pin(PinSource.EMPTY, "harness", "", "", "sha256:0")
BROKEN = Finding(
    "HRN101", Severity.ERROR, ".harness/memory/pref.md", "byte 18 is not UTF-8", line=2, column=7
)


def memory(name: str, description: str) -> Entry:
    found = EntryId.parse(name)
    text = f"---\ndescription: {description}\n---\nBody.\n"
    return Entry(
        found, (EntryFile(found.path, 0o100644, text.encode()),), {"description": description}, "Body.\n"
    )


class Here:
    """A place to run in."""

    def __init__(self, folder: Path) -> None:
        self.folder = folder
        self.root = folder / "work"
        self.root.mkdir()
        self.watcher = SeenWatcher()
        self.fence = StillFence()

    async def run(self, *lines: dict[str, Any], snapshot: Snapshot | None = None, **more: Any) -> RunOutcome:
        spec = replace(
            RunSpec(
                "do it",
                PythonChoice(sys.executable, "harnessctl's own"),
                Limits(),
                variables=dict(os.environ),
            ),
            **more,
        )
        model = scripted(self.folder, *lines)
        tree = PlainTree(self.root)
        ports = RunPorts(model, tree, self.fence, SystemClock(), self.watcher, Interrupts())
        return await run(
            spec,
            snapshot or Snapshot(),
            PIN,
            ports,
            state_dir=self.folder / "state" / "repo",
            machine_dir=self.folder / "state",
        )


@pytest.fixture
def here(tmp_path: Path) -> Here:
    return Here(tmp_path)


def valid(outcome: RunOutcome) -> dict[str, Any]:
    """The result file, checked against the schema that ships."""
    data: dict[str, Any] = json.loads((outcome.folder / "result.json").read_text())
    Draft202012Validator(result_schema()).validate(data)
    assert data == json.loads(json.dumps(outcome.result.to_json()))
    return data


@pytest.mark.kernel
async def test_a_run_with_a_real_kernel(here: Here) -> None:
    code = "open('made.txt', 'w').write('hi')\nprint(harness.list())"
    outcome = await here.run(
        {"content": "I write.", "code": code},
        {"content": "Written."},
        snapshot=Snapshot(entries={"memory/a": memory("memory/a", "Marker 4711")}),
    )
    data = valid(outcome)
    assert (data["status"], data["reason"], data["verified"]) == ("success", "no_gates", False)
    assert data["answer"] == "Written."
    assert (data["turns"], data["cells"]) == (2, 1)
    assert data["changes"]["files"][0]["path"] == "made.txt"
    assert data["changes"]["tree_before"] != data["changes"]["tree_after"]
    assert data["usage"]["nodes"]["root"] == data["usage"]["total"]
    assert [a["path"] for a in data["artifacts"]] == ["log.jsonl", "changes.patch"]
    assert outcome.exit_code is ExitCode.DONE
    events = read_trajectory(outcome.folder).events
    assert events[0].data["session"] == outcome.folder.name == data["session"]
    assert "Marker 4711" in json.dumps(events[2].data["append"])
    assert events[-1].data["tree"] == data["changes"]["tree_after"]
    printed = next(e for e in events if e.type == "output").data["text"]
    assert printed == "['memory/a: Marker 4711']\n"
    assert not (outcome.folder / "kernel" / "kernel.json").exists()


async def test_kernel_rights_are_said_once(here: Here) -> None:
    await here.run({"content": "A."})
    await here.run({"content": "A."})
    assert here.watcher.notes == [KERNEL_RIGHTS]


async def test_a_revision_that_does_not_load_is_refused(here: Here) -> None:
    """files-05: never "no memory" in silence."""
    snapshot = Snapshot(entries={}, broken=(BROKEN,))
    with pytest.raises(HarnessError) as caught:
        await here.run({"content": "A."}, snapshot=snapshot)
    assert (caught.value.id, caught.value.exit_code) == ("broken_entries", ExitCode.FAILED)
    assert ".harness/memory/pref.md:2:7: HRN101: byte 18 is not UTF-8" in caught.value.message
    assert not (here.folder / "state" / "repo").exists()


async def test_skip_broken_says_so_in_header_and_result(here: Here) -> None:
    """files-05."""
    snapshot = Snapshot(entries={"memory/ok": memory("memory/ok", "Stays")}, broken=(BROKEN,))
    outcome = await here.run({"content": "A."}, snapshot=snapshot, skip_broken=True)
    assert valid(outcome)["skipped"] == ["memory/pref"]
    header = read_trajectory(outcome.folder).events[0].data
    assert header["skipped"] == ["memory/pref"]


@pytest.mark.parametrize(
    ("path", "entry"),
    [
        (".harness/skills/audit/scripts/x.py", "skills/audit"),
        (".harness/memory/a/b.md", "memory/a/b"),
        (".harness/harness.toml", ".harness/harness.toml"),
    ],
)
def test_which_entry_a_broken_file_belongs_to(path: str, entry: str) -> None:
    snapshot = Snapshot(broken=(replace(BROKEN, path=path),))
    assert check_loads(snapshot, skip_broken=True) == (entry,)


async def test_no_task(here: Here) -> None:
    with pytest.raises(UsageError) as caught:
        await here.run({"content": "A."}, task=" \n")
    assert caught.value.id == "no_task"


async def test_a_cost_limit_with_an_unknown_price_is_refused_before_any_call(here: Here) -> None:
    with pytest.raises(UsageError) as caught:
        await here.run({"content": "A."}, limits=Limits(cost_usd=1.0))
    assert caught.value.id == "unknown_price"


@pytest.mark.parametrize(
    ("lines", "more", "status", "reason", "code"),
    [
        ([{"content": ""}] * 3, {}, "incomplete", "empty_reply", ExitCode.FAILED),
        ([], {}, "failed", "provider_error", ExitCode.FAILED),
        (
            [{"content": "A."}],
            {"limits": Limits(tokens=10)},
            "budget_exhausted",
            "tokens",
            ExitCode.BUDGET_EXHAUSTED,
        ),
    ],
)
async def test_every_ending_has_a_valid_result(
    here: Here, lines: list[dict[str, Any]], more: dict[str, Any], status: str, reason: str, code: ExitCode
) -> None:
    outcome = await here.run(*lines, **more)
    data = valid(outcome)
    assert (data["status"], data["reason"], outcome.exit_code) == (status, reason, code)


async def test_harness_state_that_moved_is_exit_6_with_both_values(here: Here) -> None:
    class Moving(StillFence):
        def capture(self) -> dict[str, str]:
            now = dict(self.state)
            self.state["refs/heads/harness"] += "x"
            return now

    here.fence = Moving()
    outcome = await here.run({"content": "A."})
    assert outcome.exit_code is ExitCode.REFUSED
    moved = valid(outcome)["moved"]
    assert moved == [
        {
            "name": "refs/heads/harness",
            "before": "sha256:1",
            "after": "sha256:1x",
            "before_commit": "commit of sha256:1",
            "after_commit": "commit of sha256:1x",
        }
    ]
