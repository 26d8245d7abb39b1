"""Walking commits: what is reachable, what a commit descends from."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

import pygit2
from pygit2.enums import SortMode

from harnessctl.domain.errors import NotFoundError
from harnessctl.layers.l3_durable.git.repository import Commit, Repository


def walk(repository: Repository, tips: Iterable[str], hidden: Iterable[str] = ()) -> Iterator[Commit]:
    """Commits reachable from ``tips`` and not from ``hidden``, children before parents.

    In a shallow clone the walk ends at the boundary.
    """
    for found in walked(repository, tips, hidden):
        yield repository.commit(str(found.id))


def walked(
    repository: Repository, tips: Iterable[str], hidden: Iterable[str] = ()
) -> Iterator[pygit2.Commit]:
    """As :func:`walk`, as libgit2 gives them.

    :raises NotFoundError: ``missing_object``, ``unreadable_object``: a tip, or a commit behind it.
    :raises HarnessError: ``not_a_file``, as of :meth:`Repository.walking`.
    """
    walker: pygit2.Walker | None = None
    order = SortMode.TOPOLOGICAL | SortMode.TIME
    first = ""
    for tip in dict.fromkeys(tips):
        first = first or tip
        with repository.walking(tip):
            if walker is None:
                walker = repository.raw.walk(pygit2.Oid(hex=tip), order)
            else:
                walker.push(pygit2.Oid(hex=tip))
    if walker is None:
        return
    for tip in hidden:
        with repository.walking(tip):
            walker.hide(pygit2.Oid(hex=tip))
    with repository.walking(first):
        yield from walker


def reaches(repository: Repository, tips: Iterable[str], commit: str) -> bool:
    """Whether ``commit`` is one of ``tips`` or an ancestor of one."""
    try:
        repository.commit(commit)
    except NotFoundError:
        return False
    target = pygit2.Oid(hex=commit)
    return any(tip == commit or _descends(repository, tip, target) for tip in tips)


def _descends(repository: Repository, tip: str, target: pygit2.Oid) -> bool:
    with repository.walking(tip):
        return bool(repository.raw.descendant_of(pygit2.Oid(hex=tip), target))


def merge_base(repository: Repository, one: str, other: str) -> str | None:
    """The best common ancestor, None for unrelated histories."""
    with repository.walking(other):
        found = repository.raw.merge_base(pygit2.Oid(hex=one), pygit2.Oid(hex=other))
    return str(found) if found else None
