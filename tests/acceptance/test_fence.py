"""The fence around a run: a cell that moves harness state with git is seen, everybody else's work is not."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from harnessctl.domain.errors import ExitCode
from tests.acceptance.conftest import COMMAND, Logs, Run, Script
from tests.conftest import Git
from tests.fakes.harness import add, propose, store_of

pytestmark = pytest.mark.kernel

DONE = {"content": "Done."}
REF = "refs/heads/harness"


@pytest.fixture
def started(repo: Git, harnessctl: Run) -> Git:
    """A repository with a harness of two commits, its lock committed, and a gate that passes."""
    harnessctl("init", cwd=repo.root)
    add(store_of(repo), "build", "make all")
    harnessctl("pin", "harness", cwd=repo.root)
    repo.commit("pin")
    return repo


def moved_by(code: str, harnessctl: Run, script: Script, repo: Git) -> list[dict[str, str | None]]:
    """What a run with this cell says of the fence; it must end unverified with exit 6."""
    model = script({"content": "I move it.", "code": code}, DONE)
    done = harnessctl(
        "run", "--json", "--gate", "true", "--model", model, "x", cwd=repo.root, code=ExitCode.REFUSED
    )
    result = done.json()
    assert (result["status"], result["reason"], result["verified"]) == ("success", "ref_moved", False)
    moved: list[dict[str, str | None]] = result["moved"]
    assert all(move["name"] in result["detail"] for move in moved)
    return moved


def shell(*commands: str) -> str:
    return "%%bash\nset -e\n" + "\n".join(commands)


def test_a_cell_that_moves_the_harness_ref(harnessctl: Run, script: Script, started: Git) -> None:
    trees = [f"tree {started('rev-parse', f'{rev}:.harness')}" for rev in (REF, f"{REF}~1")]
    (move,) = moved_by(shell(f"git update-ref {REF} {REF}~1"), harnessctl, script, started)
    assert move["name"] == REF
    assert [move["before"], move["after"]] == trees
    now, was = started("rev-parse", REF), started("rev-parse", f"{REF}@{{1}}")
    assert (move["before_commit"], move["after_commit"]) == (was, now)


def test_it_is_said_in_words_with_both_values(harnessctl: Run, script: Script, started: Git) -> None:
    tip = started("rev-parse", REF)
    model = script({"content": "I move it.", "code": shell(f"git update-ref -d {REF}")}, DONE)
    done = harnessctl("run", "--model", model, "x", cwd=started.root, code=ExitCode.REFUSED)
    assert f"{REF}: {tip} -> absent" in done.err
    assert "git reflog show" in done.err


@pytest.mark.parametrize(
    ("code", "name"),
    [
        (shell("echo '# x' >> harness.lock"), "harness.lock"),
        (shell("git config harness.branch other"), "harness.branch"),
        (shell(f"git update-ref refs/harness/proposals/01KA0000000000000000000000 {REF}"), "proposals"),
    ],
)
def test_other_ways_to_change_what_the_next_run_reads(
    harnessctl: Run, script: Script, started: Git, code: str, name: str
) -> None:
    assert [name in str(move["name"]) for move in moved_by(code, harnessctl, script, started)] == [True]


@pytest.mark.parametrize("what", ["policy", "decision", "code"])
def test_what_is_no_entry_counts_too(harnessctl: Run, script: Script, repo: Git, what: str) -> None:
    """Gates and models are read from the branch, and a decision that is gone is a proposal that never was."""
    harnessctl("init", cwd=repo.root)
    repo.commit("pin")
    code = {
        "policy": shell(
            "export GIT_INDEX_FILE=.git/other",
            f"git read-tree {REF}",
            "blob=$(printf 'schema = 1\n' | git hash-object -w --stdin)",
            "git update-index --add --cacheinfo 100644,$blob,.harness/harness.toml",
            f"git update-ref {REF} $(git commit-tree -p {REF} -m x $(git write-tree))",
        ),
        "decision": shell(f"git update-ref {REF} {REF}~1"),
        "code": shell(f"git update-ref {REF} HEAD"),
    }[what]
    if what == "decision":
        proposal = propose(store_of(repo), "own", "text")
        harnessctl("review", "reject", proposal.id, cwd=repo.root)
    entries = store_of(repo).content(repo("rev-parse", REF)).digest
    (move,) = moved_by(code, harnessctl, script, repo)
    assert move["name"] == REF
    assert store_of(repo).content(repo("rev-parse", REF)).digest == entries, "no entry moved"


@pytest.mark.parametrize(
    ("name", "text"),
    [("HEAD", "garbage\n"), ("HEAD", "ref: refs/heads/..//x\n"), ("refs/heads/main", "")],
)
def test_a_run_in_which_a_cell_breaks_head_ends_in_order(
    harnessctl: Run, script: Script, logs: Logs, started: Git, name: str, text: str
) -> None:
    code = (
        f"import os; open('.git/{name}', 'w').write({text!r}); open('../kernel', 'w').write(str(os.getpid()))"
    )
    model = script({"content": "I break it.", "code": code}, DONE)
    done = harnessctl("run", "--json", "--model", model, "x", cwd=started.root, code=ExitCode.REFUSED)
    result = done.json()
    assert (result["status"], result["reason"]) == ("success", "ref_moved")
    assert f"{started.root / '.git' / name} is damaged" in result["detail"]
    assert REF not in result["detail"], "it would name all there is"
    assert {move["after"] for move in result["moved"]} == {"unreadable"}
    assert "Traceback" not in done.err
    end = logs.newest()[-1]
    assert (end["type"], end["data"]["reason"]) == ("end", "ref_moved")
    (saved,) = logs.state.glob(f"harnessctl/*/sessions/{result['session']}/result.json")
    assert json.loads(saved.read_text()) == result
    with pytest.raises(ProcessLookupError):
        os.kill(int((started.root.parent / "kernel").read_text()), 0)
    again = harnessctl("run", "--json", "--model", script(DONE), "x", cwd=started.root, code=1)
    assert again.json()["error"]["id"] == "bad_head"


def test_a_lock_that_was_never_committed_is_removed(harnessctl: Run, script: Script, repo: Git) -> None:
    harnessctl("init", cwd=repo.root)
    (move,) = moved_by(shell("rm harness.lock"), harnessctl, script, repo)
    assert move["after"] == "as committed absent"


def test_a_landing_verb_in_a_cell_is_refused_and_moves_nothing(
    harnessctl: Run, script: Script, logs: Logs, started: Git
) -> None:
    before = started("rev-parse", REF)
    proposal = propose(store_of(started), "own", "text")
    code = shell(
        f"{COMMAND} review accept {proposal.id} || echo exit $?",
        f"env -i PATH=$PATH HOME=$HOME {COMMAND} review accept {proposal.id} || echo exit $?",
    )
    model = script({"content": "I let myself in.", "code": code}, DONE)
    result = harnessctl("run", "--json", "--model", model, "x", cwd=started.root).json()
    assert result["reason"] == "no_gates"
    told = next(e for e in logs.newest() if e["type"] == "result")["data"]["text"]
    assert told.count("exit 6") == 2
    assert started("rev-parse", REF) == before


PRUNE = "sessions prune --yes --keep 0 --force"


@pytest.mark.parametrize("verb", [PRUNE, "hooks install", "hooks uninstall"])
def test_an_agent_removes_no_evidence_and_touches_no_hook(
    harnessctl: Run, script: Script, logs: Logs, started: Git, verb: str
) -> None:
    harnessctl("hooks", "install", cwd=started.root)
    harnessctl("run", "--json", "--model", script(DONE), "x", cwd=started.root)
    hooks = {p.name: p.read_bytes() for p in (started.root / ".git/hooks").iterdir()}
    kept = logs.newest()
    refused = harnessctl(*verb.split(), cwd=started.root, env={"HARNESSCTL_ACTOR": "agent"}, code=6)
    assert f"'{verb.removesuffix(' --keep 0 --force')}'" in refused.err
    assert {p.name: p.read_bytes() for p in (started.root / ".git/hooks").iterdir()} == hooks
    assert logs.newest() == kept
    harnessctl("sessions", "prune", "--keep", "0", cwd=started.root, env={"HARNESSCTL_ACTOR": "agent"})


def during(
    act: Callable[[], object], script: Script, logs: Logs, repo: Git, *lines: dict[str, str]
) -> dict[str, object]:
    """The result of a run during which ``act`` happens outside of it."""
    flag = repo.root.parent / "go-on"
    wait = f"import pathlib, time\nwhile not pathlib.Path({str(flag)!r}).exists(): time.sleep(0.02)"
    model = script({"content": "I wait.", "code": wait}, *lines, DONE)
    run = subprocess.Popen(
        [COMMAND, "run", "--json", "--gate", "true", "--model", model, "x"],
        cwd=repo.root,
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
        stdin=subprocess.DEVNULL,
    )
    end = time.monotonic() + 60
    while not any(b'"type":"cell"' in p.read_bytes() for p in logs.state.glob("*/*/sessions/*/log.jsonl")):
        assert time.monotonic() < end
        assert run.poll() is None, run.communicate()
        time.sleep(0.05)
    act()
    flag.touch()
    out, err = run.communicate(timeout=120)
    assert run.returncode == 0, (out, err)
    result: dict[str, object] = json.loads(out)
    assert result["moved"] == []
    return result


def test_a_colleague_who_accepts_from_another_terminal_is_no_alarm(
    harnessctl: Run, script: Script, logs: Logs, started: Git
) -> None:
    proposal = propose(store_of(started), "learned", "text")
    before = started("rev-parse", REF)
    result = during(
        lambda: harnessctl("review", "accept", proposal.id, "--pin", cwd=started.root), script, logs, started
    )
    assert started("rev-parse", REF) != before
    # The lock that --pin moved is a file of the work tree, so the answer was judged on both sides of it.
    assert result["reason"] == ""


def test_git_switch_is_no_alarm(script: Script, logs: Logs, started: Git) -> None:
    """A branch with another lock, as a checkout of older code brings it."""
    started("switch", "-q", "-c", "older")
    (started.root / "harness.lock").unlink()
    started.commit("no pin here")
    started("switch", "-q", "main")
    result = during(lambda: started("switch", "-q", "older"), script, logs, started)
    assert not (started.root / "harness.lock").exists()
    assert result["status"] == "success"


def test_a_commit_of_the_lock_is_no_alarm(harnessctl: Run, script: Script, repo: Git) -> None:
    """An agent that commits its work with ``git add -A`` moves no pin."""
    harnessctl("init", cwd=repo.root)
    model = script({"content": "I commit.", "code": shell("git add -A", "git commit -q -m work")}, DONE)
    assert harnessctl("run", "--json", "--model", model, "x", cwd=repo.root).json()["moved"] == []


def test_git_fetch_is_no_alarm(
    script: Script, logs: Logs, started: Git, harnessctl: Run, tmp_path: Path
) -> None:
    other = Git(tmp_path / "colleague")
    started("clone", "-q", str(started.root), str(other.root))
    other("branch", "harness", "origin/harness")
    add(store_of(other), "theirs", "from the other clone")
    started("remote", "add", "origin", str(other.root))
    result = during(lambda: started("fetch", "-q", "origin"), script, logs, started)
    assert started("rev-parse", "refs/remotes/origin/harness") != started("rev-parse", REF)
    assert result["status"] == "success"


def test_a_proposal_that_somebody_refines_meanwhile_is_no_alarm(
    script: Script, logs: Logs, started: Git
) -> None:
    """What harnessctl itself proposes stands in its operation log."""
    result = during(lambda: propose(store_of(started), "own", "text"), script, logs, started)
    assert started("for-each-ref", "refs/harness/proposals") != ""
    assert result["status"] == "success"
