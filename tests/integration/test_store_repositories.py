"""Repositories as they are: bare, shallow, sparse, split, partial, packed, with odd names in them."""

from __future__ import annotations

import subprocess
import sys
from collections import Counter
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pygit2
import pytest

from harnessctl.domain.errors import NotFoundError
from harnessctl.domain.update import UpdateState
from harnessctl.layers.l3_durable.git.refs import Refs
from harnessctl.layers.l3_durable.git.worktree import GitWorkTree
from tests.conftest import Git
from tests.fakes.harness import Make, add, fsck_is_clean, land, propose, started, store_of, text_of

ROOT = Path(__file__).parents[2]


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


def test_going_back_past_a_shallow_clones_end_says_so(repo: Git, tmp_path: Path) -> None:
    land(started(repo), "a", "one")
    shallow = clone(repo, tmp_path / "shallow", "--depth=1", "-b", "harness")
    with pytest.raises(NotFoundError) as caught:
        store_of(shallow).resolve("harness~1")
    assert "shallow" in caught.value.message
    assert "git fetch --unshallow" in caught.value.hint
    with pytest.raises(NotFoundError) as caught:
        store_of(repo).resolve("harness~9")
    assert "shallow" not in caught.value.message


def test_a_blob_that_a_partial_clone_lacks_is_named(repo: Git, tmp_path: Path) -> None:
    store = started(repo)
    land(store, "a", "one")
    repo("config", "uploadpack.allowFilter", "true")
    partial = clone(repo, tmp_path / "partial", "--filter=blob:none", "-b", "main")
    partial("branch", "harness", "origin/harness")
    with pytest.raises(NotFoundError) as caught:
        dict(store_of(partial).snapshot("harness").entries)
    assert caught.value.id == "missing_object"


def test_a_record_that_a_partial_clone_lacks_is_no_commit_by_hand(repo: Git, tmp_path: Path) -> None:
    land(started(repo), "a", "one")
    repo("config", "uploadpack.allowFilter", "true")
    store = store_of(clone(repo, tmp_path / "partial", "--filter=blob:none", "-b", "main"))
    with pytest.raises(NotFoundError) as caught:
        store.updates()
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


@pytest.mark.parametrize("careful", [True, False])
def test_a_hundred_thousand_refs_cost_little(
    make_repo: Make, monkeypatch: pytest.MonkeyPatch, careful: bool
) -> None:
    """libgit2 lists all refs or none: what a landing looks up must not depend on them."""
    looked: Counter[str] = Counter()

    def counted(name: str, real: Callable[..., Any]) -> Callable[..., Any]:
        def call(*args: Any, **options: Any) -> Any:
            looked[name] += 1
            return real(*args, **options)

        return call

    for name in ("listall_references", "listall_reference_objects", "references_iterator_init"):
        monkeypatch.setattr(pygit2.Repository, name, counted("all refs", getattr(pygit2.Repository, name)))
    monkeypatch.setattr(Refs, "_packed", counted("packed refs", Refs._packed))
    if not careful:
        monkeypatch.setattr(Refs, "names", lambda refs, prefix: _names(refs._raw, prefix))
    costs = []
    for tags in (0, 100_000):
        git = make_repo(f"{tags} tags")
        proposal = propose(started(git), "a", "one")
        head = git("rev-parse", "HEAD")
        git("pack-refs", "--all")
        packed = git.root / ".git/packed-refs"
        first, *rows = packed.read_text().splitlines()
        rows = sorted([*rows, *(f"{head} refs/tags/t{n:06}" for n in range(tags))], key=lambda r: r[41:])
        packed.write_text("\n".join([first, *rows]) + "\n")
        looked.clear()
        again = store_of(git)
        assert [p.id for p in again.proposals()] == [proposal.id]
        again.accept(proposal.id)
        costs.append(dict(looked))
        assert text_of(git, "a") == "one"
        assert again.repository.refs.names("refs/harness/") == ()
    assert (costs[0] == costs[1] and "all refs" not in costs[1]) is careful
    assert git("rev-parse", "refs/tags/t099999") == head
    assert len(again.repository.refs.names("refs/tags/t00001")) == 10


