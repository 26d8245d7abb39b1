"""Copies of the writer with one guard taken out: what tests of that guard must tell from the real one."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager

import pygit2
from pygit2.enums import Option

from harnessctl.layers.l3_durable.git import staging
from harnessctl.layers.l3_durable.git.refs import LostRaceError
from harnessctl.layers.l3_durable.landing.writer import Writer
from harnessctl.layers.l3_durable.store import HarnessStore


class BlindWriter(Writer):
    """No compare-and-swap: a ref goes where it is told, wherever it was; and nobody waits for others."""

    @contextmanager
    def _turn(self) -> Iterator[None]:
        yield

    def move(self, ref: str, old: str | None, new: str | None, why: str, point: str = "moved") -> None:
        raw = self.place.repository.raw
        self.reached(f"before {point}")
        try:
            if new is None:
                raw.references.delete(ref)
            else:
                raw.create_reference_direct(ref, pygit2.Oid(hex=new), True, why)
        except (pygit2.GitError, OSError, KeyError) as error:
            raise LostRaceError(str(error)) from error
        self.reached(point)


def blind(store: HarnessStore) -> HarnessStore:
    """``store`` without compare-and-swap."""
    store.writer = BlindWriter(store.place, store.checks, store.operations)  # type: ignore[misc]
    return store


def without_fsync() -> None:
    """No fsync of objects in this process, from here on."""
    staging.sync = lambda *_: None


def never_sync() -> None:
    """No fsync of refs in repositories opened from here on: libgit2 looks at the option then."""
    pygit2.option(Option.ENABLE_FSYNC_GITDIR, False)
    pygit2.option = lambda *_: None
