"""Refs that name what is missing or malformed: the rest can be read, and ``doctor`` says what is wrong."""

from __future__ import annotations

import os
import time
from collections.abc import Callable
from pathlib import Path

import pytest

from harnessctl.commands.check import CheckRequest, check
from harnessctl.commands.doctor import Health, doctor
from harnessctl.commands.list_entries import list_entries
from harnessctl.commands.log import log
from harnessctl.commands.review_list import review_list
from harnessctl.commands.status import status
from harnessctl.commands.verify import verify
from harnessctl.config import read_environment
from harnessctl.domain.errors import HarnessError, NotFoundError, UsageError
from harnessctl.domain.ids import new_ulid
from harnessctl.layers.l3_durable.files.lock import parse_lock
from harnessctl.layers.l3_durable.places.names import PROPOSALS, RESCUE
from harnessctl.refine.redact import local_redactor
from tests.conftest import Git
from tests.fakes.harness import add, fsck_is_clean, land, propose, started, store_of, text_of

MALFORMED = "tree {tree}\nauthor Ada\nReviewer <a@b.c> 1 +0000\ncommitter Ada <a@b.c> 1 +0000\n\nx\n"
HARNESS = ".git/refs/heads/harness"


def ids(found: Health) -> list[str]:
    return [one.repair.id for one in found.found]


def malformed(git: Git) -> str:
    """A commit object whose author line is broken in two, as older versions of ours could write it."""
    tree = git("rev-parse", "harness^{tree}")
    file = git.root / ".git/malformed"
    file.write_text(MALFORMED.format(tree=tree))
    return git("hash-object", "-t", "commit", "-w", "--literally", str(file))


def lose(git: Git, oid: str) -> None:
    """Take a loose object away."""
    path = git.root / ".git/objects" / oid[:2] / oid[2:]
    path.chmod(0o644)
    path.unlink()


# -- who wrote it ------------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["Ada\nReviewer", "Ada\r\nRev<iew>er", "\x1bAda\x01Reviewer\n"])
def test_what_would_break_a_commits_line_is_left_out_of_a_persons_name(
    repo: Git, monkeypatch: pytest.MonkeyPatch, name: str
) -> None:
    """git drops line breaks and angle brackets from names; libgit2 would write them."""
    repo("config", "user.name", name)
    repo("config", "user.email", "<a@b.c>\n")
    landed = add(started(repo), "a", "one")
    assert repo("log", "-1", "--format=%an <%ae>", landed.commit) == "AdaReviewer <a@b.c>"
    monkeypatch.setenv("GIT_AUTHOR_NAME", "Eve\nencoding x")
    landed = add(store_of(repo), "b", "two")
    assert repo("log", "-1", "--format=%an", landed.commit) == "Eveencoding x"
    assert fsck_is_clean(repo)


@pytest.mark.parametrize("name", ["\n", "<>", "\x01 \n"])
def test_a_name_of_which_nothing_is_left_is_refused_before_anything_is_written(repo: Git, name: str) -> None:
    store = started(repo)
    before = repo("count-objects"), repo("for-each-ref")
    repo("config", "user.name", name)
    with pytest.raises(UsageError) as caught:
        add(store, "a", "one")
    assert caught.value.id == "no_identity"
    assert (repo("count-objects"), repo("for-each-ref")) == before


def test_an_agents_name_brings_no_headers_of_its_own_into_a_commit(repo: Git) -> None:
    repo("config", "harness.agentName", "<bot>\nencoding x")
    repo("config", "harness.agentEmail", "bot@x.invalid>\n")
    made = propose(started(repo), "a", "one")
    assert repo("log", "-1", "--format=%an <%ae>", made.commit) == "botencoding x <bot@x.invalid>"
    assert [p.id for p in store_of(repo).proposals()] == [made.id]
    repo("config", "harness.agentName", "<>")
    with pytest.raises(UsageError) as caught:
        propose(store_of(repo), "b", "two")
    assert (caught.value.id, "harness.agentName" in caught.value.message) == ("no_identity", True)
    assert fsck_is_clean(repo)


# -- proposals ---------------------------------------------------------------------------------------


def test_a_malformed_proposal_hides_nothing_and_is_moved_away(repo: Git) -> None:
    store = started(repo)
    good, bad, update = propose(store, "a", "one"), malformed(repo), new_ulid()
    repo("update-ref", PROPOSALS + update, bad)
    store = store_of(repo)
    assert [p.id for p in store.proposals()] == [good.id]
    assert good.id in [u.id for u in store.updates()]
    assert ids(doctor(store)) == ["unreadable_ref"]
    assert "cannot be read" in doctor(store).found[0].repair.what
    assert not doctor(store_of(repo), fix=True).ill
    assert repo("for-each-ref", "--format=%(objectname)", RESCUE + update) == bad
    assert ids(doctor(store_of(repo))) == []
    store_of(repo).accept(good.id)


