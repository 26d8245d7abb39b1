"""The work tree before and after a run, and the fence around it."""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from harnessctl.domain import contents
from harnessctl.domain.contents import MOST_READ
from harnessctl.domain.errors import HarnessError
from harnessctl.layers.l3_durable.git import worktree
from harnessctl.layers.l3_durable.git.cli import run_git
from harnessctl.layers.l3_durable.git.kept_trees import GRACE_S, sweep
from harnessctl.layers.l3_durable.git.worktree import MAX_KEPT, GitWorkTree
from harnessctl.layers.l3_durable.pins.fence import ABSENT, AS_COMMITTED
from harnessctl.rlm.ports import HarnessState, WorkTree
from tests.conftest import Git
from tests.fakes.harness import add, land, propose, started, store_of

#: Keys of a repository's configuration that make git run a program.
RUN_BY_GIT = (
    "core.fsmonitor",
    "core.pager",
    "core.editor",
    "core.askPass",
    "core.sshCommand",
    "diff.external",
    "diff.x.textconv",
    "diff.x.command",
    "filter.x.clean",
    "filter.x.smudge",
    "filter.x.process",
    "gpg.program",
    "credential.helper",
)


@pytest.fixture
def tree(repo: Git, tmp_path: Path) -> WorkTree:
    return GitWorkTree(repo.root, tmp_path / "keep", os.environ)


def test_changes_and_patch_of_tracked_and_untracked_files(repo: Git, tree: WorkTree) -> None:
    repo.write("notes.txt", "old\n")
    repo.commit("ignore", **{".gitignore": "*.log\n"})
    before = tree.tree_hash()
    assert tree.tree_hash() == before
    repo.write("app.py", "print('hello')\nprint('more')\n")
    repo.write("new/ä b.txt", "fresh\n")
    repo.write("noise.log", "ignored\n")
    (repo.root / "notes.txt").unlink()
    after = tree.tree_hash()
    assert [(c.path, c.status, c.added, c.removed) for c in tree.changes(before, after)] == [
        ("app.py", "M", 1, 0),
        ("new/ä b.txt", "A", 1, 0),
        ("notes.txt", "D", 0, 1),
    ]
    patch = tree.patch(before, after)
    repo("checkout", "-q", "--", ".")
    repo("clean", "-qfd")
    subprocess.run(["git", "apply", "-"], cwd=repo.root, input=patch, check=True)
    assert tree.tree_hash() == after
    assert tree.changes(after, after) == ()


def test_nothing_of_the_repository_is_written_and_nothing_is_run(
    repo: Git, tree: WorkTree, tmp_path: Path
) -> None:
    evil = tmp_path / "evil"
    evil.write_text(f"#!/bin/sh\ntouch {tmp_path}/ran\ncat\n")
    evil.chmod(0o755)
    for key in RUN_BY_GIT:
        repo("config", key, str(evil))
    repo("config", "alias.ls-files", f"!{evil}")
    (tmp_path / "hooks").mkdir()
    for name in ("post-index-change", "reference-transaction", "pre-commit", "fsmonitor-watchman"):
        os.link(evil, tmp_path / "hooks" / name)
    repo("config", "core.hooksPath", str(tmp_path / "hooks"))
    repo.write(".gitattributes", "* filter=x diff=x\n")
    git_dir = repo.root / ".git"
    before = {p: p.stat().st_mtime_ns for p in git_dir.rglob("*")}
    first = tree.tree_hash()
    repo.write("app.py", "changed\n")
    tree.patch(first, tree.tree_hash())
    assert {p: p.stat().st_mtime_ns for p in git_dir.rglob("*")} == before
    add(started(repo), "a", "one")
    assert not (tmp_path / "ran").exists()


