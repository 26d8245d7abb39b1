"""In-tree mode: the harness beside the code, landed by the user's own commits and merges."""

from __future__ import annotations

import json
import os
import subprocess
import time
from collections.abc import Callable
from dataclasses import replace
from pathlib import Path
from typing import Any

import pytest

from harnessctl.commands.doctor import doctor
from harnessctl.commands.edit import open_entry
from harnessctl.commands.init import init
from harnessctl.commands.log import log
from harnessctl.commands.rollback import rollback
from harnessctl.commands.status import status
from harnessctl.domain.entry import EntryFile
from harnessctl.domain.errors import ConflictError, HarnessError, RefusedError
from harnessctl.domain.ids import EntryId
from harnessctl.domain.pin import Mode, PinSource
from harnessctl.domain.update import UpdateState
from harnessctl.layers.l3_durable.checking.validation import InvalidError
from harnessctl.layers.l3_durable.content import entry_digest
from harnessctl.layers.l3_durable.landing.adding import Addition
from harnessctl.layers.l3_durable.landing.landed import Landed
from harnessctl.layers.l3_durable.places.names import DECISIONS
from tests.conftest import Git
from tests.fakes.harness import add, land, note, propose, store_of, text_of


@pytest.fixture
def in_tree(repo: Git) -> Git:
    """A repository with an in-tree harness, committed."""
    init(store_of(repo), in_tree=True)
    repo.commit("harness")
    return repo


def test_init_writes_files_and_no_ref(repo: Git) -> None:
    refs = repo("for-each-ref")
    made = init(store_of(repo), in_tree=True)
    assert made.to_json()["written"] == [str(repo.root / ".harness/harness.toml")]
    assert repo("for-each-ref") == refs
    assert repo("status", "--porcelain") == "?? .harness/"
    assert not (repo.root / "harness.lock").exists()


def test_add_writes_the_entry_and_its_record_for_the_user_to_commit(in_tree: Git) -> None:
    head = in_tree("rev-parse", "HEAD")
    landed = add(store_of(in_tree), "a", "one")
    assert landed.commit == ""
    assert len(landed.written) == 2
    assert in_tree("rev-parse", "HEAD") == head
    in_tree.commit("take it")
    store = store_of(in_tree)
    assert (store.mode, store.pin().source, store.pin().note) == (Mode.IN_TREE, PinSource.HEAD, "")
    assert list(store.snapshot().entries) == ["memory/a"]
    assert [u.state for u in store.updates()] == [UpdateState.LANDED]
    record = json.loads(next((in_tree.root / ".harness/updates").rglob("*.json")).read_text())
    assert record["entries"][0]["id"] == "memory/a"


def test_add_is_checked_before_a_file_is_written(in_tree: Git) -> None:
    for text, error in (("ghp_" + "a1B2c3D4e5F6g7H8i9J0k1L2m3N4o5P6q7R8", RefusedError), ("x", InvalidError)):
        keys = {} if error is RefusedError else {"depends_on": "memory/nowhere"}
        with pytest.raises(error):
            add(store_of(in_tree), "a", text, **keys)
    assert in_tree("status", "--porcelain") == ""


def test_a_link_below_the_folder_leads_no_write_elsewhere(in_tree: Git, tmp_path: Path) -> None:
    (tmp_path / "outside").mkdir()
    (in_tree.root / ".harness/memory").symlink_to(tmp_path / "outside")
    with pytest.raises(RefusedError) as caught:
        add(store_of(in_tree), "a", "one")
    assert caught.value.id == "symlink_in_the_way"
    assert list((tmp_path / "outside").iterdir()) == []


def test_accept_on_a_checked_out_branch_names_the_merge(in_tree: Git) -> None:
    store = store_of(in_tree)
    proposal = propose(store, "a", "one")
    with pytest.raises(HarnessError) as caught:
        store.accept(proposal.id)
    assert caught.value.id == "branch_in_use"
    assert f"git merge refs/harness/proposals/{proposal.id} there" in caught.value.hint
    assert "revert" not in caught.value.hint
    in_tree("merge", "-q", f"refs/harness/proposals/{proposal.id}")
    again = store_of(in_tree)
    assert list(again.snapshot().entries) == ["memory/a"]
    assert {u.id: u.state for u in again.updates() if u.id} == {proposal.id: UpdateState.LANDED}
    assert again.proposals() == ()


