"""What commits did, worked out twice: tree by tree, and from git's one answer; both must agree."""

from __future__ import annotations

from pathlib import Path

import pytest

from harnessctl.commands.rollback import rollback
from harnessctl.layers.l3_durable.git import treediff
from harnessctl.layers.l3_durable.git.graph import nodes
from harnessctl.layers.l3_durable.history import history_cache
from harnessctl.layers.l3_durable.history.history_cache import HistoryCache
from harnessctl.layers.l3_durable.history.records import steps
from tests.conftest import Git
from tests.fakes.harness import add, started, store_of
from tests.fakes.history import Hand, land, learned, update_of


@pytest.fixture
def varied(repo: Git, tmp_path: Path) -> Git:
    """A history with merges, a squash, a revert, commits by hand, strange names, a folder turned file."""
    store = started(repo)
    base = store.landed_tip()
    one = land(store, "a", "one")
    waiting = learned(store, "b", "two", base=base)
    other = learned(store, "c", "three", base=base)
    with Hand(repo, tmp_path / "hand") as hand:
        hand("merge", "-q", "--no-ff", "-m", "merge", waiting.commit)
        hand("merge", "-q", "--squash", other.commit)
        hand("commit", "-q", "-m", "squash")
        hand("revert", "--no-edit", one.commit)
        hand.commit("strange", **{".harness/memory/é\n x.md": "x", ".harness/stray/file": "y", "README": "z"})
        hand.commit("policy", **{".harness/harness.toml": "schema = 1\n# more\n"})
        (hand.root / ".harness/stray/file").unlink()
        (hand.root / ".harness/stray").rmdir()
        hand.commit("a file now", **{".harness/stray": "y"})
        hand("mv", ".harness/memory/b.md", ".harness/memory/d.md")
        hand.commit("renamed")
        hand("rm", "-q", "--cached", ".harness/memory/é\n x.md")
        hand("commit", "-q", "-m", "gone")
        hand("clean", "-fdq")
        hand("checkout", "-q", "--orphan", "lonely")
        hand("commit", "-q", "-m", "another root")
        hand("checkout", "-q", "harness")
        hand("merge", "-q", "--allow-unrelated-histories", "-s", "ours", "-m", "two roots", "lonely")
        hand("branch", "-q", "-D", "lonely")
    add(store_of(repo), "mine", "x")
    rollback(store_of(repo), update_of(land(store_of(repo), "e", "five")), only=True)
    return repo


def test_both_ways_agree(varied: Git, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    store = store_of(varied)
    (tmp_path / "order").write_text("*.toml\n")
    for key, value in {
        "log.follow": "true",
        "diff.renames": "copies",
        "diff.orderFile": str(tmp_path / "nowhere"),
        "log.diffMerges": "first-parent",
        "log.showRoot": "false",
        "diff.noprefix": "true",
        "core.quotePath": "false",
        "log.showSignature": "true",
    }.items():
        varied("config", key, value)
    tips = store.place.landed_tips()
    plain = list(steps(store.repository, tips))
    assert sum(bool(step.updates) for step in plain) >= 6
    asked: list[int] = []
    changes = history_cache.changes

    def counted(*args: object) -> object:
        found = changes(*args)  # type: ignore[arg-type]
        asked.append(len(found))
        return found

    monkeypatch.setattr(history_cache, "changes", counted)
    monkeypatch.setattr(history_cache, "MANY", 6)
    assert list(HistoryCache().steps(store.place, list(nodes(store.repository, tips)))) == plain
    assert asked, "git was asked"


def test_only_what_is_new_is_asked_for(varied: Git, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(history_cache, "MANY", 3)
    store_of(varied).updates()
    before = {
        step.commit for step in steps(store_of(varied).repository, store_of(varied).place.landed_tips())
    }
    for n in range(4):
        add(store_of(varied), f"n{n}", "x")
    seen: list[tuple[list[str], list[str]]] = []
    changes = history_cache.changes

    def noted(
        repository: object, variables: object, tips: list[str], hidden: list[str], folder: str
    ) -> object:
        seen.append((tips, hidden))
        return changes(repository, variables, tips, hidden, folder)  # type: ignore[arg-type]

    monkeypatch.setattr(history_cache, "changes", noted)
    rows = store_of(varied).updates()
    assert len(seen) == 1
    assert set(seen[0][1]) <= before
    monkeypatch.setattr(history_cache, "MANY", 10_000)
    (store_of(varied).state_dir / "history").unlink()
    assert [u.to_json() for u in store_of(varied).updates()] == [u.to_json() for u in rows]


def test_what_stands_behind_a_known_commit_is_asked_for_too(
    varied: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Some calls look at the newest commits alone, and keep those; the next one must not hide the rest."""
    for n in range(3):
        add(store_of(varied), f"n{n}", "x")
    store = store_of(varied)
    every = list(nodes(store.repository, store.place.landed_tips()))
    whole = [step.updates for step in HistoryCache().steps(store.place, every)]
    monkeypatch.setattr(history_cache, "MANY", 3)
    for start, stop in ((0, 4), (2, 6), (5, len(every))):
        cache = HistoryCache()
        list(cache.steps(store.place, every[start:stop]))
        assert [step.updates for step in cache.steps(store.place, every)] == whole


def test_without_git_the_answer_is_the_same(varied: Git, monkeypatch: pytest.MonkeyPatch) -> None:
    rows = [u.to_json() for u in store_of(varied).updates()]
    (store_of(varied).state_dir / "history").unlink()
    monkeypatch.setattr(history_cache, "MANY", 1)
    monkeypatch.setenv("PATH", "/nonexistent")
    assert [u.to_json() for u in store_of(varied).updates()] == rows


def test_wide_folders_are_compared_by_libgit2_with_the_same_result(
    varied: Git, monkeypatch: pytest.MonkeyPatch
) -> None:
    store = store_of(varied)
    tips = store.place.landed_tips()
    plain = list(steps(store.repository, tips))
    monkeypatch.setattr(treediff, "WIDE", -1)
    assert list(steps(store.repository, tips)) == plain
    found = [node for node in nodes(store.repository, tips) if node.parents]
    for node in found:
        trees = store.repository.commit(node.parents[0]).tree, node.tree
        listed = varied("diff-tree", "-r", "-z", "--no-renames", "--name-only", *trees).split("\0")
        assert sorted(treediff.differing(store.repository.raw, *trees)) == sorted(filter(None, listed))
