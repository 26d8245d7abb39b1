"""Undo, pins and states after what people do to branches; read back with git's own command line."""

from __future__ import annotations

import json
import subprocess
from pathlib import Path

import pytest

from harnessctl.cli.main import run
from harnessctl.commands.diff import diff
from harnessctl.commands.list_entries import list_entries
from harnessctl.commands.log import log
from harnessctl.commands.pin import pin
from harnessctl.commands.review_list import review_list
from harnessctl.commands.review_show import review_show
from harnessctl.commands.rollback import rollback
from harnessctl.commands.show import show_entry, show_update
from harnessctl.commands.status import status
from harnessctl.domain.errors import ConflictError, HarnessError, NotFoundError, RefusedError, UsageError
from harnessctl.domain.pin import PinSource
from harnessctl.domain.update import UpdateState
from harnessctl.layers.l3_durable.places.mode import Place
from harnessctl.layers.l3_durable.places.names import LIVE
from harnessctl.layers.l3_durable.store import HarnessStore
from tests.conftest import Git
from tests.fakes.harness import Make, add, fsck_is_clean, land, note, propose, started, store_of, text_of
from tests.fakes.history import Hand, learned, update_of
from tests.fakes.kills import park


def states(store: HarnessStore) -> dict[str, UpdateState | None]:
    return {u.id: u.state for u in store.updates()}


# -- rollback ------------------------------------------------------------------------------------


def test_rollback_brings_agents_entries_back_and_moves_the_lock(repo: Git) -> None:
    store = started(repo)
    first = land(store, "a", "one")
    second = land(store, "a", "two")
    third = land(store, "b", "new", depends_on="memory/a")
    done = rollback(store, first.commit)
    assert text_of(repo, "a") == "one"
    assert text_of(repo, "b") is None
    assert done.takes_back == tuple(sorted((update_of(second), update_of(third))))
    assert store.lock is not None
    assert store.lock.commit == done.landed.commit
    assert store.pin().entries == store.pin(first.commit, allow_revoked=True).entries
    found = states(store)
    assert [found[update_of(x)] for x in (first, second, third)] == ["landed", "taken_back", "taken_back"]
    assert repo("rev-list", "--count", "refs/heads/harness", "--") == "5", "history is never rewritten"


def test_humans_entries_policy_and_records_stay_as_they_are(repo: Git, tmp_path: Path) -> None:
    store = started(repo)
    base = store.landed_tip()
    add(store, "mine", "a person's")
    land(store, "a", "one")
    with Hand(repo, tmp_path / "hand") as hand:
        hand.commit("tighter", **{".harness/harness.toml": "schema = 1\n[review]\nrequire_shared = true\n"})
    done = rollback(store_of(repo), base)
    assert done.kept == ("memory/mine",)
    assert text_of(repo, "mine") == "a person's"
    assert "require_shared = true" in repo("show", "harness:.harness/harness.toml")
    assert (
        len([n for n in repo("ls-tree", "-r", "--name-only", "harness").splitlines() if "/updates/" in n])
        == 3
    )


@pytest.mark.parametrize("how", ["by hand", "with add"])
def test_a_persons_later_edit_blocks_unless_it_is_named(repo: Git, tmp_path: Path, how: str) -> None:
    store = started(repo)
    base = store.landed_tip()
    land(store, "a", "one")
    land(store, "b", "agents")
    changed = note("a", "mended", owner="agent", origin="agent")
    if how == "by hand":
        with Hand(repo, tmp_path / "hand") as hand:
            hand.commit("mend", **{".harness/memory/a.md": changed.data.decode()})
    else:
        add(store, "a", "mended")
    tip = repo("rev-parse", "harness")
    with pytest.raises(ConflictError) as caught:
        rollback(store_of(repo), base)
    assert caught.value.id == "human_edit"
    assert "memory/a" in caught.value.message
    assert "memory/b" not in caught.value.message
    assert repo("rev-parse", "harness") == tip
    rollback(store_of(repo), base, include=["memory/a"])
    assert text_of(repo, "a") is None


