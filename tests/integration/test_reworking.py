"""``review rebase``, ``edit`` and ``pr``: a waiting proposal is made anew, or offered elsewhere."""

from __future__ import annotations

import sys
from pathlib import Path

import pytest

from harnessctl.commands.review_edit import editor, open_draft, save_draft, settles
from harnessctl.commands.review_pr import review_pr
from harnessctl.commands.review_rebase import review_rebase
from harnessctl.commands.verify import Answer, verify
from harnessctl.domain.entry import EntryFile
from harnessctl.domain.errors import ConflictError, HarnessError, RefusedError, UsageError
from harnessctl.domain.gate import gate_line
from harnessctl.domain.ids import EntryId
from harnessctl.domain.update import EntryEdit, Evidence, ExcerptEvent, UpdateState
from harnessctl.layers.l3_durable.landing.offering import forge_url
from harnessctl.layers.l3_durable.landing.proposals import Draft
from harnessctl.layers.l3_durable.store import HarnessStore
from tests.conftest import Git
from tests.fakes.harness import SESSION, Make, add, fsck_is_clean, note, propose, started, store_of, text_of
from tests.fakes.history import here, land, learned

LINES = "\n".join(f"line {n}" for n in range(12))


# -- rebase ---------------------------------------------------------------------------------------


def test_an_open_proposal_moves_to_the_tip(repo: Git) -> None:
    store = started(repo)
    waiting = learned(store, "a", "one")
    land(store, "b", "two")
    done = review_rebase(store, waiting.id)
    assert done.proposal.base == store.landed_tip()
    assert (done.merged, done.settled) == ((), ())
    (now,) = store_of(repo).proposals()
    assert (now.id, now.state, now.record.base) == (waiting.id, UpdateState.OPEN, store.landed_tip())
    assert now.author.name == "harnessctl agent"
    assert now.record.evidence == waiting.record.evidence
    assert verify(store_of(repo), waiting.id, here()).answers[0].answer is Answer.OK
    store_of(repo).accept(waiting.id)
    assert text_of(repo, "a") == "one"
    assert fsck_is_clean(repo)
    with pytest.raises(HarnessError):
        review_rebase(store_of(repo), waiting.id)


def test_lines_in_different_places_are_merged_and_named(repo: Git) -> None:
    store = started(repo)
    land(store, "a", LINES)
    waiting = learned(store, "a", LINES.replace("line 10", "LINE 10"))
    land(store, "a", LINES.replace("line 1\n", "LINE 1\n"))
    assert store.proposals()[0].state is UpdateState.CONFLICT
    done = review_rebase(store, waiting.id)
    assert done.merged == ("memory/a",)
    assert store_of(repo).proposals()[0].state is UpdateState.OPEN
    store_of(repo).accept(waiting.id)
    assert text_of(repo, "a") == LINES.replace("line 10", "LINE 10").replace("line 1\n", "LINE 1\n")


@pytest.mark.parametrize("theirs", ["LINE 3", ""])
def test_the_same_lines_are_a_conflict_that_is_named(repo: Git, theirs: str) -> None:
    store = started(repo)
    land(store, "a", LINES)
    waiting = learned(store, "a", LINES.replace("line 3", theirs) if theirs else "")
    land(store, "a", LINES.replace("line 3", "Line three"))
    before = repo("for-each-ref")
    with pytest.raises(ConflictError) as caught:
        review_rebase(store, waiting.id)
    assert "memory/a (memory/a.md)" in caught.value.message
    assert repo("for-each-ref") == before


def test_what_the_branch_says_already_leaves_the_proposal(repo: Git) -> None:
    store = started(repo)
    edits = [
        EntryEdit(
            EntryId.parse(f"memory/{name}"), "create", (note(name, "same", owner="agent", origin="agent"),)
        )
        for name in "ab"
    ]
    waiting = store.propose(edits, Draft("two at once", model="m/x"))
    land(store, "a", "same")
    done = review_rebase(store, waiting.id)
    assert done.settled == ("memory/a",)
    assert [c.id for c in done.proposal.record.entries] == ["memory/b"]
    land(store, "b", "same")
    with pytest.raises(HarnessError) as caught:
        review_rebase(store_of(repo), waiting.id)
    assert caught.value.id == "nothing_changed"