def test_accept_lands_where_the_branch_is_checked_out_nowhere(in_tree: Git) -> None:
    in_tree("checkout", "-q", "-b", "topic")
    landed = land(store_of(in_tree), "a", "one")
    assert in_tree("rev-parse", "main") == landed.commit
    assert text_of(in_tree, "a", "main") == "one"
    assert in_tree("show", "main:app.py") == "print('hello')"
    assert store_of(in_tree).snapshot().entries == {}, "HEAD is read, and topic has not got it"


def test_a_rejection_waits_under_a_ref_until_the_next_landing(in_tree: Git) -> None:
    store = store_of(in_tree)
    proposal = propose(store, "a", "one")
    rejected = store.reject(proposal.id, "no")
    assert rejected.record is not None
    ref = DECISIONS + rejected.record.id
    assert in_tree("for-each-ref", "--format=%(refname)", "refs/harness") == ref
    rows = {row["update"]: row["state"] for row in log(store_of(in_tree)).to_json()}
    assert rows[proposal.id] == "rejected"
    in_tree("checkout", "-q", "-b", "topic")
    land(store_of(in_tree), "b", "two")
    assert in_tree("for-each-ref", "refs/harness") == ""
    assert f"{rejected.record.id}.json" in in_tree("ls-tree", "-r", "--name-only", "main")
    rows = {row["update"]: row["state"] for row in log(store_of(in_tree)).to_json()}
    assert rows[proposal.id] == "rejected"


def test_a_fresh_clone_is_in_tree_by_what_head_holds(in_tree: Git, tmp_path: Path) -> None:
    add(store_of(in_tree), "a", "one")
    in_tree.commit("take it")
    subprocess.run(["git", "clone", "-q", in_tree.root, tmp_path / "clone"], check=True)
    store = store_of(Git(tmp_path / "clone"))
    assert (store.mode, store.branch) == (Mode.IN_TREE, "main")
    assert list(store.snapshot().entries) == ["memory/a"]
    assert status(store).pinned == "at HEAD"


def test_a_lock_beside_an_in_tree_harness_keeps_the_mode_in_a_clone(in_tree: Git, tmp_path: Path) -> None:
    store_of(in_tree).move_pin()
    in_tree.commit("pin")
    subprocess.run(["git", "clone", "-q", in_tree.root, tmp_path / "clone"], check=True)
    store = store_of(Git(tmp_path / "clone"))
    assert (store.mode, store.pin().source) == (Mode.IN_TREE, PinSource.LOCK)


@pytest.mark.parametrize("others", [0, 5])
def test_a_merge_that_git_reverted_leaves_no_open_proposal(in_tree: Git, others: int) -> None:
    store = store_of(in_tree)
    waiting = {propose(store, f"b{n}", "waits").id for n in range(others)}
    proposal = propose(store, "a", "one")
    ref = f"refs/harness/proposals/{proposal.id}"
    in_tree("merge", "-q", ref)
    in_tree("revert", "--no-edit", "HEAD")
    store = store_of(in_tree)
    assert {u.id: u.state for u in store.updates() if u.id}[proposal.id] is UpdateState.TAKEN_BACK
    assert {p.id for p in store.proposals()} == waiting
    assert status(store).proposals == others
    for verb in (store.accept, store.rebase_proposal, store.offer_proposal):
        with pytest.raises(HarnessError) as caught:
            verb(proposal.id)
        assert caught.value.id == "decided"
        assert "taken back" in caught.value.message
    assert not doctor(store).ill, "what the documented way leaves is nothing wrong"
    found = doctor(store, fix=True)
    assert [(one.repair.id, one.fixed) for one in found.found] == [("left_over_proposal", True)]
    assert in_tree("for-each-ref", ref) == ""
    in_tree("revert", "--no-edit", "HEAD")
    assert {u.id: u.state for u in store_of(in_tree).updates() if u.id}[proposal.id] is UpdateState.LANDED


def test_a_rollback_on_a_checked_out_branch_names_the_commits_to_revert(in_tree: Git) -> None:
    base = in_tree("rev-parse", "HEAD")
    commits = []
    for name in ("a", "b"):
        in_tree("merge", "-q", f"refs/harness/proposals/{propose(store_of(in_tree), name, 'one').id}")
        commits.append(in_tree("rev-parse", "HEAD"))
    newest = " ".join(commit[:12] for commit in reversed(commits))
    for rev, only, said in ((base, False, newest), (commits[0], True, commits[0][:12])):
        with pytest.raises(HarnessError) as caught:
            rollback(store_of(in_tree), rev, only=only)
        assert caught.value.id == "branch_in_use"
        assert caught.value.hint == f"git revert {said} there takes it back"
    in_tree("revert", "--no-edit", *newest.split())
    assert store_of(in_tree).snapshot().entries == {}