def test_a_proposal_whose_commit_is_gone_is_named_and_its_ref_removed(repo: Git) -> None:
    made = propose(started(repo), "a", "one")
    lose(repo, made.commit)
    store = store_of(repo)
    assert (store.proposals(), [u.id for u in store.updates() if u.id == made.id]) == ((), [])
    assert ids(doctor(store)) == ["unreadable_ref"]
    assert not doctor(store_of(repo), fix=True).ill
    assert not repo("for-each-ref", PROPOSALS)


# -- the branch --------------------------------------------------------------------------------------


def break_tip(git: Git, how: str) -> str:
    """Point the branch at something that is no readable commit; its id."""
    oid = {
        "missing": lambda: "1" * 40,
        "blob": lambda: git("hash-object", "-w", ".git/config"),
        "malformed": lambda: malformed(git),
    }[how]()
    (git.root / HARNESS).write_text(f"{oid}\n")
    return oid


@pytest.mark.parametrize("how", ["missing", "blob", "malformed"])
@pytest.mark.parametrize("pinned", [True, False])
def test_a_tip_that_cannot_be_read_is_one_finding_and_the_checks_go_on(
    repo: Git, how: str, pinned: bool
) -> None:
    started(repo)
    landed = land(store_of(repo), "a", "one")
    oid = break_tip(repo, how)
    if not pinned:
        (repo.root / "harness.lock").unlink()
    stale = repo.root / ".git/packed-refs.lock"
    stale.write_bytes(b"")
    os.utime(stale, (1, 1))
    found = doctor(store_of(repo))
    assert ids(found) == ["stale_lock", "lost_harness"]
    assert f"its tip {oid[:12]} cannot be read" in found.found[1].repair.what
    assert f"{landed.commit[:12]} being the newest that holds a harness" in found.found[1].repair.remedy
    assert "logs/refs/heads/harness" in found.found[1].repair.remedy or how != "missing"
    assert [one.id for one in status(store_of(repo)).wrong] == ["lost_harness"]
    repo("update-ref", "refs/heads/harness", landed.commit)
    assert text_of(repo, "a") == "one"


def test_what_cannot_be_parsed_is_not_called_absent(repo: Git) -> None:
    started(repo)
    oid = break_tip(repo, "malformed")
    with pytest.raises(HarnessError) as caught:
        store_of(repo).updates()
    assert (caught.value.id, caught.value.message.startswith(f"object {oid} cannot be read")) == (
        "unreadable_object",
        True,
    )


def test_a_malformed_commit_behind_the_tip_is_an_error_in_words(repo: Git) -> None:
    """Commits of an older version may stand on one: what walks over it says so, and doctor goes on."""
    started(repo)
    tree = repo("rev-parse", "harness^{tree}")
    file = repo.root / ".git/child"
    file.write_text(
        f"tree {tree}\nparent {malformed(repo)}\nauthor A <a@b.c> 1 +0000\ncommitter A <a@b.c> 1 +0000\n\nx\n"
    )
    child = repo("hash-object", "-t", "commit", "-w", "--literally", str(file))
    repo("update-ref", "refs/heads/harness", child)
    with pytest.raises(HarnessError) as caught:
        store_of(repo).updates()
    assert caught.value.id == "unreadable_object"
    assert "unreadable_object" in ids(doctor(store_of(repo)))


@pytest.mark.parametrize("how", ["empty", "garbage", "moved", "empty beside the remote's"])
@pytest.mark.parametrize("pinned", [True, False])
def test_a_lost_harness_is_not_one_without_history(
    repo: Git, make_repo: Callable[..., Git], how: str, pinned: bool
) -> None:
    """log, review list, verify and check would show nothing, or what others have, as if that were all."""
    started(repo)
    landed = land(store_of(repo), "a", "one")
    if not pinned:
        (repo.root / "harness.lock").unlink()
    if "remote" in how:
        repo("remote", "add", "origin", str(make_repo("origin.git", bare=True).root))
        repo("push", "-q", "origin", "harness")
    repo.write(HARNESS, {"moved": f"{repo('rev-parse', 'main')}\n", "garbage": "garbage\n"}.get(how, ""))
    redactor = local_redactor(read_environment(), "host")
    looks: list[Callable[[], object]] = [
        lambda: log(store_of(repo)),
        lambda: review_list(store_of(repo)),
        lambda: store_of(repo).proposal("01"),
        lambda: verify(store_of(repo), None, redactor),
        lambda: verify(store_of(repo), landed.record.id if landed.record else "", redactor),
        lambda: check(CheckRequest(), repo.root, read_environment(), ()),
    ]
    if not pinned and "remote" not in how:
        looks.append(lambda: list_entries(store_of(repo)))
    if "remote" not in how:
        looks.append(lambda: store_of(repo).move_pin())
    for look in looks:
        with pytest.raises(NotFoundError) as caught:
            look()
        assert (caught.value.id, caught.value.exit_code) == ("lost_harness", 1)
        assert "branch 'harness' should hold the harness" in caught.value.message
        assert f"{landed.commit[:12]} being the newest" in caught.value.hint
    assert ids(doctor(store_of(repo))) == ["lost_harness"]
    repo.write(HARNESS, f"{landed.commit}\n")
    assert log(store_of(repo)).updates
    assert not verify(store_of(repo), None, redactor).failed


