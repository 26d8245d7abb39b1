"""Records read from trees and from history: which commit brought which update."""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from harnessctl.domain.errors import HarnessError
from harnessctl.domain.ids import HARNESS_DIR, UPDATES_DIR, is_ulid, record_path
from harnessctl.domain.update import Record
from harnessctl.layers.l3_durable.content import Content
from harnessctl.layers.l3_durable.git.history import walk
from harnessctl.layers.l3_durable.git.repository import Commit, Repository


def read_record(data: bytes) -> Record:
    """A record file's bytes as a record.

    :raises HarnessError: ``bad_record``: not one; the load rules say where.
    """
    try:
        return Record.from_json(json.loads(data))
    except (ValueError, KeyError, TypeError) as error:
        raise HarnessError(f"a record cannot be read: {error}", id="bad_record") from error


def find_record(content: Content, update: str) -> Record | None:
    """The record of ``update`` at a commit, None when it is absent or unreadable."""
    try:
        data = content.read(record_path(update))
        return read_record(data) if data is not None else None
    except (HarnessError, ValueError):
        return None


@dataclass(frozen=True, slots=True)
class Step:
    """One commit of harness history.

    :ivar records: updates whose record file this commit brings: none of its parents has it.
    :ivar changed: whether an entry differs from the first parent's; a merge brings nothing of its own.
    """

    commit: Commit
    records: tuple[str, ...]
    changed: bool


def steps(repository: Repository, tips: Sequence[str], hidden: Sequence[str] = ()) -> Iterator[Step]:
    """History from ``tips`` back to ``hidden``, newest first."""
    for commit in walk(repository, tips, hidden):
        mine = repository.folder(commit.tree, HARNESS_DIR)
        theirs = [
            repository.folder(repository.commit(p).tree, HARNESS_DIR)
            for p in commit.parents
            if repository.has(p)
        ]
        if mine in theirs:
            yield Step(commit, (), False)
        else:
            yield _step(repository, commit, mine, theirs)


def _step(repository: Repository, commit: Commit, mine: str | None, theirs: list[str | None]) -> Step:
    brought: set[str] | None = None
    for parent in theirs or [None]:
        new = new_records(repository, _updates(repository, parent), _updates(repository, mine))
        brought = new if brought is None else brought & new
    changed = len(theirs) < 2 and _entries(repository, theirs[0] if theirs else None) != _entries(
        repository, mine
    )
    return Step(commit, tuple(sorted(brought or ())), changed)


def _entries(repository: Repository, folder: str | None) -> dict[str, str]:
    return {n: t for n, t in repository.subfolders(folder).items() if n != UPDATES_DIR}


def _updates(repository: Repository, folder: str | None) -> str | None:
    return repository.folder(folder, UPDATES_DIR) if folder else None


def new_records(repository: Repository, old: str | None, new: str | None) -> set[str]:
    """Ids of the record files that the ``updates/`` tree ``new`` has and ``old`` lacks."""
    found = set()
    for path in repository.changed(old, new):
        name = path.rpartition("/")[2].removesuffix(".json")
        if is_ulid(name) and _has(repository, new, path) and not _has(repository, old, path):
            found.add(name)
    return found


def _has(repository: Repository, folder: str | None, path: str) -> bool:
    return folder is not None and repository.entry(folder, path) is not None