def test_a_change_within_one_tick_and_of_the_same_length_is_seen(repo: Git, tree: WorkTree) -> None:
    path = repo.write("x.txt", "aaaa")
    before = tree.tree_hash()
    info = path.stat()
    path.write_text("bbbb")
    os.utime(path, ns=(info.st_atime_ns, info.st_mtime_ns))
    assert tree.tree_hash() != before


def test_unchanged_files_are_not_read_again(
    repo: Git, tree: WorkTree, monkeypatch: pytest.MonkeyPatch
) -> None:
    time.sleep(0.15)
    before = tree.tree_hash()
    monkeypatch.setattr(Path, "open", lambda path, *_: pytest.fail(f"read {path} again"))
    assert tree.tree_hash() == before


def test_modes_links_large_and_nested_things(repo: Git, tree: WorkTree) -> None:
    script = repo.write("run.sh", "#!/bin/sh\n")
    (repo.root / "link").symlink_to("app.py")
    large = repo.write("large.bin", b"\0" * (MAX_KEPT + 1))
    os.mkfifo(repo.root / "pipe")
    repo("init", "-q", "nested")
    inner = Git(repo.root / "nested")
    inner.commit("one", f="1")
    before = tree.tree_hash()
    script.chmod(0o755)
    (repo.root / "link").unlink()
    (repo.root / "link").symlink_to("README.md")
    large.write_bytes(b"\1" * (MAX_KEPT + 1))
    inner.commit("two", f="2")
    after = tree.tree_hash()
    assert [c.path for c in tree.changes(before, after)] == [
        "large.bin",
        "link",
        "nested",
        "nested/f",
        "run.sh",
    ]
    assert b"old mode 100644\nnew mode 100755" in tree.patch(before, after)


@pytest.fixture
def submodule(repo: Git, make_repo: Callable[..., Git]) -> Git:
    """The submodule ``sub`` with a tracked ``code.py``; it ignores ``*.log``."""
    inner = make_repo("inner")
    inner.commit("code", **{"code.py": "x = 1\n", ".gitignore": "*.log\n"})
    repo("-c", "protocol.file.allow=always", "submodule", "add", "-q", str(inner.root), "sub")
    repo("commit", "-q", "-m", "submodule")
    return Git(repo.root / "sub")


def paths(tree: WorkTree, before: str) -> list[str]:
    """What differs now, by path."""
    return [c.path for c in tree.changes(before, tree.tree_hash())]


def test_files_in_a_submodule_count_under_its_own_ignore_rules(
    repo: Git, tree: WorkTree, submodule: Git, tmp_path: Path
) -> None:
    before = tree.tree_hash()
    (line,) = kept(tmp_path / "keep/blobs")
    assert line.read_bytes().startswith(b"Subproject"), "what the submodule's objects hold is not copied"
    submodule.write("code.py", "x = 2\n")
    submodule.write("new/more.py", "y = 1\n")
    submodule.write("noise.log", "ignored\n")
    after = tree.tree_hash()
    assert [(c.path, c.status, c.added, c.removed) for c in tree.changes(before, after)] == [
        ("sub/code.py", "M", 1, 1),
        ("sub/new/more.py", "A", 1, 0),
    ]
    other = GitWorkTree(repo.root, tmp_path / "keep", os.environ)
    patch = other.patch(before, after)
    assert patch == tree.patch(before, after)
    submodule("checkout", "-q", "--", ".")
    submodule("clean", "-qfd")
    assert other.tree_hash() == before
    subprocess.run(["git", "apply", "-"], cwd=repo.root, input=patch, check=True)
    assert tree.tree_hash() == other.tree_hash() == after


def test_a_commit_alone_in_a_nested_repository_is_seen(repo: Git, tree: WorkTree, submodule: Git) -> None:
    time.sleep(0.15)  # what is older than that is not read again
    before = tree.tree_hash()
    submodule("commit", "-q", "--allow-empty", "-m", "empty")
    assert paths(tree, before) == ["sub"]


