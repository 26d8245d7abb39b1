"""A session longer than its model's window, through the installed command."""

from __future__ import annotations

import json
from typing import Any

import pytest

from harnessctl.domain.event import Event
from harnessctl.layers.l1_context.view import system_of
from harnessctl.rlm.log import read_trajectory
from tests.acceptance.conftest import Logs, Run, Script
from tests.conftest import Git
from tests.fakes.killing import check_history
from tests.fakes.long_sessions import check_compactions
from tests.fakes.runs import folder_of

pytestmark = pytest.mark.kernel

SMALL = {"model": {"window": 4_000}}
SUMMARY = "## Task\nx\n## State\nfour words\n## Constraints\n\n## Decisions\n\n## Open work\nmore"


def step(number: int) -> dict[str, Any]:
    return {"content": f"Step {number}.", "code": f"# {'why ' * 80}\nprint('word{number} ' * 120)"}


def of(events: tuple[Event, ...], kind: str) -> list[Event]:
    return [event for event in events if event.type == kind]


def test_picked_up_it_tells_the_same_history(harnessctl: Run, script: Script, logs: Logs, repo: Git) -> None:
    """What left before the stop stays out of view after it: the next request shares all of the last."""
    last = {"content": "I look.", "code": 'history.expand(history.search("word2")[0]["address"])[:5]'}
    summaries = [{"for": "summary", "content": SUMMARY}] * 4
    model = script(SMALL, *(step(n) for n in range(1, 25)), last, {"content": "Done."}, *summaries)
    harnessctl("run", "--model", model, "--max-turns", "20", "work", cwd=repo.root, code=5)
    before = read_trajectory(folder_of(logs)).events
    assert of(before, "compaction")
    done = harnessctl("sessions", "resume", "--max-turns", "40", "--json", cwd=repo.root).json()
    assert (done["answer"], done["turns"]) == ("Done.", 26)
    events = read_trajectory(folder_of(logs)).events
    own = [e for e in of(events, "request") if e.data["consumer"] == "root"]
    first = next(e for e in own if e.n > len(before))
    assert first.data["prefix"] == [e for e in own if e.n < len(before)][-1].n
    assert check_compactions(events, system_of(events, "tool"), "tool") > len(of(before, "compaction"))
    check_history(events)
    left = [e.data for e in of(events, "compaction") if e.data["what"] == "evict"]
    assert left[0]["by"] == "model"
    assert "State: four words" in left[0]["landmark"]
    assert of(events, "result")[-1].data["text"].startswith("word2\n")
    assert of(events, "result")[-1].data["recalled"] is True
    shown = harnessctl("sessions", "show", cwd=repo.root).out
    assert "context: " in shown


def test_a_cell_asks_for_a_short_view(harnessctl: Run, script: Script, logs: Logs, repo: Git) -> None:
    steps = [step(n) for n in range(1, 5)]
    model = script(*steps, {"content": "Enough.", "code": "history.compact()"}, {"content": "Done."})
    harnessctl("run", "--model", model, "the task", cwd=repo.root)
    events = read_trajectory(folder_of(logs)).events
    (event,) = of(events, "compaction")
    assert (event.data["why"], event.data["by"]) == ("request", "log")
    assert event.data["evicted"][0][0] == 3, "everything after task and first request"
    assert "word1" not in json.dumps(of(events, "request")[-1].data["append"])
    check_history(events)
