"""``llm()`` and ``llm.batch()`` in cells, through the installed command."""

from __future__ import annotations

import json
import os
import signal
from pathlib import Path

import pytest

from tests.acceptance.conftest import Logs, Run, Script
from tests.conftest import Git
from tests.fakes.openai_server import Answer, Fail, FakeOpenAI, Hang, Say, Seen

pytestmark = pytest.mark.kernel

BATCH = """
texts = llm.batch([f"piece {n}" for n in range(6)], system="one word", keep_errors=True)
print([t if isinstance(t, str) else (t.id, "no" in str(t)) for t in texts])
print(llm("alone", max_tokens=33))
"""


#: Tokens of the first turn; more than its estimate.
FIRST_TURN = 1500


def asked(seen: Seen) -> str:
    return str(seen.messages[-1]["content"])


def answers(seen: Seen) -> Answer:
    if not seen.body.get("tools"):
        if asked(seen) == "piece 3":
            return Fail(400, "no such luck")
        return Say(f"[{asked(seen)}]", usage=(10, 3, 0), delay_s=0.3)
    if len(seen.messages) == 2:
        return Say(code=BATCH, usage=(FIRST_TURN - 20, 20, 0))
    return Say("Done.", usage=(200, 10, 0))


def run_it(harnessctl: Run, repo: Git, server: FakeOpenAI, *more: str, code: int = 0) -> dict[str, object]:
    done = harnessctl(
        "run",
        "--json",
        "--model",
        "openai/gpt-4o",
        *more,
        "ask",
        cwd=repo.root,
        env=server.environment,
        code=code,
    )
    result: dict[str, object] = done.json()
    return result


def test_answers_come_in_order_and_what_they_used_is_booked(harnessctl: Run, repo: Git, logs: Logs) -> None:
    with FakeOpenAI(answers) as server:
        result = run_it(harnessctl, repo, server)
    shown = next(e for e in logs.newest() if e["type"] == "result")["data"]["text"]
    assert "['[piece 0]', '[piece 1]', '[piece 2]', ('bad_request', True), '[piece 4]', '[piece 5]']" in shown
    assert "[alone]" in shown
    plain = [seen for seen in server.requests if not seen.body.get("tools")]
    assert [m["role"] for m in plain[0].messages] == ["system", "user"]
    assert [s.body.get("max_tokens") for s in plain if asked(s) == "alone"] == [33]
    usage = result["usage"]
    assert isinstance(usage, dict)
    # Six calls that were answered, one that failed and cost nothing, two turns.
    assert usage["total"]["tokens"] == 6 * 13 + FIRST_TURN + 210
    assert usage["nodes"]["root"]["tokens"] == 6 * 13 + FIRST_TURN + 210
    # None of it is in the conversation.
    assert "piece 1" not in json.dumps(server.requests[-1].messages[-1]).replace("[piece 1]", "")
    assert result["turns"] == 2


def test_no_call_passes_the_budget(harnessctl: Run, repo: Git, logs: Logs) -> None:
    """Six calls at once: what is under way is reserved, so at most one passes the limit."""
    with FakeOpenAI(answers) as server:
        run_it(harnessctl, repo, server, "--max-tokens", str(FIRST_TURN + 100), code=5)
    sent = sum(13 for seen in server.requests if not seen.body.get("tools"))
    assert 0 < sent <= 100
    shown = next(e for e in logs.newest() if e["type"] == "result")["data"]["text"]
    assert "('tokens', " in shown


def test_an_interrupted_call_is_booked(harnessctl: Run, repo: Git, logs: Logs) -> None:
    code = (
        "import os\ntry:\n    llm(str(os.getpid()))\nexcept KeyboardInterrupt:\n    print('stopped')\n"
        "print(llm('now'))"
    )

    def answer(seen: Seen) -> Answer:
        if seen.body.get("tools"):
            return Say(code=code) if len(seen.messages) == 2 else Say("Done.")
        if asked(seen) == "now":
            return Say("yes")
        os.kill(int(asked(seen)), signal.SIGINT)  # the kernel's process, which waits for this answer
        return Hang()

    with FakeOpenAI(answer) as server:
        run_it(harnessctl, repo, server)
    events = logs.newest()
    assert "stopped\nyes" in next(e for e in events if e["type"] == "result")["data"]["text"]
    requests = [e["data"] for e in events if e["type"] == "request" and e["data"]["consumer"] == "llm"]
    replies = [e["data"] for e in events if e["type"] == "reply" and e["data"].get("consumer") == "llm"]
    assert [(r.get("error") or {}).get("kind") for r in replies] == ["interrupted", None]
    assert replies[0]["usage"]["estimated"]
    assert replies[0]["usage"]["prompt"] == requests[0]["estimate"]


def test_a_script_plays_them_in_order_also_after_a_resume(
    harnessctl: Run, script: Script, repo: Git, logs: Logs, tmp_path: Path
) -> None:
    lines = [{"for": "llm", "content": f"answer {n}"} for n in range(5)]
    model = script(
        {"code": "print(llm.batch(['a', 'b', 'c']))"},
        {"content": "First."},
        {"code": "print(llm('d'), llm('e'))"},
        {"content": "Second."},
        *lines,
    )
    harnessctl("run", "--model", model, "go", cwd=repo.root)
    assert "['answer 0', 'answer 1', 'answer 2']" in json.dumps(logs.newest())
    harnessctl("sessions", "resume", "--task", "more", cwd=repo.root)
    assert "answer 3 answer 4" in json.dumps(logs.newest())