def _names(raw: pygit2.Repository, prefix: str) -> tuple[str, ...]:
    """What libgit2 offers, without a prefix."""
    return tuple(sorted(name for name in raw.listall_references() if name.startswith(prefix)))


def test_loose_and_packed_refs_are_listed_once_and_locks_are_none(repo: Git) -> None:
    refs = started(repo).repository.refs
    for name in ("one", "two/three"):
        repo("update-ref", f"refs/harness/proposals/{name}", "HEAD")
    repo("pack-refs", "--all")
    repo("update-ref", "refs/harness/proposals/four", "HEAD")
    (repo.root / ".git/refs/harness/proposals/four.lock").touch()
    git_says = repo("for-each-ref", "--format=%(refname)", "refs/harness").splitlines()
    assert list(refs.names("refs/harness/")) == git_says
    assert list(refs.names("refs/harness/proposals/f")) == ["refs/harness/proposals/four"]
    assert refs.names("refs/harness/proposals/none") == ()


def test_a_submodule_has_a_harness_of_its_own(repo: Git, make_repo: Make) -> None:
    inner = make_repo("inner")
    repo("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(inner.root), "sub")
    repo("commit", "-q", "-m", "submodule")
    add(started(repo), "outer", "x")
    sub = Git(repo.root / "sub")
    store = started(sub)
    add(store, "inner", "y")
    assert store.root == sub.root
    assert (text_of(repo, "outer"), text_of(sub, "inner")) == ("x", "y")
    assert text_of(repo, "inner") is None
    assert fsck_is_clean(sub)


def test_a_key_without_a_value_is_true_as_git_has_it(repo: Git) -> None:
    repo("config", "harness.branch", "harness")
    with (repo.root / ".git/config").open("a") as file:
        file.write("\trequireShared\n")
    assert repo("config", "--type=bool", "harness.requireShared").strip() == "true"
    assert store_of(repo).require_shared is True


READ_CONFIG = """
import sys
sys.path.insert(0, sys.argv[1])
from pathlib import Path
from harnessctl.config import read_environment
from harnessctl.layers.l3_durable.store import open_store
store = open_store(Path(sys.argv[2]), read_environment())
print([store.repository.config(key) for key in ("user.name", "user.email", "x.xdg")])
"""


@pytest.mark.parametrize("name", ["gitconfig", ".gitconfig", "config", "odd name.txt", "/dev/null", "absent"])
def test_the_users_configuration_is_where_git_is_told_it_is(
    repo: Git, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """libgit2 knows none of these variables; each answer is compared with git's own."""
    (home / "config/git").mkdir(parents=True)
    (home / "config/git/config").write_text("[x]\n\txdg = from xdg\n")
    system = tmp_path / "system"
    system.write_text("[user]\n\temail = system@example.com\n")
    file = tmp_path / name
    if name not in ("/dev/null", "absent"):
        file.write_text("[user]\n\tname = From Variable\n")

    def answers() -> str:
        script = [sys.executable, "-c", READ_CONFIG, str(ROOT), str(repo.root)]
        return subprocess.run(script, capture_output=True, text=True, check=True).stdout.strip()

    def git_says() -> str:
        found = [repo("config", key, check=False) or None for key in ("user.name", "user.email", "x.xdg")]
        return str(found)

    for variables in (
        {},
        {"GIT_CONFIG_GLOBAL": str(file)},
        {"GIT_CONFIG_SYSTEM": str(system), "GIT_CONFIG_NOSYSTEM": "0"},
        {"GIT_CONFIG_GLOBAL": str(file), "GIT_CONFIG_SYSTEM": str(system), "GIT_CONFIG_NOSYSTEM": "1"},
    ):
        with monkeypatch.context() as patch:
            for key, value in variables.items():
                patch.setenv(key, value)
            assert answers() == git_says(), variables
