"""``sync``: between clones over a bare repository; nothing is forced, no program of the repository runs."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from harnessctl.cli.main import run
from harnessctl.commands.doctor import doctor
from harnessctl.commands.init import init
from harnessctl.commands.pin import pin as move_pin
from harnessctl.commands.rollback import rollback
from harnessctl.commands.sync import sync
from harnessctl.domain.errors import ConflictError, HarnessError, RefusedError, UsageError
from harnessctl.domain.pin import PinSource
from harnessctl.layers.l3_durable.landing.writer import Writer
from tests.conftest import Git
from tests.fakes.harness import Make, add, started, store_of, text_of
from tests.fakes.history import Hand, land, learned, update_of


@pytest.fixture
def origin(repo: Git, make_repo: Make) -> Git:
    """A bare remote of ``repo``, in which a harness was started."""
    started(repo)
    bare = make_repo("origin.git", bare=True)
    repo("remote", "add", "origin", str(bare.root))
    repo("push", "-q", "-u", "origin", "main")
    return bare


@pytest.fixture
def clone(origin: Git, repo: Git, tmp_path: Path) -> Git:
    """A second clone, made after the first sync."""
    sync(store_of(repo))
    root = tmp_path / "clone"
    origin("clone", "-q", "-b", "main", str(origin.root), str(root))
    return Git(root)


def test_the_first_sync_publishes_and_the_next_says_so(repo: Git, origin: Git) -> None:
    land(store_of(repo), "a", "one")
    done = sync(store_of(repo))
    assert (done.given, done.taken) == (2, 0)
    assert origin("rev-parse", "harness") == repo("rev-parse", "harness") == done.tip
    assert repo("rev-parse", "refs/remotes/origin/harness") == done.tip
    assert store_of(repo).pushed(done.tip) is True
    again = sync(store_of(repo))
    assert (again.given, again.taken) == (0, 0)
    assert not origin("for-each-ref", "refs/harness"), "proposals stay here"


def test_what_one_clone_lands_the_other_takes(repo: Git, clone: Git) -> None:
    assert sync(store_of(clone)).taken == 1, "the branch is made"
    add(store_of(clone), "b", "two")
    assert sync(store_of(clone)).given == 1
    done = sync(store_of(repo))
    assert (done.taken, text_of(repo, "b")) == (1, "two")


def test_a_clone_that_took_the_branch_began_no_harness(clone: Git) -> None:
    sync(store_of(clone))
    assert clone("rev-parse", "harness")
    assert not [one.repair.id for one in doctor(store_of(clone)).found]
    with pytest.raises(HarnessError) as caught:
        init(store_of(clone))
    assert caught.value.id == "already_initialised"


def test_both_sides_with_commits_of_their_own_is_said_and_nothing_moves(repo: Git, clone: Git) -> None:
    sync(store_of(clone))
    land(store_of(repo), "a", "one")
    sync(store_of(repo))
    add(store_of(clone), "b", "two")
    add(store_of(clone), "c", "three")
    here, there = clone("rev-parse", "harness"), repo("rev-parse", "harness")
    with pytest.raises(ConflictError) as caught:
        sync(store_of(clone))
    assert caught.value.id == "diverged"
    assert "2 commits here, 1 there" in caught.value.message
    assert "not a fast-forward" in caught.value.message
    assert clone("rev-parse", "harness") == here
    assert Git(clone.root)("rev-parse", "refs/remotes/origin/harness") == there
    tree = clone.root.parent / "tree"
    clone("worktree", "add", "-q", str(tree), "harness")
    Git(tree)("merge", "-q", "-m", "merge", "origin/harness")
    clone("worktree", "remove", "--force", str(tree))
    assert sync(store_of(clone)).given == 3, "the hint leads out"


def test_a_rewritten_remote_is_said_and_not_taken(repo: Git, origin: Git, clone: Git) -> None:
    land(store_of(repo), "a", "one")
    sync(store_of(repo))
    known = repo("rev-parse", "harness")
    origin("update-ref", "refs/heads/harness", origin("commit-tree", "-m", "x", "harness^{tree}"))
    with pytest.raises(HarnessError) as caught:
        sync(store_of(repo))
    assert caught.value.id == "rewritten"
    assert repo("rev-parse", "harness", "refs/remotes/origin/harness").split() == [known, known]
    assert clone.root.exists()


SIGNED_ONLY = """#!/bin/sh
[ "$1" != refs/heads/harness ] && exit 0
[ "$(git log -1 --format=%G? "$3")" = G ] || { echo "commits must have verified signatures" >&2; exit 1; }
"""


def test_git_07_a_branch_that_requires_signatures_is_landed_through_a_pull_request(
    repo: Git, origin: Git
) -> None:
    repo("config", "--global", "commit.gpgsign", "true")
    hook = origin.root / "hooks/update"
    hook.write_text(SIGNED_ONLY)
    hook.chmod(0o755)
    waiting = learned(store_of(repo), "b", "two")
    land(store_of(repo), "a", "one")
    with pytest.raises(HarnessError) as caught:
        sync(store_of(repo))
    assert not isinstance(caught.value, ConflictError)
    assert caught.value.id == "push_refused"
    assert "verified signatures" in caught.value.message
    assert "harnessctl review pr" in caught.value.hint
    offered = store_of(repo).offer_proposal(waiting.id)
    assert origin("rev-parse", offered.branch) == waiting.commit
    assert not origin("for-each-ref", "refs/heads/harness")


def test_git_10_detached_head(repo: Git, clone: Git) -> None:
    """In branch mode work goes on from any commit; what lands goes to the named branch."""
    clone("checkout", "-q", "--detach")
    land(store_of(repo), "a", "one")
    sync(store_of(repo))
    assert sync(store_of(clone)).taken == 2
    assert text_of(clone, "a") == "one"
    added = add(store_of(clone), "b", "two")
    assert clone("rev-parse", "refs/heads/harness") == added.commit
    assert sync(store_of(clone)).given == 1


def test_git_10_detached_head_in_tree_stops_in_words(repo: Git, make_repo: Make) -> None:
    store_of(repo).initialise(in_tree=True)
    repo.commit("harness")
    bare = make_repo("o.git", bare=True)
    repo("remote", "add", "origin", str(bare.root))
    repo("push", "-q", "origin", "main")
    tree = repo.root.parent / "detached"
    repo("worktree", "add", "-q", "--detach", str(tree), "main")
    with pytest.raises(HarnessError) as caught:
        sync(store_of(Git(tree)))
    assert (caught.value.id, caught.value.exit_code) == ("detached_head", 1)
    assert "detached HEAD" in caught.value.message


def test_in_tree_the_users_branch_is_fetched_and_compared_only(
    repo: Git,
    make_repo: Make,
    tmp_path: Path,
    monkeypatch: pytest.MonkeyPatch,
    capsys: pytest.CaptureFixture[str],
) -> None:
    store_of(repo).initialise(in_tree=True)
    repo.commit("harness")
    bare = make_repo("o.git", bare=True)
    repo("remote", "add", "origin", str(bare.root))
    repo("push", "-q", "origin", "main")
    other = Git(tmp_path / "other")
    bare("clone", "-q", str(bare.root), str(other.root))
    other.commit("theirs", **{"theirs.py": "1"})
    other("push", "-q", "origin", "main")
    repo.commit("mine", **{"mine.py": "1"})
    tip = repo("rev-parse", "main")
    assert sync(store_of(repo)).waiting == (1, 1)
    assert repo("rev-parse", "main") == tip
    monkeypatch.chdir(repo.root)
    assert run(["status"]) == 0
    assert "not pushed: others see it after git push" in capsys.readouterr().out
    assert bare("rev-parse", "main") == other("rev-parse", "main")


def test_no_remote_a_refused_push_and_a_branch_in_use(repo: Git, make_repo: Make, tmp_path: Path) -> None:
    started(repo)
    with pytest.raises(UsageError) as missing:
        sync(store_of(repo))
    assert missing.value.id == "no_remote"
    bare = make_repo("o.git", bare=True)
    repo("remote", "add", "origin", str(bare.root))
    hook = bare.root / "hooks/pre-receive"
    hook.write_text("#!/bin/sh\necho protected branch >&2\nexit 1\n")
    hook.chmod(0o755)
    with pytest.raises(HarnessError) as refused:
        sync(store_of(repo))
    assert refused.value.id == "push_refused"
    assert "protected branch" in refused.value.message
    hook.unlink()
    sync(store_of(repo))
    clone = Git(tmp_path / "c")
    bare("clone", "-q", "-b", "harness", str(bare.root), str(clone.root))
    clone.commit("by hand", **{".harness/memory/h.md": "---\ndescription: d\n---\n"})
    clone("push", "-q", "origin", "harness")
    repo("worktree", "add", "-q", str(tmp_path / "w"), "harness")
    with pytest.raises(HarnessError) as used:
        sync(store_of(repo))
    assert used.value.id == "branch_in_use"


SHARED = "schema = 1\n[review]\nrequire_shared = true\n"


@pytest.fixture
def team(repo: Git, origin: Git, tmp_path: Path) -> Git:
    """A repository in which runs read what is shared, and it all is."""
    with Hand(repo, tmp_path / "hand") as hand:
        hand.commit("policy", **{".harness/harness.toml": SHARED})
    sync(store_of(repo))
    move_pin(store_of(repo))
    return repo


def test_where_policy_wants_it_runs_read_only_what_is_shared(team: Git) -> None:
    shared = store_of(team).pin().commit
    land(store_of(team), "a", "one")
    alone = team("rev-parse", "harness")
    with pytest.raises(HarnessError) as caught:
        move_pin(store_of(team), alone)
    assert caught.value.id == "pin_not_shared"
    assert "refs/remotes/origin/harness" in caught.value.message
    assert "harnessctl sync" in caught.value.hint
    assert move_pin(store_of(team)).lock.commit == shared, "by default the newest that may be read"
    # A lock that came from elsewhere, or from before the policy.
    store_of(team)._write_lock(alone)
    with pytest.raises(HarnessError) as caught:
        store_of(team).pin()
    assert caught.value.id == "pin_not_shared"
    sync(store_of(team))
    assert store_of(team).pin().commit == alone
    assert move_pin(store_of(team)).lock.commit == alone


def test_where_policy_wants_it_an_unpinned_run_follows_the_remote(team: Git) -> None:
    shared = store_of(team).pin().commit
    (team.root / "harness.lock").unlink()
    land(store_of(team), "a", "one")
    pin = store_of(team).pin()
    assert (pin.source, pin.commit) == (PinSource.TIP, shared)
    assert team("rev-parse", "--short=12", "harness") in pin.note
    team("update-ref", "-d", "refs/remotes/origin/harness")
    with pytest.raises(HarnessError) as caught:
        store_of(team).pin()
    assert caught.value.id == "pin_not_shared"


def test_where_policy_wants_it_what_helps_is_to_share(
    team: Git, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    monkeypatch.chdir(team.root)
    proposal = learned(store_of(team), "a", "one")
    assert run(["review", "accept", proposal.id]) == 0
    assert "require_shared wants it shared: harnessctl sync, then harnessctl pin" in capsys.readouterr().err
    assert run(["status"]) == 0
    assert "the next run does not read: harnessctl sync, then harnessctl pin" in capsys.readouterr().out


def test_where_policy_wants_it_what_was_taken_back_is_left_by_sharing_first(
    team: Git, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    landed = land(store_of(team), "a", "one")
    sync(store_of(team))
    move_pin(store_of(team))
    rollback(store_of(team), update_of(landed), only=True)
    with pytest.raises(RefusedError) as read:
        store_of(team).pin()
    with pytest.raises(RefusedError) as moved:
        move_pin(store_of(team))
    for caught in (read, moved):
        assert caught.value.id == "pin_revoked"
        assert caught.value.hint.startswith("harnessctl sync, then harnessctl pin ")
    sync(store_of(team))
    assert not move_pin(store_of(team)).waits
    land(store_of(team), "b", "two")
    monkeypatch.chdir(team.root)
    assert run(["pin"]) == 0
    assert "what has landed since is not: harnessctl sync" in capsys.readouterr().err
    assert run(["pin", "--json"]) == 0
    assert json.loads(capsys.readouterr().out)["waits"] is True


def test_where_policy_wants_it_no_landing_moves_the_lock(team: Git) -> None:
    store = store_of(team)
    before, tip = store.pin().commit, store.landed_tip()
    proposal = learned(store, "a", "one")
    with pytest.raises(HarnessError) as caught:
        store.accept(proposal.id, pin=True)
    assert (caught.value.id, store.landed_tip()) == ("pin_not_shared", tip), "nothing has landed"
    landed = store.accept(proposal.id)
    done = rollback(store, update_of(landed), only=True)
    assert done.landed.lock is None
    assert store_of(team).pin().commit == before


def test_a_policy_that_asks_in_the_wrong_words_asks(repo: Git, origin: Git, tmp_path: Path) -> None:
    assert not store_of(repo).require_shared
    with Hand(repo, tmp_path / "hand") as hand:
        hand.commit("policy", **{".harness/harness.toml": SHARED.replace("true", '"yes"')})
    assert store_of(repo).require_shared


def test_what_a_team_agreed_on_is_not_lifted_by_a_commit_of_ones_own(team: Git, tmp_path: Path) -> None:
    with Hand(team, tmp_path / "hand") as hand:
        hand.commit("my way", **{".harness/harness.toml": "schema = 1\n"})
    alone = team("rev-parse", "harness")
    with pytest.raises(HarnessError) as caught:
        move_pin(store_of(team), alone)
    assert caught.value.id == "pin_not_shared"
    # The user's own settings stand above the repository's, as everywhere.
    team("config", "harness.requireShared", "false")
    assert move_pin(store_of(team), alone).lock.commit == alone


def test_without_a_remote_nothing_is_shared(repo: Git) -> None:
    started(repo)
    repo("config", "harness.requireShared", "true")
    with pytest.raises(HarnessError) as caught:
        store_of(repo).pin()
    assert caught.value.id == "pin_not_shared"
    assert "there is none" in caught.value.message


def test_an_agent_may_not(repo: Git, origin: Git, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("HARNESSCTL_ACTOR", "agent")
    with pytest.raises(RefusedError):
        sync(store_of(repo))
    assert not origin("for-each-ref", "refs/heads/harness")


def test_losing_the_race_for_the_branch_is_said(
    repo: Git, clone: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    sync(store_of(clone))
    land(store_of(repo), "a", "one")
    sync(store_of(repo))
    move = Writer.move

    def late(
        self: Writer, ref: str, old: str | None, new: str | None, why: str, point: str = "moved"
    ) -> None:
        tree = clone("rev-parse", "harness^{tree}")
        clone("update-ref", "refs/heads/harness", clone("commit-tree", "-m", "x", "-p", "harness", tree))
        move(self, ref, old, new, why, point)

    monkeypatch.setattr(Writer, "move", late)
    with pytest.raises(ConflictError) as caught:
        sync(store_of(clone))
    assert caught.value.id == "moved_ref"


EVIL = {
    "core.sshCommand": "{}",
    "core.gitProxy": "{}",
    "core.askPass": "{}",
    "core.hooksPath": "{dir}",
    "core.fsmonitor": "{}",
    "core.alternateRefsCommand": "{}",
    "credential.helper": "!{}",
    "credential.https://127.0.0.1.helper": "!{}",
    "remote.origin.uploadpack": "{}",
    "remote.origin.receivepack": "{}",
    "protocol.ext.allow": "always",
    "protocol.allow": "always",
    "push.gpgSign": "true",
    "gpg.program": "{}",
    "uploadpack.packObjectsHook": "{}",
}


def test_no_program_of_the_repositorys_configuration_runs(repo: Git, origin: Git, tmp_path: Path) -> None:
    proof, folder = tmp_path / "ran", tmp_path / "evil"
    folder.mkdir()
    program = folder / "pre-push"
    program.write_text(f"#!/bin/sh\ntouch {proof}\nexit 1\n")
    program.chmod(0o755)
    for key, value in EVIL.items():
        repo("config", key, value.format(program, dir=folder))
    assert sync(store_of(repo)).given == 1
    assert not proof.exists()
    repo("config", "remote.origin.uploadpack", "git-upload-pack")
    for url in (f"ext::{program}", "ssh://git@127.0.0.1:1/x", "https://127.0.0.1:1/x", "git://127.0.0.1:1/x"):
        repo("remote", "set-url", "origin", url)
        with pytest.raises(HarnessError):
            sync(store_of(repo))
        assert not proof.exists(), url
    repo("remote", "set-url", "origin", str(origin.root))
    repo("config", "remote.origin.vcs", "evil")
    with pytest.raises(HarnessError):
        sync(store_of(repo))


def test_the_users_own_ssh_command_is_used(
    repo: Git, origin: Git, home: Path, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    proof = tmp_path / "ran"
    program = tmp_path / "my-ssh"
    program.write_text(f"#!/bin/sh\ntouch {proof}\nexit 1\n")
    program.chmod(0o755)
    repo("remote", "set-url", "origin", "ssh://git@127.0.0.1:1/x")
    repo("config", "--global", "core.sshCommand", str(program))
    with pytest.raises(HarnessError):
        sync(store_of(repo))
    assert proof.exists()
    proof.unlink()
    repo("config", "--global", "--unset", "core.sshCommand")
    monkeypatch.setenv("GIT_SSH_COMMAND", str(program))
    with pytest.raises(HarnessError):
        sync(store_of(repo))
    assert proof.exists()
