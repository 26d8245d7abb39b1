"""Refs that another git holds: waited for a moment; for longer, the file that is in the way is named."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from harnessctl.commands.doctor import doctor
from harnessctl.domain.errors import ConflictError
from harnessctl.domain.ids import new_ulid
from harnessctl.layers.l3_durable.landing.writer import Writer
from harnessctl.layers.l3_durable.places.names import LIVE, PROPOSALS
from tests.conftest import Git
from tests.fakes.harness import Make, started, store_of
from tests.fakes.history import land, learned

Case = tuple[str, Callable[[], object]]


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


@contextmanager
def held(lock: Path, seconds: float) -> Iterator[None]:
    """Another program has the ref's lock file for so long."""
    lock.parent.mkdir(parents=True, exist_ok=True)
    lock.touch()
    timer = threading.Timer(seconds, lock.unlink)
    timer.start()
    try:
        yield
    finally:
        timer.join()


@CASES
def test_for_a_moment_it_is_waited_for(
    repo: Git, make_repo: Make, prepare: Callable[[Git, Make], Case]
) -> None:
    ref, act = prepare(repo, make_repo)
    before = repo("rev-parse", ref)
    lock = repo.root / f".git/{ref}.lock"
    with held(lock, 0.6):
        began = time.monotonic()
        act()
        assert time.monotonic() - began > 0.4
    assert repo("rev-parse", "--verify", "-q", ref, check=False) != before


@CASES
def test_without_the_patience_it_fails(
    repo: Git, make_repo: Make, monkeypatch: pytest.MonkeyPatch, prepare: Callable[[Git, Make], Case]
) -> None:
    """The guard's own test: one attempt meets the lock."""
    ref, act = prepare(repo, make_repo)
    monkeypatch.setattr(Writer, "settle", Writer.move)
    with held(repo.root / f".git/{ref}.lock", 0.6), pytest.raises(ConflictError):
        act()


@CASES
def test_for_longer_the_file_is_named(
    repo: Git, make_repo: Make, monkeypatch: pytest.MonkeyPatch, prepare: Callable[[Git, Make], Case]
) -> None:
    ref, act = prepare(repo, make_repo)
    before = repo("rev-parse", ref)
    monkeypatch.setattr("harnessctl.layers.l3_durable.landing.writer.STUCK", 0.2)
    lock = repo.root / f".git/{ref}.lock"
    with held(lock, 1.5), pytest.raises(ConflictError) as caught:
        act()
    assert caught.value.id == "moved_ref"
    assert str(lock) in caught.value.message
    assert repo("rev-parse", ref) == before
