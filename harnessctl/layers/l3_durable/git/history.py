"""Walking commits: what is reachable, what a commit descends from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pygit2
from pygit2.enums import SortMode

from harnessctl.layers.l3_durable.git.repository import Commit, Repository


def walk(repository: Repository, tips: Iterable[str], hidden: Iterable[str] = ()) -> Iterator[Commit]:
    """Commits reachable from ``tips`` and not from ``hidden``, children before parents.

    In a shallow clone the walk ends at the boundary.
    """
    walker: pygit2.Walker | None = None
    for tip in tips:
        if walker is None:
            walker = repository.raw.walk(pygit2.Oid(hex=tip), SortMode.TOPOLOGICAL | SortMode.TIME)
        else:
            walker.push(pygit2.Oid(hex=tip))
    if walker is None:
        return
    for tip in hidden:
        walker.hide(pygit2.Oid(hex=tip))
    for found in walker:
        yield repository.commit(str(found.id))


def reaches(repository: Repository, tips: Iterable[str], commit: str) -> bool:
    """Whether ``commit`` is one of ``tips`` or an ancestor of one."""
    if not isinstance(repository.raw.get(commit), pygit2.Commit):
        return False
    target = pygit2.Oid(hex=commit)
    return any(tip == commit or repository.raw.descendant_of(pygit2.Oid(hex=tip), target) for tip in tips)


def merge_base(repository: Repository, one: str, other: str) -> str | None:
    """The best common ancestor, None for unrelated histories."""
    found = repository.raw.merge_base(pygit2.Oid(hex=one), pygit2.Oid(hex=other))
    return str(found) if found else None