def test_a_folder_that_became_a_repository_is_shown_by_file(repo: Git, tree: WorkTree) -> None:
    before = tree.tree_hash()
    repo.write("vendor/a.py", "a\n")
    repo("init", "-q", "vendor")
    repo.write("vendor/lib/b.py", "b\n")
    repo("init", "-q", "vendor/lib")
    after = tree.tree_hash()
    expected = ["vendor", "vendor/a.py", "vendor/lib", "vendor/lib/b.py"]
    assert [c.path for c in tree.changes(before, after)] == expected
    patch = tree.patch(before, after)
    shutil.rmtree(repo.root / "vendor")
    subprocess.run(["git", "apply", "-"], cwd=repo.root, input=patch, check=True)
    assert (repo.root / "vendor/lib/b.py").read_text() == "b\n"
    repo.write("vendor/lib/b.py", "c\n")
    assert "vendor/lib/b.py" in paths(tree, after)


def test_a_nested_repository_that_cannot_be_opened_is_walked(
    repo: Git, tree: WorkTree, submodule: Git
) -> None:
    """Without a checkout, of a format that git does not know, or with configuration that is none."""
    before = tree.tree_hash()
    submodule("config", "core.repositoryFormatVersion", "99")
    submodule.write("noise.log", "no rule is known\n")
    submodule.write("deep/er/x.py", "x\n")
    repo("init", "-q", "sub/deep/own")
    submodule.write("deep/own/y.py", "y\n")
    expected = ["sub", "sub/deep/er/x.py", "sub/deep/own", "sub/deep/own/y.py", "sub/noise.log"]
    assert paths(tree, before) == expected
    (submodule.root / ".git").unlink()
    assert paths(tree, before) == expected
    submodule.write("code.py", "x = 2\n")
    assert "sub/code.py" in paths(tree, before)


def test_a_nested_repository_hides_nothing_by_where_it_says_its_files_are(
    repo: Git, tree: WorkTree, submodule: Git, tmp_path: Path
) -> None:
    before = tree.tree_hash()
    (tmp_path / "elsewhere").mkdir()
    submodule("config", "core.worktree", str(tmp_path / "elsewhere"))
    submodule.write("code.py", "x = 2\n")
    submodule.write("new.py", "x = 2\n")
    assert paths(tree, before) == ["sub/code.py", "sub/new.py"]


@pytest.mark.timeout(60)
def test_nested_repositories_that_name_each_other_end(repo: Git, tree: WorkTree) -> None:
    repo.write("one/two/x.py", "x\n")
    for folder in ("one", "one/two"):
        repo("init", "-q", folder)
        (repo.root / folder / "up").symlink_to("..")
        for path in ("up/one", "up/two"):
            Git(repo.root / folder)("update-index", "--add", "--cacheinfo", f"160000,{'1' * 40},{path}")
    before = tree.tree_hash()
    repo.write("one/two/x.py", "y\n")
    assert paths(tree, before) == ["one/two/x.py"]


@pytest.mark.timeout(60)
def test_a_file_of_any_size_is_looked_at_in_bounded_time(repo: Git, tree: WorkTree, tmp_path: Path) -> None:
    before = tree.tree_hash()
    path = repo.write("sparse.bin", b"")
    os.truncate(path, 500 * 2**30)
    seen = [before, tree.tree_hash()]
    assert GitWorkTree(repo.root, tmp_path / "other", os.environ).tree_hash() == seen[-1]
    for place in (0, 250 * 2**30, 500 * 2**30 - 1):
        time.sleep(0.02)  # more than a tick of the clock that stamps files
        with path.open("r+b") as file:
            file.seek(place)
            file.write(b"x")
        seen.append(tree.tree_hash())
    assert len(set(seen)) == 5
    for one, other, status in ((before, seen[-1], "A"), (seen[1], seen[-1], "M"), (seen[-1], before, "D")):
        (change,) = tree.changes(one, other)
        assert (change.status, change.added, change.removed, change.binary) == (status, 0, 0, True)
    assert b"+++" not in tree.patch(*seen[-2:])