def test_a_proposal_on_the_tip_and_a_humans_entry_are_refused(repo: Git) -> None:
    store = started(repo)
    land(store, "a", LINES)
    waiting = learned(store, "a", LINES.replace("line 10", "LINE 10"))
    with pytest.raises(HarnessError) as on_tip:
        review_rebase(store, waiting.id)
    assert on_tip.value.id == "nothing_changed"
    add(store, "a", LINES, owner="human")
    with pytest.raises(RefusedError) as caught:
        review_rebase(store_of(repo), waiting.id)
    assert caught.value.id == "not_owner"


def test_a_merge_driver_of_the_repository_takes_no_part(repo: Git, tmp_path: Path) -> None:
    store = started(repo)
    land(store, "a", LINES)
    waiting = learned(store, "a", LINES.replace("line 3", "LINE 3"))
    land(store, "a", LINES.replace("line 3", "Line three"))
    proof = tmp_path / "ran"
    (repo.root / ".git/info/attributes").write_text("* merge=evil\n")
    repo("config", "merge.evil.driver", f"touch {proof}; true")
    with pytest.raises(ConflictError):
        review_rebase(store_of(repo), waiting.id)
    (repo.root / ".git/info/attributes").write_text("* merge=union\n")
    with pytest.raises(ConflictError):
        review_rebase(store_of(repo), waiting.id)
    assert not proof.exists()


# -- edit -----------------------------------------------------------------------------------------


def write(paths: tuple[Path, ...], old: str, new: str) -> None:
    (path,) = paths
    path.write_text(path.read_text().replace(old, new))


def in_conflict(repo: Git) -> tuple[HarnessStore, str]:
    """A proposal and a branch that change the same line, and one line each besides."""
    store = started(repo)
    land(store, "a", LINES)
    waiting = learned(store, "a", LINES.replace("line 3", "LINE 3").replace("line 10", "LINE 10"))
    land(store, "a", LINES.replace("line 3", "Line three").replace("line 0", "Line zero"))
    return store_of(repo), waiting.id


def test_a_conflict_is_settled_in_the_editor(repo: Git) -> None:
    store, waiting = in_conflict(repo)
    with pytest.raises(ConflictError) as refused:
        review_rebase(store, waiting)
    assert f"harnessctl review edit {waiting}" in refused.value.hint
    draft = open_draft(store, waiting)
    assert settles(draft)
    (path,) = draft.paths()
    marked = "<<<<<<< the harness branch\nLine three\n=======\nLINE 3\n>>>>>>> the proposal\n"
    assert marked in path.read_text()
    tip = store.landed_tip()
    path.write_text(path.read_text().replace("Line three\n", "", 1))
    with pytest.raises(ConflictError) as unsettled:
        save_draft(store, draft)
    assert unsettled.value.id == "unsettled"
    assert "memory/a.md" in unsettled.value.message
    again = open_draft(store, waiting)
    assert again.resumed
    path.write_text(path.read_text().replace(marked.replace("Line three\n", ""), "line 3, as both mean it\n"))
    done = save_draft(store, again)
    assert done.proposal.base == tip
    (now,) = store_of(repo).proposals()
    assert (now.id, now.state) == (waiting, UpdateState.OPEN)
    store_of(repo).accept(waiting)
    wanted = LINES.replace("line 3", "line 3, as both mean it").replace("line 0", "Line zero")
    assert text_of(repo, "a") == wanted.replace("line 10", "LINE 10")
    assert verify(store_of(repo), waiting, here()).answers[0].answer is Answer.OK