def test_a_repository_without_a_harness_has_no_history(repo: Git) -> None:
    assert log(store_of(repo)).updates == ()
    assert review_list(store_of(repo)).proposals == ()
    assert verify(store_of(repo), None, local_redactor(read_environment(), "host")).answers == ()
    assert check(CheckRequest(), repo.root, read_environment(), ()).findings == ()
    repo("branch", "harness")  # a branch of the code that only has the name
    assert log(store_of(repo)).updates == ()


# -- what is checked out -----------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("name", "text"),
    [
        ("HEAD", "garbage\n"),
        ("HEAD", ""),
        ("HEAD", "ref: HEAD\n"),
        ("HEAD", "ref: refs/heads/..//x\n"),
        ("refs/heads/main", "garbage\n"),
        ("refs/heads/main", ""),
        ("refs/heads/main", "ref: refs/heads/main\n"),
    ],
)
def test_a_damaged_head_is_an_error_that_names_the_file(repo: Git, name: str, text: str) -> None:
    store = started(repo)
    repo.write(f".git/{name}", text)
    for look in (
        lambda: store_of(repo).fence.capture(),
        lambda: store.repository.head_commit,
        lambda: check(CheckRequest(staged=True), repo.root, read_environment(), ()),
    ):
        with pytest.raises(HarnessError) as caught:
            look()
        assert caught.value.id == "bad_head"
        assert f"{repo.root / '.git' / name} is damaged" in caught.value.message
        assert f".git/logs/{name} lists where it was" in caught.value.hint
    if text == "garbage\n" and name == "HEAD":
        with pytest.raises(HarnessError) as caught:
            _ = store.repository.head_ref
        assert caught.value.id == "bad_head"
    assert store_of(repo).updates() == store.updates()  # of a harness with its own branch, no more is read


def test_a_damaged_index_is_an_error_that_names_the_file(repo: Git) -> None:
    store = started(repo)
    repo.write(".git/index", "garbage\n")
    for look in (
        lambda: store.repository.tracked("app.py"),
        lambda: store.repository.tracked_where(lambda _: True),
    ):
        with pytest.raises(HarnessError) as caught:
            look()
        assert (caught.value.id, ".git/index cannot be read" in caught.value.message) == ("bad_index", True)


# -- objects -----------------------------------------------------------------------------------------


def test_a_tip_without_its_tree_stops_no_fence(repo: Git) -> None:
    store = started(repo)
    pinned = store.pin().commit
    add(store, "a", "one")
    lose(repo, repo("rev-parse", "harness^{tree}"))
    store = store_of(repo)
    before = store.fence.capture()
    assert before["refs/heads/harness"] == f"unreadable {repo('rev-parse', 'harness')}"
    assert store.fence.unknown_moves(before, store.fence.capture()) == ()
    repo("update-ref", "refs/heads/harness", pinned)
    assert store_of(repo).fence.unknown_moves(before, store_of(repo).fence.capture())


def test_a_missing_file_at_the_tip_is_named_and_stops_no_run_of_the_pin(repo: Git) -> None:
    store = started(repo)
    pinned = store.pin().commit
    add(store, "a", "one")
    lose(repo, repo("rev-parse", "harness:.harness/memory/a.md"))
    store = store_of(repo)
    assert store.pin().commit == pinned
    before = store.fence.capture()
    assert before["refs/heads/harness"] == f"tree {repo('rev-parse', 'harness:.harness')}"
    assert store.fence.unknown_moves(before, store.fence.capture()) == ()
    found = doctor(store)
    assert ids(found) == ["missing_object"]
    assert ".harness/memory/a.md" in found.found[0].repair.what
    repo("update-ref", "refs/heads/harness", pinned)
    assert store_of(repo).fence.unknown_moves(before, store_of(repo).fence.capture()) == (
        "refs/heads/harness",
    )


# -- the lock ----------------------------------------------------------------------------------------


