"""``sessions prune``: which old sessions may go, and their removal."""

from __future__ import annotations

import os
import re
import shutil
import time
from collections.abc import Callable, Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path

from harnessctl.commands.linked import LinkedTrees, removal
from harnessctl.domain.errors import HarnessError, UsageError
from harnessctl.domain.plain_files import remove_folder
from harnessctl.rlm.log import LOG_NAME, header_of_log
from harnessctl.rlm.occupancy import is_written, unwritten
from harnessctl.rlm.skill_copies import remove_copies

_AGE = re.compile(r"(\d+)([smhdw])")
_SECONDS = {"s": 1, "m": 60, "h": 3600, "d": 86_400, "w": 604_800}
#: Folders on their way out; one that a crash left is finished by the next prune.
GOING_PREFIX = ".going-"


@dataclass(frozen=True)
class Candidate:
    """A session that was asked to go.

    :ivar why: what keeps it; "" when it goes.
    :ivar work_tree: the work tree that was made for it, where it still stands; it is the user's and stays.
    :ivar removal: how the user removes that.
    """

    id: str
    bytes: int
    why: str = ""
    work_tree: str | None = None
    removal: str = ""


@dataclass(frozen=True)
class Pruned:
    """What goes and what stays."""

    going: tuple[Candidate, ...]
    staying: tuple[Candidate, ...]
    removed: bool

    def to_json(self) -> dict[str, object]:
        """As ``--json`` prints it."""
        return {
            "removed": self.removed,
            "going": [{"id": c.id, "bytes": c.bytes, "work_tree": c.work_tree} for c in self.going],
            "staying": [{"id": c.id, "why": c.why} for c in self.staying],
        }


def prune(
    state_dir: Path,
    *,
    older_than_s: float | None,
    keep: int | None,
    cited: Mapping[str, str],
    remove: bool,
    forget: Callable[[str], None],
    sweep: Callable[[Collection[str], bool], object],
    trees: LinkedTrees,
) -> Pruned:
    """Remove sessions, or with ``remove`` off say which would go. Children stay and go with their root.

    :param older_than_s: only those last written more seconds ago.
    :param keep: only those that are not among the newest so many.
    :param cited: sessions that must stay, with the reason.
    :param forget: called with the id of each session that went.
    :param trees: tell how a work tree that was made for a session is removed.
    :param sweep: called at last with the work trees' states that the sessions left began with, and whether
        one of them runs.
    :raises UsageError: neither age nor count is given.
    """
    if older_than_s is None and keep is None:
        raise UsageError(
            "nothing says which sessions are old",
            id="usage",
            hint="--older-than 30d, --keep 20, or both",
        )
    folder = state_dir / "sessions"
    going: list[Candidate] = []
    staying: list[Candidate] = []
    below = _children(folder)
    for path in _old(folder, older_than_s, keep):
        # Those below first: a tree that a crash leaves half removed still has its root.
        family = [*reversed(_descendants(path, below)), path]
        why = next((cited[one.name] for one in reversed(family) if one.name in cited), "")
        size = sum(map(_size, family))
        work_tree, advice = _work_tree(path, trees)
        with unwritten(path / LOG_NAME) as unused:
            why = why if unused else "it runs"
            if remove and not why:
                for one in family:
                    _remove(one)
        if remove and not why:
            for one in family:
                forget(one.name)
        (staying if why else going).append(Candidate(path.name, size, why, work_tree, advice))
    if remove:
        for left in folder.glob(f"{GOING_PREFIX}*"):
            remove_copies(left)  # the crash may have come before it: their folders are read-only
            remove_folder(left)
        logs = list(folder.glob(f"*/{LOG_NAME}"))
        states = {tree for log in logs if isinstance(tree := header_of_log(log.parent).get("tree"), str)}
        sweep(states, any(map(is_written, logs)))
    return Pruned(tuple(going), tuple(staying), remove)


def seconds_in(age: str) -> float:
    """Seconds in ``30d``, ``12h``, ``90m``, ``2w`` or ``45s``.

    :raises UsageError: something else.
    """
    match = _AGE.fullmatch(age.strip().lower())
    if match is None:
        raise UsageError(f"{age!r} is no age", id="usage", hint="write 30d, 12h, 90m or 2w")
    return float(int(match[1]) * _SECONDS[match[2]])


def _old(folder: Path, older_than_s: float | None, keep: int | None) -> list[Path]:
    """Folders of roots that are old by what was asked, oldest first. Ids are in order of time."""
    names = sorted(p for p in folder.iterdir() if (p / LOG_NAME).exists()) if folder.is_dir() else []
    names = [p for p in names if not _has_parent(p)]
    kept = names[len(names) - min(keep, len(names)) :] if keep is not None else []
    limit = time.time() - older_than_s if older_than_s is not None else None
    return [p for p in names if p not in kept and (limit is None or (p / LOG_NAME).stat().st_mtime < limit)]


def _has_parent(path: Path) -> bool:
    """Whether the session that started this one is still there; one without is pruned like a root."""
    parent = header_of_log(path).get("parent")
    return isinstance(parent, str) and (path.parent / parent / LOG_NAME).exists()


def _children(folder: Path) -> Mapping[str, list[Path]]:
    """Folders of children by the id of the session that started them, oldest first."""
    found: dict[str, list[Path]] = {}
    for log in sorted(folder.glob(f"*/{LOG_NAME}")):
        parent = header_of_log(log.parent).get("parent")
        if isinstance(parent, str):
            found.setdefault(parent, []).append(log.parent)
    return found


def _descendants(path: Path, below: Mapping[str, list[Path]]) -> list[Path]:
    found = []
    for child in below.get(path.name, ()):
        found += [child, *_descendants(child, below)]
    return found


def _work_tree(path: Path, trees: LinkedTrees) -> tuple[str | None, str]:
    """The work tree made for a session, where it still stands, and how it is removed."""
    header = header_of_log(path)
    root, linked = header.get("root"), header.get("linked")
    if not (isinstance(linked, Mapping) and isinstance(root, str) and Path(root).is_dir()):
        return None, ""
    return root, removal(trees, Path(root), str(linked.get("commit")), path.name)


def _remove(path: Path) -> None:
    """At once out of sight, then from the disk."""
    going = path.with_name(GOING_PREFIX + path.name)
    try:
        path.rename(going)
        remove_copies(going)
        shutil.rmtree(going)
    except OSError as error:
        raise HarnessError(
            f"cannot remove {path}: {error.strerror}",
            id="storage",
            hint="mend the rights of that folder and prune again: what was begun is finished then",
        ) from error


def _size(path: Path) -> int:
    """Bytes of a session's files; of one that runs, without what goes while they are counted."""
    found = 0
    for folder, _, names in os.walk(path):
        for name in names:
            with suppress(OSError):
                found += os.lstat(os.path.join(folder, name)).st_size
    return found
