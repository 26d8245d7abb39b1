"""A work tree of its own for one session: linked to the repository, detached at a commit."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

import pygit2
from pygit2.enums import ResetMode

from harnessctl.domain.errors import HarnessError
from harnessctl.layers.l3_durable.git.cli import run_git
from harnessctl.layers.l3_durable.git.repository import Repository
from harnessctl.layers.l3_durable.git.waiting import pipe_of_listing, pipe_of_repository, refuse_waiting

#: Where a commit is kept when the work tree that made it is gone; what else names it may go any day.
_KEEPING = ("refs/heads", "refs/tags", "refs/remotes")


def add_linked(root: Path, path: Path, commit: str, variables: Mapping[str, str]) -> None:
    """Make the work tree ``path`` of the repository at ``root``, detached at ``commit``.

    Files are written without the filters that configuration names (git-lfs and the like), whose
    programs would run then: such files hold what the repository stores.

    :raises HarnessError: it cannot be made; nothing is left behind.
    """
    # Forced: git refuses a path that it still knows from a work tree which somebody deleted.
    options = ["--force", "--quiet", "--detach", "--no-checkout"]
    run_git(["worktree", "add", *options, str(path), commit], root, variables)
    try:
        repository = pygit2.Repository(str(path))
        repository.reset(pygit2.Oid(hex=commit), ResetMode.HARD)
    except (pygit2.GitError, OSError) as error:
        remove_linked(root, path, variables)
        raise HarnessError(f"cannot fill the work tree {path}: {error}", id="work_tree_failed") from error


def remove_linked(root: Path, path: Path, variables: Mapping[str, str]) -> None:
    """Remove a work tree with everything in it."""
    run_git(["worktree", "remove", "--force", str(path)], root, variables)


def head_of(path: Path) -> str:
    """Commit that the work tree ``path`` has checked out, "" when it cannot be told."""
    try:
        return _opened(path).head_commit or ""
    except (HarnessError, pygit2.GitError):
        return ""


def is_kept(path: Path, commit: str, variables: Mapping[str, str]) -> bool:
    """Whether a branch or a tag holds ``commit`` in the repository of the work tree ``path``."""
    if pipe_of_repository(path) is not None:
        return False
    asked = ["for-each-ref", "--count=1", "--contains", commit, *_KEEPING]
    try:
        return run_git(asked, path, variables) != b""
    except HarnessError:
        return False


def is_clean(path: Path) -> bool:
    """Whether the work tree ``path`` holds what it has checked out, and else only what is ignored.

    Asked of libgit2: git itself would run the filters that configuration names.
    """
    if pipe_of_listing(path, (".gitignore", ".gitattributes")) is not None:
        return False
    try:
        return not pygit2.Repository(str(path)).status(untracked_files="normal")
    except (pygit2.GitError, OSError):
        return False


def free_branch(path: Path, wanted: str) -> str:
    """``wanted``, or with a number where the repository has a branch of that name."""
    try:
        taken = {name.removeprefix("refs/heads/") for name in _opened(path).refs.names("refs/heads/")}
    except (HarnessError, pygit2.GitError):
        taken = set()
    names = (wanted, *(f"{wanted}-{number}" for number in range(2, len(taken) + 3)))
    return next(name for name in names if name not in taken)


def _opened(path: Path) -> Repository:
    """The repository of the work tree ``path`` itself, not of one further up."""
    refuse_waiting(path)
    return Repository(pygit2.Repository(str(path)))
