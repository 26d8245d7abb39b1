"""``sessions resume`` through the installed command: what stopped, what goes on, what is refused."""

from __future__ import annotations

import json
import os
import re
import shutil
import signal
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from harnessctl.commands.resume import CHANGED_MEANWHILE
from harnessctl.rlm.log import read_trajectory
from harnessctl.rlm.reopen import FILES_ANEW, FILES_STAY
from tests.acceptance.conftest import COMMAND, Logs, Run, Script
from tests.conftest import Git
from tests.fakes.killing import check_history, processes_of, until
from tests.fakes.openai_server import FakeOpenAI, Say
from tests.fakes.runs import SLEEP, STUBBORN, WAIT, begin, folder_of, until_cell
from tests.fakes.terminal import Terminal

pytestmark = pytest.mark.kernel

MARK = "open('trace', 'a').write('{}\\n')\n"


def texts(logs: Logs, kind: str) -> list[str]:
    return [str(e["data"].get("text")) for e in logs.newest() if e["type"] == kind]


@pytest.mark.parametrize(
    ("signals", "code"),
    [([signal.SIGINT] * 2, 130), ([signal.SIGTERM], 130), ([signal.SIGKILL], -9)],
    ids=["ctrl-c", "sigterm", "kill-9"],
)
def test_a_stopped_session_goes_on(
    harnessctl: Run, script: Script, logs: Logs, repo: Git, signals: list[signal.Signals], code: int
) -> None:
    model = script(
        {"content": "a", "code": MARK.format("a") + "kept = [1, 2, 3]"},
        {"content": "b", "code": MARK.format("b") + STUBBORN},
        {"content": "c", "code": "print('kept' in globals())"},
        {"content": "Done."},
    )
    run = begin(repo, model, "--max-turns", "9")
    until_cell(logs, 2)
    session = folder_of(logs).name
    harnessctl("sessions", "resume", session, cwd=repo.root, code=1)  # it runs
    for number in signals:
        run.send_signal(number)
        time.sleep(0.3)
    run.communicate(timeout=120)
    assert run.returncode == code
    assert until(lambda: not processes_of(session))
    old = (folder_of(logs) / "log.jsonl").read_bytes()
    done = harnessctl("sessions", "resume", session, "--json", cwd=repo.root).json()
    assert (done["status"], done["answer"], done["turns"], done["cells"]) == ("success", "Done.", 4, 3)
    assert (folder_of(logs) / "log.jsonl").read_bytes().startswith(old)
    assert (repo.root / "trace").read_text() == "a\nb\n"
    assert texts(logs, "result")[-1].startswith("False")
    told = next(e["data"]["text"] for e in logs.newest() if e["data"].get("what") == "resume")
    assert "kept (list, 3 items)" in told
    opened = [e["data"]["call"] for e in logs.newest() if e["data"].get("what") == "open_call"]
    assert opened == ["call_1"]
    check_history(read_trajectory(folder_of(logs)).events)


@pytest.mark.parametrize("edits", [True, False])
def test_what_the_user_changed_meanwhile_is_told(
    harnessctl: Run, script: Script, repo: Git, edits: bool
) -> None:
    """The session's result compares with its beginning and cannot tell whose a change is."""
    model = script({"content": "a", "code": "open('made', 'w').write('1')"}, {"content": "Done."})
    harnessctl("run", "--max-turns", "1", "--model", model, "x", cwd=repo.root, code=5)
    if edits:
        repo.write("mine", "2")
    done = harnessctl("sessions", "resume", "--max-turns", "9", cwd=repo.root)
    assert (CHANGED_MEANWHILE in done.err) is edits


def test_a_lost_machine_loses_one_record(harnessctl: Run, script: Script, logs: Logs, repo: Git) -> None:
    """The log's last record is torn, as after a loss of power; its reply is asked for again."""
    model = script({"content": "a", "code": "1"}, {"content": "b", "code": "2"}, {"content": "Done."})
    harnessctl("run", "--model", model, "x", cwd=repo.root)
    log = folder_of(logs) / "log.jsonl"
    lines = log.read_bytes().splitlines(keepends=True)
    at = max(n for n, line in enumerate(lines) if b'"type":"reply"' in line and b'"calls":[{' in line)
    log.write_bytes(b"".join(lines[:at]) + lines[at][:100])
    done = harnessctl("sessions", "resume", "--json", cwd=repo.root)
    assert done.json()["answer"] == "Done."
    assert log.read_bytes().startswith(b"".join(lines[:at]))
    said = [e["data"]["content"] for e in logs.newest() if e["type"] == "reply" and "error" not in e["data"]]
    assert said == ["a", "b", "Done."]
    kinds = [e["data"]["what"] for e in logs.newest() if e["type"] == "repair"]
    assert kinds == ["torn_tail", "resume"]