def test_a_link_in_the_place_of_a_text_is_no_deletion(repo: Git, tmp_path: Path) -> None:
    store, waiting = in_conflict(repo)
    draft = open_draft(store, waiting)
    (path,) = draft.paths()
    elsewhere = tmp_path / "elsewhere.md"
    path.rename(elsewhere)
    path.symlink_to(elsewhere)
    before = repo("for-each-ref")
    with pytest.raises(HarnessError) as caught:
        save_draft(store, draft)
    assert (caught.value.id, str(path) in caught.value.message) == ("not_a_file", True)
    assert repo("for-each-ref") == before
    path.unlink()
    elsewhere.rename(path)
    path.with_name(f".#{path.name}").symlink_to("somebody@host.1")  # an editor's mark
    assert [file.path for file in draft.read()] == ["memory/a.md"]


def test_an_editor_that_was_left_without_a_choice_settles_nothing(repo: Git) -> None:
    store, waiting = in_conflict(repo)
    before = repo("for-each-ref")
    draft = open_draft(store, waiting)
    with pytest.raises(HarnessError) as caught:
        save_draft(store, draft)
    assert caught.value.id == "nothing_changed"
    assert repo("for-each-ref") == before
    assert not draft.folder.exists()


def test_a_text_half_settled_outlives_other_landings_and_not_one_of_its_entry(repo: Git) -> None:
    store, waiting = in_conflict(repo)
    (path,) = open_draft(store, waiting).paths()
    path.write_text(path.read_text() + "half settled\n")
    land(store, "b", "another entry")
    draft = open_draft(store_of(repo), waiting)
    assert (draft.resumed, draft.aside) == (True, None)
    land(store, "a", LINES.replace("line 3", "Line drei"))
    draft = open_draft(store_of(repo), waiting)
    assert not draft.resumed
    assert draft.aside is not None
    assert "half settled" in draft.aside.read_text()
    assert "Line drei" in draft.paths()[0].read_text()


def test_an_entry_that_the_branch_removed_is_settled_as_proposed(repo: Git) -> None:
    store = started(repo)
    land(store, "a", LINES)
    waiting = learned(store, "a", LINES.replace("line 3", "LINE 3"))
    land(store, "a", "")
    draft = open_draft(store, waiting.id)
    write(draft.paths(), "LINE 3", "LINE three")
    save_draft(store, draft)
    store_of(repo).accept(waiting.id)
    assert text_of(repo, "a") == LINES.replace("line 3", "LINE three")


@pytest.mark.parametrize("take_away", [False, True])
def test_what_the_proposal_deletes_and_the_branch_changed_goes_by_a_persons_hand_alone(
    repo: Git, *, take_away: bool
) -> None:
    store = started(repo)
    for name in "ab":
        land(store, name, "one")
    new = note("b", "two", owner="agent", origin="agent")
    edits = [
        EntryEdit(EntryId.parse("memory/a"), "delete", ()),
        EntryEdit(EntryId.parse("memory/b"), "update", (new,)),
    ]
    waiting = store.propose(edits, Draft("two at once", model="m/x"))
    land(store, "a", "changed since")
    draft = open_draft(store_of(repo), waiting.id)
    a, b = draft.paths()
    assert "changed since" in a.read_text()
    b.write_text(b.read_text().replace("two", "three"))
    if take_away:
        a.unlink()
    save_draft(store_of(repo), draft)
    store_of(repo).accept(waiting.id)
    assert text_of(repo, "b") == "three"
    assert text_of(repo, "a") == (None if take_away else "changed since")


def test_files_of_a_skill_keep_what_the_branch_made_of_them(repo: Git) -> None:
    def skill(text: str, **scripts: int) -> EntryEdit:
        head = "name: s\ndescription: d\nmetadata: {harnessctl-owner: agent, harnessctl-origin: agent}"
        files = [EntryFile("skills/s/SKILL.md", 0o100644, f"---\n{head}\n---\n{text}\n".encode())]
        files += [
            EntryFile(f"skills/s/scripts/{name}.sh", mode, f"echo {text}\n".encode())
            for name, mode in scripts.items()
        ]
        return EntryEdit(EntryId.parse("skills/s"), "update", tuple(files))

    store = started(repo)
    made = Draft("a skill", model="m/x")
    store.accept(store.propose([skill("one", go=0o100644, gone=0o100644)], made).id)
    waiting = store.propose([skill("two", go=0o100644)], made)
    store.accept(store.propose([skill("three", go=0o100755, gone=0o100755)], made).id)
    draft = open_draft(store_of(repo), waiting.id)
    modes = {file.path.rpartition("/")[2]: file.mode for file in draft.read()}
    assert modes == {"SKILL.md": 0o100644, "go.sh": 0o100755, "gone.sh": 0o100755}


