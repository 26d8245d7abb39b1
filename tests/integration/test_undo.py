"""Undo beyond ``rollback REV``: one update, single entries, dry runs, what it lists, what is remembered."""

from __future__ import annotations

import json
import shutil
import subprocess
from pathlib import Path

import pytest

from harnessctl.commands.rollback import RolledBack, rollback
from harnessctl.config import read_environment
from harnessctl.domain.errors import ConflictError, HarnessError, NotFoundError, RefusedError, UsageError
from harnessctl.domain.ids import new_ulid
from harnessctl.domain.update import Evidence, UpdateState
from harnessctl.layers.l3_durable.landing import rollback as rolling
from harnessctl.layers.l3_durable.landing import taking_back
from harnessctl.layers.l3_durable.places.names import LIVE
from harnessctl.layers.l3_durable.store import HarnessStore, open_store
from tests.acceptance.conftest import COMMAND
from tests.conftest import Git
from tests.fakes.harness import add, fsck_is_clean, note, propose, started, store_of, text_of
from tests.fakes.history import Hand, land, learned, log, update_of


def states(store: HarnessStore) -> dict[str, UpdateState | None]:
    return {u.id: u.state for u in store.updates()}


# -- one update ----------------------------------------------------------------------------------


def test_only_takes_one_update_back_and_keeps_what_came_later(repo: Git) -> None:
    store = started(repo)
    one, two, three = land(store, "a", "one"), land(store, "b", "two"), land(store, "c", "three")
    done = rollback(store, update_of(two), only=True)
    assert [text_of(repo, name) for name in "abc"] == ["one", None, "three"]
    assert done.takes_back == (update_of(two),)
    found = states(store)
    assert [found[update_of(x)] for x in (one, two, three)] == ["landed", "taken_back", "landed"]
    assert store.lock is not None
    assert store.lock.commit == done.landed.commit
    assert repo("log", "-1", "--format=%s", "harness").startswith("memory(rollback): take back ")
    assert fsck_is_clean(repo)


def test_only_brings_the_entry_back_to_what_it_was(repo: Git) -> None:
    store = started(repo)
    land(store, "a", "one")
    two = land(store, "a", "two")
    land(store, "b", "later")
    rollback(store, two.commit[:10], only=True)
    assert (text_of(repo, "a"), text_of(repo, "b")) == ("one", "later")


@pytest.mark.parametrize("by", ["an agent", "a person", "hand"])
def test_only_with_a_later_edit_of_the_entry_refuses_and_names_it(repo: Git, tmp_path: Path, by: str) -> None:
    store = started(repo)
    one = land(store, "a", "one")
    land(store, "b", "other")
    if by == "hand":
        with Hand(repo, tmp_path / "hand") as hand:
            path = hand.root / ".harness/memory/a.md"
            path.write_text(path.read_text() + "two\n")
            later = hand.commit("mend")[:12]
    elif by == "a person":
        later = update_of(add(store, "a", "one\ntwo", owner="agent", origin="agent"))
    else:
        later = update_of(land(store, "a", "one\ntwo"))
    tip = repo("rev-parse", "harness")
    with pytest.raises(ConflictError) as caught:
        rollback(store_of(repo), update_of(one), only=True)
    assert caught.value.id == "later_edit"
    assert "memory/a" in caught.value.message
    assert later in caught.value.message
    assert "memory/b" not in caught.value.message
    assert repo("rev-parse", "harness") == tip


def test_without_that_guard_the_later_edit_would_be_lost(repo: Git, monkeypatch: pytest.MonkeyPatch) -> None:
    store = started(repo)
    one = land(store, "a", "one")
    land(store, "a", "one\ntwo")
    monkeypatch.setattr(taking_back, "_refuse_later", lambda *_: None)
    rollback(store, update_of(one), only=True)
    assert text_of(repo, "a") is None


