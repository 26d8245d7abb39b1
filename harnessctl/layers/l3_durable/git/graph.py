"""The commit graph as ids alone: what walking 10,000 commits can afford to read."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from harnessctl.layers.l3_durable.git.history import walked
from harnessctl.layers.l3_durable.git.repository import Repository


@dataclass(frozen=True, slots=True)
class Node:
    """One commit: its id, its tree, its parents that are in this repository."""

    id: str
    tree: str
    parents: tuple[str, ...]


def nodes(repository: Repository, tips: Iterable[str], hidden: Iterable[str] = ()) -> Iterator[Node]:
    """Commits reachable from ``tips`` and not from ``hidden``, children before parents.

    In a shallow clone the walk ends at the boundary.
    """
    here = repository.raw.odb
    for found in walked(repository, tips, hidden):
        parents = tuple(str(p) for p in found.parent_ids if p in here)
        yield Node(str(found.id), str(found.tree_id), parents)


def node(repository: Repository, commit: str) -> Node:
    """One commit by its full id; errors as :meth:`Repository.commit`."""
    found = repository.commit(commit)
    return Node(found.id, found.tree, tuple(p for p in found.parents if repository.has(p)))


def has_grafts(repository: Repository) -> bool:
    """Whether parents of a commit may be other tomorrow: a shallow clone, or grafts."""
    return any((repository.common_dir / name).exists() for name in ("shallow", "info/grafts"))


def on_first_parents(tip: str, known: dict[str, Node]) -> list[str]:
    """``tip``, its first parent, that one's, and so on, as far as ``known`` goes; newest first."""
    chain = []
    here: str | None = tip
    while here is not None and here in known:
        chain.append(here)
        parents = known[here].parents
        here = parents[0] if parents else None
    return chain


def merged_by(tips: Iterable[str], known: dict[str, Node]) -> dict[str, str]:
    """Commits that came in by a merge -> the merge on the line of first parents that brought them."""
    found: dict[str, str] = {}
    lines = [on_first_parents(tip, known) for tip in tips]
    direct = {commit for line in lines for commit in line}
    if len(direct) == len(known):
        return found
    for line in lines:
        for merge in reversed(line):
            waiting = list(known[merge].parents[1:])
            while waiting:
                commit = waiting.pop()
                if commit in known and commit not in direct and commit not in found:
                    found[commit] = merge
                    waiting += known[commit].parents
    return found


def shallow_commits(repository: Repository) -> frozenset[str]:
    """Commits at which a shallow clone's history ends; empty in a whole one."""
    try:
        return frozenset((repository.common_dir / "shallow").read_text("ascii").split())
    except OSError:
        return frozenset()
