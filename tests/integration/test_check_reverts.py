"""Records that go: with a ``git revert`` of what brought them they may, with anything less they may not."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from harnessctl.commands.check import CheckRequest, check
from harnessctl.commands.hooks import install_hooks
from harnessctl.commands.init import init
from harnessctl.commands.rollback import rollback
from harnessctl.config import read_environment
from harnessctl.domain.entry import EntryFile
from harnessctl.domain.errors import HarnessError
from harnessctl.domain.finding import Finding, Severity
from harnessctl.domain.ids import EntryId, record_path
from harnessctl.domain.update import EntryEdit, UpdateState
from harnessctl.layers.l3_durable.landing.proposals import Draft, Proposal
from tests.conftest import Git
from tests.fakes.harness import EVIDENCE, note, propose, store_of


@pytest.fixture
def in_tree(repo: Git) -> Git:
    """A repository with an in-tree harness, committed."""
    init(store_of(repo), in_tree=True)
    repo.commit("harness")
    return repo


def merged(git: Git, name: str, text: str) -> Proposal:
    """An agent's memory, proposed and merged as the way in-tree says."""
    proposal = propose(store_of(git), name, text)
    git("merge", "-q", "--no-edit", f"refs/harness/proposals/{proposal.id}")
    return proposal


def record_of(git: Git, update: str) -> Path:
    """The record's file in the work tree."""
    return git.root / ".harness" / record_path(update)


def deleted(git: Git, base: str) -> list[str]:
    """Names of the records that HRN215 says are deleted between ``base`` and HEAD."""
    request = CheckRequest(range=f"{base}..HEAD")
    findings = check(request, git.root, read_environment(), ()).findings
    assert {f.rule for f in findings if f.severity is Severity.ERROR} <= {"HRN215"}
    return [Path(f.path).stem for f in findings if "is deleted" in f.message]


def staged(git: Git) -> list[Finding]:
    git("add", "-A")
    return list(check(CheckRequest(staged=True), git.root, read_environment(), ()).findings)


# -- what passes ----------------------------------------------------------------------------------


def test_the_way_back_that_rollback_names_can_be_pushed(in_tree: Git, make_repo: Callable[..., Git]) -> None:
    remote = make_repo("remote", bare=True)
    install_hooks(in_tree.root, sys.executable)
    in_tree("remote", "add", "origin", str(remote.root))
    proposal = merged(in_tree, "a", "one")
    in_tree("push", "-q", "origin", "main")
    shared = in_tree("rev-parse", "HEAD")
    with pytest.raises(HarnessError) as caught:
        rollback(store_of(in_tree), proposal.id, only=True)
    assert caught.value.hint == f"git revert {shared[:12]} there takes it back"
    in_tree("revert", "--no-edit", shared[:12])
    assert {u.id: u.state for u in store_of(in_tree).updates()}[proposal.id] is UpdateState.TAKEN_BACK
    in_tree("push", "-q", "origin", "main")
    assert remote("rev-parse", "main") == in_tree("rev-parse", "HEAD")
    assert deleted(in_tree, shared) == []


def test_several_reverts_of_one_entry_pass_commit_by_commit_and_as_one(in_tree: Git) -> None:
    for text in ("one", "two", "three"):
        merged(in_tree, "a", text)
    merged(in_tree, "other", "stays")
    tip = in_tree("rev-parse", "HEAD")
    in_tree("revert", "--no-edit", "HEAD~1", "HEAD~2")
    assert deleted(in_tree, tip) == []
    in_tree("reset", "-q", "--hard", tip)
    in_tree("revert", "--no-commit", "HEAD~1", "HEAD~2")
    assert staged(in_tree) == []
    in_tree("commit", "-qm", "both")
    assert deleted(in_tree, tip) == []


def test_the_revert_of_a_rollback_and_of_what_it_took_back_passes(in_tree: Git) -> None:
    merged(in_tree, "a", "one")
    second = merged(in_tree, "a", "two")
    in_tree("switch", "-q", "--detach")
    rollback(store_of(in_tree), second.id, only=True)
    in_tree("switch", "-q", "main")
    tip = in_tree("rev-parse", "HEAD")
    in_tree("revert", "--no-edit", "HEAD", "HEAD~1", "HEAD~2")
    assert deleted(in_tree, tip) == []


def test_a_revert_on_a_branch_of_its_own_passes_with_its_merge(in_tree: Git) -> None:
    merged(in_tree, "a", "one")
    in_tree("switch", "-q", "-c", "back")
    in_tree("revert", "--no-edit", "HEAD")
    in_tree("switch", "-q", "main")
    merged(in_tree, "other", "later")
    tip = in_tree("rev-parse", "HEAD")
    in_tree("merge", "-q", "--no-edit", "back")
    assert deleted(in_tree, tip) == []


