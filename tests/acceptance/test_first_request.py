"""The first request after `init`, counted as its reader counts: by litellm's counter for gpt-4o."""

from __future__ import annotations

import json
import subprocess
import sys

import pytest

from tests.acceptance.conftest import Logs, Run
from tests.conftest import Git
from tests.fakes.openai_server import FakeOpenAI, Say

pytestmark = pytest.mark.kernel

#: System prompt and tools together.
MOST_TOKENS = 1200
TASK = "look around"
#: In a process of its own: litellm takes seconds to load, and leaves warnings behind.
COUNT = """
import json, os, sys
os.environ.update(LITELLM_MODE="PRODUCTION", LITELLM_LOCAL_MODEL_COST_MAP="True")
import litellm
for body in map(json.loads, sys.stdin):
    print("COUNT", litellm.token_counter(model="gpt-4o", messages=body["messages"], tools=body["tools"]))
"""


def test_system_prompt_and_tools_are_short(harnessctl: Run, logs: Logs, repo: Git) -> None:
    harnessctl("init", cwd=repo.root)
    bodies = []
    for protocol in ("tool", "fence"):
        with FakeOpenAI([Say("Done.")]) as server:
            options = ("--protocol", protocol, "--model", "openai/gpt-4o", TASK)
            harnessctl("run", *options, cwd=repo.root, env=server.environment)
            (seen,) = server.requests
        # What was sent is what the log holds.
        logged = json.loads(logs.first_request())
        assert [m["content"] for m in seen.messages] == [m["content"] for m in logged]
        assert [m["role"] for m in seen.messages] == ["system", "user"]
        assert bool(seen.body.get("tools")) == (protocol == "tool")
        # What is ours: all but the task's own words.
        system, task = seen.messages
        assert task["content"].startswith(TASK)
        ours = [system, {**task, "content": task["content"].removeprefix(TASK)}]
        bodies.append({"messages": ours, "tools": seen.body.get("tools")})
    done = subprocess.run(
        [sys.executable, "-c", COUNT],
        input="".join(json.dumps(body) + "\n" for body in bodies),
        capture_output=True,
        text=True,
        check=True,
    )
    counts = [int(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("COUNT ")]
    assert len(counts) == 2
    assert all(300 < count <= MOST_TOKENS for count in counts), counts