def test_the_commits_to_revert_are_said_to_hold_more_where_they_do(in_tree: Git) -> None:
    one, other = (propose(store_of(in_tree), name, "one") for name in "ab")
    for proposal in (one, other):
        in_tree("merge", "-q", "--squash", f"refs/harness/proposals/{proposal.id}", check=False)
        in_tree("commit", "-qm", "part")
    in_tree("reset", "-q", "--soft", "HEAD~2")
    in_tree.write("code.py", b"x\n")
    in_tree.write("more.py", b"x\n")
    squashed = in_tree.commit("a and b in one, with code")
    with pytest.raises(HarnessError) as caught:
        rollback(store_of(in_tree), one.id, only=True)
    said = f"git revert {squashed[:12]} there takes it back, and with it {other.id} and 2 other files"
    assert caught.value.hint == said


def test_a_commit_by_hand_that_is_to_be_reverted_names_its_other_file(in_tree: Git) -> None:
    landed = add(store_of(in_tree), "a", "one", owner="agent")
    in_tree.write(".harness/memory/z.md", note("z", "x").data)
    commit = in_tree.commit("two in one")
    assert landed.record is not None
    with pytest.raises(HarnessError) as caught:
        rollback(store_of(in_tree), landed.record.id, only=True)
    assert caught.value.hint == f"git revert {commit[:12]} there takes it back, and with it 1 other file"


def test_proposals_come_first_in_the_log_beside_a_waiting_decision(in_tree: Git) -> None:
    first = propose(store_of(in_tree), "a", "one")
    store_of(in_tree).reject(first.id, "no")
    second = propose(store_of(in_tree), "b", "two")
    assert [row["state"] for row in log(store_of(in_tree)).to_json()][:2] == ["open", "rejected"]
    assert log(store_of(in_tree)).to_json()[0]["update"] == second.id


# -- what only the work tree holds ----------------------------------------------------------------


def written(git: Git, *names: str) -> Git:
    """``git`` with the memories ``names`` committed."""
    for name in names:
        add(store_of(git), name, "one")
    git.commit("entries")
    return git


def refused(git: Git, act: Callable[[], object], *paths: str) -> None:
    """``act`` ends with ``uncommitted``, names ``paths`` and leaves every file as it is."""
    before = {p: p.read_bytes() for p in (git.root / ".harness").rglob("*") if p.is_file()}
    with pytest.raises(ConflictError) as caught:
        act()
    assert caught.value.id == "uncommitted"
    assert caught.value.message.startswith(", ".join(paths) + ": ")
    assert "commit or stash" in caught.value.hint
    assert {p: p.read_bytes() for p in (git.root / ".harness").rglob("*") if p.is_file()} == before


def remove(git: Git, name: str) -> Landed:
    return store_of(git).add(Addition(EntryId.parse(name), (), remove=True))


def test_no_verb_takes_away_what_is_not_committed(in_tree: Git) -> None:
    written(in_tree, "a")
    with (in_tree.root / ".harness/memory/a.md").open("a") as file:
        file.write("more\n")
    path = ".harness/memory/a.md"
    refused(in_tree, lambda: add(store_of(in_tree), "a", "two"), path)
    refused(in_tree, lambda: add(store_of(in_tree), "a", "one"), path)
    refused(in_tree, lambda: remove(in_tree, "memory/a"), path)
    refused(in_tree, lambda: open_entry(store_of(in_tree), "memory/a"), path)
    in_tree("add", path)
    refused(in_tree, lambda: remove(in_tree, "memory/a"), path)
    in_tree.commit("by hand")
    remove(in_tree, "memory/a")
    assert not (in_tree.root / path).exists()


def test_a_second_change_before_a_commit_is_refused(in_tree: Git) -> None:
    add(store_of(in_tree), "a", "one")
    refused(in_tree, lambda: add(store_of(in_tree), "a", "two"), ".harness/memory/a.md")
    refused(in_tree, lambda: open_entry(store_of(in_tree), "memory/a"), ".harness/memory/a.md")
    in_tree.commit("one")
    add(store_of(in_tree), "a", "two")
    assert len(list((in_tree.root / ".harness/updates").rglob("*.json"))) == 2


