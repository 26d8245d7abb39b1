"""Cases met in the field of runs, told to the installed command; each test carries the case's id.

Every one has a real ipykernel and a loopback HTTP server through the real litellm. What a case
leaves open in detail is below: tests/integration/test_kernel.py, test_loop_loopback.py,
test_litellm_loopback.py and tests/unit/rlm name the same ids.
"""

from __future__ import annotations

import itertools
import json
import subprocess
import time
from collections.abc import Iterator
from dataclasses import dataclass, field
from email.utils import formatdate
from pathlib import Path
from typing import Any

import pytest

from tests.acceptance.conftest import COMMAND, Done, Logs, Run, outside_pytest
from tests.conftest import Git
from tests.fakes.killing import processes_of, until
from tests.fakes.openai_server import Answer, Fail, FakeOpenAI, Say, Seen

pytestmark = pytest.mark.kernel

SLEEP = "import time\ntime.sleep(60)"
OVERFLOW = Fail(
    400,
    "This model's maximum context length is 262144 tokens. However, you requested 0 output tokens and your "
    "prompt contains at least 262145 input tokens, for a total of at least 262145 tokens.",
)


@dataclass
class Served:
    """Runs of the installed command whose replies a loopback server gives."""

    command: Run
    logs: Logs
    git: Git
    server: FakeOpenAI = field(init=False)

    @property
    def env(self) -> dict[str, str]:
        return self.server.environment

    def __call__(self, *answers: Answer, options: tuple[str, ...] = (), code: int | None = 0) -> Any:
        """The result object of one run."""
        with FakeOpenAI(answers) as self.server:
            return self.again(*options, "do it", verb=("run", "--model", "openai/gpt-4o"), code=code).json()

    def again(self, *options: str, verb: tuple[str, ...], code: int | None = 0) -> Done:
        """One more call while the server is up."""
        return self.command(*verb, "--json", *options, cwd=self.git.root, env=self.env, code=code)

    def cell_began(self, count: int = 1) -> bool:
        """Whether that many cells of the newest session have begun."""
        logs = list(self.logs.state.glob("harnessctl/*/sessions/*/log.jsonl"))
        return bool(logs) and logs[0].read_bytes().count(b'"type":"cell"') >= count

    def begin(self) -> subprocess.Popen[bytes]:
        """A run in the background, in a process group of its own."""
        return subprocess.Popen(
            [COMMAND, "run", "--model", "openai/gpt-4o", "do it"],
            cwd=self.git.root,
            env={**outside_pytest(), **self.env},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def told(self) -> list[str]:
        """What the last request shows of each cell, without the line on how it ended."""
        messages = self.server.requests[-1].messages
        return [m["content"].rpartition("\n[cell ")[0] for m in messages if m["role"] == "tool"]

    def events(self, kind: str) -> list[dict[str, Any]]:
        return [e["data"] for e in self.logs.newest() if e["type"] == kind]

    @property
    def folder(self) -> Path:
        """The newest session's."""
        return max(self.logs.state.glob("harnessctl/*/sessions/*"), key=lambda p: p.name)


@pytest.fixture
def served(harnessctl: Run, logs: Logs, repo: Git) -> Served:
    return Served(harnessctl, logs, repo)


@pytest.fixture
def running(served: Served) -> Iterator[list[subprocess.Popen[bytes]]]:
    """Runs in the background that are ended with the test."""
    begun: list[subprocess.Popen[bytes]] = []
    yield begun
    for run in begun:
        run.kill()
        run.wait()


def cells(*codes: str) -> list[Say]:
    return [*(Say("on", code=code) for code in codes), Say("Done.")]


# -- kernel ----------------------------------------------------------------------------------------


def test_kernel_01_input_fails_at_once(served: Served) -> None:
    result = served(*cells('input("go")', "print('next')"))
    assert result["answer"] == "Done."
    asked, following = served.told()
    assert "Nobody can answer input()" in asked
    assert following == "next"
    assert served.events("result")[0]["ms"] < 20_000, "not the minutes that a cell has"


def test_kernel_02_a_running_event_loop(served: Served) -> None:
    define = "import asyncio\nasync def f():\n    return 7"
    served(
        *cells(define, "asyncio.run(f())", "asyncio.get_event_loop().run_until_complete(f())", "await f()")
    )
    _, ran, completed, awaited = served.told()
    assert "RuntimeError" in ran
    assert "write `await f()`" in ran
    assert "write `await f()`" in completed
    assert awaited == "7"


def test_kernel_03_a_kernel_that_is_killed(served: Served) -> None:
    """Seen within seconds with its signal, what was lost is told, and the next cell has a new kernel."""
    kill = "import os, subprocess\nx = 1\nsubprocess.Popen(f'sleep 0.5; kill -9 {os.getpid()}', shell=True)\n"
    result = served(*cells(kill + SLEEP, "print('x' in globals())", "import os; os._exit(3)"))
    assert served.events("result")[0]["ms"] < 45_000, "not the minute that the cell would have slept"
    assert result["answer"] == "Done."
    _, following, _ = served.told()
    killed, _, left = (r["text"] for r in served.events("result"))
    assert "the kernel died: ended by SIGKILL" in killed
    assert following.startswith("[the kernel was lost before this cell")
    assert following.endswith("\nFalse")
    assert "the kernel died: exit code 3" in left
    assert [r["status"] for r in served.events("result")] == ["died", "ok", "died"]


def test_kernel_03_restarts_are_counted(served: Served) -> None:
    result = served(*[Say("on", code="import os; os._exit(3)")] * 9, code=1)
    assert (result["status"], result["reason"]) == ("failed", "kernel_lost")
    assert len(served.server.requests) < 8


def test_kernel_05_nothing_outlives_a_killed_run(
    served: Served, running: list[subprocess.Popen[bytes]]
) -> None:
    code = "import subprocess\nsubprocess.Popen(['sleep', '66'], start_new_session=True)\n" + SLEEP
    with FakeOpenAI(cells(code)) as served.server:
        running.append(served.begin())
        assert until(served.cell_began)
        session = served.folder.name
        assert until(lambda: len(processes_of(session)) >= 3)
        running[0].kill()
        running[0].wait()
        assert until(lambda: not processes_of(session))
    found = served.command("doctor", "--json", cwd=served.git.root, code=None).json()
    assert not [f for f in found if "process" in json.dumps(f)]


def test_kernel_07_how_cells_end(served: Served) -> None:
    codes = (
        "kept = 1\nimport sys\nsys.exit(0)",
        "sys.exit(1)",
        "exit",
        "!false",
        "%%bash\nfalse",
        "print(kept)",
    )
    served(*cells(*codes))
    assert [r["status"] for r in served.events("result")] == ["ok", "error", "ok", "ok", "error", "ok"]
    told = served.told()
    assert "SystemExit: 1" in told[1]
    assert "[exit status 1]" in told[3]
    assert "exit status 1" in told[4]
    assert told[5] == "1", "no exit ended the kernel"


@pytest.mark.slow
def test_kernel_10_a_gigabyte_of_output(served: Served) -> None:
    native = "import ctypes\nlibc = ctypes.CDLL(None)\nfor _ in range(2000): libc.write(2, b'y' * 1000, 1000)"
    served(*cells("!yes | head -c 1000000000", native, "print('alive')"))
    flood, _, alive = served.told()
    assert len(flood) < 20_000
    assert "left out" in flood
    assert alive.endswith("alive")
    first = served.events("output")[0]
    assert (first["bytes"], first["stream"]) == (1_000_000_000, "stdout")
    assert sum(o["bytes"] for o in served.events("output") if o["stream"] == "stderr") == 2_000_000
    assert served.events("result")[0]["status"] == "ok"


# -- log -------------------------------------------------------------------------------------------


def test_log_01_half_a_record(served: Served) -> None:
    """The torn tail is set aside, exactly one record is lost, and what follows can be read."""
    with FakeOpenAI([Say("one", code="1"), Say("First."), Say("Second.")]) as served.server:
        run = ("run", "--model", "openai/gpt-4o")
        served.again("do it", verb=run)
        log = served.folder / "log.jsonl"
        whole = log.read_bytes().splitlines(keepends=True)
        kept, torn = b"".join(whole[:-1]), b'{"id":"p","text":"tor'
        log.write_bytes(kept + torn)
        resumed = served.again("--task", "go on", verb=("sessions", "resume"))
    assert resumed.json()["answer"] == "Second."
    assert log.read_bytes().startswith(kept)
    events = [json.loads(line) for line in log.read_bytes().splitlines()]
    assert [e["n"] for e in events] == list(range(len(events)))
    (repair,) = [e["data"] for e in events if e["data"].get("what") == "torn_tail"]
    assert (repair["bytes"], (served.folder / repair["file"]).read_bytes()) == (len(torn), torn)
    listed = served.command("sessions", "show", cwd=served.git.root)
    assert "Second." in listed.out


def test_log_01_damage_in_the_middle_is_no_tail(served: Served) -> None:
    with FakeOpenAI([Say("one", code="1"), Say("First."), Say("never")]) as served.server:
        served.again("do it", verb=("run", "--model", "openai/gpt-4o"))
        log = served.folder / "log.jsonl"
        lines = log.read_bytes().splitlines(keepends=True)
        damaged = b"".join([*lines[:3], lines[3][:20] + b"\n", *lines[4:]])
        log.write_bytes(damaged)
        done = served.again("--task", "go on", verb=("sessions", "resume"), code=1)
        assert done.json()["error"]["id"]
        assert len(served.server.requests) == 2
    assert log.read_bytes() == damaged


def test_files_09_a_huge_line_stays_out_of_the_requests(served: Served) -> None:
    """Six megabytes of base64 in one result: whole beside the log; a later turn and a resume work."""
    flood = "import base64, os\nprint(base64.b64encode(os.urandom(4_500_000)).decode())"
    with FakeOpenAI([*cells(flood, "print('next')"), Say("Second.")]) as served.server:
        served.again("do it", verb=("run", "--model", "openai/gpt-4o"))
        log = served.folder / "log.jsonl"
        assert max(map(len, log.read_bytes().splitlines())) < 2**20
        (flooded, *_) = served.events("output")
        assert (served.folder / "blobs" / flooded["blob"]).stat().st_size == flooded["bytes"] == 6_000_001
        resumed = served.again("--task", "go on", verb=("sessions", "resume"))
    assert resumed.json()["answer"] == "Second."
    assert max(len(seen.text()) for seen in served.server.requests) < 100_000


# -- loop ------------------------------------------------------------------------------------------


@pytest.mark.parametrize("answered", [0, 1])
def test_loop_01_calls_that_were_never_answered(
    served: Served, running: list[subprocess.Popen[bytes]], answered: int
) -> None:
    """A session killed in its first or second of two cells; the next request answers every call."""
    codes = ["print('a')", SLEEP] if answered else [SLEEP, "print('a')"]
    calls = tuple(("ipython", json.dumps({"code": code})) for code in codes)
    with FakeOpenAI([Say("go", calls=calls), Say("Done.")]) as served.server:
        running.append(served.begin())
        assert until(lambda: served.cell_began(answered + 1))
        time.sleep(0.3)
        running[0].kill()
        running[0].wait()
        before = (served.folder / "log.jsonl").read_bytes()
        done = served.again(verb=("sessions", "resume"))
        assert done.json()["answer"] == "Done."
    messages = served.server.requests[-1].messages
    at = next(n for n, m in enumerate(messages) if m.get("tool_calls"))
    ids = [c["id"] for c in messages[at]["tool_calls"]]
    results = messages[at + 1 : at + 3]
    assert [m.get("tool_call_id") for m in results] == ids
    assert sum("effects unknown" in m["content"] for m in results) >= 1
    assert ("a\n" in results[0]["content"]) is bool(answered)
    assert (served.folder / "log.jsonl").read_bytes().startswith(before)


def test_loop_02_an_overflow_is_compacted_and_asked_once_more(served: Served) -> None:
    big = [Say("step", code=f"print('{n}' * 3000)") for n in (1, 2, 3)]
    result = served(*big, OVERFLOW, Say("Done."))
    assert result["answer"] == "Done."
    assert len(served.server.requests) == 5
    assert len(served.server.requests[4].text()) < len(served.server.requests[3].text()) - 3000
    assert len(served.events("compaction")) == 1


def test_loop_02_throttling_is_no_overflow(served: Served) -> None:
    limited = Fail(429, "Throttling error: Too many tokens, please wait before trying again.")
    assert served(Say("step", code="1"), limited, Say("Done."))["answer"] == "Done."
    assert served.events("compaction") == []
    first, second = served.server.requests[1:3]
    assert first.body == second.body


def test_loop_03_empty_replies(served: Served) -> None:
    empty = Say(None, finish="stop")
    assert served(empty, Say("Here."))["answer"] == "Here."
    result = served(*[empty] * 5, code=1)
    assert (result["status"], result["reason"]) == ("incomplete", "empty_reply")
    assert len(served.server.requests) == 3
    assert served(Say(code="print(6 * 7)"), empty)["status"] == "success"


@pytest.mark.parametrize(
    ("header", "least", "most"),
    [("3", 3, 8), ("date", 2, 8), ("0", 0, 6), ("-1", 0, 6), (None, 0.2, 6)],
    ids=["seconds", "date", "zero", "negative", "none"],
)
def test_loop_05_retry_after(served: Served, header: str | None, least: float, most: float) -> None:

    def answer(_: Seen) -> Answer:
        if len(served.server.requests) > 2:
            return Say("Done.")
        value = formatdate(time.time() + 4, usegmt=True) if header == "date" else header
        return Fail(429, headers={} if value is None else {"Retry-After": value})

    with FakeOpenAI(answer) as served.server:
        result = served.again("do it", verb=("run", "--model", "openai/gpt-4o")).json()
    assert result["answer"] == "Done."
    times = [seen.at for seen in served.server.requests]
    waits = [late - early for early, late in itertools.pairwise(times)]
    assert len(waits) == 2
    assert all(least <= wait < 60 for wait in waits), waits
    attempts = served.events("reply")[0]["attempts"]
    assert [a["status"] for a in attempts] == [429, 429]
    assert all(a["waited_s"] <= most for a in attempts), attempts


def test_loop_05_a_day_is_capped_by_the_wall_clock(served: Served) -> None:
    begun = time.monotonic()
    limited = Fail(429, headers={"Retry-After": "86400"})
    result = served(limited, limited, options=("--max-time", "6"), code=5)
    assert (result["status"], result["reason"]) == ("budget_exhausted", "wall")
    assert time.monotonic() - begun < 100


def test_loop_07_a_refused_parameter(served: Served) -> None:
    """None is sent unless it is set; one that is set and refused is dropped once, and that is noted."""
    assert served(Say("Done."))["answer"] == "Done."
    assert not {"temperature", "top_p"} & served.server.requests[0].body.keys()
    served.git("config", "harness.temperature", "0")
    refusal = Fail(400, "Unsupported value: 'temperature'", code="unsupported_value", param="temperature")
    assert served(refusal, Say(code="1"), Say("Done."))["answer"] == "Done."
    assert ["temperature" in seen.body for seen in served.server.requests] == [True, False, False]
    assert "temperature" in served.events("reply")[0]["notes"][0]


def test_loop_10_final_by_name(served: Served) -> None:
    result = served(Say(code="final(missing)"), Say(code="answer = [1, 2]\nfinal(answer)"))
    assert (result["status"], result["answer"]) == ("success", "[1, 2]")
    assert "NameError" in served.server.requests[1].text()