def test_only_may_follow_a_later_edit_that_was_itself_taken_back(repo: Git) -> None:
    store = started(repo)
    one = land(store, "a", "one")
    two = land(store, "a", "two")
    rollback(store, update_of(two), only=True)
    rollback(store, update_of(one), only=True)
    assert text_of(repo, "a") is None
    assert set(states(store).values()) >= {UpdateState.TAKEN_BACK}


def test_undo_of_the_undo_by_the_rollbacks_own_id(repo: Git) -> None:
    store = started(repo)
    base = store.landed_tip()
    landed = land(store, "a", "one")
    digest = store.pin("harness").entries
    undone = rollback(store, base)
    again = rollback(store, update_of(undone.landed), only=True)
    assert store.pin("harness").entries == digest
    found = states(store)
    assert found[update_of(landed)] is UpdateState.LANDED
    assert found[update_of(undone.landed)] is UpdateState.TAKEN_BACK
    thrice = rollback(store, update_of(again.landed), only=True)
    assert text_of(repo, "a") is None
    assert states(store)[update_of(landed)] is UpdateState.TAKEN_BACK
    assert thrice.takes_back == (update_of(again.landed),)


def test_going_back_behind_an_undo_leaves_taken_back_what_it_took(repo: Git) -> None:
    """The bad update's text is not there again, and a pin that holds it stays refused."""
    store = started(repo)
    good = land(store, "a", "good")
    bad = land(store, "a", "bad")
    rollback(store_of(repo), update_of(bad), only=True)
    again = land(store_of(repo), "a", "again")
    done = rollback(store_of(repo), good.commit)
    assert text_of(repo, "a") == "good"
    found = states(store_of(repo))
    assert [found[update_of(one)] for one in (good, bad, again)] == ["landed", "taken_back", "taken_back"]
    with pytest.raises(RefusedError, match=update_of(bad)):
        store_of(repo).move_pin(bad.commit)
    rollback(store_of(repo), update_of(done.landed), only=True)
    assert text_of(repo, "a") == "again"
    found = states(store_of(repo))
    assert [found[update_of(one)] for one in (good, bad, again)] == ["landed", "taken_back", "landed"]


def test_going_back_to_before_an_undo_brings_into_force_what_it_took(repo: Git) -> None:
    store = started(repo)
    first = land(store, "a", "first")
    undone = rollback(store_of(repo), update_of(first), only=True)
    later = land(store_of(repo), "a", "later")
    rollback(store_of(repo), first.commit)
    assert text_of(repo, "a") == "first"
    found = states(store_of(repo))
    assert [found[update_of(one)] for one in (first, later)] == ["landed", "taken_back"]
    assert found[update_of(undone.landed)] == "taken_back"


def test_only_says_what_it_cannot_take_back(repo: Git, tmp_path: Path) -> None:
    store = started(repo)
    base = store.landed_tip()
    waiting = learned(store, "w", "x")
    mine = add(store, "mine", "a person's")
    turned = learned(store, "t", "x")
    decided = store.reject(turned.id).commit
    one = land(store, "a", "one")
    with Hand(repo, tmp_path / "hand") as hand:
        byhand = hand.commit("by hand", **{".harness/memory/h.md": note("h", "x").data.decode()})
    store = store_of(repo)
    rollback(store, update_of(one), only=True)
    with pytest.raises(NotFoundError, match=f"holds the decision on {turned.id}") as caught:
        rollback(store, decided, only=True)
    assert "by hand" not in caught.value.hint
    for rev, kind, wanted in (
        (decided, NotFoundError, "no_update"),
        (base, NotFoundError, "no_update"),
        (byhand, NotFoundError, "no_update"),
        (waiting.id, HarnessError, "not_behind"),
        (update_of(mine), HarnessError, "nothing_changed"),
        (update_of(one), HarnessError, "nothing_changed"),
    ):
        with pytest.raises(kind) as caught:
            rollback(store, rev, only=True)
        assert caught.value.id == wanted, rev
        assert caught.value.hint
    with pytest.raises(UsageError):
        rollback(store, update_of(one), only=True, include=["memory/a"])


