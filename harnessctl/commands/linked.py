"""``--worktree``: a work tree made for one session, beside the repository, removed when it is as it was."""

from __future__ import annotations

import shlex
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Protocol

from harnessctl.domain.errors import UsageError
from harnessctl.rlm.log import LOG_NAME


class LinkedTrees(Protocol):
    """git's linked work trees."""

    def head(self, root: Path) -> str:
        """Commit checked out at ``root``, "" for none."""
        ...

    def add(self, root: Path, path: Path, commit: str) -> None:
        """Make the work tree ``path`` of the repository at ``root``, detached at ``commit``."""
        ...

    def remove(self, root: Path, path: Path) -> None:
        """Remove it with all it holds."""
        ...

    def is_kept(self, path: Path, commit: str) -> bool:
        """Whether a branch or a tag holds ``commit``, so that it outlives the work tree ``path``."""
        ...

    def is_clean(self, path: Path) -> bool:
        """Whether all that is not ignored in ``path`` is committed."""
        ...

    def free_branch(self, path: Path, wanted: str) -> str:
        """A name for a new branch: ``wanted``, or like it."""
        ...


@dataclass
class Made:
    """A work tree made for a session.

    :ivar log: the session's log; before there is one, nothing has worked in the work tree.
    :ivar changed: whether files in it are other than at the start; it is kept then.
    """

    path: Path
    commit: str
    log: Path
    changed: bool = True


@contextmanager
def own_work_tree(
    trees: LinkedTrees, root: Path, folder: Path, tell: Callable[[str], None]
) -> Iterator[Made]:
    """A work tree of its own for a session, at the commit that ``root`` has checked out.

    :param folder: the session's; a session that is refused has written no log there.
    :raises UsageError: ``no_commit``: there is nothing to check out.
    """
    commit = trees.head(root)
    if not commit:
        raise UsageError(
            f"{root} has no commit yet that a work tree could be made of",
            id="no_commit",
            hint="commit something first, or run without --worktree",
        )
    made = Made(path_for(root, folder.name), commit, folder / LOG_NAME)
    trees.add(root, made.path, commit)
    tell(f"works in {made.path}, at commit {commit[:12]}; uncommitted changes of {root} are not there")
    try:
        yield made
    finally:
        if made.log.exists() and (made.changed or trees.head(made.path) != commit):
            tell(f"what it changed is in {made.path}; {removal(trees, made.path, commit, folder.name)}")
        else:
            trees.remove(root, made.path)
            tell(f"{made.path} was left as it was, and is removed")


def removal(trees: LinkedTrees, path: Path, commit: str, session: str) -> str:
    """How to be rid of the work tree ``path`` and lose nothing that is wanted: first what keeps it.

    :param commit: what it had checked out at the start.
    :param session: the one that it was made for.
    """
    said, quoted, head = [], shlex.quote(str(path)), trees.head(path)
    if head not in ("", commit) and not trees.is_kept(path, head):
        name = shlex.quote(trees.free_branch(path, f"session-{session.lower()}"))
        said.append(f"no branch holds what is committed there, this keeps it: git branch {name} {head}")
    if trees.is_clean(path):
        said.append(f"when done with it: git worktree remove {quoted}")
    else:
        said.append(
            "not all of it is committed: commit on a branch or copy what you want, "
            f"since only this removes it as it is: git worktree remove --force {quoted}"
        )
    return "; ".join(said)


def path_for(root: Path, session: str) -> Path:
    """Beside the repository, where people keep work trees and nothing hides them from the kernel."""
    return root.with_name(f"{root.name}-{session.lower()}")