def test_undo_of_the_undo_has_equal_entries_and_lands_the_update_again(repo: Git) -> None:
    store = started(repo)
    base = store.landed_tip()
    landed = land(store, "a", "one")
    digest = store.pin("harness").entries
    undone = rollback(store, base)
    assert states(store)[update_of(landed)] is UpdateState.TAKEN_BACK
    rollback(store, update_of(landed))
    assert store.pin().entries == digest
    assert states(store)[update_of(landed)] is UpdateState.LANDED
    assert states(store)[update_of(undone.landed)] is UpdateState.TAKEN_BACK


def test_a_revision_whose_entries_equal_the_tips_says_so(repo: Git) -> None:
    store = started(repo)
    land(store, "a", "one")
    with pytest.raises(HarnessError) as caught:
        rollback(store, "harness")
    assert caught.value.id == "nothing_changed"


def test_rollback_names_what_depended_and_which_sessions_read_it(repo: Git) -> None:
    store = started(repo)
    base = store.landed_tip()
    landed = land(store, "a", "one")
    repo("update-ref", f"{LIVE}01KSESSION", landed.commit)
    add(store, "user", "x", owner="human")
    done = rollback(store, base)
    assert done.sessions == ("01KSESSION",)
    assert done.dependants == ()


@pytest.mark.parametrize("parked", [False, True])
def test_what_lands_while_it_is_listed_is_not_missed(
    repo: Git, monkeypatch: pytest.MonkeyPatch, *, parked: bool
) -> None:
    """The writer moves it from its own ref to the branch between two looks of the reader."""
    store = started(repo)
    waiting = learned(store, "a", "one")
    if parked:
        park(store, waiting.id)
    look = Place.landed_tips

    def landing(place: Place) -> tuple[str, ...]:
        monkeypatch.setattr(Place, "landed_tips", look)
        found = look(place)
        add(store_of(repo), "b", "takes a waiting decision along") if parked else store.accept(waiting.id)
        return found

    reader = store_of(repo)
    monkeypatch.setattr(Place, "landed_tips", landing)
    assert {u.id: u.state for u in reader.updates()}[waiting.id] == ("rejected" if parked else "open")
    assert states(store_of(repo))[waiting.id] == ("rejected" if parked else "landed")


def test_rollback_that_would_break_a_humans_entry_is_refused(repo: Git) -> None:
    store = started(repo)
    base = store.landed_tip()
    land(store, "a", "one")
    add(store, "user", "x", depends_on="memory/a")
    with pytest.raises(HarnessError, match=r"memory/a.*does not exist"):
        rollback(store, base)
    assert text_of(repo, "a") == "one"


