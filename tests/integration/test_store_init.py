"""Making a harness, and refusing to, with no ref made."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

from harnessctl.commands.doctor import doctor
from harnessctl.commands.init import init
from harnessctl.commands.status import status
from harnessctl.config import read_environment
from harnessctl.domain.errors import HarnessError, NotFoundError, UsageError
from harnessctl.domain.pin import Mode, PinSource
from harnessctl.layers.l3_durable.files.lock import read_lock
from harnessctl.layers.l3_durable.landing.rollback import Wanted
from harnessctl.layers.l3_durable.store import open_store
from tests.conftest import Git
from tests.fakes.harness import Make, add, fsck_is_clean, land, propose, started, store_of, text_of

ROOT = Path(__file__).parents[2]


def refs(git: Git) -> str:
    return git("for-each-ref", "--format=%(refname) %(objectname)")


def refused(git: Git, error: str, **options: bool) -> HarnessError:
    """``init`` fails by this name and leaves refs, configuration and work tree as they were."""
    before = refs(git), (git.root / ".git/config").read_text(), git("status", "--porcelain")
    with pytest.raises(HarnessError) as caught:
        init(store_of(git), **options)
    assert caught.value.id == error
    assert (refs(git), (git.root / ".git/config").read_text(), git("status", "--porcelain")) == before
    return caught.value


def test_init_makes_an_orphan_branch_a_lock_and_a_private_state_folder(repo: Git, home: Path) -> None:
    made = init(store_of(repo))
    assert repo("ls-tree", "-r", "--name-only", "refs/heads/harness") == ".harness/harness.toml"
    assert repo("rev-list", "--count", "refs/heads/harness", "--") == "1"
    assert repo("merge-base", "HEAD", "refs/heads/harness", check=False) == ""
    lock = read_lock(repo.root / "harness.lock")
    assert lock is not None
    assert (lock.commit, lock.tree) == (made.landed.commit, repo("rev-parse", "harness^{tree}"))
    state = home / "state/harnessctl" / repo("config", "harness.repositoryId")
    assert state.stat().st_mode & 0o777 == 0o700
    assert made.to_json()["mode"] == "branch"
    assert fsck_is_clean(repo)


def test_init_unpinned_writes_no_lock_and_runs_follow_the_tip(repo: Git) -> None:
    init(store_of(repo), unpinned=True)
    assert not (repo.root / "harness.lock").exists()
    assert store_of(repo).pin().source is PinSource.TIP
    assert status(store_of(repo)).pinned == "unpinned"
    land(store_of(repo), "a", "one")
    assert not (repo.root / "harness.lock").exists()


def test_a_second_init_is_refused(repo: Git) -> None:
    started(repo)
    refused(repo, "already_initialised")
    refused(repo, "mixed_modes", in_tree=True)


def test_a_branch_below_the_name_is_refused_by_name(repo: Git) -> None:
    repo("branch", "harness/foo")
    assert "refs/heads/harness/foo" in refused(repo, "name_taken").message


def test_a_foreign_branch_is_refused_by_name(repo: Git) -> None:
    repo("branch", "harness")
    assert "'harness'" in refused(repo, "name_taken").message


def test_a_tag_is_refused_by_name(repo: Git) -> None:
    repo("tag", "harness")
    assert "tag 'harness'" in refused(repo, "name_taken").message


def test_a_branch_above_the_configured_name_is_refused(repo: Git) -> None:
    repo("config", "harness.branch", "main/harness")
    assert "refs/heads/main" in refused(repo, "name_taken").message


def test_a_folder_of_that_name_is_no_obstacle(repo: Git) -> None:
    repo.commit("folder", **{"harness/x.txt": "x\n"})
    land(started(repo), "a", "one")
    assert repo("show", "refs/heads/harness:.harness/memory/a.md").endswith("one")


def test_an_unborn_branch_of_that_name_is_not_created_under_the_users_feet(make_repo: Make) -> None:
    git = make_repo("unborn", commit=False)
    git("symbolic-ref", "HEAD", "refs/heads/harness")
    assert "checked out" in refused(git, "branch_in_use").message


def test_a_harness_in_head_is_kept_in_tree(repo: Git) -> None:
    repo.commit("in-tree", **{".harness/memory/x.md": "---\ndescription: d\n---\n"})
    assert "--in-tree" in refused(repo, "mixed_modes").hint
    assert init(store_of(repo), in_tree=True).mode is Mode.IN_TREE


@pytest.mark.parametrize(
    "how", ["missing name", "missing email", "empty author", "empty committer", "empty config"]
)
def test_git_06_no_identity_is_one_error_before_any_work(
    repo: Git, home: Path, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    config = home / ".gitconfig"
    if how == "missing name":
        config.write_text("[user]\n\temail = a@b\n")
    elif how == "missing email":
        config.write_text("[user]\n\tname = A\n")
    elif how == "empty config":
        config.write_text('[user]\n\tname = ""\n\temail = a@b\n')
    else:
        monkeypatch.setenv("GIT_AUTHOR_NAME" if how == "empty author" else "GIT_COMMITTER_EMAIL", "")
    message = refused(repo, "no_identity").message
    assert "user.name" in message or "user.email" in message
    assert "config" not in refs(repo)
    assert not (home / "state").exists()


def test_git_06_every_writing_verb_says_it_before_other_work(repo: Git, home: Path) -> None:
    store = started(repo)
    proposal = propose(store, "a", "one")
    base = store.landed_tip()
    (home / ".gitconfig").write_text("")
    count = repo("count-objects"), refs(repo)
    again = store_of(repo)
    for verb in (
        lambda: add(again, "b", "two"),
        lambda: propose(again, "b", "two"),
        lambda: again.accept(proposal.id),
        lambda: again.reject(proposal.id),
        lambda: again.rollback(base),
        again.check_identity,
    ):
        with pytest.raises(UsageError) as caught:
            verb()
        assert caught.value.id == "no_identity"
    assert (repo("count-objects"), refs(repo)) == count
    assert again.pin().commit == base
    assert again.snapshot().entries == {}


def test_author_and_committer_are_those_that_git_would_take(
    repo: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    values = {
        "GIT_AUTHOR_NAME": "Grace",
        "GIT_AUTHOR_EMAIL": "g@x",
        "GIT_AUTHOR_DATE": "1700000000 +0200",
        "GIT_COMMITTER_NAME": "Linus",
        "GIT_COMMITTER_EMAIL": "l@x",
        "GIT_COMMITTER_DATE": "2024-01-02T03:04:05-03:30",
    }
    for name, value in values.items():
        monkeypatch.setenv(name, value)
    started(repo)
    form = "--format=%an %ae %ad | %cn %ce %cd"
    ours = repo("log", "-1", "--date=raw", form, "refs/heads/harness", "--")
    repo("commit", "-q", "--allow-empty", "-m", "git's own")
    assert ours == repo("log", "-1", "--date=raw", form)


@pytest.mark.parametrize("scope", ["--local", "--global"])
def test_git_07_machine_commits_are_not_signed_and_signing_settings_break_nothing(
    repo: Git, scope: str
) -> None:
    repo("config", scope, "commit.gpgsign", "true")
    repo("config", scope, "user.signingkey", "no-such-key")
    store = started(repo)
    base = store.landed_tip()
    land(store, "a", "one")
    merged = propose(store, "b", "two", base)
    store.rebase_proposal(propose(store, "c", "three", base).id)
    store.accept(merged.id)
    unsigned = subprocess.run(
        ["git", "commit", "--allow-empty", "-m", "x"], cwd=repo.root, capture_output=True
    )
    assert unsigned.returncode != 0, "the setting holds for people"
    repo("config", scope, "gpg.program", "/no/such/program")
    store_of(repo).rollback(Wanted(base, "base"))
    assert set(repo("log", "--format=%G?", "refs/heads/harness", "--").split()) == {"N"}


def test_git_08_a_linked_worktree_shares_harness_and_id_and_has_a_lock_of_its_own(
    repo: Git, tmp_path: Path
) -> None:
    repo("worktree", "add", "-q", str(tmp_path / "linked"))
    linked = Git(tmp_path / "linked")
    store = started(linked)
    assert (linked.root / "harness.lock").exists()
    assert not (repo.root / "harness.lock").exists()
    land(store, "a", "one")
    main = store_of(repo)
    assert main.repository_id == store.repository_id
    assert list(main.snapshot("harness").entries) == ["memory/a"]
    assert (store.root, store.common_dir) == (linked.root, repo.root / ".git")


def test_git_10_with_a_detached_head_an_update_is_on_the_branch_all_the_same(repo: Git) -> None:
    repo("checkout", "-q", "--detach")
    land(started(repo), "a", "one")
    assert text_of(repo, "a") == "one"
    assert repo("branch", "--contains", repo("rev-parse", "harness")).strip() == "harness"


def test_an_unborn_head_works(make_repo: Make) -> None:
    git = make_repo("unborn", commit=False)
    land(started(git), "a", "one")
    assert text_of(git, "a") == "one"


def test_a_repository_without_a_harness_reads_as_empty(repo: Git, home: Path) -> None:
    store = store_of(repo)
    assert store.pin().source is PinSource.EMPTY
    assert store.snapshot().digest == store.pin().entries
    assert status(store).to_json()["mode"] is None
    assert not (home / "state").exists(), "reading makes no state"
    with pytest.raises(NotFoundError) as caught:
        add(store, "a", "one")
    assert caught.value.id == "not_initialised"


def test_a_remote_without_the_branch_says_not_pushed(repo: Git, make_repo: Make) -> None:
    bare = make_repo("origin.git", bare=True)
    repo("remote", "add", "origin", str(bare.root))
    repo("push", "-q", "origin", "main")
    store = started(repo)
    landed = land(store, "a", "one")
    assert landed.pushed is False
    assert status(store_of(repo)).pushed is False
    repo("push", "-q", "origin", "refs/heads/harness")
    assert status(store_of(repo)).pushed is True
    assert store_of(repo).updates()[0].shared is True


def test_a_fresh_clone_reads_the_remote_branch_and_says_how_to_land(
    repo: Git, make_repo: Make, tmp_path: Path
) -> None:
    bare = make_repo("origin.git", bare=True)
    store = started(repo)
    land(store, "a", "one")
    repo("add", "harness.lock")
    repo.commit("pin")
    repo("push", "-q", str(bare.root), "main", "harness")
    subprocess.run(["git", "clone", "-q", "-b", "main", bare.root, tmp_path / "clone"], check=True)
    clone = store_of(Git(tmp_path / "clone"))
    assert (clone.mode, clone.branch) == (Mode.BRANCH, "harness")
    assert clone.pin().source is PinSource.LOCK
    assert list(clone.snapshot("harness~0" if clone.place.local_tip() else "~0").entries) == ["memory/a"]
    with pytest.raises(NotFoundError) as caught:
        add(clone, "b", "two")
    assert caught.value.id == "no_local_branch"
    subprocess.run(["git", *caught.value.hint.split()[1:]], cwd=clone.root, check=True, capture_output=True)
    add(store_of(Git(tmp_path / "clone")), "b", "two")


@pytest.mark.parametrize("kind", ["sha256", "version"])
def test_a_format_that_cannot_be_read_is_refused_with_words(tmp_path: Path, kind: str) -> None:
    git = Git(tmp_path / "odd")
    git.root.mkdir()
    git("init", "-q", *(["--object-format=sha256"] if kind == "sha256" else []))
    if kind == "version":
        git("config", "core.repositoryformatversion", "1")
        git("config", "extensions.refstorage", "reftable")
    with pytest.raises(HarnessError) as caught:
        store_of(git)
    assert caught.value.id == "unsupported_repository"
    assert ("SHA-256" if kind == "sha256" else "reftable") in caught.value.message


def test_no_repository_is_said(tmp_path: Path) -> None:
    with pytest.raises(NotFoundError) as caught:
        open_store(tmp_path, read_environment())
    assert caught.value.id == "no_repository"


@pytest.mark.skipif(os.geteuid() != 0, reason="only root can give a folder away")
def test_a_repository_of_another_user_is_refused_with_words(repo: Git) -> None:
    for path in (repo.root, repo.root / ".git"):
        os.chown(path, 4321, 4321)
    with pytest.raises(HarnessError) as caught:
        store_of(repo)
    assert caught.value.id == "foreign_owner"
    assert "safe.directory" in caught.value.message


def test_inherited_git_variables_name_no_other_repository(
    repo: Git, make_repo: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    other = make_repo("other")
    monkeypatch.setenv("GIT_DIR", str(other.root / ".git"))
    monkeypatch.setenv("GIT_INDEX_FILE", str(other.root / ".git/index"))
    store = started(repo)
    monkeypatch.delenv("GIT_DIR")
    monkeypatch.delenv("GIT_INDEX_FILE")
    assert store.root == repo.root
    assert "harness" not in refs(other)


# -- who is an agent -----------------------------------------------------------------------------

VERBS = """
import sys
sys.path.insert(0, {root!r})
from pathlib import Path
from tests.conftest import Git
from tests.fakes.harness import *
from harnessctl.domain.errors import RefusedError
store = store_of(Git(Path({repo!r})))
for verb in (store.initialise, lambda: add(store, "x", "y"), lambda: store.accept({update!r}),
             lambda: store.reject({update!r}), lambda: store.rollback("harness"), store.move_pin):
    try:
        verb()
    except RefusedError as error:
        assert error.id == "agent_refused" and error.exit_code == 6
    else:
        sys.exit("let through")
