"""Texts that a person edits: what an edit or a proposal's edit leaves behind when it does not land."""

from __future__ import annotations

import os
import stat
from pathlib import Path

import pytest

from harnessctl.commands.drafts import Draft
from harnessctl.commands.edit import entry_path, open_entry, save_entry
from harnessctl.commands.init import init
from harnessctl.commands.review_edit import open_draft, save_draft
from harnessctl.commands.review_rebase import review_rebase
from harnessctl.domain.errors import ConflictError, HarnessError
from harnessctl.domain.ids import EntryId
from tests.conftest import Git
from tests.fakes.harness import add, started, store_of, text_of
from tests.fakes.history import land, learned

TOKEN = "ghp_" + "aB3dE6gH9" * 4
LINES = "\n".join(f"line {n}" for n in range(12))


def edit(draft: Draft[EntryId], old: str, new: str) -> None:
    path = entry_path(draft)
    path.write_text(path.read_text().replace(old, new))


def refused(git: Git, draft: Draft[EntryId]) -> HarnessError:
    with pytest.raises(HarnessError) as caught:
        save_entry(store_of(git), draft)
    return caught.value


def kept(error: HarnessError) -> Path:
    """The file that the hint names."""
    path = Path(error.hint.partition("is kept in ")[2].partition(";")[0])
    assert path.is_file()
    return path


# -- entries --------------------------------------------------------------------------------------


@pytest.mark.timeout(60)
def test_a_text_of_any_size_is_refused_without_being_read_whole(repo: Git) -> None:
    store = started(repo)
    draft = open_entry(store, "memory/a")
    os.truncate(entry_path(draft), 500 * 2**30)
    error = refused(repo, draft)
    assert (error.id, ".harness/memory/a.md: HRN111: has more than" in error.message) == (
        "invalid_entry",
        True,
    )
    assert kept(error) == entry_path(draft)
    waiting = learned(store, "b", "one")
    offered = open_draft(store, waiting.id)
    os.truncate(offered.paths()[0], 500 * 2**30)
    with pytest.raises(HarnessError, match="HRN111: has more than"):
        save_draft(store, offered)


def test_a_text_that_met_a_conflict_outlives_the_next_edit(repo: Git) -> None:
    add(started(repo), "a", "one")
    draft = open_entry(store_of(repo), "memory/a")
    edit(draft, "one", "hours of work")
    add(store_of(repo), "a", "somebody else's")
    error = refused(repo, draft)
    assert error.id == "conflict"
    again = open_entry(store_of(repo), "memory/a")
    assert "somebody else's" in entry_path(again).read_text()
    edit(again, "somebody", "anybody")
    save_entry(store_of(repo), again)
    assert "hours of work" in kept(error).read_text()


def test_a_text_left_before_the_entry_changed_is_set_aside_and_said(repo: Git) -> None:
    add(started(repo), "a", "one")
    draft = open_entry(store_of(repo), "memory/a")
    edit(draft, "one", "hours of work")
    add(store_of(repo), "a", "two")
    again = open_entry(store_of(repo), "memory/a")
    assert "two" in entry_path(again).read_text()
    assert again.aside is not None
    assert "hours of work" in again.aside.read_text()


def test_one_that_nobody_wrote_in_leaves_nothing(repo: Git) -> None:
    add(started(repo), "a", "one")
    open_entry(store_of(repo), "memory/a")
    add(store_of(repo), "a", "two")
    again = open_entry(store_of(repo), "memory/a")
    assert (again.resumed, again.aside) == (False, None)
    assert list(again.home.parent.iterdir()) == [again.home]


@pytest.mark.parametrize("entry", ["memory/new", "skills/new", "memory/a"])
def test_a_text_left_as_it_was_is_given_up(repo: Git, entry: str) -> None:
    store = started(repo)
    add(store, "a", "one")
    tip = repo("rev-parse", "harness")
    draft = open_entry(store_of(repo), entry)
    assert refused(repo, draft).id == "nothing_changed"
    assert not draft.home.exists()
    assert not open_entry(store_of(repo), entry).resumed
    assert repo("rev-parse", "harness") == tip


@pytest.mark.parametrize("torn", [b"", b'{"seen": "sha', b"[]", b'{"seen": ""}'])
def test_what_tells_of_a_text_cannot_be_read(repo: Git, torn: bytes) -> None:
    add(started(repo), "a", "one")
    draft = open_entry(store_of(repo), "memory/a")
    edit(draft, "one", "hours of work")
    (draft.home / "seen.json").write_bytes(torn)
    again = open_entry(store_of(repo), "memory/a")
    assert not again.resumed
    assert again.aside is not None
    assert "hours of work" in again.aside.read_text()
    assert open_entry(store_of(repo), "memory/a").resumed


def test_a_text_that_is_gone_is_said(repo: Git) -> None:
    add(started(repo), "a", "one")
    draft = open_entry(store_of(repo), "memory/a")
    entry_path(draft).unlink()
    assert refused(repo, draft).id == "draft_gone"
    draft = open_entry(store_of(repo), "memory/a")
    draft.drop()
    assert refused(repo, draft).id == "draft_gone"
    entry_path(open_entry(store_of(repo), "memory/a")).unlink()
    again = open_entry(store_of(repo), "memory/a")
    assert entry_path(again).exists()
    assert (again.resumed, again.aside) == (False, None)


def test_the_second_of_two_terminals_loses_nothing(repo: Git, monkeypatch: pytest.MonkeyPatch) -> None:
    add(started(repo), "a", "one")
    first = open_entry(store_of(repo), "memory/a")
    second = open_entry(store_of(repo), "memory/a")
    assert entry_path(first) == entry_path(second)
    edit(first, "one", "two")
    store = store_of(repo)
    real = store.add
    monkeypatch.setattr(store, "add", lambda wanted: (real(wanted), edit(second, "two", "three"))[0])
    save_entry(store, first)
    assert text_of(repo, "a") == "two"
    assert "three" in kept(refused(repo, second)).read_text()


