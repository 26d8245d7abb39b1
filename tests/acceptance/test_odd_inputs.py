"""Inputs that somebody made to break things: a sentence and an exit code, never a crash or a hang."""

from __future__ import annotations

import json
import os
import subprocess
from pathlib import Path

import pytest

from tests.acceptance.conftest import COMMAND, Run, Script
from tests.conftest import Git
from tests.fakes.history import by_hand

NOTE = "---\ndescription: a note\n---\nText.\n"
NESTED = "schema = 1\nx = " + "[" * 100_000
TOKEN = "ghp_" + "a1B2c3D4e5F6" * 3


@pytest.fixture
def started(harnessctl: Run, repo: Git) -> Git:
    harnessctl("init", cwd=repo.root)
    harnessctl("add", "memory/a", cwd=repo.root, input=NOTE)
    return repo


def test_a_secret_in_a_file_name_is_refused(harnessctl: Run, started: Git, tmp_path: Path) -> None:
    skill = tmp_path / "sk"
    (skill / "references").mkdir(parents=True)
    (skill / "SKILL.md").write_text("---\nname: sk\ndescription: x\n---\n")
    (skill / "references" / f"{TOKEN}.md").write_text("hi\n")
    before = started("count-objects", "-v")
    refused = harnessctl("add", "skills/sk", skill, cwd=started.root, code=6)
    assert TOKEN not in refused.out + refused.err
    assert started("count-objects", "-v") == before


def test_a_policy_that_nests_too_deep_is_named(harnessctl: Run, started: Git) -> None:
    deep = "schema = 1\nx = " + "[" * 30_000  # no larger than a policy may be
    by_hand(started, ".harness/harness.toml", deep)
    harnessctl("pin", "--skip-broken", cwd=started.root)
    listed = harnessctl("list", cwd=started.root, code=1)
    assert "memory/a" in listed.out
    assert ".harness/harness.toml: HRN114: " in listed.err
    assert "harness.toml of the pinned revision" in harnessctl("status", cwd=started.root).out
    (found,) = harnessctl("doctor", "--json", cwd=started.root, code=1).json()
    assert found["id"] == "broken_policy"
    assert "harness.toml" in found["what"]
    checked = harnessctl("check", "--rev", "harness", "--json", cwd=started.root, code=1).json()
    assert [(f["rule"], f["path"]) for f in checked] == [("HRN114", ".harness/harness.toml")]
    assert len(harnessctl("log", "--json", cwd=started.root).json()) == 2
    harnessctl("add", "memory/b", cwd=started.root, input=NOTE)
    assert "memory/b" in harnessctl("list", "--at", "harness", cwd=started.root, code=1).out


@pytest.mark.parametrize(
    "text", ["[" * 200_000, '{"schema": Infinity, "type": "update"}', "[]", '{"takes_back": [5]}']
)
def test_records_made_by_hand_break_no_reader(harnessctl: Run, started: Git, text: str) -> None:
    by_hand(started, ".harness/updates/2026-11/01M8MAMW00CN7WY83158ZBYG00.json", text)
    for verb in (["log", "--json"], ["verify", "--all", "--json"], ["check", "--rev", "harness"]):
        assert harnessctl(*verb, cwd=started.root, code=None).code in (0, 1), verb


@pytest.mark.parametrize("text", [NESTED, "a." * 50_000 + "b = 1\n", "x" * 1_000_000])
def test_a_lock_that_is_none(harnessctl: Run, started: Git, text: str) -> None:
    (started.root / "harness.lock").write_text(text)
    assert harnessctl("list", cwd=started.root, code=None).code in (1, 2)


def test_pipes_are_not_waited_for(harnessctl: Run, started: Git, tmp_path: Path) -> None:
    (started.root / "harness.lock").unlink()
    os.mkfifo(started.root / "harness.lock")
    assert harnessctl("list", cwd=started.root, code=None).code in (1, 2)
    skill = tmp_path / "sk"
    skill.mkdir()
    (skill / "SKILL.md").write_text("---\nname: sk\ndescription: x\n---\n")
    os.mkfifo(skill / "f")
    assert harnessctl("add", "skills/sk", skill, cwd=started.root, code=None).code in (1, 2)


def test_a_lock_that_contradicts_itself_is_said(harnessctl: Run, started: Git) -> None:
    lock = started.root / "harness.lock"
    kept = [line for line in lock.read_text().splitlines() if not line.startswith("entries")]
    lock.write_text("\n".join([*kept, f'entries = "sha256:{"0" * 64}"', ""]))
    assert "contradicts itself" in harnessctl("status", cwd=started.root).out


def test_a_lock_that_names_a_tree(harnessctl: Run, started: Git) -> None:
    lock = started.root / "harness.lock"
    tree = started("rev-parse", "main^{tree}")
    commit = started("rev-parse", "refs/heads/harness~1")
    lock.write_text(lock.read_text().replace(commit, tree))
    assert harnessctl("list", cwd=started.root, code=None).code == 0  # by its entries


def test_a_record_forges_no_lines_of_the_log(harnessctl: Run, started: Git) -> None:
    path = next(
        p for p in started("ls-tree", "-r", "--name-only", "harness").splitlines() if "/updates/" in p
    )
    record = json.loads(started("show", f"harness:{path}"))
    forged = "01M8MAMW00CN7WY83158ZBYG00"
    record |= {"id": forged, "summary": "x\n::error::injected"}
    by_hand(
        started,
        f".harness/updates/2026-11/{forged}.json",
        json.dumps(record, sort_keys=True, indent=2) + "\n",
    )
    shown = harnessctl("log", cwd=started.root).out
    assert forged in shown
    assert "::error::injected" in shown
    assert not [line for line in shown.splitlines() if line.startswith("::")]


