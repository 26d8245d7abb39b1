"""The first request of an empty harness, counted as its reader counts: litellm's counter for gpt-4o."""

from __future__ import annotations

import os
import subprocess
import sys

#: System prompt and tools together.
MOST_TOKENS = 1200
#: In a process of its own: litellm takes seconds to load, and leaves warnings behind.
COUNT = """
import os
os.environ.update(LITELLM_MODE="PRODUCTION", LITELLM_LOCAL_MODEL_COST_MAP="True")
import litellm
from harnessctl.models.wire import TOOL
from harnessctl.rlm.prompt import SessionFacts, system_message
long = "/home/somebody/work/clients/a-repository-with-a-long-name"
for protocol in ("tool", "fence"):
    facts = SessionFacts(long, f"{long}/.venv/bin/python", protocol)
    messages = [{"role": "system", "content": system_message(facts, "")}]
    tools = [TOOL] if protocol == "tool" else None
    print("COUNT", litellm.token_counter(model="gpt-4o", messages=messages, tools=tools))
"""


def test_system_prompt_and_tools_are_short() -> None:
    done = subprocess.run(
        [sys.executable, "-c", COUNT], env=os.environ, capture_output=True, text=True, check=True
    )
    counts = [int(line.split()[1]) for line in done.stdout.splitlines() if line.startswith("COUNT ")]
    assert len(counts) == 2
    assert all(300 < count <= MOST_TOKENS for count in counts), counts
