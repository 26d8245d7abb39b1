"""Errors that a person meets at the edges say what helps, not only what is wrong."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import pytest

from harnessctl.bootstrap.adapters import LinkedTrees
from harnessctl.bootstrap.opening import store_at
from harnessctl.commands.pin import pin
from harnessctl.commands.prune import prune
from harnessctl.config import read_environment
from harnessctl.domain.errors import HarnessError
from harnessctl.domain.event import EventType
from harnessctl.layers.l3_durable.landing.writer import Writer
from harnessctl.rlm.clock import SystemClock
from harnessctl.rlm.recorder import Recorder
from tests.conftest import Git
from tests.fakes.harness import Make, propose, started, store_of


def not_landed(repo: Git, _: pytest.MonkeyPatch) -> None:
    store = started(repo)
    pin(store, propose(store, "a", "one").id)


def no_work_tree_any_more(repo: Git, _: pytest.MonkeyPatch) -> None:
    store_at(repo.root / "gone", read_environment())


def no_id(repo: Git, _: pytest.MonkeyPatch) -> None:
    repo("config", "harness.repositoryId", "../up")
    started(repo)


def lock_of_a_later_version(repo: Git, _: pytest.MonkeyPatch) -> None:
    lock = started(repo).root / "harness.lock"
    lock.write_text(lock.read_text().replace("schema = 1", "schema = 2"))
    store_of(repo).pin()


def lock_that_cannot_be_read(repo: Git, monkeypatch: pytest.MonkeyPatch) -> None:
    store = started(repo)

    def denied(_: Path) -> bytes:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr("harnessctl.layers.l3_durable.files.lock._read", denied)
    store.pin()


def too_far_back(repo: Git, _: pytest.MonkeyPatch) -> None:
    started(repo).resolve("~9")


def session_that_cannot_be_removed(repo: Git, monkeypatch: pytest.MonkeyPatch) -> None:
    recorder = Recorder.create(repo.root / "sessions" / "A", SystemClock())
    recorder.append(EventType.HEADER, {"session": "A"})
    recorder.close()

    def denied(*_: object) -> None:
        raise PermissionError(13, "Permission denied")

    monkeypatch.setattr(Path, "rename", denied)
    prune(
        repo.root,
        older_than_s=None,
        keep=0,
        cited={},
        remove=True,
        forget=lambda _: None,
        sweep=lambda *_: None,
        trees=LinkedTrees(read_environment()),
    )


def somebody_else_begins(repo: Git, monkeypatch: pytest.MonkeyPatch) -> None:
    build = Writer.build

    def built(self: Writer, *arguments: object) -> object:
        repo("update-ref", "refs/heads/harness", "HEAD")
        return build(self, *arguments)  # type: ignore[arg-type]

    monkeypatch.setattr(Writer, "build", built)
    started(repo)


@pytest.mark.parametrize(
    ("work", "id", "step"),
    [
        (not_landed, "pin_not_landed", "harnessctl log lists what is landed"),
        (no_work_tree_any_more, "work_tree_gone", "harnessctl sessions export"),
        (no_id, "bad_repository_id", "unset it"),
        (lock_of_a_later_version, "bad_lock", "needs a newer harnessctl"),
        (lock_that_cannot_be_read, "bad_lock", "harnessctl pin REV"),
        (too_far_back, "unknown_revision", "harnessctl log"),
        (session_that_cannot_be_removed, "storage", "prune again"),
        (somebody_else_begins, "name_taken", "harnessctl status"),
    ],
)
def test_the_next_step_is_said(
    repo: Git,
    monkeypatch: pytest.MonkeyPatch,
    work: Callable[[Git, pytest.MonkeyPatch], None],
    id: str,  # noqa: A002 - as in the error
    step: str,
) -> None:
    with pytest.raises(HarnessError) as caught:
        work(repo, monkeypatch)
    assert caught.value.id == id
    assert step in caught.value.hint


def test_a_bare_repository_is_told_where_to_go(make_repo: Make) -> None:
    bare = make_repo("bare.git", bare=True)
    started(bare)
    with pytest.raises(HarnessError) as caught:
        pin(store_of(bare))
    assert (caught.value.id, caught.value.hint) == ("no_work_tree", "pin in a clone that has one")