def test_damage_in_the_middle_is_an_error(harnessctl: Run, script: Script, logs: Logs, repo: Git) -> None:
    harnessctl("run", "--model", script({"content": "Done."}), "x", cwd=repo.root)
    log = folder_of(logs) / "log.jsonl"
    data = bytearray(log.read_bytes())
    data[len(data) // 2] ^= 1
    log.write_bytes(data)
    done = harnessctl("sessions", "resume", "--task", "more", cwd=repo.root, code=1)
    assert "error" in done.err
    assert log.read_bytes() == data


def test_an_answer_wants_more_to_do(harnessctl: Run, script: Script, logs: Logs, repo: Git) -> None:
    model = script({"content": "First."}, {"content": "Second."})
    harnessctl("run", "--model", model, "x", cwd=repo.root)
    before = (folder_of(logs) / "log.jsonl").read_bytes()
    done = harnessctl("sessions", "resume", "--json", cwd=repo.root, code=2)
    assert done.json()["error"]["id"] == "session_ended"
    assert folder_of(logs).name in done.json()["error"]["message"]  # none was named: the newest was taken
    assert (folder_of(logs) / "log.jsonl").read_bytes() == before
    done = harnessctl("sessions", "resume", "--task", "and now?", "--json", cwd=repo.root)
    assert done.json()["answer"] == "Second."
    asked = [e["data"]["append"] for e in logs.newest() if e["type"] == "request"][-1]
    assert [m["content"] for m in asked][-1].endswith("and now?")


def test_limits_count_on(harnessctl: Run, script: Script, repo: Git) -> None:
    model = script(*({"content": "go", "code": "1"} for _ in range(4)), {"content": "Done."})
    harnessctl("run", "--max-turns", "2", "--model", model, "x", cwd=repo.root, code=5)
    done = harnessctl("sessions", "resume", "--json", cwd=repo.root, code=2).json()
    assert done["error"]["id"] == "limit_used"
    assert "--max-turns" in done["error"]["hint"]
    result = harnessctl("sessions", "resume", "--max-turns", "3", "--json", cwd=repo.root, code=5).json()
    assert result["turns"] == 3
    # The limit that a resume set holds for the next one too.
    harnessctl("sessions", "resume", cwd=repo.root, code=2)
    result = harnessctl("sessions", "resume", "--max-turns", "9", "--json", cwd=repo.root).json()
    assert (result["answer"], result["turns"]) == ("Done.", 5)
    assert result["usage"]["total"]["calls"] == 5


def test_wall_clock_counts_only_while_it_runs(harnessctl: Run, script: Script, repo: Git) -> None:
    model = script({"content": "go", "code": SLEEP}, {"content": "Done."})
    harnessctl("run", "--max-time", "4", "--model", model, "x", cwd=repo.root, code=5)
    time.sleep(3)
    assert (
        harnessctl("sessions", "resume", "--json", cwd=repo.root, code=2).json()["error"]["id"]
        == "limit_used"
    )
    harnessctl("sessions", "resume", "--max-time", "60", cwd=repo.root)


def test_another_model_in_another_protocol_goes_on(
    harnessctl: Run, script: Script, logs: Logs, repo: Git
) -> None:
    """The messages are put into its words; the log says whole what it was asked."""
    one = script({"model": {"tools": True}}, {"content": "a", "code": "1 + 1"}, {"content": "b", "code": "2"})
    harnessctl("run", "--max-turns", "2", "--model", one, "x", cwd=repo.root, code=5)
    other = script({"model": {"tools": False}}, {"content": "-"}, {"content": "-"}, {"content": "Done."})
    options = ("--max-turns", "9", "--model", other, "--json")
    done = harnessctl("sessions", "resume", *options, cwd=repo.root).json()
    assert done["answer"] == "Done."
    request = [e["data"] for e in logs.newest() if e["type"] == "request"][-1]
    assert (request["tool"], request["prefix"], request["keep"]) == (False, None, 0)
    assert not any("tool_calls" in m for m in request["append"])
    assert "You have no tool" in request["append"][0]["content"]


def test_a_provider_is_never_shown_an_open_call(harnessctl: Run, logs: Logs, repo: Git) -> None:
    """loop-01 through the real client: each call in the request is answered right after it."""
    two = Say("go", calls=(("ipython", json.dumps({"code": "1"})), ("ipython", json.dumps({"code": SLEEP}))))
    with FakeOpenAI([two, Say("Done.")]) as server:
        run = subprocess.Popen(
            [COMMAND, "run", "--model", "openai/gpt-4o", "x"],
            cwd=repo.root,
            env={**os.environ, **server.environment},
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        assert until(lambda: server.requests, 60)
        until_cell(logs, 2)
        run.kill()
        run.wait()
        done = harnessctl("sessions", "resume", "--json", cwd=repo.root, env=server.environment).json()
        assert done["answer"] == "Done."
        messages = server.requests[-1].messages
    at = next(n for n, m in enumerate(messages) if m.get("tool_calls"))
    ids = [c["id"] for c in messages[at]["tool_calls"]]
    assert [m.get("tool_call_id") for m in messages[at + 1 : at + 3]] == ids
    assert "effects unknown" in messages[at + 2]["content"]


def test_a_second_run_is_refused_or_gets_its_own_tree(
    harnessctl: Run, script: Script, logs: Logs, repo: Git
) -> None:
    run = begin(repo, script({"content": "a", "code": SLEEP}))
    until_cell(logs)
    session = folder_of(logs).name
    model = script({"content": "b", "code": MARK.format("b")}, {"content": "Done."})
    refused = harnessctl("run", "--json", "--model", model, "x", cwd=repo.root, code=1).json()["error"]
    assert refused["id"] == "work_tree_occupied"
    assert session in refused["message"]
    assert str(run.pid) in refused["message"]
    repo.write("dirty.txt", "not committed")
    done = harnessctl("run", "--json", "--worktree", "--model", model, "x", cwd=repo.root)
    assert done.json()["root"] == logs.newest()[0]["data"]["root"] != str(repo.root)
    made = repo.root.with_name(f"{repo.root.name}-{done.json()['session'].lower()}")
    assert (made / "trace").read_text() == "b\n"
    assert not (made / "dirty.txt").exists()
    assert str(made) in done.err
    idle = script({"content": "Nothing to do."})
    done = harnessctl("run", "--json", "--worktree", "--model", idle, "x", cwd=repo.root)
    gone = repo.root.with_name(f"{repo.root.name}-{done.json()['session'].lower()}")
    assert not gone.exists()
    assert "removed" in done.err
    assert str(gone) not in repo("worktree", "list")
    # Its session can go on all the same: the tree is made again.
    again = script({"content": "-"}, {"content": "Still nothing."})
    harnessctl(
        "sessions", "resume", done.json()["session"], "--task", "sure?", "--model", again, cwd=repo.root
    )
    assert not gone.exists()
    run.send_signal(signal.SIGTERM)
    run.communicate(timeout=120)


def follow(repo: Git, text: str) -> None:
    """Run the commands that a text names, as a user does who copies them out of it."""
    commands = re.findall(r"git (?:branch|worktree) [^;\n]+", text)
    assert commands
    for command in commands:
        subprocess.run(command, cwd=repo.root, shell=True, check=True)


def test_the_printed_commands_keep_what_was_committed(
    harnessctl: Run, script: Script, make_repo: Callable[..., Git]
) -> None:
    repo = make_repo("a repo")
    commit = "open('n.txt', 'w').write('new')\n!git add n.txt; git commit -qm x"
    for by_run in (True, False):
        model = script({"content": "a", "code": commit}, {"content": "Done."})
        done = harnessctl("run", "--json", "--worktree", "--model", model, "x", cwd=repo.root)
        kept, said = f"session-{done.json()['session'].lower()}", done.err
        if not by_run:
            repo("branch", kept)  # the name that would be proposed is taken
            kept += "-2"
            said = harnessctl("sessions", "prune", "--keep", "0", cwd=repo.root).err
        assert "--force" not in said
        follow(repo, said)
        assert not Path(done.json()["root"]).exists()
        assert repo("show", f"{kept}:n.txt") == "new"


@pytest.mark.parametrize("dirty", [False, True])
def test_force_is_named_where_something_is_not_committed(
    harnessctl: Run, script: Script, repo: Git, dirty: bool
) -> None:
    code = "!git switch -qc theirs; git commit -qm x --allow-empty"
    if dirty:
        code += "\nopen('n.txt', 'w').write('new')"
    model = script({"content": "a", "code": code}, {"content": "Done."})
    done = harnessctl("run", "--json", "--worktree", "--model", model, "x", cwd=repo.root)
    assert ("not all of it is committed" in done.err) is dirty
    assert "git branch" not in done.err  # one holds it
    follow(repo, done.err)
    assert not Path(done.json()["root"]).exists()


def test_a_work_tree_that_was_deleted_is_made_again(
    harnessctl: Run, script: Script, logs: Logs, repo: Git
) -> None:
    model = script({"content": "a", "code": SLEEP}, {"content": "Done."})
    run = begin(repo, model, "--worktree")
    until_cell(logs)
    run.kill()
    run.communicate()
    made = repo.root.with_name(f"{repo.root.name}-{folder_of(logs).name.lower()}")
    shutil.rmtree(made)
    harnessctl("sessions", "resume", "--model", "none/such", cwd=repo.root, code=2)
    assert not made.exists()  # refused: nothing works in it
    done = harnessctl("sessions", "resume", "--json", cwd=repo.root)
    assert done.json()["answer"] == "Done."
    assert FILES_ANEW.format(commit=repo("rev-parse", "HEAD")) in texts(logs, "repair")[-1]


@pytest.mark.parametrize("code", ["open('new.txt', 'w').write('x')", "1"], ids=["changed", "unchanged"])
def test_what_went_with_a_work_tree_is_told(
    harnessctl: Run, script: Script, logs: Logs, repo: Git, code: str
) -> None:
    model = script({"content": "a", "code": code}, {"content": "Done."})
    done = harnessctl("run", "--json", "--worktree", "--model", model, "x", cwd=repo.root)
    made, lost = Path(done.json()["root"]), code != "1"
    assert made.exists() is lost
    if lost:
        repo("worktree", "remove", "--force", str(made))
    again = script(*[{"content": "-"}] * 2, {"content": "b", "code": "open('n', 'w')"}, {"content": "Done."})
    more = ("--json", "--model", again)
    done = harnessctl("sessions", "resume", "--task", "more", *more, cwd=repo.root)
    head = repo("rev-parse", "HEAD")
    assert f"{made} was removed, and is made anew at commit {head[:12]}" in done.err
    assert ("whatever was changed there before is gone" in done.err) is lost
    assert f"what it changed is in {made}; " in done.err
    told = texts(logs, "repair")[-1]
    assert (FILES_ANEW.format(commit=head) in told, FILES_STAY in told) == (lost, not lost)


def test_a_bare_repository_has_nothing_to_run_on(
    harnessctl: Run, script: Script, repo: Git, tmp_path: Path
) -> None:
    repo("clone", "-q", "--bare", str(repo.root), str(tmp_path / "bare.git"))
    model = script({"content": "Done."})
    done = harnessctl("run", "--json", "--model", model, "x", cwd=tmp_path / "bare.git", code=2)
    assert done.json()["error"]["id"] == "no_work_tree"


def test_a_refused_run_leaves_no_work_tree(harnessctl: Run, script: Script, repo: Git) -> None:
    """Whatever refuses it, nothing worked there: nothing is kept, and nothing is said to have changed."""
    harnessctl("init", "--in-tree", cwd=repo.root)
    repo.write(".harness/memory/broken.md", "no frontmatter\n")
    repo.commit("a memory")
    run = ("run", "--json", "--worktree", "--model", script({"content": "Done."}))
    for more, code, error in (
        ((" ",), 2, "no_task"),
        (("--max-cost", "1", "x"), 2, "unknown_price"),
        (("x",), 1, "broken_entries"),
    ):
        done = harnessctl(*run, *more, cwd=repo.root, code=code)
        assert done.json()["error"]["id"] == error
        assert "what it changed" not in done.err
        assert repo("worktree", "list").count("\n") == 0


def test_the_pin_is_held_while_it_runs_and_let_go(
    harnessctl: Run, script: Script, logs: Logs, repo: Git
) -> None:
    harnessctl("init", cwd=repo.root)
    run = begin(repo, script({"content": "a", "code": SLEEP}, {"content": "Done."}))
    until_cell(logs)
    pinned = logs.newest()[0]["data"]["pin"]["commit"]
    session = folder_of(logs).name
    assert repo("rev-parse", f"refs/harness/live/{session}") == pinned
    run.kill()
    run.communicate()
    assert repo("for-each-ref", "refs/harness/live")  # left behind by the kill
    harnessctl("sessions", "resume", cwd=repo.root)
    assert repo("for-each-ref", "refs/harness/live") == ""


def test_a_line_typed_on_the_terminal_reaches_the_model(script: Script, logs: Logs, repo: Git) -> None:
    model = script({"content": "a", "code": WAIT}, {"content": "Done."})
    terminal = Terminal([COMMAND, "run", "--model", model, "x"], repo.root, controlling=True)
    typed: list[str] = []

    def once_it_works() -> None:
        if not typed and (logs.state.parent / "begun").exists():
            typed.append("use tabs, é")
            terminal.type("use tabs, é\n")
        if "reads this at its next turn" in terminal.plain:
            (logs.state.parent / "go-on").touch()

    assert terminal.until_end(once_it_works) == 0
    asked = [e["data"]["append"] for e in logs.newest() if e["type"] == "request"][-1]
    assert asked[-1] == {"role": "user", "content": "use tabs, é"}
    assert "reads this at its next turn" in terminal.plain


def test_what_stands_in_a_pipe_is_no_message(harnessctl: Run, script: Script, logs: Logs, repo: Git) -> None:
    model = script({"content": "a", "code": "1"}, {"content": "Done."})
    harnessctl("run", "--model", model, "x", cwd=repo.root, input="not for the model\n")
    assert not [e for e in logs.newest() if e["type"] == "message"]