def test_a_lock_that_is_a_folder_is_one_finding(repo: Git) -> None:
    started(repo)
    lock = repo.root / "harness.lock"
    lock.unlink()
    lock.mkdir()
    found = doctor(store_of(repo))
    assert ids(found) == ["bad_lock"]
    assert "is no plain file" in found.found[0].repair.what
    assert "remove it" in found.found[0].repair.remedy


@pytest.mark.parametrize(
    ("text", "said", "hint"),
    [
        (b"", "names no schema", "harnessctl pin REV writes it anew"),
        (b"schema = 99\n", "has schema 99", "needs a newer harnessctl"),
        (b'schema = "1"\n', "has schema '1'", "harnessctl pin REV writes it anew"),
    ],
)
def test_a_lock_of_no_or_another_schema_says_what_helps(repo: Git, text: bytes, said: str, hint: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_lock(text)
    assert (caught.value.id, said in caught.value.message) == ("bad_lock", True)
    assert hint in caught.value.hint
    started(repo)
    (repo.root / "harness.lock").write_bytes(text)
    found = doctor(store_of(repo))
    assert ids(found) == ["bad_lock"]
    assert hint in found.found[0].repair.remedy


def test_a_pipe_in_the_locks_place_is_not_waited_for(repo: Git) -> None:
    store = started(repo)
    before = store.fence.capture()
    lock = repo.root / "harness.lock"
    lock.unlink()
    os.mkfifo(lock)
    with pytest.raises(HarnessError) as caught:
        store_of(repo).move_pin()
    assert caught.value.id == "lock_not_written"
    assert "no plain file" in caught.value.message
    assert store.fence.unknown_moves(before, store.fence.capture()) == ("harness.lock",)
    with pytest.raises(UsageError):
        store_of(repo).move_pin(resolve_conflict=True)


@pytest.mark.parametrize("how", ["deleted", "empty"])
def test_a_pin_of_a_branch_that_is_gone_says_so_and_how_it_comes_back(repo: Git, how: str) -> None:
    pinned = started(repo).pin().commit
    if how == "deleted":
        repo("branch", "-D", "harness")
    else:
        (repo.root / HARNESS).write_text("")
        assert f"{HARNESS} names no commit" in doctor(store_of(repo)).found[0].repair.what
    with pytest.raises(HarnessError) as caught:
        store_of(repo).pin()
    assert caught.value.id == "pin_not_landed"
    assert "there is no such branch here" in caught.value.message
    assert f"git branch harness {pinned}" in caught.value.hint
    (repo.root / HARNESS).unlink(missing_ok=True)
    repo("branch", "harness", pinned)
    assert store_of(repo).pin().commit == pinned


def test_a_pin_of_a_branch_that_never_was_here_says_what_to_fetch(repo: Git) -> None:
    pinned = started(repo).pin().commit
    repo("branch", "-D", "harness")
    lose(repo, pinned)
    with pytest.raises(HarnessError) as caught:
        store_of(repo).pin()
    assert caught.value.id == "pin_missing"
    assert "git fetch REMOTE refs/heads/harness" in caught.value.hint


# -- what a killed process leaves --------------------------------------------------------------------


def test_files_of_a_killed_pin_and_of_a_killed_landing_are_named_and_removed(repo: Git) -> None:
    started(repo)
    lock = repo.root / ".harness.lock.ab12_xyz"
    lock.write_text("half")
    objects = repo.root / ".git/objects/tmp_objdir-harnessctl-abcdefgh"
    (objects / "aa").mkdir(parents=True)
    other = repo.root / ".harness.lock.mine"
    other.write_text("a person's")
    os.utime(other, (1, 1))
    assert ids(doctor(store_of(repo))) == [], "somebody may be writing them"
    for path, age in ((lock, 600), (objects, 600)):
        os.utime(path, (time.time() - age,) * 2)
    assert ids(doctor(store_of(repo))) == ["left_over_file"]
    os.utime(objects, (time.time() - 100_000,) * 2)
    assert ids(doctor(store_of(repo))) == ["left_over_file"] * 2
    with lock.open("rb"):
        assert ids(doctor(store_of(repo))) == ["left_over_file"] or not Path("/proc").is_dir()
    assert not doctor(store_of(repo), fix=True).ill
    assert (lock.exists(), objects.exists(), other.exists()) == (False, False, True)
    assert ids(doctor(store_of(repo))) == []


# -- configuration -----------------------------------------------------------------------------------


def test_a_mode_that_is_none_is_named(repo: Git) -> None:
    started(repo)
    repo("config", "harness.mode", "zzz")
    found = doctor(store_of(repo))
    assert ids(found) == ["bad_config"]
    assert "'zzz'" in found.found[0].repair.what
    assert "what is here is branch" in found.found[0].repair.remedy
    assert [one.id for one in status(store_of(repo)).wrong] == ["bad_config"]
    repo("config", "harness.mode", "branch")
    assert ids(doctor(store_of(repo))) == []
