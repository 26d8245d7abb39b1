"""A provider that asks for a long wait, and a real Ctrl-C to the command while it waits."""

from __future__ import annotations

import json
import os
import signal
import subprocess
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.conftest import COMMAND, Logs
from tests.conftest import Git
from tests.fakes.killing import until
from tests.fakes.openai_server import Fail, FakeOpenAI, Say

pytestmark = pytest.mark.kernel

#: Longer than any of the tests may take.
WAIT_S = 280
LIMITED = Fail(429, headers={"Retry-After": str(WAIT_S)})


@pytest.mark.parametrize("presses", [1, 2])
def test_a_real_interrupt_ends_the_wait(repo: Git, logs: Logs, tmp_path: Path, presses: int) -> None:
    """The first ends the wait and the model is asked at once; the second ends the run."""
    answers = [LIMITED, Say("Done.") if presses == 1 else LIMITED, Say("never")]
    said = tmp_path / "said"
    with FakeOpenAI(answers) as server, said.open("wb") as err:
        run = subprocess.Popen(
            [COMMAND, "run", "--json", "--model", "openai/gpt-4o", "x"],
            cwd=repo.root,
            env={**os.environ, **server.environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.PIPE,
            stderr=err,
        )
        for count in range(1, presses + 1):
            assert until(lambda count=count: said.read_text().count("rate_limit 429; next try in") == count)
            run.send_signal(signal.SIGINT)
        out, _ = run.communicate(timeout=WAIT_S / 2)
    result = json.loads(out)
    assert len(server.requests) == 2
    replies: list[dict[str, Any]] = [e["data"] for e in logs.newest() if e["type"] == "reply"]
    assert replies[0]["error"]["kind"] == "interrupted"
    if presses == 1:
        assert (run.returncode, result["answer"]) == (0, "Done.")
        assert server.requests[1].at - server.requests[0].at < WAIT_S
    else:
        assert (run.returncode, result["reason"]) == (130, "interrupted")
