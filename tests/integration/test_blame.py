"""``blame``: held against git's own blame for commits, and against the logs for events."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from harnessctl.commands.blame import Blame, blame
from harnessctl.commands.rollback import rollback
from harnessctl.domain.entry import EntryFile
from harnessctl.domain.errors import NotFoundError
from harnessctl.domain.ids import EntryId, EventAddress
from harnessctl.layers.l3_durable.landing.adding import Addition
from harnessctl.layers.l3_durable.store import HarnessStore
from harnessctl.rlm.log import read_trajectory
from tests.conftest import Git
from tests.fakes.harness import Make, started, store_of
from tests.fakes.history import Hand, land, learned, log, update_of


def by_git(git: Git, path: str, rev: str = "refs/heads/harness") -> list[str]:
    """Commit of each line, as ``git blame`` says."""
    found = git("blame", "--porcelain", rev, "--", f".harness/{path}")
    return re.findall(r"^([0-9a-f]{40}) \d+ \d+", found, re.MULTILINE)


def lines(found: Blame) -> dict[str, dict[str, object]]:
    """Text -> JSON of its line."""
    return {str(row["text"]): row for row in found.to_json()["lines"]}  # type: ignore[attr-defined]


def test_four_updates_and_a_person_each_line_has_its_origin(repo: Git, tmp_path: Path) -> None:
    store = started(repo)
    texts = ["one", "one\ntwo", "one\ntwo\nthree", "zero\none\ntwo\nthree"]
    logs = [log(store, f"tracked: app.py\nround {n}\n") for n in range(4)]
    landed = []
    for text, trajectory in zip(texts[:3], logs[:3], strict=True):
        landed.append(land(store, "a", text, trajectory))
    with Hand(repo, tmp_path / "hand") as hand:
        path = hand.root / ".harness/memory/a.md"
        path.write_text(path.read_text().replace("two\n", "TWO\n"))
        byhand = hand.commit("a person mends a line")
    landed.append(land(store_of(repo), "a", "zero\none\nTWO\nthree", logs[3]))
    found = blame(store_of(repo), "memory/a", at="harness")
    assert [line.origin.commit.id for line in found.lines] == by_git(repo, "memory/a.md")
    rows = lines(found)
    for text, place in (("one", 0), ("three", 2), ("zero", 3)):
        row = rows[text]
        assert row["update"] == update_of(landed[place])
        assert row["commit"] == landed[place].commit
        assert (row["session"], row["model"]) == (logs[place].session, "m/x")
        assert row["accepter"] == "Ada Reviewer"
        (address,) = map(EventAddress.parse, row["events"])  # type: ignore[arg-type]
        event = read_trajectory(store.state_dir / "sessions" / address.session).event(address.n)
        assert event is not None
        assert f"round {place}" in event.data["text"], "the address leads to what was seen in that run"
    person = rows["TWO"]
    assert (person["update"], person["commit"], person["events"]) == (None, byhand, [])


def test_behind_a_rollback_stands_the_update_that_was_brought_back(repo: Git) -> None:
    store = started(repo)
    first = land(store, "a", "one\ntwo")
    land(store, "a", "other")
    back = rollback(store, first.commit)
    after = land(store, "a", "one\ntwo\nthree")
    found = blame(store_of(repo), "memory/a", at="harness")
    assert [line.origin.commit.id for line in found.lines] == by_git(repo, "memory/a.md")
    rows = lines(found)
    assert rows["one"]["commit"] == back.landed.commit
    assert rows["one"]["type"] == "rollback"
    restored = rows["one"]["restored"]
    assert isinstance(restored, dict)
    assert (restored["update"], restored["commit"]) == (update_of(first), first.commit)
    assert restored["session"]
    assert rows["three"]["update"] == update_of(after)
    assert rows["three"]["restored"] is None


def test_two_updates_of_one_entry_squashed_are_both_named(repo: Git, tmp_path: Path) -> None:
    store = started(repo)
    one, two = land(store, "a", "one"), land(store, "a", "one\ntwo")
    with Hand(repo, tmp_path / "hand") as hand:
        hand("reset", "-q", "--soft", "HEAD~2")
        hand("commit", "-q", "-m", "x")
    rows = lines(blame(store_of(repo), "memory/a", at="harness"))
    assert rows["two"]["updates"] == sorted([update_of(one), update_of(two)])


def test_who_merged_a_proposal_as_it_was_let_it_in(
    repo: Git, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = started(repo)
    base = store.landed_tip()
    land(store, "a", "one")
    late = learned(store, "b", "two", base=base)
    monkeypatch.setenv("GIT_COMMITTER_NAME", "Forge")
    with Hand(repo, tmp_path / "hand") as hand:
        hand("merge", "-q", "--no-ff", "-m", "Merge pull request", late.commit)
    rows = lines(blame(store_of(repo), "memory/b", at="harness"))
    assert (rows["two"]["update"], rows["two"]["accepter"]) == (late.id, "Forge")
    rows = lines(blame(store_of(repo), "memory/a", at="harness"))
    assert rows["one"]["accepter"] == "Ada Reviewer", "what was accepted before keeps its accepter"


def test_a_skill_is_blamed_file_by_file_and_what_is_not_there_is_said(repo: Git) -> None:
    store = started(repo)
    body = b"---\nname: s\ndescription: d\n---\nuse it\n"
    files = (
        EntryFile("skills/s/SKILL.md", 0o100644, body),
        EntryFile("skills/s/scripts/go.sh", 0o100755, b"echo go\n"),
    )
    store.add(Addition(EntryId.parse("skills/s"), files))
    found = blame(store, "skills/s", at="harness")
    assert list(dict.fromkeys(line.path for line in found.lines)) == [
        "skills/s/SKILL.md",
        "skills/s/scripts/go.sh",
    ]
    with pytest.raises(NotFoundError):
        blame(store, "memory/none", at="harness")


@pytest.mark.parametrize("ignored", ["there", "not there"])
def test_configuration_changes_nothing_about_blame(repo: Git, tmp_path: Path, ignored: str) -> None:
    store = started(repo)
    first = land(store, "a", "one")
    second = land(store, "a", "one\ntwo")
    proof = tmp_path / "ran"
    (repo.root / ".git/info").mkdir(exist_ok=True)
    (repo.root / ".git/info/attributes").write_text("*.md diff=evil\n")
    repo("config", "diff.evil.textconv", f"touch {proof}; cat")
    (tmp_path / "there").write_text(f"{second.commit}\n")
    repo("config", "blame.ignoreRevsFile", str(tmp_path / ignored))
    found = blame(store_of(repo), "memory/a", at="harness")
    assert [line.origin.commit.id for line in found.lines][-2:] == [first.commit, second.commit]
    assert not proof.exists()


def test_a_shallow_clone_says_where_history_ends(repo: Git, make_repo: Make, tmp_path: Path) -> None:
    store = started(repo)
    land(store, "a", "one")
    land(store, "a", "one\ntwo")
    clone = tmp_path / "clone"
    repo("clone", "-q", "--depth", "1", "-b", "harness", f"file://{repo.root}", str(clone))
    found = blame(store_of(Git(clone)), "memory/a", at="harness")
    rows = lines(found)
    assert rows["one"]["cut"] is True
    assert rows["one"]["update"] is None, "what came before is not guessed"


def test_the_store_reads_the_pin_by_default(repo: Git) -> None:
    store: HarnessStore = started(repo)
    land(store, "a", "one")
    with pytest.raises(NotFoundError):
        blame(store, "memory/a")