def test_of_a_large_text_no_line_is_counted_or_shown(repo: Git, tree: WorkTree) -> None:
    before = tree.tree_hash()
    repo.write("large.txt", b"line\n" * MAX_KEPT)
    after = tree.tree_hash()
    (change,) = tree.changes(before, after)
    assert (change.added, change.removed, change.binary) == (0, 0, True)
    assert b"Binary files /dev/null and b/large.txt differ" in tree.patch(before, after)


def test_a_touch_changes_only_what_is_too_large_to_be_read(repo: Git, tree: WorkTree) -> None:
    paths = [repo.write(name, b"") for name in ("read.bin", "unread.bin")]
    for path, size in zip(paths, (MOST_READ, MOST_READ + 1), strict=True):
        os.truncate(path, size)
    before = tree.tree_hash()
    for path in paths:
        os.utime(path)
    assert [c.path for c in tree.changes(before, tree.tree_hash())] == ["unread.bin"]


@pytest.mark.parametrize("settled", [True, False])
def test_of_many_files_no_more_is_read_than_of_one(
    repo: Git, tree: WorkTree, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, *, settled: bool
) -> None:
    """What is read of which does not depend on what was read before."""
    monkeypatch.setattr(contents, "MOST_IN_ALL", 5 * MAX_KEPT)
    large = [repo.write(name, b"x" * 3 * MAX_KEPT) for name in ("a.bin", "b.bin")]
    repo.write("c.txt", "small files are always read\n")
    time.sleep(0.15 if settled else 0)
    before = tree.tree_hash()
    assert before == tree.tree_hash() == GitWorkTree(repo.root, tmp_path / "other", os.environ).tree_hash()
    for path in (*large, repo.root / "c.txt"):
        os.utime(path)
    assert paths(tree, before) == ["b.bin"]
    before = tree.tree_hash()
    large[1].write_bytes(b"x" * 2 * MAX_KEPT + b"y" * MAX_KEPT)
    assert paths(tree, before) == ["b.bin"]


def test_state_before_a_run_is_shown_by_another_process(repo: Git, tmp_path: Path) -> None:
    repo.write("untracked.txt", "first\n")
    before = GitWorkTree(repo.root, tmp_path / "keep", os.environ).tree_hash()
    repo.write("untracked.txt", "second\n")
    later = GitWorkTree(repo.root, tmp_path / "keep", os.environ)
    assert b"-first\n+second\n" in later.patch(before, later.tree_hash())


def test_git_is_run_without_inherited_variables(repo: Git, make_repo: object, tmp_path: Path) -> None:
    variables = dict(os.environ) | {
        "GIT_DIR": "/nowhere",
        "GIT_EXTERNAL_DIFF": "false",
        "GIT_CONFIG_COUNT": "x",
    }
    assert run_git(["ls-files"], repo.root, variables) == b"README.md\napp.py\n"


# -- the fence -----------------------------------------------------------------------------------


def test_the_fence_sees_a_move_that_nobody_logged(repo: Git) -> None:
    store = started(repo)
    fence: HarnessState = store.fence
    before = fence.capture()
    assert set(before) == {"refs/heads/harness", "harness.lock", "harness.branch", "harness.mode"}
    tree, parent = repo("rev-parse", "harness^{tree}"), repo("rev-parse", "harness")
    repo(
        "update-ref", "refs/heads/harness", repo("commit-tree", tree, "-p", parent, "-m", "no entry differs")
    )
    assert fence.capture() == before, "entries count, not commits"
    blob = repo("hash-object", "-w", "--stdin", input=b"---\ndescription: d\n---\n")
    listing = f"100644 blob {blob}\tx.md\n".encode()
    memory = repo("mktree", input=listing)
    harness = repo("mktree", input=f"040000 tree {memory}\tmemory\n".encode())
    root = repo("mktree", input=f"040000 tree {harness}\t.harness\n".encode())
    repo("update-ref", "refs/heads/harness", repo("commit-tree", root, "-m", "sneaked in"))
    after = fence.capture()
    assert store.fence.unknown_moves(before, after) == ("refs/heads/harness",)