def test_the_longest_names_have_drafts_of_their_own(repo: Git) -> None:
    started(repo)
    names = ["/".join(letter * 64 for letter in letters) for letters in ("aaaa", "aaab")]
    homes = set()
    for name in names:
        draft = open_entry(store_of(repo), f"memory/{name}")
        edit(draft, '""', name[-5:])
        homes.add(draft.home)
        assert open_entry(store_of(repo), f"memory/{name}").resumed
        save_entry(store_of(repo), draft)
    assert len(homes) == 2
    assert {f"memory/{name}" for name in names} == set(store_of(repo).snapshot("harness").entries)


def test_a_refused_secret_lies_in_private_and_the_hint_says_so(repo: Git) -> None:
    add(started(repo), "a", "one")
    draft = open_entry(store_of(repo), "memory/a")
    edit(draft, "one", TOKEN)
    error = refused(repo, draft)
    assert error.id == "secret_found"
    assert "with what was refused in it" in error.hint
    path = kept(error)
    assert TOKEN in path.read_text()
    assert stat.S_IMODE(path.stat().st_mode) == 0o600
    for folder in (draft.home, draft.home.parent, store_of(repo).state_dir):
        assert stat.S_IMODE(folder.stat().st_mode) == 0o700
    assert TOKEN not in f"{error.message} {error.hint}"


def test_in_tree_work_that_came_meanwhile_keeps_the_text(repo: Git) -> None:
    init(store_of(repo), in_tree=True)
    add(store_of(repo), "a", "one")
    repo.commit("harness")
    draft = open_entry(store_of(repo), "memory/a")
    edit(draft, "one", "two")
    file = repo.root / ".harness/memory/a.md"
    before = file.read_text()
    file.write_text(f"{before}by hand\n")
    error = refused(repo, draft)
    assert error.id == "uncommitted"
    assert file.read_text() == f"{before}by hand\n"
    assert "two" in kept(error).read_text()
    file.write_text(before)
    again = open_entry(store_of(repo), "memory/a")
    assert again.resumed
    save_entry(store_of(repo), again)
    assert file.read_text() == before.replace("one", "two")


def test_in_tree_an_edit_on_a_feature_branch_lands_there(repo: Git) -> None:
    init(store_of(repo), in_tree=True)
    add(store_of(repo), "a", "one")
    repo.commit("harness")
    repo("checkout", "-q", "-b", "topic")
    add(store_of(repo), "a", "two")
    repo.commit("two")
    draft = open_entry(store_of(repo), "memory/a")
    edit(draft, "two", "three")
    save_entry(store_of(repo), draft)
    assert (repo.root / ".harness/memory/a.md").read_text().endswith("three\n")


# -- proposals ------------------------------------------------------------------------------------


def write(draft: Draft[object], old: str, new: str) -> None:
    (path,) = draft.paths()
    path.write_text(path.read_text().replace(old, new))


def test_a_text_laid_out_before_a_rebase_takes_nothing_back(repo: Git) -> None:
    store = started(repo)
    land(store, "a", LINES)
    waiting = learned(store, "a", LINES.replace("line 10", "LINE 10"))
    draft = open_draft(store_of(repo), waiting.id)
    write(draft, "LINE 10", "LINE X")
    land(store_of(repo), "a", LINES.replace("line 1\n", "LINE 1\n"))
    review_rebase(store_of(repo), waiting.id)
    again = open_draft(store_of(repo), waiting.id)
    assert not again.resumed
    assert again.aside is not None
    assert "LINE X" in again.aside.read_text()
    write(again, "LINE 10", "LINE ten")
    save_draft(store_of(repo), again)
    store_of(repo).accept(waiting.id)
    assert text_of(repo, "a") == LINES.replace("line 10", "LINE ten").replace("line 1\n", "LINE 1\n")


def test_a_rebase_while_the_editor_is_open_sets_the_text_aside(repo: Git) -> None:
    store = started(repo)
    waiting = learned(store, "a", "one")
    draft = open_draft(store_of(repo), waiting.id)
    write(draft, "one", "hours of work")
    land(store_of(repo), "b", "two")
    review_rebase(store_of(repo), waiting.id)
    with pytest.raises(ConflictError) as caught:
        save_draft(store_of(repo), draft)
    assert caught.value.id == "moved_ref"
    assert "hours of work" in kept(caught.value).read_text()
    assert not open_draft(store_of(repo), waiting.id).resumed


def test_a_ref_that_is_only_held_leaves_the_text_to_go_on_with(
    repo: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    waiting = learned(started(repo), "a", "one")
    store = store_of(repo)
    draft = open_draft(store, waiting.id)
    write(draft, "one", "hours of work")

    def held(*_: object) -> None:
        raise ConflictError("it stayed held", id="moved_ref", hint="try again")

    monkeypatch.setattr(store.writer, "settle", held)
    with pytest.raises(ConflictError) as caught:
        save_draft(store, draft)
    assert "goes on with it" in caught.value.hint
    assert open_draft(store_of(repo), waiting.id).resumed


def test_a_proposals_text_that_is_gone_deletes_nothing(repo: Git) -> None:
    waiting = learned(started(repo), "a", "one")
    draft = open_draft(store_of(repo), waiting.id)
    draft.drop()
    with pytest.raises(HarnessError) as caught:
        save_draft(store_of(repo), draft)
    assert caught.value.id == "draft_gone"
    assert store_of(repo).proposals()[0].commit == waiting.commit