def test_only_of_a_squash_takes_back_the_named_one(repo: Git, tmp_path: Path) -> None:
    store = started(repo)
    one, two = land(store, "a", "one"), land(store, "b", "two")
    with Hand(repo, tmp_path / "hand") as hand:
        hand("reset", "-q", "--soft", "HEAD~2")
        hand("commit", "-q", "-m", "x")
    store = store_of(repo)
    with pytest.raises(UsageError) as caught:
        rollback(store, "harness", only=True)
    assert update_of(one) in caught.value.message
    rollback(store, update_of(one), only=True)
    assert (text_of(repo, "a"), text_of(repo, "b")) == (None, "two")
    assert states(store)[update_of(two)] is UpdateState.LANDED


def test_a_state_that_a_squash_took_away_is_said(repo: Git, tmp_path: Path) -> None:
    store = started(repo)
    land(store, "a", "one")
    two = land(store, "a", "two")
    with Hand(repo, tmp_path / "hand") as hand:
        hand("reset", "-q", "--soft", "HEAD~2")
        hand("commit", "-q", "-m", "x")
    with pytest.raises(NotFoundError) as caught:
        rollback(store_of(repo), update_of(two), only=True)
    assert caught.value.id == "state_lost"


# -- single entries, dry runs, words ---------------------------------------------------------------


def test_entry_narrows_a_rollback(repo: Git) -> None:
    store = started(repo)
    base = store.landed_tip()
    land(store, "a", "one")
    two = land(store, "b", "two")
    done = rollback(store, base, entries=["memory/b"])
    assert (text_of(repo, "a"), text_of(repo, "b")) == ("one", None)
    assert done.takes_back == (update_of(two),)
    with pytest.raises(UsageError):
        rollback(store, base, entries=["nonsense"])


def test_an_entry_that_is_not_there_is_said_with_the_nearest_name(repo: Git) -> None:
    store = started(repo)
    base = store.landed_tip()
    one = land(store, "learned", "one")
    land(store, "other", "two")
    for rev, only, wanted in (
        (base, False, f"there is no entry 'memory/leaned' at {store.landed_tip()[:12]} or {base[:12]}"),
        ("harness", False, f"there is no entry 'memory/leaned' at {store.landed_tip()[:12]}"),
        (update_of(one), True, f"{update_of(one)} changed no entry 'memory/leaned'"),
    ):
        with pytest.raises(NotFoundError) as caught:
            rollback(store, rev, only=only, entries=["memory/other", "memory/leaned"][only:])
        assert (caught.value.id, caught.value.message) == ("no_entry", wanted)
        assert "did you mean 'memory/learned'?" in caught.value.hint
    land(store, "learned", "")  # the name of what is gone today is near, too
    with pytest.raises(NotFoundError, match="there is no entry") as caught:
        rollback(store, update_of(one), entries=["memory/leaned"])
    assert "did you mean 'memory/learned'?" in caught.value.hint


def test_an_entry_that_is_as_it_was_is_named_and_not_the_revision(repo: Git) -> None:
    store = started(repo)
    one = land(store, "a", "one")
    land(store, "b", "two")
    with pytest.raises(HarnessError) as caught:
        rollback(store, one.commit, entries=["memory/a"])
    assert caught.value.id == "nothing_changed"
    assert caught.value.message.startswith(f"memory/a is today as at {one.commit}")
    assert "log --entry memory/a" in caught.value.hint


def test_a_dry_run_says_the_same_and_changes_nothing(repo: Git) -> None:
    store = started(repo)
    base = store.landed_tip()
    land(store, "a", "one")
    land(store, "b", "two")
    before = repo("for-each-ref"), (repo.root / "harness.lock").read_bytes()
    tried = rollback(store, base, dry_run=True).to_json()
    assert (repo("for-each-ref"), (repo.root / "harness.lock").read_bytes()) == before
    assert (tried["dry_run"], tried["commit"]) == (True, None)
    done = rollback(store, base).to_json()
    for key in ("changes", "takes_back", "kept", "dependants", "sessions"):
        assert tried[key] == done[key], key