def test_a_skill_counts_with_all_its_files(in_tree: Git) -> None:
    files = (
        EntryFile("skills/s/SKILL.md", 0o100644, b"---\nname: s\ndescription: d\n---\nx\n"),
        EntryFile("skills/s/scripts/run.sh", 0o100755, b"#!/bin/sh\n"),
    )
    edit = EntryEdit(EntryId.parse("skills/s"), "create", files)
    proposal = store_of(in_tree).propose([edit], Draft("learn s", "seen twice", evidence=(EVIDENCE,)))
    in_tree("merge", "-q", f"refs/harness/proposals/{proposal.id}")
    tip = in_tree("rev-parse", "HEAD")
    in_tree("revert", "--no-edit", "HEAD")
    assert deleted(in_tree, tip) == []
    in_tree.write(".harness/skills/s/scripts/run.sh", "#!/bin/sh\n")
    in_tree.commit("one file of it is back")
    findings = check(CheckRequest(range=f"{tip}..HEAD"), in_tree.root, read_environment(), ()).findings
    assert "HRN215" in {f.rule for f in findings}


# -- what does not --------------------------------------------------------------------------------


def test_a_record_that_goes_alone_is_refused_by_the_hook(in_tree: Git, make_repo: Callable[..., Git]) -> None:
    remote = make_repo("remote", bare=True)
    install_hooks(in_tree.root, sys.executable)
    proposal = merged(in_tree, "a", "one")
    in_tree("push", "-q", str(remote.root), "main")
    path = record_of(in_tree, proposal.id)
    path.unlink()
    assert [f.rule for f in staged(in_tree)] == ["HRN215"]
    in_tree("commit", "-q", "--no-verify", "-m", "record gone")
    command = ["git", "push", "-q", str(remote.root), "main"]
    done = subprocess.run(command, cwd=in_tree.root, capture_output=True, text=True, check=False)
    assert done.returncode == 1
    said = done.stdout + done.stderr
    assert f"{path.name}: error HRN215" in said
    assert "restore the record" in said
    assert "git revert" in said


def test_an_entry_that_is_not_what_it_was_before_is_refused(in_tree: Git) -> None:
    merged(in_tree, "a", "one")
    second = merged(in_tree, "a", "two")
    tip = in_tree("rev-parse", "HEAD")
    in_tree("revert", "--no-edit", "HEAD")
    in_tree.write(".harness/memory/a.md", note("a", "by hand").data)
    in_tree.commit("and more")
    assert deleted(in_tree, tip) == [second.id]


def test_an_update_below_one_that_stays_is_refused(in_tree: Git) -> None:
    """Else the record that stays would tell of a change that is gone too."""
    first = merged(in_tree, "a", "one")
    merged(in_tree, "a", "two")
    tip = in_tree("rev-parse", "HEAD")
    record_of(in_tree, first.id).unlink()
    (in_tree.root / ".harness/memory/a.md").unlink()
    in_tree.commit("more than the record tells")
    assert deleted(in_tree, tip) == [first.id]


def test_an_update_of_several_entries_goes_whole_or_not_at_all(in_tree: Git) -> None:
    edits = [EntryEdit(EntryId.parse(f"memory/{n}"), "create", (note(n, "one"),)) for n in ("a", "b")]
    proposal = store_of(in_tree).propose(edits, Draft("learn", "seen twice", evidence=(EVIDENCE,)))
    in_tree("merge", "-q", f"refs/harness/proposals/{proposal.id}")
    tip = in_tree("rev-parse", "HEAD")
    in_tree("revert", "--no-edit", "HEAD")
    assert deleted(in_tree, tip) == []
    in_tree("checkout", "-q", tip, "--", ".harness/memory/b.md")
    in_tree.commit("half of it is back")
    assert deleted(in_tree, tip) == [proposal.id]


def test_a_pair_that_cancels_out_does_not_go_from_below_a_later_update(in_tree: Git) -> None:
    merged(in_tree, "a", "one")
    second = merged(in_tree, "a", "two")
    in_tree("switch", "-q", "--detach")
    back = rollback(store_of(in_tree), second.id, only=True).landed.record
    in_tree("switch", "-q", "main")
    merged(in_tree, "a", "three")
    tip = in_tree("rev-parse", "HEAD")
    assert back is not None
    for update in (second.id, back.id):
        record_of(in_tree, update).unlink()
    in_tree.commit("nothing changes")
    assert deleted(in_tree, tip) == sorted([second.id, back.id])


def test_a_decision_stays(in_tree: Git) -> None:
    """It changed no entry, so nothing shows that it was taken back."""
    proposal = propose(store_of(in_tree), "a", "one")
    in_tree("switch", "-q", "--detach")
    decision = store_of(in_tree).reject(proposal.id, "not true").record
    in_tree("switch", "-q", "main")
    tip = in_tree("rev-parse", "HEAD")
    in_tree("revert", "--no-edit", "HEAD")
    assert decision is not None
    assert deleted(in_tree, tip) == [decision.id]