print("refused")
"""


@pytest.mark.parametrize("how", ["mark", "actor", "env -i below a mark"])
def test_landing_verbs_refuse_agents(repo: Git, home: Path, how: str) -> None:
    store = started(repo)
    update = propose(store, "a", "one").id
    before = refs(repo), (repo.root / "harness.lock").read_bytes()
    script = VERBS.format(root=str(ROOT), repo=str(repo.root), update=update)
    keep = [f"{k}={os.environ[k]}" for k in ("PATH", "HOME", "XDG_STATE_HOME", "GIT_CONFIG_NOSYSTEM")]
    command = ["env", "-i", *keep, sys.executable, "-c", script]
    if how == "env -i below a mark":
        outer = f"import os, subprocess as s; os.environ.pop('HARNESSCTL_KERNEL'); s.run({command!r})"
        command = ["env", "HARNESSCTL_KERNEL=s1", sys.executable, "-c", outer]
    elif how == "mark":
        command = ["env", "HARNESSCTL_KERNEL=s1", sys.executable, "-c", script]
    else:
        command = ["env", "HARNESSCTL_ACTOR=agent", sys.executable, "-c", script]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.stdout == "refused\n", done.stderr
    assert (refs(repo), (repo.root / "harness.lock").read_bytes()) == before


def test_what_a_sessions_folder_says_of_kernels_makes_nobody_an_agent(repo: Git) -> None:
    """A cell can write there that a person's shell is a kernel, or nothing that can be read."""
    import json

    import psutil

    store = started(repo)
    folder = store.state_dir / "sessions/s1/kernel"
    folder.mkdir(parents=True)
    here = psutil.Process()
    (folder / "kernel.json").write_text(json.dumps({"pid": here.pid, "started": here.create_time()}))
    add(store, "a", "a person's")
    (folder / "kernel.json").write_text('{"pid":Infinity}')
    add(store, "b", "a person's")