def test_a_dry_run_names_what_would_stand_in_the_way(repo: Git) -> None:
    store = started(repo)
    base = store.landed_tip()
    land(store, "a", "one")
    add(store, "user", "x", depends_on="memory/a")
    with pytest.raises(HarnessError, match=r"memory/a"):
        rollback(store, base, dry_run=True)


def test_the_bad_revision_itself_says_so_and_names_only(repo: Git) -> None:
    store = started(repo)
    bad = land(store, "a", "one")
    for rev in (update_of(bad), bad.commit, "harness"):
        with pytest.raises(HarnessError) as caught:
            rollback(store, rev)
        assert "is the tip" in caught.value.message
        assert f"--only {rev}" in caught.value.hint


def test_what_a_human_owns_stays_also_when_it_is_all_there_is(repo: Git) -> None:
    store = started(repo)
    base = store.landed_tip()
    add(store, "mine", "a person's")
    with pytest.raises(HarnessError) as caught:
        rollback(store, base)
    assert "memory/mine" in caught.value.message
    assert text_of(repo, "mine") == "a person's"


@pytest.mark.parametrize("only", [True, False])
@pytest.mark.parametrize("entry", ["memory/mine", "skills/mine"])
def test_the_hint_about_what_a_human_owns_leads_there(
    repo: Git, tmp_path: Path, entry: str, only: bool
) -> None:
    """What was not there goes away; what was there comes back whole, a skill's other files included."""
    store, folder = started(repo), tmp_path / "empty"
    base = store.landed_tip()

    def write(text: str) -> str:
        body = f"---\nname: mine\ndescription: d\nowner: human\n---\n{text}\n"
        files = {"mine.md": body} if "memory" in entry else {"SKILL.md": body, f"{text}.txt": text}
        source = tmp_path / text
        source.mkdir()
        for name, data in files.items():
            (source / name).write_text(data)
        landed = command("add", entry, str(source if len(files) > 1 else source / "mine.md"), "--json")
        return str(json.loads(landed)["commit"])

    def command(*args: str) -> str:
        done = subprocess.run([COMMAND, *args], cwd=repo.root, check=True, capture_output=True, text=True)
        return done.stdout

    first = write("one")
    second = write("two")
    where = f":.harness/{entry}" + (".md" if "memory" in entry else "")
    for rev, after in ((second, first), (first, "")):
        with pytest.raises(HarnessError) as caught:
            rollback(store_of(repo), rev if only else after or base, only=only)
        assert caught.value.id == "nothing_changed"
        folder.mkdir()
        way = caught.value.hint.removesuffix(" (in the root, with an empty FOLDER)")
        way = way.removesuffix(" takes it away").replace("harnessctl", str(COMMAND))
        way = way.replace("FOLDER", str(folder))
        subprocess.run(["bash", "-ec", way], cwd=repo.root, check=True, capture_output=True)
        if after:
            assert repo("rev-parse", f"harness{where}") == repo("rev-parse", f"{after}{where}")
        else:
            assert repo("ls-tree", "-r", "--name-only", "harness", f".harness/{entry}") == ""
        shutil.rmtree(folder)
        if after:  # only what a single update did is looked at: bring that of the second back
            repo("update-ref", "refs/heads/harness", first)


