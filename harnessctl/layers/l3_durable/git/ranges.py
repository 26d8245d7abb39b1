"""Revisions as git names them, commits between two of them, and pushes as a server's hook is told of them."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

import pygit2

from harnessctl.domain.errors import NotFoundError, UsageError
from harnessctl.layers.l3_durable.git.repository import Repository

#: git's way to say "there is none" in a push.
NOTHING = "0" * 40


@dataclass(frozen=True, slots=True)
class RefUpdate:
    """One line of a pre-receive or pre-push hook's standard input; None for a ref that is not there."""

    ref: str
    old: str | None
    new: str | None


def read_ref_updates(lines: Iterable[str]) -> tuple[RefUpdate, ...]:
    """``<old> <new> <ref>`` (pre-receive) per line.

    :raises UsageError: ``bad_ref_update``.
    """
    found = []
    for line in lines:
        parts = line.rstrip("\n").split(" ", 2)
        if len(parts) != 3 or not all(len(p) == 40 and p.isalnum() for p in parts[:2]):
            raise UsageError(
                "standard input is not a list of '<old> <new> <ref>'",
                id="bad_ref_update",
                hint="call it from a pre-receive hook",
            )
        old, new = (None if p == NOTHING else p for p in parts[:2])
        found.append(RefUpdate(parts[2], old, new))
    return tuple(found)


def resolve_git(repository: Repository, text: str) -> str:
    """Commit id of any revision git's own grammar names.

    :raises NotFoundError: ``unknown_revision``.
    """
    try:
        found = repository.raw.revparse_single(text).peel(pygit2.Commit)
    except (KeyError, ValueError, pygit2.GitError, pygit2.InvalidSpecError) as error:
        raise NotFoundError(
            f"'{text}' is no commit of this repository",
            id="unknown_revision",
            hint="fetch it, or write a full commit id",
        ) from error
    return str(found.id)


def is_commit(repository: Repository, oid: str) -> bool:
    """Whether the object is a commit: tags and refs of other things bring no harness."""
    return isinstance(repository.raw.get(oid), pygit2.Commit)


def existing_tips(repository: Repository) -> tuple[str, ...]:
    """Commits that refs point at before a push changes them: what is already let in."""
    tips = set()
    for name, oid in repository.refs.list("refs/").items():
        if name.startswith(("refs/heads/", "refs/tags/", "refs/harness/")):
            try:
                tips.add(str(repository.raw[oid].peel(pygit2.Commit).id))
            except (KeyError, ValueError, pygit2.GitError, pygit2.InvalidSpecError):
                continue  # a tag of something that is no commit
    return tuple(sorted(tips))


def blob_size(repository: Repository, oid: str) -> int:
    """Bytes of a blob, read from its header alone; -1 when it is not there."""
    try:
        return int(repository.raw.odb.read_header(pygit2.Oid(hex=oid))[1])
    except (KeyError, pygit2.GitError):
        return -1