def test_a_proposal_that_only_deletes_opens_no_editor(repo: Git) -> None:
    store = started(repo)
    land(store, "a", "one")
    waiting = learned(store, "a", "")
    with pytest.raises(HarnessError) as caught:
        open_draft(store, waiting.id)
    assert (caught.value.id, waiting.id in caught.value.message) == ("no_text", True)
    assert f"harnessctl review reject {waiting.id} ends it" in caught.value.hint
    land(store, "a", "changed since")
    (path,) = open_draft(store_of(repo), waiting.id).paths()
    assert "changed since" in path.read_text()


def test_a_person_edits_and_the_record_says_so(repo: Git) -> None:
    store = started(repo)
    waiting = learned(store, "a", "one")
    draft = open_draft(store, waiting.id)
    assert not draft.resumed
    write(draft.paths(), "one", "one, in better words")
    save_draft(store, draft)
    assert not draft.folder.exists()
    (now,) = store_of(repo).proposals()
    assert now.id == waiting.id
    assert "Edited in review by Ada Reviewer." in now.record.why
    assert "Edited in review by Ada Reviewer." in repo("log", "-1", "--format=%B", now.commit)
    assert now.record.evidence == waiting.record.evidence
    assert now.record.actor.kind == "agent"
    draft = open_draft(store_of(repo), waiting.id)
    write(draft.paths(), "words", "short words")
    save_draft(store_of(repo), draft)
    store_of(repo).accept(waiting.id)
    assert text_of(repo, "a") == "one, in better short words"
    why = repo("log", "-1", "--format=%B", "harness")
    assert why.count("Edited in review") == 1
    assert verify(store_of(repo), waiting.id, here()).answers[0].answer is Answer.OK


def test_a_bad_text_is_said_kept_and_gone_on_with(repo: Git) -> None:
    store = started(repo)
    waiting = learned(store, "a", "one")
    draft = open_draft(store, waiting.id)
    write(draft.paths(), "description: about a", "description: a: b")
    with pytest.raises(HarnessError) as caught:
        save_draft(store, draft)
    assert caught.value.id == "invalid_entry"
    assert str(draft.folder) in caught.value.hint
    assert store_of(repo).proposals()[0].commit == waiting.commit
    again = open_draft(store_of(repo), waiting.id)
    assert again.resumed
    assert "a: b" in again.paths()[0].read_text()
    write(again.paths(), "description: a: b", "description: mended")
    save_draft(store_of(repo), again)
    assert b"mended" in store_of(repo).snapshot(waiting.id).entries["memory/a"].main.data


def test_a_secret_stops_an_edit_before_an_object_exists(repo: Git) -> None:
    store = started(repo)
    waiting = learned(store, "a", "one")
    draft = open_draft(store, waiting.id)
    token = "ghp_" + "aB3dE6gH9" * 4
    write(draft.paths(), "one", token)
    with pytest.raises(RefusedError) as caught:
        save_draft(store, draft)
    assert token not in str(caught.value)
    assert not repo("cat-file", "--batch-all-objects", "--batch").count(token)