def test_without_that_guard_a_rollback_would_take_a_persons_edit(
    repo: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = started(repo)
    base = store.landed_tip()
    land(store, "a", "one")
    add(store, "a", "mended", owner="agent", origin="agent")
    monkeypatch.setattr(rolling, "_refuse_human_edits", lambda *_: None)
    rollback(store, base)
    assert text_of(repo, "a") is None


# -- what rests on it -----------------------------------------------------------------------------


def test_dependants_derived_updates_and_readers_are_listed(repo: Git) -> None:
    store = started(repo)
    base = store.landed_tip()
    bad = land(store, "bad", "wrong")
    read = log(store, pin=bad.commit)
    unread = log(store, pin=base)
    derived = land(store, "derived", "from wrong", read)
    land(store, "clean", "from elsewhere", unread)
    foreign = Evidence(new_ulid(), 3, "ab" * 32, (1,))
    cloned = learned(store, "cloned", "made on top", cited=foreign)
    add(store, "needs", "x", depends_on="memory/bad")
    repo("update-ref", f"{LIVE}01KSESSION", bad.commit)
    with pytest.raises(HarnessError, match="memory/bad"):
        rollback(store, update_of(bad), only=True)
    changed = land(store, "bad", "worse")
    done: RolledBack = rollback(store, update_of(changed), only=True)
    assert done.dependants == ("memory/needs",)
    add(store, "needs", "x")
    done = rollback(store, update_of(bad), only=True)
    told = {one.update: one.read_by for one in done.derived}
    assert told == {update_of(derived): read.session, cloned.id: ""}
    assert set(done.sessions) == {read.session, "01KSESSION"}
    assert [r.session for r in done.readers if r.running] == ["01KSESSION"]


# -- pins -----------------------------------------------------------------------------------------


def test_a_pin_that_holds_what_was_taken_back_is_refused_until_it_is_taken_again(repo: Git) -> None:
    store = started(repo)
    bad = store.accept(propose(store, "a", "one").id, pin=True)
    lock = (repo.root / "harness.lock").read_bytes()
    undone = rollback(store, update_of(bad), only=True)
    (repo.root / "harness.lock").write_bytes(lock)
    with pytest.raises(RefusedError) as caught:
        store_of(repo).pin()
    assert (caught.value.id, caught.value.exit_code) == ("pin_revoked", 6)
    assert update_of(bad) in caught.value.message
    assert store_of(repo).pin(allow_revoked=True).commit == bad.commit
    rollback(store_of(repo), update_of(undone.landed), only=True)
    (repo.root / "harness.lock").write_bytes(lock)
    assert store_of(repo).pin().commit == bad.commit, "taken back no longer"


def test_a_record_that_only_waits_revokes_nothing(repo: Git) -> None:
    """*Landed* records take back; a commit beside the branch does not."""
    store = started(repo)
    bad = store.accept(propose(store, "a", "one").id, pin=True)
    undone = rollback(store, update_of(bad), only=True)
    repo("update-ref", "refs/heads/harness", bad.commit)
    repo("update-ref", "refs/heads/aside", undone.landed.commit)
    (repo.root / "harness.lock").write_bytes(
        (repo.root / "harness.lock").read_bytes().replace(undone.landed.commit.encode(), bad.commit.encode())
    )
    assert store_of(repo).pin().commit == bad.commit


# -- what people do to branches -------------------------------------------------------------------


def test_cherry_picked_onto_another_branch_and_back(repo: Git, tmp_path: Path) -> None:
    store = started(repo)
    base = store.landed_tip()
    one, two = land(store, "a", "one"), land(store, "b", "two")
    with Hand(repo, tmp_path / "hand") as hand:
        hand("reset", "-q", "--hard", base)
        hand("cherry-pick", two.commit)
    assert states(store_of(repo)) == {update_of(two): UpdateState.LANDED}
    with Hand(repo, tmp_path / "hand2") as hand:
        hand("cherry-pick", one.commit)
    found = {u.id: u for u in store_of(repo).updates()}
    assert found.keys() == {update_of(one), update_of(two)}
    assert all(u.state is UpdateState.LANDED and u.record and u.record.evidence for u in found.values())


def test_rebased_history_keeps_its_updates_and_the_pin(repo: Git, tmp_path: Path) -> None:
    store = started(repo)
    base = store.landed_tip()
    one = land(store, "a", "one")
    two = store.accept(learned(store, "b", "two").id, pin=True)
    digest = store.pin().entries
    with Hand(repo, tmp_path / "hand") as hand:
        hand("rebase", "-q", "--no-ff", "--force-rebase", "--committer-date-is-author-date", base)
        hand("commit", "-q", "--amend", "-m", "another message")
    assert repo("rev-parse", "harness") != two.commit
    fresh = store_of(repo)
    assert states(fresh) == {update_of(one): UpdateState.LANDED, update_of(two): UpdateState.LANDED}
    assert fresh.pin().entries == digest


@pytest.mark.parametrize("how", ["merge", "squash", "rebase"])
def test_the_three_buttons_of_a_forge(repo: Git, tmp_path: Path, how: str) -> None:
    store = started(repo)
    base = store.landed_tip()
    land(store, "a", "one")
    waiting = learned(store, "b", "two", base=base)
    with Hand(repo, tmp_path / "hand") as hand:
        if how == "merge":
            hand("merge", "-q", "--no-ff", "-m", "Merge pull request #1", waiting.commit)
        elif how == "squash":
            hand("merge", "-q", "--squash", waiting.commit)
            hand("commit", "-q", "-m", "learn b (#1)")
        else:
            hand("cherry-pick", waiting.commit)
    fresh = store_of(repo)
    row = next(u for u in fresh.updates() if u.id == waiting.id)
    assert row.state is UpdateState.LANDED
    assert row.to_json()["session"]
    assert fresh.proposals() == ()
    assert not [u for u in fresh.updates() if u.state is None], "no commit counts as unrecorded"


def test_a_merge_in_which_a_person_settles_a_conflict_is_theirs(repo: Git, tmp_path: Path) -> None:
    store = started(repo)
    land(store, "a", "one")
    base = store.landed_tip()
    waiting = learned(store, "a", "theirs", base=base)
    land(store, "a", "ours")
    with Hand(repo, tmp_path / "hand") as hand:
        hand("merge", "-q", waiting.commit, check=False)
        path = hand.root / ".harness/memory/a.md"
        path.write_bytes(note("a", "settled", owner="agent", origin="agent").data)
        merge = hand.commit("merge")
    rows = [u for u in store_of(repo).updates() if u.state is None]
    assert [(u.commit.id, u.entries) for u in rows] == [(merge, ("memory/a",))]
    with pytest.raises(ConflictError) as caught:
        rollback(store_of(repo), base)
    assert "memory/a" in caught.value.message


# -- the cache ------------------------------------------------------------------------------------


def test_the_kept_history_changes_no_answer(repo: Git, tmp_path: Path) -> None:
    store = started(repo)
    one = land(store, "a", "one")
    land(store, "b", "two")
    rollback(store, update_of(one), only=True)
    first = [u.to_json() for u in store_of(repo).updates()]
    kept = store.state_dir / "history"
    assert kept.stat().st_mode & 0o077 == 0
    whole = kept.read_bytes()
    for data in (b"", whole[:-20], whole.replace(b'"memory/a"', b'"memory/z"'), b"\xff\n{}\n" + whole):
        kept.write_bytes(data)
        assert [u.to_json() for u in store_of(repo).updates()] == first
    with Hand(repo, tmp_path / "hand") as hand:
        hand("revert", "--no-edit", "HEAD")
    now = {u.id: u.state for u in store_of(repo).updates()}
    kept.unlink()
    assert {u.id: u.state for u in store_of(repo).updates()} == now
    assert now[update_of(one)] is UpdateState.LANDED


def test_in_a_shallow_clone_nothing_is_kept(repo: Git, tmp_path: Path) -> None:
    store = started(repo)
    land(store, "a", "one")
    land(store, "b", "two")
    clone = Git(tmp_path / "clone")
    repo("clone", "-q", "--depth", "1", "-b", "harness", f"file://{repo.root}", str(clone.root))
    shallow = open_store(clone.root, read_environment())
    assert {u.commit.id for u in shallow.updates()} == {repo("rev-parse", "harness")}
    clone("fetch", "-q", "--unshallow")
    assert len({u.commit.id for u in store_of(clone).updates()}) == 2
