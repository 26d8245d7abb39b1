"""What a model is told of its variables when their kernel is gone: after a death, and after a resume.

A real kernel, a loopback server through litellm; read from the requests, as the model reads it.
"""

from __future__ import annotations

import json
import os
import re
import signal
import subprocess
from typing import Any

import psutil
import pytest

from tests.acceptance.conftest import COMMAND, Logs, Run, outside_pytest
from tests.conftest import Git
from tests.fakes.killing import until
from tests.fakes.openai_server import Answer, FakeOpenAI, Say, Seen
from tests.fakes.runs import cells_begun

pytestmark = pytest.mark.kernel

RUN = ("run", "--model", "openai/gpt-4o", "do it")
MAKE = (
    "import collections\n"
    "class Odd:\n"
    "    def __len__(self): raise RuntimeError('never asked')\n"
    "    def __repr__(self): raise RuntimeError('never asked')\n"
    "rows = [1, 2, 3]\nname = 'é' * 1200\nraw = b'12'\ntable = {'a': 1}\nodd = Odd()\nnumber = 7\n"
    "gone_again = 1\n_hidden = 1\ndef work(): pass"
)
CHANGE = "del gone_again\nrows.append(4)\nnumber = 'seven'"
DIE = "import os, signal\nlate = 1\nos.kill(os.getpid(), signal.SIGKILL)"
#: Newest first: what was set or changed last stands at the front.
TOLD = {
    "rows (list, 4 items)",
    "number (str, 5 characters)",
    "name (str, 1,200 characters)",
    "raw (bytes, 2 bytes)",
    "table (dict, 1 items)",
    "odd (Odd)",
    "Odd (type)",
    "work (function)",
    "collections (module)",
}


def talk(harnessctl: Run, repo: Git, *answers: Answer, code: int = 0) -> FakeOpenAI:
    """A run with these replies; the server with the requests it saw."""
    with FakeOpenAI(answers) as server:
        harnessctl(*RUN, cwd=repo.root, env=server.environment, code=code)
    return server


def results(server: FakeOpenAI) -> list[str]:
    """The cells' results in the last request."""
    return [m["content"] for m in server.requests[-1].messages if m["role"] == "tool"]


def manifest(text: str) -> list[str]:
    """The variables that ``text`` says are lost, in its order."""
    (told,) = re.findall(r"Lost with it: (.*?)\.(?:\]| |$)", text, re.MULTILINE)
    return re.findall(r"[\w]+ \([^)]*\)|and [\d,]+ more", told)


def repairs(logs: Logs, what: str) -> list[dict[str, Any]]:
    return [e["data"] for e in logs.newest() if e["data"].get("what") == what]


def test_after_a_death(harnessctl: Run, logs: Logs, repo: Git) -> None:
    """Told with the cell that died; once, and only what the lost kernel held."""
    codes = (MAKE, CHANGE, DIE, "fresh = (1, 2)", DIE, "1")
    _, _, died, following, twice, last = results(
        talk(harnessctl, repo, *(Say("on", code=code) for code in codes), Say("Done."))
    )
    assert set(manifest(died)) == TOLD, "late and _hidden were never told, gone_again is gone"
    assert set(manifest(died)[:2]) == {"rows (list, 4 items)", "number (str, 5 characters)"}
    assert following.startswith("[the kernel was lost before this cell")
    assert manifest(twice) == ["fresh (tuple, 2 items)"], "not what was lost before"
    assert "Lost with it" not in following + last
    lost = [e["data"]["lost"] for e in logs.newest() if e["data"].get("status") == "died"]
    assert (lost[0]["rows"], set(lost[1])) == (["list", "4 items"], {"fresh"})