def test_nothing_changed_stray_files_and_owners(repo: Git) -> None:
    store = started(repo)
    waiting = learned(store, "a", "one")
    draft = open_draft(store, waiting.id)
    with pytest.raises(HarnessError) as caught:
        save_draft(store, draft)
    assert caught.value.id == "nothing_changed"
    assert not draft.folder.exists()
    draft = open_draft(store, waiting.id)
    (draft.folder / "memory/b.md").write_bytes(note("b", "x").data)
    with pytest.raises(UsageError) as caught:
        save_draft(store, draft)
    assert caught.value.id == "stray_file"
    (draft.folder / "memory/b.md").unlink()
    write(draft.paths(), "owner: agent", "owner: human")
    write(draft.paths(), "one", "two")
    save_draft(store, draft)
    assert "owner: agent" in repo("show", f"{store_of(repo).proposals()[0].commit}:.harness/memory/a.md")


def test_an_edit_may_claim_what_its_landing_may(repo: Git) -> None:
    """HRN306: whether a person or the agent wrote it, the update is the agent's."""
    waiting = propose(started(repo), "a", "one", status="hypothesis")
    draft = open_draft(store_of(repo), waiting.id)
    write(draft.paths(), "hypothesis", "verified")
    with pytest.raises(RefusedError) as caught:
        save_draft(store_of(repo), draft)
    assert caught.value.id == "overreach"
    assert "HRN306" in caught.value.message
    assert "harnessctl edit" in caught.value.hint
    assert store_of(repo).proposals()[0].commit == waiting.commit
    again = open_draft(store_of(repo), waiting.id)
    assert again.resumed
    write(again.paths(), "verified", "hypothesis")
    write(again.paths(), "one", "two")
    save_draft(store_of(repo), again)
    store_of(repo).accept(waiting.id)


def test_with_a_passed_gate_in_its_evidence_both_take_it(repo: Git) -> None:
    store = started(repo)
    passed = gate_line("tests", passed=True, exit_status=0)
    evidence = Evidence(SESSION, 50, "ab" * 32, (38,), (), (ExcerptEvent(38, passed, False),))
    file = note("a", "one", status="hypothesis")
    waiting = store.propose(
        [EntryEdit(EntryId.parse("memory/a"), "create", (file,))], Draft("a", evidence=(evidence,))
    )
    draft = open_draft(store_of(repo), waiting.id)
    write(draft.paths(), "hypothesis", "verified")
    save_draft(store_of(repo), draft)
    store_of(repo).accept(waiting.id)
    assert "status: verified" in repo("show", "harness:.harness/memory/a.md")


def test_a_file_taken_out_of_a_skill_goes_and_modes_stay(repo: Git) -> None:
    store = started(repo)
    files = (
        EntryFile("skills/s/SKILL.md", 0o100644, b"---\nname: s\ndescription: d\n---\nuse it\n"),
        EntryFile("skills/s/references/long.md", 0o100644, b"long\n"),
        EntryFile("skills/s/scripts/go.sh", 0o100755, b"echo go\n"),
    )
    waiting = store.propose([EntryEdit(EntryId.parse("skills/s"), "create", files)], Draft("a skill"))
    draft = open_draft(store, waiting.id)
    (draft.folder / "skills/s/references/long.md").unlink()
    done = save_draft(store, draft)
    tree = repo("ls-tree", "-r", done.proposal.commit, ".harness/skills")
    assert "references" not in tree
    assert "100755" in next(line for line in tree.splitlines() if line.endswith("go.sh"))


def test_the_editor_is_split_into_words_and_its_failure_is_said(tmp_path: Path) -> None:
    script = tmp_path / "edit or.py"
    script.write_text("import sys; open(sys.argv[2], 'a').write(sys.argv[1])")
    file = tmp_path / "text"
    file.write_text("")
    editor(f"'{sys.executable}' '{script}' 'two words'")((file,))
    assert file.read_text() == "two words"
    with pytest.raises(HarnessError) as caught:
        editor("false")((file,))
    assert caught.value.id == "editor_failed"
    assert f"the text is kept in {tmp_path};" in caught.value.hint
    for missing in ("", " ", "/nonexistent/editor", "vim 'x"):
        with pytest.raises(UsageError) as unusable:
            editor(missing)((file,))
        assert unusable.value.id == "no_editor"