def test_the_hosts_own_moves_are_known(repo: Git) -> None:
    store = started(repo)
    before = store.fence.capture()
    other = store_of(repo)
    land(other, "a", "one")
    waiting = propose(other, "b", "two")
    other.move_pin()
    after = store.fence.capture()
    assert f"refs/harness/proposals/{waiting.id}" in after
    assert before != after
    assert store.fence.unknown_moves(before, after) == ()
    (repo.root / "harness.lock").write_bytes(b"tampered")
    assert store.fence.unknown_moves(before, store.fence.capture()) == ("harness.lock",)


def test_switching_to_a_commit_with_another_lock_is_no_move(repo: Git) -> None:
    store = started(repo)
    repo("add", "harness.lock")
    repo.commit("pin")
    land(store, "a", "one")
    store.move_pin()
    repo.commit("pin again")
    before = store.fence.capture()
    assert before["harness.lock"].startswith(AS_COMMITTED)
    repo("checkout", "-q", "HEAD~1")
    after = store.fence.capture()
    assert store.fence.unknown_moves(before, after) == ()
    (repo.root / "harness.lock").unlink()
    assert store.fence.capture()["harness.lock"] == ABSENT


def test_pointing_the_next_run_at_another_branch_is_a_move(repo: Git) -> None:
    store = started(repo)
    before = store.fence.capture()
    repo("config", "harness.branch", "elsewhere")
    assert store.fence.unknown_moves(before, store.fence.capture()) == ("harness.branch",)


def test_an_init_beside_a_run_is_known(repo: Git) -> None:
    store = store_of(repo)
    before = store.fence.capture()
    started(repo)
    assert store.fence.unknown_moves(before, store.fence.capture()) == ()


def kept(keep: Path) -> set[Path]:
    return {path for path in keep.rglob("*") if path.is_file()}


def test_what_was_kept_goes_when_no_session_needs_it(repo: Git, tmp_path: Path) -> None:
    keep = tmp_path / "keep"
    trees = []
    for text in ("one\n", "two\n", "three\n"):
        repo.write("note.txt", text)
        trees.append(GitWorkTree(repo.root, keep, os.environ).tree_hash())
    patch = GitWorkTree(repo.root, keep, os.environ).patch(*trees[1:])
    assert b"-two" in patch
    all_of_it = kept(keep)
    assert sweep(keep, trees[1:], running=True) == 0, "young, and perhaps not yet named by a running session"
    assert kept(keep) == all_of_it
    assert sweep(keep, trees[1:], running=False) > 0
    assert len(kept(keep)) == len(all_of_it) - 2
    assert GitWorkTree(repo.root, keep, os.environ).patch(*trees[1:]) == patch
    for path in kept(keep):
        os.utime(path, (1, time.time() - GRACE_S - 60))
    GitWorkTree(repo.root, keep, os.environ).tree_hash()
    sweep(keep, (), running=True)
    assert b"+three" in GitWorkTree(repo.root, keep, os.environ).patch(_empty(repo, keep), trees[2])
    assert len(kept(keep)) == 3
    assert sweep(keep, (), running=False) > 0
    assert not kept(keep)
    assert sweep(tmp_path / "none", (), running=False) == 0


def test_a_state_folder_that_was_removed_is_not_made_anew(repo: Git, tmp_path: Path) -> None:
    """It would be open to others, where it was the user's alone."""
    state = tmp_path / "state"
    state.mkdir(mode=0o700)
    tree = GitWorkTree(repo.root, state / "keep", os.environ)
    tree.tree_hash()
    shutil.rmtree(state)
    repo.write("app.py", "print('changed')\n")
    tree.tree_hash()
    assert not state.exists()


