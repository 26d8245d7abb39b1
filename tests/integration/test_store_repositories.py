"""Repositories as they are: bare, shallow, sparse, split, partial, packed, with odd names in them."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

from harnessctl.domain.errors import NotFoundError
from harnessctl.domain.update import UpdateState
from harnessctl.layers.l3_durable.git.worktree import GitWorkTree
from tests.conftest import Git
from tests.fakes.harness import Make, add, fsck_is_clean, land, propose, started, store_of, text_of


def clone(source: Git, target: Path, *options: str) -> Git:
    url = f"file://{source.root}"
    subprocess.run(["git", "clone", "-q", *options, url, target], check=True, capture_output=True)
    return Git(target)


def test_a_bare_repository_reads_and_lands(repo: Git, tmp_path: Path) -> None:
    store = started(repo)
    land(store, "a", "one")
    bare = clone(repo, tmp_path / "bare.git", "--bare")
    there = store_of(bare)
    assert list(there.snapshot("harness").entries) == ["memory/a"]
    assert there.lock is None
    add(there, "b", "two")
    assert text_of(bare, "b") == "two"


def test_init_in_a_bare_repository_writes_no_lock(make_repo: Make) -> None:
    bare = make_repo("bare.git", bare=True)
    assert store_of(bare).initialise().lock is None
    add(store_of(bare), "a", "one")


def test_a_shallow_clone_reads_its_tip_and_lands_on_it(repo: Git, tmp_path: Path) -> None:
    store = started(repo)
    land(store, "a", "one")
    land(store, "b", "two")
    shallow = clone(repo, tmp_path / "shallow", "--depth=1", "-b", "harness", "--no-single-branch")
    shallow("checkout", "-q", "main")
    there = store_of(shallow)
    assert sorted(there.snapshot("harness").entries) == ["memory/a", "memory/b"]
    assert {u.state for u in there.updates()} == {UpdateState.LANDED}
    late = propose(there, "c", "three")
    there.accept(late.id)
    assert text_of(shallow, "c") == "three"


def test_a_blob_that_a_partial_clone_lacks_is_named(repo: Git, tmp_path: Path) -> None:
    store = started(repo)
    land(store, "a", "one")
    repo("config", "uploadpack.allowFilter", "true")
    partial = clone(repo, tmp_path / "partial", "--filter=blob:none", "-b", "main")
    partial("branch", "harness", "origin/harness")
    with pytest.raises(NotFoundError) as caught:
        dict(store_of(partial).snapshot("harness").entries)
    assert caught.value.id == "missing_object"
    assert "fetch" in caught.value.hint


@pytest.mark.parametrize("kind", ["sparse", "split index", "untracked cache"])
def test_index_formats_do_not_matter(repo: Git, tmp_path: Path, kind: str) -> None:
    repo.commit("more", **{"x/a.txt": "1\n", "y/b.txt": "2\n"})
    if kind == "sparse":
        repo("sparse-checkout", "set", "--cone", "--sparse-index", "x")
    elif kind == "split index":
        repo("update-index", "--split-index")
    else:
        repo("update-index", "--untracked-cache")
    store = started(repo)
    land(store, "a", "one")
    tree = GitWorkTree(repo.root, tmp_path / "keep", store.place.environment.variables)
    before = tree.tree_hash()
    repo.write("x/a.txt", "changed\n")
    assert [c.path for c in tree.changes(before, tree.tree_hash())] == ["x/a.txt"]


def test_packed_refs_and_objects_are_read_and_moved(repo: Git) -> None:
    store = started(repo)
    proposal = propose(store, "a", "one")
    repo("pack-refs", "--all", "--prune")
    repo("gc", "-q")
    again = store_of(repo)
    again.accept(proposal.id)
    assert text_of(repo, "a") == "one"
    assert repo("for-each-ref", "refs/harness") == ""
    assert fsck_is_clean(repo)


def test_names_that_are_not_utf8_are_shown_not_mangled(repo: Git) -> None:
    started(repo)
    blob = repo("hash-object", "-w", "--stdin", input=b"---\ndescription: d\n---\n")
    memory = repo("mktree", "-z", input=b"100644 blob " + blob.encode() + b"\tcaf\xe9.md\0")
    harness = repo("mktree", input=f"040000 tree {memory}\tmemory\n".encode())
    root = repo("mktree", input=f"040000 tree {harness}\t.harness\n".encode())
    tip = repo("rev-parse", "harness")
    repo("update-ref", "refs/heads/harness", repo("commit-tree", root, "-p", tip, "-m", "odd"))
    snapshot = store_of(repo).snapshot("harness")
    assert [f.path for f in snapshot.broken] == [".harness/memory/caf\udce9.md"]
    assert store_of(repo).pin("harness").entries.startswith("sha256:")
    add(store_of(repo), "fine", "lands")
    assert b"caf\\351" in repo("ls-tree", "-r", "harness").encode()


def test_a_name_in_the_lock_that_is_no_branch_is_no_crash(repo: Git) -> None:
    store = started(repo)
    path = repo.root / "harness.lock"
    path.write_text(path.read_text().replace('"harness"', '"../../etc/passwd"'))
    with pytest.raises(NotFoundError):
        add(store_of(repo), "a", "one")
    assert store.landed_tip()