def test_agents_may_do_neither(repo: Git, monkeypatch: pytest.MonkeyPatch) -> None:
    store = started(repo)
    waiting = learned(store, "a", "one")
    land(store, "b", "x")
    monkeypatch.setenv("HARNESSCTL_ACTOR", "agent")
    for verb in (review_rebase, open_draft, review_pr):
        with pytest.raises(RefusedError) as caught:
            verb(store_of(repo), waiting.id)
        assert caught.value.id == "agent_refused"
    assert not (store.state_dir / "edits").exists()


# -- pull requests --------------------------------------------------------------------------------


def test_a_proposal_is_pushed_as_a_branch_and_lands_there(repo: Git, make_repo: Make, tmp_path: Path) -> None:
    store = started(repo)
    waiting = learned(store, "a", "one")
    with pytest.raises(UsageError) as caught:
        review_pr(store, waiting.id)
    assert caught.value.id == "no_remote"
    bare = make_repo("origin.git", bare=True)
    repo("remote", "add", "origin", str(bare.root))
    repo("push", "-q", "origin", "harness")
    done = review_pr(store_of(repo), waiting.id[:20])
    assert done.branch == f"harness-proposals/{waiting.id}"
    assert bare("rev-parse", f"refs/heads/{done.branch}") == waiting.commit
    assert (done.into, done.url) == ("harness", "")
    clone = tmp_path / "clone"
    bare("clone", "-q", "-b", "harness", str(bare.root), str(clone))
    forge = Git(clone)
    forge("-c", "user.name=F", "-c", "user.email=f@x", "merge", "-q", "--squash", f"origin/{done.branch}")
    forge("commit", "-q", "-m", "squashed (#1)")
    forge("push", "-q", "origin", "harness")
    repo("fetch", "-q", "origin", "harness:refs/remotes/origin/harness")
    assert store_of(repo).proposals() == ()
    assert {u.id: u.state for u in store_of(repo).updates()} == {waiting.id: UpdateState.LANDED}


def test_a_branch_with_other_commits_is_never_overwritten(repo: Git, make_repo: Make) -> None:
    started(repo)
    bare = make_repo("origin.git", bare=True)
    repo("remote", "add", "origin", str(bare.root))
    waiting = learned(store_of(repo), "a", "one")
    land(store_of(repo), "b", "two")
    review_pr(store_of(repo), waiting.id)
    review_rebase(store_of(repo), waiting.id)
    with pytest.raises(HarnessError) as caught:
        review_pr(store_of(repo), waiting.id)
    assert caught.value.id == "push_refused"
    assert bare("rev-parse", f"refs/heads/harness-proposals/{waiting.id}") == waiting.commit


def test_in_tree_the_pull_request_goes_into_the_users_branch(repo: Git, make_repo: Make) -> None:
    store = store_of(repo)
    store.initialise(in_tree=True)
    repo.commit("harness")
    bare = make_repo("origin.git", bare=True)
    repo("remote", "add", "origin", str(bare.root))
    repo("push", "-q", "origin", "main")
    waiting = learned(store_of(repo), "a", "one")
    done = review_pr(store_of(repo), waiting.id)
    assert done.into == "main"
    assert bare("merge-base", "main", f"refs/heads/{done.branch}") == repo("rev-parse", "main")


@pytest.mark.parametrize(
    ("remote", "url"),
    [
        ("https://github.com/o/r.git", "https://github.com/o/r/compare/harness...harness-proposals/X"),
        ("git@github.com:o/r.git", "https://github.com/o/r/compare/harness...harness-proposals/X"),
        (
            "ssh://git@gitlab.com/g/s/r",
            "https://gitlab.com/g/s/r/-/merge_requests/new?merge_request[source_branch]=harness-proposals/X"
            "&merge_request[target_branch]=harness",
        ),
        ("https://example.com/o/r.git", ""),
        ("/srv/r.git", ""),
    ],
)
def test_where_to_open_it(remote: str, url: str) -> None:
    assert forge_url(remote, "harness", "harness-proposals/X") == url