def _empty(repo: Git, keep: Path) -> str:
    (repo.root / "note.txt").unlink()
    return GitWorkTree(repo.root, keep, os.environ).tree_hash()


HASH = (
    "import os, sys; from pathlib import Path;"
    "from harnessctl.layers.l3_durable.git import worktree;"
    "worktree.PATIENCE_S = worktree.LISTED_S = float(sys.argv[3]);"
    "print(worktree.GitWorkTree(Path(sys.argv[1]), Path(sys.argv[2]), os.environ).tree_hash())"
)


def hash_elsewhere(repo: Git, limit_s: float) -> subprocess.CompletedProcess[str]:
    """By a process of its own: what waits within libgit2 can only be ended from outside."""
    args = [repo.root, repo.root.parent / "keep-elsewhere", str(limit_s)]
    return subprocess.run(
        [sys.executable, "-c", HASH, *args], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize(
    "name",
    [
        "vendor/.git/config",
        "vendor/.git/refs/heads/main",
        ".git/modules/sub/commondir",
        ".git/modules/sub/config",
        ".git/modules/sub/HEAD",
        ".git/modules/sub/index",
        ".git/modules/sub/objects/info/alternates",
    ],
)
def test_a_pipe_in_a_nested_git_directory_holds_nothing_up(
    repo: Git, tree: WorkTree, submodule: Git, name: str
) -> None:
    repo("init", "-q", "-b", "main", "vendor")
    repo.write("vendor/a.py", "a\n")
    before = tree.tree_hash()
    (repo.root / name).unlink(missing_ok=True)
    os.mkfifo(repo.root / name)
    repo.write("vendor/new.py", "b\n")
    done = hash_elsewhere(repo, 40)
    assert done.stdout.strip() not in ("", before), done.stderr


@pytest.mark.parametrize("pipe", [True, False])
def test_neither_does_one_that_a_linked_folder_leads_to(
    repo: Git, tree: WorkTree, submodule: Git, tmp_path: Path, *, pipe: bool
) -> None:
    before = tree.tree_hash()
    heads, elsewhere = repo.root / ".git/modules/sub/refs/heads", tmp_path / "heads"
    heads.rename(elsewhere)
    heads.symlink_to(elsewhere)
    (elsewhere / "again").symlink_to(heads.parent)
    if pipe:
        (elsewhere / "main").unlink()
        os.mkfifo(elsewhere / "main")
    submodule.write("code.py", "x = 3\n")
    done = hash_elsewhere(repo, 20)
    assert done.stdout.strip() not in ("", before), done.stderr


CHANGE = (
    "import os, sys; from pathlib import Path;"
    "from harnessctl.layers.l3_durable.git.worktree import GitWorkTree;"
    "tree = GitWorkTree(Path(sys.argv[1]), Path(sys.argv[2]), os.environ); before = tree.tree_hash();"
    "os.unlink(sys.argv[3]); os.mkfifo(sys.argv[3]); Path('sub/code.py').write_text('x = 3');"
    "print(tree.patch(before, tree.tree_hash()).decode())"
)


@pytest.mark.parametrize("chain", [["a"], ["a", "b"]])
def test_nor_one_among_objects_that_a_submodule_borrows(
    repo: Git, submodule: Git, tmp_path: Path, chain: list[str]
) -> None:
    """git lists the files without them; it is libgit2 that would read there what a file held before."""
    oid, objects = submodule("rev-parse", "HEAD:code.py"), repo.root / ".git/modules/sub/objects"
    file = Path(oid[:2], oid[2:])
    here, last = objects, objects
    for name in chain:
        last = tmp_path / name
        (last / "info").mkdir(parents=True)
        (here / "info/alternates").write_text(f"# kept there\n{last}\n")
        here = last
    (last / file).parent.mkdir()
    (objects / file).rename(last / file)
    done = subprocess.run(
        [sys.executable, "-c", CHANGE, repo.root, tmp_path / "keep-elsewhere", last / file],
        cwd=repo.root,
        capture_output=True,
        text=True,
        timeout=60,
        check=False,
    )
    assert "sub/code.py" in done.stdout, done.stderr


@pytest.mark.parametrize("name", ["HEAD", "config", "packed-refs", "index", "objects/info/alternates"])
def test_a_pipe_in_the_repository_itself_is_named_before_git_is_asked(
    repo: Git, monkeypatch: pytest.MonkeyPatch, tmp_path: Path, name: str
) -> None:
    tree = GitWorkTree(repo.root, tmp_path / "keep", os.environ)
    monkeypatch.setattr(worktree, "run_git", lambda *_, **__: pytest.fail("git would wait"))
    path = repo.root / ".git" / name
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    with pytest.raises(HarnessError) as caught:
        tree.tree_hash()
    assert (caught.value.id, str(path) in caught.value.message) == ("not_a_file", True)


def test_git_is_not_waited_for_to_the_end_where_it_waits_at_a_pipe(
    repo: Git, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """A repository that was put into the work tree is no part of what can be looked at beforehand."""
    monkeypatch.setattr(worktree, "LOOKED_S", 1.0)
    repo("init", "-q", "vendor")
    head = repo.root / "vendor/.git/HEAD"
    head.unlink()
    os.mkfifo(head)
    began = time.monotonic()
    with pytest.raises(HarnessError, match=str(head)):
        GitWorkTree(repo.root, tmp_path / "keep", os.environ).tree_hash()
    assert time.monotonic() - began < worktree.LISTED_S / 2


def test_git_has_its_whole_time_where_it_is_only_slow(
    repo: Git, tree: WorkTree, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    expected = tree.tree_hash()
    monkeypatch.setattr(worktree, "LOOKED_S", 0.0)
    assert GitWorkTree(repo.root, tmp_path / "keep", os.environ).tree_hash() == expected


@pytest.mark.parametrize("name", ["sub/.gitignore", "included"])
def test_a_pipe_that_git_alone_finds_holds_it_up_no_longer_than_its_limit(
    repo: Git, tree: WorkTree, submodule: Git, name: str
) -> None:
    before = tree.tree_hash()
    submodule("config", "include.path", str(repo.root / "included"))
    (repo.root / name).unlink(missing_ok=True)
    os.mkfifo(repo.root / name)
    done = hash_elsewhere(repo, 1)
    assert done.stdout.strip() not in ("", before), done.stderr


@pytest.mark.parametrize("name", [".gitignore", "lib/.gitignore", "vendor/.git/HEAD", ".git/info/exclude"])
def test_a_pipe_that_keeps_git_from_listing_files_is_named(
    repo: Git, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    tree = GitWorkTree(repo.root, tmp_path / "keep", os.environ)
    repo("init", "-q", "vendor")
    before = tree.tree_hash()
    monkeypatch.setattr(worktree, "LISTED_S", 1.0)
    path = repo.root / name
    path.parent.mkdir(exist_ok=True)
    content = path.read_bytes() if path.exists() else None
    path.unlink(missing_ok=True)
    os.mkfifo(path)
    for limit in (1.0, 1000.0):  # the second time nobody waits
        monkeypatch.setattr(worktree, "LISTED_S", limit)
        with pytest.raises(HarnessError) as caught:
            tree.tree_hash()
        assert str(path) in caught.value.message
    path.unlink()
    if content is not None:
        path.write_bytes(content)
    assert tree.tree_hash() == before


def test_a_work_tree_that_is_gone_is_said_to_be(repo: Git, tree: WorkTree) -> None:
    shutil.rmtree(repo.root)
    with pytest.raises(HarnessError, match=f"there is no folder {repo.root}"):
        tree.tree_hash()
