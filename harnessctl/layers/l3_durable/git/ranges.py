"""Revisions as git names them, commits between two of them, and pushes as a server's hook is told of them."""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass

import pygit2

from harnessctl.domain.errors import NotFoundError, UsageError
from harnessctl.layers.l3_durable.git.repository import Repository

#: Before a name that is no full one, in this order, as gitrevisions(7) has it.
_PREFIXES = ("", "refs/", "refs/tags/", "refs/heads/", "refs/remotes/")
_ID = re.compile(r"[0-9a-f]{40}\Z")


@dataclass(frozen=True, slots=True)
class RefUpdate:
    """One ref that a push moves; None for a commit that is not there.

    :ivar ref: full name of the ref on the receiving side.
    """

    ref: str
    old: str | None
    new: str | None


def read_ref_updates(lines: Iterable[str]) -> tuple[tuple[RefUpdate, ...], bool]:
    """What a push hook's standard input says, and whether it is the sender's (pre-push).

    A server's pre-receive is told ``<old> <new> <ref>``, pre-push
    ``<local ref> <new> <remote ref> <old>``.

    :raises UsageError: ``bad_ref_update``.
    """
    rows = [line.rstrip("\n").split(" ") for line in lines if line.strip()]
    if all(len(row) == 3 and all(map(_ID.match, row[:2])) for row in rows):
        return tuple(RefUpdate(row[2], _some(row[0]), _some(row[1])) for row in rows), False
    if all(len(row) == 4 and _ID.match(row[1]) and _ID.match(row[3]) for row in rows):
        return tuple(RefUpdate(row[2], _some(row[3]), _some(row[1])) for row in rows), True
    raise UsageError(
        "standard input is neither a pre-receive nor a pre-push hook's",
        id="bad_ref_update",
        hint="call it from such a hook: lines of '<old> <new> <ref>'",
    )


def _some(oid: str) -> str | None:
    return None if set(oid) == {"0"} else oid


def resolve_git(repository: Repository, text: str) -> str:
    """Commit id of any revision git's own grammar names.

    :raises NotFoundError: ``unknown_revision``.
    :raises HarnessError: ``not_a_file``.
    """
    name = re.split(r"[~^:@]", text)[0]
    for prefix in _PREFIXES if name else ():
        repository.refs.read(prefix + name)  # refuses what libgit2 would wait at
    try:
        found = repository.raw.revparse_single(text).peel(pygit2.Commit)
    except (KeyError, ValueError, pygit2.GitError, pygit2.InvalidSpecError) as error:
        raise NotFoundError(
            f"there is no commit '{text}' in this repository",
            id="unknown_revision",
            hint="fetch it, or write a full commit id",
        ) from error
    return str(found.id)


def commit_of(repository: Repository, oid: str) -> str | None:
    """The commit an object is or, through tags, points at; None for anything else."""
    try:
        return str(repository.raw[oid].peel(pygit2.Commit).id)
    except (KeyError, ValueError, pygit2.GitError, pygit2.InvalidSpecError):
        return None


def tips(repository: Repository, *prefixes: str) -> tuple[str, ...]:
    """Commits that refs under ``prefixes`` point at: what is already let in."""
    refs = repository.refs.list("refs/")
    kept = (oid for name, oid in refs.items() if name.startswith(prefixes))
    return tuple(sorted({commit for oid in kept if (commit := commit_of(repository, oid))}))


def blob_size(repository: Repository, oid: str) -> int:
    """Bytes of a blob, read from its header alone; -1 when it is not there."""
    try:
        return int(repository.raw.odb.read_header(pygit2.Oid(hex=oid))[1])
    except (KeyError, pygit2.GitError):
        return -1