def test_after_a_death_between_two_cells(harnessctl: Run, logs: Logs, repo: Git) -> None:
    """Nobody waited for a cell then: it is told with the next one."""
    note = repo.root.parent / "kernel"
    first = f"import os\nkept = 1\nopen({str(note)!r}, 'w').write(str(os.getpid()))"

    def choose(seen: Seen) -> Answer:
        if len(server.requests) == 1:
            return Say("on", code=first)
        if len(server.requests) == 2:  # the first cell is over
            kernel = int(note.read_text())
            os.kill(kernel, signal.SIGKILL)
            assert until(lambda: not psutil.pid_exists(kernel)), "its parent has not seen its end"
            return Say("on", code="'kept' in globals()", delay_s=2)
        return Say("Done.")

    with FakeOpenAI(choose) as server:
        harnessctl(*RUN, cwd=repo.root, env=server.environment)
    _, following = results(server)
    assert following.startswith("[the kernel was lost before this cell")
    assert "kept (int)" in manifest(following)
    assert "False" in following
    (restart,) = repairs(logs, "kernel_restart")
    assert restart["lost"]["kept"] == ["int", ""]


def test_many_are_counted(harnessctl: Run, repo: Git) -> None:
    many = "for i in range(700): globals()[f'v{i:03}'] = i"
    server = talk(harnessctl, repo, Say("on", code=many), Say("on", code=DIE), Say("Done."))
    told = manifest(results(server)[-1])
    assert len(told) == 41
    assert told[-1] == "and 661 more", "700 and the counter itself"
    assert max(map(len, results(server))) < 2_000


@pytest.mark.parametrize("how", ["killed", "limit"])
def test_after_a_resume(harnessctl: Run, logs: Logs, repo: Git, how: str) -> None:
    """The host was killed or stopped by a limit: the resumed model is told the same of its lost kernel."""
    sleep = "import time\ntime.sleep(60)"
    cells = [Say("on", code=MAKE), Say("on", code=CHANGE)]
    cells += [Say("on", code=sleep)] if how == "killed" else []
    with FakeOpenAI([*cells, Say("on", code="print('rows' in globals())"), Say("Done.")]) as server:
        if how == "limit":
            harnessctl(*RUN, "--max-turns", "2", cwd=repo.root, env=server.environment, code=5)
            options = ["--max-turns", "9"]
        else:
            kill_in_cell(repo, logs, server, 3)
            options = []
        harnessctl("sessions", "resume", *options, cwd=repo.root, env=server.environment)
    told = next(m["content"] for m in server.requests[-1].messages if "Lost with it" in str(m["content"]))
    assert set(manifest(told)) == TOLD
    assert results(server)[-1].startswith("False")
    assert not repairs(logs, "kernel_restart"), "a new kernel by wish is no restart"
    (resumed,) = repairs(logs, "resume")
    assert set(manifest(resumed["text"])) == TOLD


def test_a_second_resume_tells_nothing_twice(harnessctl: Run, logs: Logs, repo: Git) -> None:
    with FakeOpenAI([Say("on", code=MAKE), *[Say("on", code="1")] * 3, Say("Done.")]) as server:
        harnessctl(*RUN, "--max-turns", "1", cwd=repo.root, env=server.environment, code=5)
        for turns, code in (("2", 5), ("3", 5), ("9", 0)):
            options = ("--max-turns", turns)
            harnessctl("sessions", "resume", *options, cwd=repo.root, env=server.environment, code=code)
    texts = json.dumps(server.requests[-1].body)
    assert texts.count("Lost with it") == 1
    assert [bool(r["text"]) for r in repairs(logs, "resume")] == [True, True, True]


def kill_in_cell(repo: Git, logs: Logs, server: FakeOpenAI, cell: int) -> None:
    """Begin a run and end its host with SIGKILL while that cell works."""
    run = subprocess.Popen(
        [COMMAND, *RUN],
        cwd=repo.root,
        env={**outside_pytest(), **server.environment},
        stdin=subprocess.DEVNULL,
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    )
    try:
        assert until(lambda: cells_begun(logs) >= cell)
    finally:
        os.kill(run.pid, 9)
        run.wait()
