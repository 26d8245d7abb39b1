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

    :ivar commit: what it had checked out at the session's start.
    :ivar folder: the session's.
    :ivar anew: whether this process made it.
    :ivar lost: whether changes of the session may be gone with the one that it stands for.
    :ivar changed: whether files in it are other than at the session's start; it is kept then.
    """

    path: Path
    commit: str
    folder: Path
    anew: bool = True
    lost: bool = False
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
    made = Made(path_for(root, folder.name), commit, folder)
    trees.add(root, made.path, commit)
    tell(f"works in {made.path}, at commit {commit[:12]}; uncommitted changes of {root} are not there")
    with _worked_in(trees, root, made, tell):
        yield made


@contextmanager
def own_work_tree_again(
    trees: LinkedTrees, root: Path, made: Made, tell: Callable[[str], None]
) -> Iterator[Made]:
    """The same for a session that goes on: as it stands, or where it is gone made anew from its commit."""
    made.anew = not made.path.exists()
    made.lost = made.lost and made.anew
    if made.anew:
        trees.add(root, made.path, made.commit)
        lost = "; whatever was changed there before is gone" if made.lost else ""
        tell(f"{made.path} was removed, and is made anew at commit {made.commit[:12]}{lost}")
    with _worked_in(trees, root, made, tell):
        yield made


@contextmanager
def _worked_in(trees: LinkedTrees, root: Path, made: Made, tell: Callable[[str], None]) -> Iterator[None]:
    """Say at the end what is left in the work tree; one that is as it was goes, if this process made it."""
    before = _log_bytes(made)
    try:
        yield
    finally:
        # A session that was refused has written nothing: nothing has worked in the work tree.
        worked = _log_bytes(made) > before
        changed = made.changed or trees.head(made.path) != made.commit
        if made.anew and not (worked and changed):
            trees.remove(root, made.path)
            tell(f"{made.path} was left as it was, and is removed")
        elif worked:
            said = "what it changed is in {}" if changed else "{} is as it was at the start"
            tell(f"{said.format(made.path)}; {removal(trees, made.path, made.commit, made.folder.name)}")


def _log_bytes(made: Made) -> int:
    log = made.folder / LOG_NAME
    return log.stat().st_size if log.exists() else -1


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