# -- an init that was stopped ------------------------------------------------------------------------


class Stopped(BaseException):
    """Stands for the end of the process."""


def stop(point: str) -> Callable[[str], None]:
    def reached(here: str) -> None:
        if here == point:
            raise Stopped

    return reached


@pytest.mark.parametrize("point", ["moved", "before locked", "locked"])
@pytest.mark.parametrize("unpinned", [False, True])
def test_an_init_that_was_stopped_is_finished_by_the_next(repo: Git, point: str, unpinned: bool) -> None:
    store = store_of(repo)
    store.writer.reached = stop(point)
    find_place = store._find_place
    store._find_place = lambda: (find_place(), setattr(store.writer, "reached", stop(point)))  # type: ignore
    with pytest.raises(Stopped):
        store.initialise()
    assert repo("config", "harness.mode", check=False) == ""
    tip = repo("rev-parse", "refs/heads/harness")
    (found,) = doctor(store_of(repo)).found
    assert (found.repair.id, "init again finishes" in found.repair.remedy) == ("unfinished_init", True)
    done = init(store_of(repo), unpinned=unpinned)
    assert (done.landed.finished, done.landed.commit) == (True, tip)
    assert done.to_json()["finished"] is True
    assert (repo("config", "harness.mode"), repo("config", "harness.branch")) == ("branch", "harness")
    lock = read_lock(repo.root / "harness.lock")
    assert lock is None if unpinned and point != "locked" else lock is not None and lock.commit == tip
    refused(repo, "already_initialised")
    assert not doctor(store_of(repo)).ill


def test_a_clone_that_made_the_branch_with_git_has_no_init_to_finish(repo: Git, tmp_path: Path) -> None:
    started(repo)
    subprocess.run(["git", "clone", "-q", "-b", "main", repo.root, tmp_path / "clone"], check=True)
    clone = Git(tmp_path / "clone")
    clone("branch", "harness", "origin/harness")
    refused(clone, "already_initialised")


def test_init_waits_until_a_dead_processs_lock_file_is_certainly_its(repo: Git) -> None:
    """It said that the branch had appeared, while it only had to wait."""
    lock = repo.root / ".git/refs/heads/harness.lock"
    (repo.root / ".git/harnessctl.moving").write_text(f"refs/heads/harness {'1' * 40}\n")
    lock.write_bytes(b"")
    started(repo)
    assert not lock.exists()
