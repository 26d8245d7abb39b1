"""Where a branch is in use: checked out, or in the middle of a rebase or bisect, in any work tree.

Moving such a branch would change what a person sees under their hands (``update-ref`` does so without
a word), so the writer asks here first. A merge in progress is on a checked-out branch and is named.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

from harnessctl.layers.l3_durable.git.repository import Repository
from harnessctl.layers.l3_durable.git.waiting import refuse_no_file

#: File in a work tree's git directory -> what is going on there.
_DOING = (
    ("MERGE_HEAD", "a merge"),
    ("CHERRY_PICK_HEAD", "a cherry-pick"),
    ("REVERT_HEAD", "a revert"),
    ("rebase-apply/applying", "`git am`"),
)


def occupants(repository: Repository, ref: str) -> tuple[str, ...]:
    """Places that use the branch ``ref`` (full name), each as "checked out in /path", in words."""
    common = repository.common_dir
    found: list[str] = []
    if (repository.config("core.bare") or "false").lower() not in ("true", "yes", "on", "1"):
        found += _uses(common, _main(repository), ref)
    for linked in sorted((common / "worktrees").glob("*")):
        found += _uses(linked, _place(linked), ref)
    return tuple(found)


def _main(repository: Repository) -> str:
    """The main work tree; of a submodule, or with a git directory of its own, configuration names it."""
    stated = repository.config("core.worktree")
    common = repository.common_dir
    return str((common / stated).resolve() if stated else common.parent)


def _uses(git_dir: Path, place: str, ref: str) -> Iterator[str]:
    if _text(git_dir / "HEAD") == f"ref: {ref}":
        doing = next((f" with {what} in progress" for file, what in _DOING if (git_dir / file).exists()), "")
        yield f"checked out in {place}{doing}"
    for name in ("rebase-merge/head-name", "rebase-apply/head-name"):
        if _text(git_dir / name) == ref:
            yield f"being rebased in {place}"
    # `git rebase --update-refs` (git 2.38) lists refs it is going to move, three lines each.
    if ref in _text(git_dir / "rebase-merge/update-refs").split("\n"):
        yield f"being rebased in {place}"
    if _text(git_dir / "BISECT_START") in (ref, ref.removeprefix("refs/heads/")):
        yield f"being bisected in {place}"


def _place(linked: Path) -> str:
    return str(Path(_text(linked / "gitdir")).parent) if (linked / "gitdir").exists() else str(linked)


def _text(path: Path) -> str:
    refuse_no_file(path)
    try:
        return path.read_text("utf-8", "surrogateescape").strip()
    except OSError:
        return ""