def test_a_file_git_does_not_know_counts_and_one_that_says_the_same_does_not(in_tree: Git) -> None:
    in_tree.write(".harness/memory/a.md", "thoughts\n")
    refused(in_tree, lambda: add(store_of(in_tree), "a", "one"), ".harness/memory/a.md")
    by_hand = note("a", "one")
    in_tree.write(".harness/memory/a.md", by_hand.data)
    store_of(in_tree).add(Addition(EntryId.parse("memory/a"), (by_hand,)))
    assert "owner: human" in (in_tree.root / ".harness/memory/a.md").read_text()


def test_a_missing_file_and_line_endings_are_no_work(in_tree: Git) -> None:
    written(in_tree, "a", "b")
    path = in_tree.root / ".harness/memory/a.md"
    path.write_bytes(path.read_bytes().replace(b"\n", b"\r\n"))
    (in_tree.root / ".harness/memory/b.md").unlink()
    add(store_of(in_tree), "a", "two")
    add(store_of(in_tree), "b", "two")
    assert path.read_text().endswith("two\n")


def test_every_file_of_a_skill_is_looked_at(in_tree: Git) -> None:
    files = (
        EntryFile("skills/s/SKILL.md", 0o100644, b"---\nname: s\ndescription: d\n---\nuse it\n"),
        EntryFile("skills/s/scripts/go.sh", 0o100755, b"echo go\n"),
    )
    store_of(in_tree).add(Addition(EntryId.parse("skills/s"), files))
    in_tree.commit("skill")
    in_tree.write(".harness/skills/s/scripts/go.sh", "echo gone\n")
    refused(in_tree, lambda: remove(in_tree, "skills/s"), ".harness/skills/s/scripts/go.sh")
    refused(in_tree, lambda: open_entry(store_of(in_tree), "skills/s"), ".harness/skills/s/scripts/go.sh")


def test_what_an_editor_saves_while_the_result_is_checked_is_seen(
    in_tree: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    written(in_tree, "a")
    store = store_of(in_tree)
    lint = store.checks.lint

    def saved_meanwhile(*args: Any) -> Any:
        in_tree.write(".harness/memory/a.md", "saved meanwhile\n")
        return lint(*args)

    monkeypatch.setattr(store.checks, "lint", saved_meanwhile)
    with pytest.raises(ConflictError) as caught:
        add(store, "a", "two")
    assert caught.value.id == "uncommitted"
    assert (in_tree.root / ".harness/memory/a.md").read_text() == "saved meanwhile\n"


def test_a_folder_in_the_place_of_a_file_is_in_the_way(in_tree: Git) -> None:
    (in_tree.root / ".harness/memory/a.md").mkdir(parents=True)
    refused(in_tree, lambda: add(store_of(in_tree), "a", "one"), ".harness/memory/a.md")


def test_an_edit_on_a_feature_branch_starts_from_that_branch(in_tree: Git) -> None:
    written(in_tree, "a")
    in_tree("checkout", "-q", "-b", "topic")
    add(store_of(in_tree), "a", "two")
    in_tree.commit("two")
    store = store_of(in_tree)
    files = store.editable(EntryId.parse("memory/a"))
    assert files[0].data.endswith(b"two\n")
    mended = replace(files[0], data=files[0].data + b"three\n")
    store.add(Addition(EntryId.parse("memory/a"), (mended,), seen=entry_digest(files)))
    assert (in_tree.root / ".harness/memory/a.md").read_text().endswith("two\nthree\n")


def test_doctor_names_what_a_killed_writer_left_beside_an_entry(in_tree: Git) -> None:
    """Its text may be wanted, so a person removes it; what somebody committed does not load."""
    add(store_of(in_tree), "a", "one")
    left = in_tree.root / ".harness/memory/.b.md.ab12_xyz"
    kept = in_tree.root / ".harness/memory/.kept.md.ab12_xyz"
    kept.write_text("a person's")
    in_tree.commit("one")
    left.write_text("half")
    found = doctor(store_of(in_tree)).found
    assert [one.repair.id for one in found] == ["broken_entry"], "somebody may be writing it"
    for path in (left, kept):
        os.utime(path, (time.time() - 600,) * 2)
    one, broken = doctor(store_of(in_tree), fix=True).found
    assert (one.repair.id, one.fixed, broken.repair.id) == ("left_over_file", False, "broken_entry")
    assert str(left) in one.repair.what
    assert left.exists()
