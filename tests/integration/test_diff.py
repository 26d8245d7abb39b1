"""``diff``: the entries that differ, and what that does to the rendered harness."""

from __future__ import annotations

import subprocess

import pytest

from harnessctl.commands.diff import diff
from harnessctl.layers.l1_context.harness import render_harness
from tests.conftest import Git
from tests.fakes.harness import add, land, started


def test_entries_with_their_tokens_and_their_place_in_the_prompt(repo: Git) -> None:
    store = started(repo)
    add(store, "kept", "same")
    add(store, "gone", "x", owner="agent")
    one = land(store, "a", "one")
    land(store, "a", "one\n" + "and more\n" * 40)
    land(store, "new", "fresh")
    land(store, "gone", "")
    found = diff(store, one.commit, "harness")
    told = {c.id: c.to_json() for c in found.changes}
    assert {name: told[name]["action"] for name in told} == {
        "memory/a": "update",
        "memory/gone": "delete",
        "memory/new": "create",
    }
    tokens = told["memory/a"]["tokens"]
    assert isinstance(tokens, dict)
    assert tokens["after"] - tokens["before"] == pytest.approx(90, abs=2), "360 bytes more"
    assert told["memory/new"]["shown"] == {"before": None, "after": "full"}
    assert told["memory/gone"]["shown"] == {"before": "full", "after": None}
    rendered = [
        render_harness(store.snapshot(r).entries.values(), 2000).tokens for r in (one.commit, "harness")
    ]
    assert list(found.prompt) == rendered
    assert found.to_json()["prompt_tokens"] == {
        "before": rendered[0],
        "after": rendered[1],
        "change": rendered[1] - rendered[0],
    }


def test_a_small_budget_shows_in_the_places(repo: Git) -> None:
    store = started(repo)
    base = store.landed_tip()
    land(store, "a", "word " * 400)
    (change,) = diff(store, base, "harness", prompt_tokens=120).changes
    assert change.shown_after == "line"


def test_one_entry_of_several_and_the_patch_applies(repo: Git) -> None:
    store = started(repo)
    base = store.landed_tip()
    land(store, "a", "one")
    land(store, "b", "two")
    found = diff(store, base, "harness", entry="memory/b")
    assert (found.entries, [f.path for f in found.files]) == (("memory/b",), [".harness/memory/b.md"])
    done = subprocess.run(
        ["git", "apply", "--check", "-"], cwd=repo.root, input=found.patch, capture_output=True
    )
    assert done.returncode == 0, done.stderr
    nothing = diff(store, "harness", "harness")
    assert (nothing.changes, nothing.files) == ((), ())
