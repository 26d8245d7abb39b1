"""Refs that another git holds: waited for a moment; for longer, the file that is in the way is named."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from harnessctl.commands.doctor import doctor
from harnessctl.domain.errors import ConflictError
from harnessctl.domain.ids import new_ulid
from harnessctl.layers.l3_durable.git.refs import LostRaceError
from harnessctl.layers.l3_durable.landing.writer import Writer, _Race
from harnessctl.layers.l3_durable.places.names import LIVE, PROPOSALS
from tests.conftest import Git
from tests.fakes.harness import Make, started, store_of
from tests.fakes.history import land, learned

Case = tuple[str, Callable[[], object]]
Lose = Callable[[_Race, str, LostRaceError], None]


def rework(repo: Git, _: Make) -> Case:
    """Putting a proposal on the tip moves the proposal's ref."""
    store = started(repo)
    waiting = learned(store, "a", "one")
    land(store, "b", "two")
    return PROPOSALS + waiting.id, lambda: store_of(repo).rebase_proposal(waiting.id)


def repair(repo: Git, _: Make) -> Case:
    """Removing a left-over ref."""
    store = started(repo)
    ref = LIVE + new_ulid()
    repo("update-ref", ref, store.landed_tip())

    def mend() -> None:
        (found,) = doctor(store_of(repo), fix=True).found
        if found.failed:
            raise ConflictError(found.failed, id="moved_ref")

    return ref, mend


def take(repo: Git, make_repo: Make) -> Case:
    """Fast-forwarding to what the remote has."""
    origin = make_repo("origin.git", bare=True)
    repo("remote", "add", "origin", str(origin.root))
    store = started(repo)
    land(store, "a", "one")
    repo("push", "-q", "origin", "harness")
    repo("update-ref", "refs/heads/harness", "refs/heads/harness~1")
    return "refs/heads/harness", lambda: store_of(repo).sync()


CASES = pytest.mark.parametrize("prepare", [rework, repair, take])


def hold(repo: Git, ref: str) -> Path:
    """Another program has the ref's lock file, until somebody takes it away."""
    lock = repo.root / f".git/{ref}.lock"
    lock.parent.mkdir(parents=True, exist_ok=True)
    lock.touch()
    return lock


@CASES
def test_for_a_moment_it_is_waited_for(
    repo: Git, make_repo: Make, monkeypatch: pytest.MonkeyPatch, prepare: Callable[[Git, Make], Case]
) -> None:
    """The other program is done once we have lost against it."""
    ref, act = prepare(repo, make_repo)
    before = repo("rev-parse", ref)
    lock = hold(repo, ref)
    lost: list[str] = []

    def lose(race: _Race, tip: str, error: LostRaceError, real: Lose = _Race.lost) -> None:
        assert repo("rev-parse", ref) == before
        lost.append(str(error))
        lock.unlink(missing_ok=True)
        real(race, tip, error)

    monkeypatch.setattr(_Race, "lost", lose)
    act()
    assert len(lost) == 1
    assert str(lock) in lost[0]
    assert repo("rev-parse", "--verify", "-q", ref, check=False) != before


@CASES
def test_without_the_patience_it_fails(
    repo: Git, make_repo: Make, monkeypatch: pytest.MonkeyPatch, prepare: Callable[[Git, Make], Case]
) -> None:
    """The guard's own test: one attempt meets the lock."""
    ref, act = prepare(repo, make_repo)
    monkeypatch.setattr(Writer, "settle", Writer.move)
    hold(repo, ref)
    with pytest.raises(ConflictError):
        act()


@CASES
def test_for_longer_the_file_is_named(
    repo: Git, make_repo: Make, monkeypatch: pytest.MonkeyPatch, prepare: Callable[[Git, Make], Case]
) -> None:
    ref, act = prepare(repo, make_repo)
    before = repo("rev-parse", ref)
    monkeypatch.setattr("harnessctl.layers.l3_durable.landing.writer.STUCK", 0.2)
    lock = hold(repo, ref)
    with pytest.raises(ConflictError) as caught:
        act()
    assert caught.value.id == "moved_ref"
    assert str(lock) in caught.value.message
    assert repo("rev-parse", ref) == before