@pytest.mark.parametrize(
    ("verb", "closed", "code", "words"),
    [
        ("add memory/x -", "<&-", 1, "no frontmatter"),
        ("list --at harness", ">&-", 0, ""),
        ("list --at harness", ">/dev/full", 1, "no space left"),
        ("show memory/none --json", ">/dev/full", 1, ""),
        ("log", "| true", 0, ""),
    ],
)
def test_closed_and_full_streams(started: Git, verb: str, closed: str, code: int, words: str) -> None:
    done = subprocess.run(
        f"{COMMAND} {verb} {closed}",
        shell=True,
        cwd=started.root,
        capture_output=True,
        check=False,
        text=True,
    )
    assert done.returncode == code, done.stderr
    assert words in done.stderr
    assert "Traceback" not in done.stderr
    assert "Exception" not in done.stderr


@pytest.mark.kernel
@pytest.mark.parametrize("what", ["os.truncate(log, 100)", "open(log, 'a').write('{}\\n')", "os.unlink(log)"])
def test_a_run_that_touched_its_own_log_is_not_verified(
    harnessctl: Run, script: Script, started: Git, home: Path, what: str
) -> None:
    find = f"import glob, os\nlog = glob.glob('{home}/state/harnessctl/*/sessions/*/log.jsonl')[0]\n"
    model = script({"content": "x", "code": find + what}, {"content": "done"})
    done = harnessctl("run", "--gate", "true", "--model", model, "--json", "x", cwd=started.root, code=1)
    result = done.json()
    assert (result["status"], result["reason"], result["verified"]) == ("failed", "storage", False)


@pytest.mark.kernel
def test_what_a_cell_wrote_into_the_log_stands_aside_and_the_session_goes_on(
    harnessctl: Run, script: Script, started: Git, home: Path
) -> None:
    find = f"import glob\nlog = glob.glob('{home}/state/harnessctl/*/sessions/*/log.jsonl')[0]\n"
    model = script({"content": "x", "code": f"{find}open(log, 'a').write('rubbish\\n')"}, {"content": "done"})
    harnessctl("run", "--model", model, "x", cwd=started.root, code=1)
    listed = harnessctl("sessions", "list", "--json", cwd=started.root).json()[0]
    assert (listed["status"], listed["reason"]) == ("failed", "storage")
    assert harnessctl("sessions", "show", "--json", cwd=started.root).json()["damage"] == []
    (aside,) = home.glob("state/harnessctl/*/sessions/*/torn-*")
    assert aside.read_text() == "rubbish\n"
    assert harnessctl("sessions", "resume", "--json", cwd=started.root).json()["answer"] == "done"


@pytest.mark.kernel
def test_misspelt_settings_are_told_and_stop_nothing(
    repo: Git, harnessctl: Run, script: Script, home: Path
) -> None:
    harnessctl("init", cwd=repo.root)
    (home / "config/harnessctl").mkdir(parents=True)
    (home / "config/harnessctl/config.toml").write_text("[budgets]\nturn = 3\n")
    repo("config", "harness.modle", "x")
    repo("checkout", "-q", "harness")
    repo.write(".harness/harness.toml", "schema = 1\n[budgets]\ntoken = 3\n")
    repo("commit", "-qam", "policy")
    repo("checkout", "-q", "main")
    harnessctl("pin", cwd=repo.root)
    for call in (["status"], ["doctor"], ["run", "--model", script({"content": "done"}), "x"]):
        said = harnessctl(*call, cwd=repo.root).err
        for name, meant in (("turn", "turns"), ("token", "tokens")):
            assert said.count(f"'budgets.{name}' is read by nothing. did you mean 'budgets.{meant}'?") == 1
        assert said.count("git config: 'harness.modle'") == 1
    newest = json.loads(harnessctl("sessions", "list", "--json", cwd=repo.root).out)[0]
    known = json.loads(harnessctl("status", "--json", cwd=repo.root).out)["session"]
    assert known == {"id": newest["id"], "state": "success", "started": newest["started"]}
    said = harnessctl("status", cwd=repo.root).out
    assert f"last session: {newest['id']}, success, {newest['started']}" in said


def test_a_revision_that_no_run_would_load_is_not_pinned(
    harnessctl: Run, started: Git, script: Script
) -> None:
    harnessctl("pin", cwd=started.root)
    before = (started.root / "harness.lock").read_bytes()
    by_hand(started, ".harness/memory/b.md", "---\nno: end\n")
    error = harnessctl("pin", "--json", cwd=started.root, code=1).json()["error"]
    assert error["id"] == "broken_entries"
    assert ".harness/memory/b.md" in error["message"]
    assert "--skip-broken" in error["hint"]
    assert (started.root / "harness.lock").read_bytes() == before
    done = harnessctl("pin", "--skip-broken", cwd=started.root)
    assert (started.root / "harness.lock").read_bytes() != before
    assert "runs refuse it without --skip-broken" in done.out
    assert "memory/b" in done.err
    again = harnessctl("pin", "--skip-broken", "--json", cwd=started.root).json()
    assert again["skipped"] == ["memory/b"]
    refused = harnessctl("run", "--json", "--model", script({"content": "x"}), "x", cwd=started.root, code=1)
    assert refused.json()["error"]["id"] == "broken_entries", "as pin said"
