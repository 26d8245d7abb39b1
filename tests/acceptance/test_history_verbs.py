"""The verbs that explain, undo and repair, as users call them: words, JSON, exit codes."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

import pytest

from tests.acceptance.conftest import COMMAND, Run
from tests.conftest import Git
from tests.fakes.harness import Make, started, store_of
from tests.fakes.history import land, learned, log, log_file, update_of
from tests.fakes.terminal import pseudo_terminal


def test_every_new_verb_teaches(repo: Git, harnessctl: Run) -> None:
    for verb in ("blame", "verify", "sync", "doctor", "rollback", "diff", "log"):
        text = harnessctl(verb, "--help", cwd=repo.root).out
        assert len(text.split()) > 40, verb
        assert "--json" in text
    told = " ".join(harnessctl("doctor", "--help", cwd=repo.root).out.split())
    assert "is listed and leaves it at 0" in told
    for verb in ("edit", "rebase", "pr"):
        assert "--json" in harnessctl("review", verb, "--help", cwd=repo.root).out
    table = harnessctl("--help", cwd=repo.root).out
    assert all(verb in table for verb in ("blame", "verify", "sync", "doctor"))


def test_from_a_line_to_the_event_behind_it(repo: Git, harnessctl: Run) -> None:
    store = started(repo)
    trajectory = log(store)
    landed = land(store, "a", "one", trajectory)
    told = harnessctl("blame", "memory/a", "--at", "harness", cwd=repo.root).out
    assert f"{update_of(landed)}  Ada Reviewer" in told
    assert f"{trajectory.session}#5" in told
    rows = harnessctl("blame", "memory/a", "--at", "harness", "--json", cwd=repo.root).json()["lines"]
    assert rows[-1]["events"] == [f"{trajectory.session}#5"]
    shown = harnessctl("show", update_of(landed), "--evidence", cwd=repo.root).out
    assert 'quote: "tracked: app.py"' in shown
    harnessctl("pin", cwd=repo.root)
    shown = harnessctl("show", "memory/a", "--evidence", "--json", cwd=repo.root).json()
    assert shown["updates"][0]["evidence"][0]["session"] == trajectory.session
    harnessctl("verify", "--all", cwd=repo.root)
    path = log_file(store, trajectory)
    path.write_bytes(path.read_bytes().replace(b"tracked", b"trackad", 1))
    done = harnessctl("verify", update_of(landed), cwd=repo.root, code=1)
    assert "mismatch" in done.out
    assert f"{trajectory.session}#" in done.out
    assert harnessctl("verify", cwd=repo.root, code=2).err


def test_log_narrows_by_entry_session_and_state(repo: Git, harnessctl: Run) -> None:
    store = started(repo)
    trajectory = log(store)
    one = land(store, "a", "one", trajectory)
    two = land(store, "b", "two")
    waiting = learned(store, "c", "three")

    def found(*options: str) -> list[str]:
        return [row["update"] for row in harnessctl("log", "--json", *options, cwd=repo.root).json()]

    assert found() == [waiting.id, update_of(two), update_of(one)]
    assert found("memory/a") == [update_of(one)]
    assert found("--session", trajectory.session[:22].lower()) == [update_of(one)]
    assert found("--state", "open") == [waiting.id]
    assert found("-n", "1") == [waiting.id]


def test_rollback_tries_first_and_then_takes_one_back(repo: Git, harnessctl: Run) -> None:
    store = started(repo)
    one = land(store, "a", "one")
    land(store, "b", "two")
    tip = repo("rev-parse", "harness")
    tried = harnessctl("rollback", "--only", update_of(one), "--dry-run", cwd=repo.root).out
    assert "would take back 1 update" in tried
    assert "delete memory/a" in tried
    assert repo("rev-parse", "harness") == tip
    done = harnessctl("rollback", "--only", update_of(one), "--json", cwd=repo.root).json()
    assert done["takes_back"] == [update_of(one)]
    assert (done["dry_run"], done["running"], done["derived"]) == (False, [], [])
    said = harnessctl("rollback", "harness", cwd=repo.root, code=1).err
    assert "is the tip" in said
    assert "--only" in said


def test_diff_says_what_the_prompt_gains(repo: Git, harnessctl: Run) -> None:
    store = started(repo)
    land(store, "a", "one")
    told = harnessctl("diff", cwd=repo.root).out
    assert "create memory/a: 0 -> " in told
    assert "rendered harness: 0 -> " in told
    harnessctl("pin", cwd=repo.root)
    assert harnessctl("diff", cwd=repo.root).err == "no difference\n"


def editing(tmp_path: Path, old: str, new: str) -> dict[str, str]:
    """Environment with an editor that replaces text in every file it is given."""
    script = tmp_path / "editor.py"
    script.write_text(
        "import sys, pathlib\n"
        "for name in sys.argv[3:]:\n"
        "    p = pathlib.Path(name)\n"
        "    p.write_text(p.read_text().replace(sys.argv[1], sys.argv[2]))\n"
    )
    return {"EDITOR": f"'{sys.executable}' '{script}' '{old}' '{new}'"}


def test_review_edit_keeps_a_bad_text_and_goes_on(repo: Git, harnessctl: Run, tmp_path: Path) -> None:
    store = started(repo)
    waiting = learned(store, "a", "one")
    bad = editing(tmp_path, "description: about a", "description: a: b")
    done = harnessctl("review", "edit", waiting.id, cwd=repo.root, env=bad, code=1)
    assert ".harness/memory/a.md:2" in done.err
    assert "is kept in" in done.err
    good = editing(tmp_path, "description: a: b", "description: better")
    done = harnessctl("review", "edit", waiting.id, cwd=repo.root, env=good)
    assert "going on with the text" in done.err
    harnessctl("review", "accept", waiting.id, cwd=repo.root)
    assert "description: better" in repo("show", "harness:.harness/memory/a.md")


@pytest.mark.skipif(not hasattr(os, "openpty"), reason="needs a terminal")
def test_review_edit_asks_on_a_terminal_whether_to_edit_again(repo: Git, tmp_path: Path) -> None:
    store = started(repo)
    waiting = learned(store, "a", "one")
    script = tmp_path / "editor.py"
    script.write_text(
        "import sys, pathlib\n"
        "p = pathlib.Path(sys.argv[1]); text = p.read_text()\n"
        "bad = 'description: a: b' in text\n"
        "p.write_text(text.replace('description: a: b', 'description: better') if bad\n"
        "    else text.replace('description: about a', 'description: a: b'))\n"
    )
    with pseudo_terminal() as (ours, theirs):
        os.write(ours, b"y\n")
        done = subprocess.run(
            [COMMAND, "review", "edit", waiting.id],
            cwd=repo.root,
            stdin=theirs,
            capture_output=True,
            env={**os.environ, "EDITOR": f"'{sys.executable}' '{script}'"},
            timeout=120,
            check=False,
        )
    assert done.returncode == 0, done.stderr
    assert b"edit again?" in done.stderr
    assert b"edited" in done.stdout


def test_rebase_pr_sync_and_doctor_in_words(repo: Git, make_repo: Make, harnessctl: Run) -> None:
    store = started(repo)
    waiting = learned(store, "a", "one")
    land(store, "b", "two")
    assert f"rebased {waiting.id}" in harnessctl("review", "rebase", waiting.id, cwd=repo.root).out
    refused = harnessctl("review", "rebase", waiting.id, cwd=repo.root, code=1).err
    assert "is on the tip already" in refused
    assert f"harnessctl review show {waiting.id}" in refused
    assert "no remote" in harnessctl("sync", cwd=repo.root, code=2).err
    bare = make_repo("origin.git", bare=True)
    repo("remote", "add", "origin", str(bare.root))
    assert "pushed 2 commits to origin" in harnessctl("sync", cwd=repo.root).out
    assert harnessctl("sync", "--json", cwd=repo.root).json()["given"] == 0
    offered = harnessctl("review", "pr", waiting.id, cwd=repo.root).out
    assert f"open a pull request from harness-proposals/{waiting.id} into harness" in offered
    assert harnessctl("doctor", cwd=repo.root).out == "nothing is wrong\n"
    store_of(repo).accept(waiting.id)
    repo("update-ref", f"refs/harness/proposals/{waiting.id}", waiting.commit)
    done = harnessctl("doctor", cwd=repo.root, code=1)
    assert "would: remove the ref" in done.out
    assert "done: " in harnessctl("doctor", "--fix", cwd=repo.root).out
    assert harnessctl("doctor", "--json", cwd=repo.root).json() == []


def test_a_revoked_pin_stops_a_run_unless_asked_for(repo: Git, harnessctl: Run, tmp_path: Path) -> None:
    store = started(repo)
    bad = store.accept(learned(store, "a", "one").id, pin=True)
    lock = (repo.root / "harness.lock").read_bytes()
    harnessctl("rollback", "--only", update_of(bad), cwd=repo.root)
    (repo.root / "harness.lock").write_bytes(lock)
    script = tmp_path / "script.jsonl"
    script.write_text('{"content": "done"}\n')
    model = f"scripted:{script}"
    done = harnessctl("run", "--model", model, "task", cwd=repo.root, code=6)
    assert update_of(bad) in done.err
    done = harnessctl("run", "--model", model, "--allow-revoked", "task", cwd=repo.root)
    assert "done" in done.out


def test_pin_refuses_what_runs_would_refuse(repo: Git, harnessctl: Run) -> None:
    store = started(repo)
    bad = store.accept(learned(store, "a", "one").id, pin=True)
    harnessctl("rollback", "--only", update_of(bad), cwd=repo.root)
    lock = (repo.root / "harness.lock").read_bytes()
    done = harnessctl("pin", bad.commit, cwd=repo.root, code=6)
    assert update_of(bad) in done.err
    assert "--allow-revoked" in done.err
    assert (repo.root / "harness.lock").read_bytes() == lock
    done = harnessctl("pin", "--allow-revoked", bad.commit, cwd=repo.root)
    assert "the next run reads it" not in done.out
    assert f"warning: it holds {update_of(bad)}" in done.err
    for verb in ("prompt", "status"):
        said = harnessctl(verb, cwd=repo.root, code=6 if verb == "prompt" else 0)
        assert "harnessctl pin moves the lock" in said.err + said.out
    harnessctl("pin", cwd=repo.root)
    assert harnessctl("pin", "--allow-revoked", "--json", cwd=repo.root).json()["revoked"] == []


def test_the_help_says_what_a_listed_sessions_tokens_are(repo: Git, harnessctl: Run) -> None:
    told = " ".join(harnessctl("sessions", "list", "--help", cwd=repo.root).out.split())
    assert "A session's tokens are those of its whole tree" in told


def test_what_is_not_there_is_said_in_one_form(repo: Git, harnessctl: Run) -> None:
    store = started(repo)
    landed = land(store, "build", "one")
    store.move_pin()
    session = landed.record.evidence[0].session if landed.record else ""
    for call, said, meant in (
        (["log", "memory/buld"], "there is no entry 'memory/buld'", "memory/build"),
        (["blame", "memory/buld"], "there is no entry 'memory/buld'", "memory/build"),
        (["show", "memory/buld"], "there is no entry 'memory/buld'", "memory/build"),
        (["log", "--session", session[:-1] + "_"], f"there is no session '{session[:-1]}_'", session),
        (["log", "--session", "zzz"], "there is no session 'zzz'", "sessions list"),
        (["log", "--session", session[:-1].lower() + "_"], f"'{session[:-1].lower()}_'", session),
        (["sessions", "show", "none"], "there is no session 'none'", "sessions list"),
        (["refine", "none"], "there is no session 'none'", "sessions list"),
        (["diff", "none"], "there is no revision 'none'", "harnessctl log"),
    ):
        done = harnessctl(*call, cwd=repo.root, code=1)
        assert said in done.err, done
        assert meant in done.err, done
    assert "no updates" in harnessctl("log", "memory/build", "--state", "open", cwd=repo.root).err
    unused = log(store).session
    assert "no updates" in harnessctl("log", "--session", unused, cwd=repo.root).err
