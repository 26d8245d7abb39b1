"""Eight writers on the same few entries: every update is landed or in conflict, and no text is mixed."""

from __future__ import annotations

import json
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from pathlib import Path

import pytest

from harnessctl.domain.update import UpdateState
from harnessctl.layers.l3_durable.places.names import PROPOSALS
from tests.conftest import Git
from tests.fakes import crowd
from tests.fakes.harness import add, fsck_is_clean, note, store_of

WRITERS = 8


def start(git: Git) -> None:
    store = store_of(git)
    store.initialise(unpinned=True)
    for number in range(crowd.ENTRIES):
        add(store, f"shared{number}", "first", owner="agent")


def let_loose(git: Git, updates: int, *how: str) -> dict[str, str]:
    """Update id -> what its writer was told became of it."""
    command = [sys.executable, "-W", "error", crowd.__file__, str(git.root)]
    running = [
        subprocess.Popen(
            [*command, str(w), str(updates), *how], stdout=subprocess.PIPE, stderr=subprocess.PIPE
        )
        for w in range(WRITERS)
    ]
    told: dict[str, str] = {}
    for process in running:
        out, said = process.communicate(timeout=3000)
        assert process.returncode == 0, said.decode()
        told |= dict(json.loads(line) for line in out.splitlines())
    assert len(told) == WRITERS * updates
    return told


def records(git: Git) -> set[str]:
    """Updates whose record the tip holds, as git reads it."""
    names = git("ls-tree", "-r", "--name-only", "refs/heads/harness", ".harness/updates/").splitlines()
    return {Path(name).stem for name in names}


def texts(git: Git) -> Iterator[str]:
    """Every content that a shared entry ever had on the branch."""
    rows = git("log", "--format=", "--raw", "--no-abbrev", "refs/heads/harness", "--", ".harness/memory")
    blobs = {row.split(" ")[3] for row in rows.splitlines() if row}
    wanted = "".join(f"{blob}\n" for blob in sorted(blobs)).encode()
    done = git("cat-file", "--batch", input=wanted)
    yield from (part for part in done.split(" blob ")[1:])


def body(shown: str) -> list[str]:
    return [line for line in shown.splitlines() if line.startswith("writer ")]


def account(git: Git, told: dict[str, str]) -> list[str]:
    """What does not add up, in words."""
    wrong = []
    first = {u for u in records(git) if u not in told}
    landed = {u for u, state in told.items() if state == "landed"}
    wrong += [f"lost: {update}" for update in landed - records(git)]
    wrong += [f"landed, though its writer was told of a conflict: {u}" for u in records(git) - landed - first]
    refs = git("for-each-ref", "--format=%(refname)", PROPOSALS).split()
    waiting = {ref.removeprefix(PROPOSALS) for ref in refs}
    wrong += [f"neither landed nor open: {u}" for u in set(told) - landed - waiting]
    wrong += [f"landed and open: {u}" for u in waiting & landed]
    if len(first) != crowd.ENTRIES:
        wrong.append(f"{len(first)} records at the start")
    wrong += [f"mixed: {found}" for shown in texts(git) if len(set(found := body(shown))) > 1]
    wrong += [f"torn: {found}" for shown in texts(git) if len(found := body(shown)) not in (0, crowd.LINES)]
    return wrong


@pytest.mark.parametrize(
    "updates",
    [
        pytest.param(6, marks=pytest.mark.slow),
        pytest.param(500, marks=[pytest.mark.nightly, pytest.mark.timeout(3600)]),
    ],
)
def test_every_update_of_eight_writers_is_accounted_for(repo: Git, updates: int) -> None:
    start(repo)
    told = let_loose(repo, updates)
    assert account(repo, told) == []
    states = Counter(u.state for u in store_of(repo).updates())
    assert states == {
        UpdateState.LANDED: Counter(told.values())["landed"] + crowd.ENTRIES,
        UpdateState.CONFLICT: Counter(told.values())["conflict"],
    }
    assert fsck_is_clean(repo)


@pytest.mark.slow
def test_without_compare_and_swap_the_same_does_not_add_up(repo: Git) -> None:
    start(repo)
    assert account(repo, let_loose(repo, 6, "blind")) != []


def test_a_text_that_is_mixed_or_torn_would_be_seen(repo: Git) -> None:
    start(repo)
    mixed = note("shared0", "\n".join(["writer 1 update 1"] * 3 + ["writer 2 update 2"] * 2)).data.decode()
    add(store_of(repo), "shared0", mixed.rpartition("---\n")[2].strip(), owner="agent")
    wrong = account(repo, {next(iter(records(repo) - set())): "landed"})
    assert any(said.startswith("mixed") for said in wrong)
    assert any(said.startswith("torn") for said in wrong)
