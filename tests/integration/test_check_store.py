"""Checker and writer judge by the same rules: what the store writes passes every check of history."""

from __future__ import annotations

import pytest

from harnessctl.cli.main import run
from harnessctl.commands.check import CheckRequest, check
from harnessctl.config import read_environment
from tests.conftest import Git
from tests.fakes.harness import add, land, propose, started, store_of


def found(git: Git, **request: object) -> list[str]:
    report = check(CheckRequest(**request), git.root, read_environment(), ())  # type: ignore[arg-type]
    return [f"{f.rule} {f.path} {f.message}" for f in report.findings]


def test_everything_the_store_lands_passes(repo: Git, monkeypatch: pytest.MonkeyPatch) -> None:
    store = started(repo)
    add(store, "by-hand", "a person's")
    first = land(store, "learned", "an agent's")
    land(store, "learned", "an agent's, changed")
    land(store, "other", "another")
    store.reject(propose(store, "unwanted", "no").id, "not true")
    land(store, "other", "")
    monkeypatch.chdir(repo.root)
    assert run(["rollback", str(first.commit)]) == 0
    branch = "refs/heads/harness"
    assert found(repo, rev=branch) == []
    assert found(repo, range=f"..{branch}") == []
    line = f"{'0' * 40} {repo('rev-parse', branch)} {branch}"
    repo("update-ref", "-d", branch)
    assert found(repo, pushed=(line,)) == []


def test_an_open_proposal_passes_before_it_is_let_in(repo: Git) -> None:
    proposal = propose(started(repo), "learned", "an agent's")
    ref = f"refs/harness/proposals/{proposal.id}"
    assert found(repo, range=f"refs/heads/harness..{ref}") == []


def test_a_squashed_landing_still_counts_as_the_agents(repo: Git) -> None:
    """A forge's squash makes a person the author; the record in the tree still names the agent's entries."""
    store = started(repo)
    add(store, "human", "a person's")
    base = repo("rev-parse", "refs/heads/harness")
    land(store, "learned", "an agent's")
    repo("checkout", "-q", "harness")
    repo.write(".harness/memory/human.md", "---\ndescription: in the same squash\nowner: human\n---\n")
    text = (repo.root / ".harness/memory/learned.md").read_text()
    repo.write(".harness/memory/learned.md", text.replace("owner: agent", "owner: human"))
    repo("commit", "-q", "-a", "--amend", "--author=Ada <ada@example.com>", "-m", "squashed")
    (finding,) = found(repo, range=f"{base}..HEAD")
    assert finding.startswith("HRN305 .harness/memory/learned.md")


def test_in_tree_work_passes_the_hook_and_ci(repo: Git) -> None:
    store = store_of(repo)
    store.initialise(in_tree=True)
    add(store_of(repo), "by-hand", "a person's")
    repo("add", "-A")
    start = repo("rev-parse", "HEAD")
    assert found(repo, staged=True) == []
    repo("commit", "-qm", "harness")
    assert found(repo, range=f"{start}..HEAD") == []


def test_without_a_folder_in_the_work_tree_the_tip_is_checked(repo: Git) -> None:
    add(started(repo), "by-hand", "a person's")
    report = check(CheckRequest(), repo.root, read_environment(), ())
    assert report.what == f"revision {repo('rev-parse', 'refs/heads/harness')[:12]}"
    assert report.files > 1


def test_the_work_tree_is_judged_whole_whether_or_not_it_is_committed(repo: Git) -> None:
    """As a revision is; against HEAD it is still seen that a record is gone, or that tools are wider."""
    store_of(repo).initialise(in_tree=True)
    add(store_of(repo), "good", "a person's")
    repo.write(".harness/memory/a.md", "---\ndescription: d\nstatus: weird\n---\nx\n")
    repo.write(".harness/memory/b.md", f"---\ndescription: d\n---\nghp_{'a1B2' * 9}\n")
    repo.write(".harness/subagents/c.md", "---\nname: c\ndescription: d\ntools: Read\nhooks: x\n---\nx\n")
    before = found(repo)
    repo.commit("harness")
    assert found(repo) == found(repo, rev="HEAD") == before
    assert [line.split()[1] for line in before if line.startswith(("HRN201", "HRN206"))] == [
        ".harness/memory/a.md",
        ".harness/memory/b.md",
    ]
    assert found(repo, paths=(repo.root / ".harness/memory/a.md",)) == [
        one for one in before if "a.md" in one
    ]
    (record,) = (repo.root / ".harness/updates").rglob("*.json")
    text = record.read_text()
    record.write_text(f"{text}\n")
    assert {line.split()[0] for line in found(repo)} >= {"HRN214", "HRN215"}
    record.unlink()
    (gone,) = set(found(repo)) - set(before)
    assert gone.startswith("HRN215 ")
    assert "is deleted" in gone
    record.write_text(text)
    repo.write(".harness/subagents/c.md", "---\nname: c\ndescription: d\nhooks: x\n---\nx\n")
    assert set(found(repo)) - set(before) == {
        "HRN212 .harness/subagents/c.md 'tools' no longer limits the tools"
    }
    assert len(found(repo)) == len(before) + 1