def test_unpinned_an_update_is_accepted_without_a_lock_to_move(
    repo: Git, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    store = store_of(repo)
    store.initialise(unpinned=True)
    monkeypatch.chdir(repo.root)
    assert run(["review", "accept", learned(store, "a", "one").id, "--pin"]) == 0
    assert "no harness.lock to move" in capsys.readouterr().err
    assert not (repo.root / "harness.lock").exists()


def test_unpinned_rollback_leaves_no_lock(repo: Git) -> None:
    store = store_of(repo)
    store.initialise(unpinned=True)
    base = store.landed_tip()
    land(store, "a", "one")
    rollback(store, base)
    assert not (repo.root / "harness.lock").exists()


# -- pins ----------------------------------------------------------------------------------------


def test_under_a_lock_a_landing_says_what_the_next_run_will_not_read(repo: Git) -> None:
    store = started(repo)
    land(store, "a", "one")
    landed = land(store, "b", "two")
    assert (landed.pinned, landed.unread, landed.lock) == (True, 2, None)
    assert store.snapshot().entries == {}
    assert diff(store).entries == ("memory/a", "memory/b")
    moved = pin(store)
    assert moved.lock.commit == landed.commit
    assert store.unread(store.pin()) == 0
    assert sorted(store.snapshot().entries) == ["memory/a", "memory/b"]


def test_accept_with_pin_moves_the_lock(repo: Git) -> None:
    store = started(repo)
    landed = store.accept(propose(store, "a", "one").id, pin=True)
    assert landed.lock is not None
    assert landed.lock.commit == landed.commit == store.pin().commit


def test_a_revoked_pin_is_refused_unless_asked_for(repo: Git) -> None:
    store = started(repo)
    base = store.landed_tip()
    landed = store.accept(propose(store, "a", "one").id, pin=True)
    lock = (repo.root / "harness.lock").read_bytes()
    rollback(store, base)
    (repo.root / "harness.lock").write_bytes(lock)
    with pytest.raises(RefusedError) as caught:
        store_of(repo).pin()
    assert caught.value.id == "pin_revoked"
    assert update_of(landed) in caught.value.message
    assert store_of(repo).pin(allow_revoked=True).commit == landed.commit
    assert store_of(repo).pin(base).source is PinSource.FLAG, "what holds nothing taken back is read"
    found = status(store_of(repo))
    assert found.problem is not None
    assert found.problem.id == "pin_revoked"


def test_squashed_by_hand_and_fetched_anew_both_updates_are_landed_with_evidence(
    repo: Git, make_repo: Make, tmp_path: Path
) -> None:
    store = started(repo)
    one = land(store, "a", "one")
    two = store.accept(propose(store, "b", "two").id, pin=True)
    digest = store.pin().entries
    with Hand(repo, tmp_path / "hand") as hand:
        hand("reset", "-q", "--soft", "HEAD~2")
        hand("commit", "-q", "-m", "x")
    bare = make_repo("origin.git", bare=True)
    repo("add", "harness.lock")
    repo.commit("pin")
    repo("push", "-q", str(bare.root), "main", "harness")
    clone = tmp_path / "clone"
    subprocess.run(["git", "clone", "-q", "-b", "main", bare.root, clone], check=True)
    fresh = store_of(Git(clone))
    rows = {row["update"]: row for row in log(fresh).to_json()}
    for landed in (one, two):
        assert rows[update_of(landed)]["state"] == "landed"
        assert rows[update_of(landed)]["session"]
    resolved = fresh.pin()
    assert resolved.entries == digest
    assert "not landed" in resolved.note


@pytest.mark.parametrize("again", [False, True])
def test_git_revert_takes_back_without_help_from_trailers(repo: Git, tmp_path: Path, again: bool) -> None:
    store = started(repo)
    one = land(store, "a", "one")
    two = land(store, "b", "two")
    with Hand(repo, tmp_path / "hand") as hand:
        hand("revert", "--no-edit", one.commit)
        if again:
            hand("revert", "--no-edit", "HEAD")
    found = states(store_of(repo))
    assert found[update_of(one)] is (UpdateState.LANDED if again else UpdateState.TAKEN_BACK)
    assert found[update_of(two)] is UpdateState.LANDED
    pinned = store_of(repo)
    if not again:
        with pytest.raises(RefusedError):
            pinned.pin(two.commit)


def test_a_commit_by_hand_without_a_record_is_shown_as_unrecorded(repo: Git, tmp_path: Path) -> None:
    started(repo)
    with Hand(repo, tmp_path / "hand") as hand:
        commit = hand.commit("mine", **{".harness/memory/h.md": "---\ndescription: d\n---\n"})
    row = log(store_of(repo), entry="memory/h").to_json()[0]
    assert (row["update"], row["state"], row["commit"]) == (None, "unrecorded", commit)


def test_a_lock_that_names_what_is_not_here_says_what_to_fetch(repo: Git) -> None:
    store = started(repo)
    path = repo.root / "harness.lock"
    text = path.read_text().replace(store.landed_tip(), "d" * 40)
    gone = text.replace(repo("rev-parse", "harness^{tree}"), "e" * 40).replace(
        store.pin().entries, "sha256:" + "f" * 64
    )
    path.write_text(text)
    assert "same tree" in store_of(repo).pin().note
    path.write_text(gone)
    with pytest.raises(NotFoundError) as caught:
        store_of(repo).pin()
    assert caught.value.id == "pin_missing"
    assert "refs/heads/harness" in caught.value.hint


def test_a_lock_with_conflict_markers_is_settled_by_the_side_that_holds_the_other(repo: Git) -> None:
    store = started(repo)
    repo("add", "harness.lock")
    repo.commit("pin")
    repo("checkout", "-q", "-b", "side")
    land(store, "a", "one")
    pin(store)
    repo.commit("side pin")
    repo("checkout", "-q", "main")
    newest = land(store, "b", "two")
    pin(store_of(repo))
    repo.commit("main pin")
    repo("merge", "side", check=False)
    with pytest.raises(ConflictError) as caught:
        store_of(repo).pin()
    assert caught.value.id == "lock_conflict"
    assert store_of(repo).mode is not None
    assert pin(store_of(repo), resolve=True).lock.commit == newest.commit
    assert store_of(repo).pin().commit == newest.commit


def test_pin_takes_only_what_is_landed(repo: Git) -> None:
    store = started(repo)
    proposal = propose(store, "a", "one")
    with pytest.raises(HarnessError) as caught:
        pin(store, proposal.id)
    assert caught.value.id == "pin_not_landed"


# -- revisions -----------------------------------------------------------------------------------


def test_revisions_are_those_of_harness_history(repo: Git) -> None:
    store = started(repo)
    base = store.landed_tip()
    one = land(store, "a", "one")
    two = land(store, "b", "two")
    waiting = propose(store, "c", "three")
    for rev, commit in {
        two.commit: two.commit,
        two.commit[:8]: two.commit,
        "~1": one.commit,
        "~": one.commit,
        "~2": base,
        "harness~2": base,
        "refs/heads/harness": two.commit,
        f"{two.commit[:10]}~1": one.commit,
        update_of(one): one.commit,
        update_of(one).lower(): one.commit,
        f"{update_of(two)}~2": base,
        waiting.id: waiting.commit,
    }.items():
        assert store.resolve(rev) == commit, rev
    for rev in ("nope", repo("rev-parse", "HEAD"), "~9", "main", "0" * 40, "-x", "ffff"):
        with pytest.raises(NotFoundError) as caught:
            store.resolve(rev)
        assert caught.value.id == "unknown_revision"
    with pytest.raises(UsageError) as ambiguous:
        store.resolve(update_of(one)[:4])
    assert ambiguous.value.id == "ambiguous_revision"


# -- decisions and left-overs --------------------------------------------------------------------


def test_reject_lands_a_decision_and_the_update_stays_known(repo: Git) -> None:
    store = started(repo)
    proposal = propose(store, "a", "one")
    store.reject(proposal.id[:20], "not true")
    again = store_of(repo)
    assert again.proposals() == ()
    row = next(u for u in again.updates() if u.id == proposal.id)
    assert row.state is UpdateState.REJECTED
    assert row.record is not None
    assert [c.after for c in row.record.entries] == [c.after for c in proposal.record.entries]
    assert [e.session for e in row.record.evidence] == [e.session for e in proposal.record.evidence]
    path = next(n for n in repo("ls-tree", "-r", "--name-only", "harness").splitlines() if "/updates/" in n)
    decision = json.loads(repo("show", f"harness:{path}"))
    assert (decision["type"], decision["of"], decision["why"]) == ("decision", proposal.id, "not true")
    assert text_of(repo, "a") is None


def test_a_left_over_ref_of_a_landed_decision_stops_no_landing(repo: Git) -> None:
    """A process that was killed before it could take the ref away must not end all later landings."""
    store = started(repo)
    proposal = propose(store, "a", "one")
    park(store, proposal.id)
    (row,) = repo("for-each-ref", "--format=%(refname) %(objectname)", "refs/harness/decisions").splitlines()
    add(store_of(repo), "b", "takes it along")
    repo("update-ref", *row.split())
    add(store_of(repo), "c", "lands")
    assert repo("for-each-ref", "refs/harness/decisions") == ""
    assert states(store_of(repo))[proposal.id] is UpdateState.REJECTED


def test_a_left_over_proposal_ref_counts_as_landed(repo: Git) -> None:
    store = started(repo)
    proposal = propose(store, "a", "one")
    store.accept(proposal.id)
    repo("update-ref", f"refs/harness/proposals/{proposal.id}", proposal.commit)
    assert store_of(repo).proposals() == ()
    assert states(store_of(repo)) == {proposal.id: UpdateState.LANDED}
    with pytest.raises(NotFoundError):
        store_of(repo).accept(proposal.id)


def test_no_push_publishes_a_proposal(repo: Git, make_repo: Make) -> None:
    bare = make_repo("origin.git", bare=True)
    propose(started(repo), "a", "one")
    repo("push", "-q", "--all", str(bare.root))
    assert bare("for-each-ref", "--format=%(refname)").splitlines() == [
        "refs/heads/harness",
        "refs/heads/main",
    ]


# -- reading verbs -------------------------------------------------------------------------------


def test_review_shows_the_change_with_its_evidence(repo: Git) -> None:
    store = started(repo)
    proposal = propose(store, "a", "one")
    assert [p["id"] for p in review_list(store).to_json()] == [proposal.id]
    case = review_show(store, proposal.id[:22])
    assert [(f.path, f.status) for f in case.files] == [(".harness/memory/a.md", "A")]
    assert case.evidence[0].excerpt[0].text == "tracked: 3"
    assert case.author == "harnessctl agent <agent@harnessctl.invalid>"
    assert b"+one\n" in case.patch
    done = subprocess.run(
        ["git", "apply", "--check", "-"], cwd=repo.root, input=case.patch, capture_output=True
    )
    assert done.returncode == 0, done.stderr
    assert set(proposal.to_json()) >= {"id", "entries", "summary", "why", "risk", "state", "base"}


def test_list_and_show_tell_broken_entries_apart(repo: Git, tmp_path: Path) -> None:
    store = started(repo)
    add(store, "good", "fine")
    with Hand(repo, tmp_path / "hand") as hand:
        hand.commit("bad", **{".harness/memory/bad.md": "---\ndescription: a: b\n---\n"})
    listing = list_entries(store, at="harness")
    assert [e["id"] for e in listing.to_json()] == ["memory/good"]
    assert [f.path for f in listing.broken] == [".harness/memory/bad.md"]
    assert show_entry(store, "memory/good", at="harness").text.endswith("fine\n")
    with pytest.raises(HarnessError) as caught:
        show_entry(store, "memory/bad", at="harness")
    assert caught.value.id == "broken_entry"
    with pytest.raises(NotFoundError) as nowhere:
        show_entry(store, "memory/none")
    assert nowhere.value.hint == "harnessctl list"
    with pytest.raises(NotFoundError) as unread:
        show_entry(store, "memory/good")
    assert "harnessctl show memory/good --at harness" in unread.value.hint


def test_git_12_a_nested_repository_is_refused_by_name(repo: Git, tmp_path: Path) -> None:
    started(repo)
    with Hand(repo, tmp_path / "hand") as hand:
        (hand.root / ".harness/skills").mkdir()
        hand("init", "-q", ".harness/skills/x")
        Git(hand.root / ".harness/skills/x").commit("inner", f="x")
        hand("-c", "advice.addEmbeddedRepo=false", "add", "-A")
        hand.commit("nested")
    listing = list_entries(store_of(repo), at="harness")
    assert any("nested repository" in f.message and "skills/x" in f.path for f in listing.broken)
    assert store_of(repo).pin("harness").entries.startswith("sha256:")
    add(store_of(repo), "fine", "still lands")


def test_show_update_gives_record_and_patch(repo: Git) -> None:
    store = started(repo)
    landed = land(store, "a", "one")
    shown = show_update(store, update_of(landed)[:20])
    assert shown.update.commit.id == landed.commit
    assert b"+one\n" in shown.patch
    assert b"updates/" not in shown.patch


def test_history_with_a_merge_made_by_a_forge(repo: Git, tmp_path: Path) -> None:
    store = started(repo)
    base = store.landed_tip()
    one = land(store, "a", "one")
    late = propose(store, "b", "two", base=base)
    with Hand(repo, tmp_path / "hand") as hand:
        hand("merge", "-q", "--no-ff", "-m", "Merge pull request", late.commit)
    found = states(store_of(repo))
    assert found == {late.id: UpdateState.LANDED, update_of(one): UpdateState.LANDED}
    assert store_of(repo).proposals() == ()
    assert fsck_is_clean(repo)


def test_the_hint_about_a_decided_update_leads_to_it(repo: Git) -> None:
    store = started(repo)
    rejected = propose(store, "a", "one")
    store.reject(rejected.id, "not so")
    for prefix in (rejected.id, rejected.id[:20]):
        shown = show_update(store_of(repo), prefix)
        assert (shown.update.id, shown.update.state) == (rejected.id, UpdateState.REJECTED)
    landed = propose(store_of(repo), "b", "two")
    store_of(repo).accept(landed.id)
    assert show_update(store_of(repo), landed.id).update.state is UpdateState.LANDED
    for nothing in ("01", "nonsense", "ZZZZZZZZ"):
        with pytest.raises(HarnessError) as caught:
            show_update(store_of(repo), nothing)
        assert caught.value.id == "unknown_revision"
