"""Pipes and devices where git and libgit2 expect files: who opens one waits for ever.

libgit2 waits in this very process, where neither Ctrl-C nor SIGTERM reaches Python any more. So what is
about to be read is looked at first: :func:`refuse_waiting` when a repository is opened, the file of a ref
or an object when it is that one's turn.
"""

from __future__ import annotations

import errno
import os
import stat
from collections.abc import Collection, Iterable, Iterator
from contextlib import suppress
from pathlib import Path

from harnessctl.domain.errors import HarnessError

#: Below a git directory: what git or libgit2 may open whatever it was asked for.
_OPENED = (
    "HEAD",
    "config",
    "config.worktree",
    "commondir",
    "gitdir",
    "packed-refs",
    "index",
    "shallow",
    "MERGE_HEAD",
    "info/exclude",
    "info/attributes",
    "info/grafts",
    "objects/info/alternates",
    "objects/info/commit-graph",
)
#: Below a git directory: a folder of which all files are opened in search of an object.
_PACKS = "objects/pack"
#: What is read of a git directory besides the files directly in it.
_FOLDERS = ("refs", "objects", "info", "logs")
#: Bytes read of a file that names another git directory, or other folders of objects.
_LONGEST = 4096
#: What helps where a file is not just to be put back.
_REMEDIES = {
    "HEAD": "one line belongs into it, 'ref: refs/heads/BRANCH'",
    "index": "without it, git reset makes it anew from HEAD and leaves files as they are",
}


def refuse_no_file(path: str | Path, *, or_folder: bool = False) -> None:
    """Let pass a file, what is not there, and with ``or_folder`` a folder.

    :raises HarnessError: ``not_a_file``: who reads ``path`` would wait for ever, or find no file.
    """
    if kind := _kind(path, or_folder=or_folder):
        raise HarnessError(
            f"{path} is {kind}, and a file of git belongs there",
            id="not_a_file",
            hint=f"remove it, and put back the file that was there, if there was one; {_remedy(Path(path))}",
        )


def refuse_waiting(start: Path) -> None:
    """Refuse a repository around ``start`` in which libgit2 would wait while it opens it; errors as there.

    A few looks at fixed names: refs and objects have their turn when they are read.
    """
    for git_dir in _git_dirs_around(start):
        for error in _wrong_in(git_dir):
            raise error


def wrong_around(start: Path) -> tuple[HarnessError, ...]:
    """All that :func:`refuse_no_file` says of the repository around ``start`` and its linked work trees."""
    seen: set[tuple[int, int]] = set()
    found: list[HarnessError] = []
    for git_dir in _git_dirs_around(start):
        for below in (git_dir, *map(str, sorted(Path(git_dir).glob("worktrees/*")))):
            found += _wrong_in(below)
        for name in _FOLDERS:
            for path in _odd_below(f"{git_dir}/{name}", seen):
                found += _wrong_at(path, or_folder=True)
    return tuple({error.message: error for error in found}.values())


def _wrong_in(git_dir: str) -> Iterator[HarnessError]:
    yield from _wrong_at(git_dir, or_folder=True)
    for name in _OPENED:
        yield from _wrong_at(f"{git_dir}/{name}")
    for path in _odd_in(f"{git_dir}/{_PACKS}"):
        yield from _wrong_at(path, or_folder=True)


def _wrong_at(path: str, *, or_folder: bool = False) -> Iterator[HarnessError]:
    try:
        refuse_no_file(path, or_folder=or_folder)
    except HarnessError as error:
        yield error


def _kind(path: str | Path, *, or_folder: bool) -> str:
    """What is at ``path``, or at the end of a link there, in words; "" where that is in order.

    The null device is in order: to git it is an empty file, and it is one way to switch a file off.
    """
    try:
        info = os.stat(path)
        mode = info.st_mode
    except (OSError, ValueError) as error:
        return "a link that leads in a circle" if getattr(error, "errno", 0) == errno.ELOOP else ""
    if stat.S_ISREG(mode) or (or_folder and stat.S_ISDIR(mode)) or _is_null(info):
        return ""
    kinds = {stat.S_IFIFO: "a pipe", stat.S_IFSOCK: "a socket", stat.S_IFDIR: "a folder"}
    return kinds.get(stat.S_IFMT(mode), "a device")


def _is_null(info: os.stat_result) -> bool:
    return stat.S_ISCHR(info.st_mode) and info.st_rdev == os.stat(os.devnull).st_rdev


def _remedy(path: Path) -> str:
    for folder in path.parents:
        log = folder / "logs" / path.relative_to(folder)
        if path.is_relative_to(folder / "refs") and log.is_file():
            return f"{log} lists what it named, newest last"
    return _REMEDIES.get(path.name, "once it is gone, harnessctl doctor says what is missing")


def pipe_of_repository(place: Path) -> Path | None:
    """Where in its git directory the reader of the repository at ``place`` would wait; None: nowhere.

    What lies outside, and only its configuration names, is not looked at.
    """
    return next(_pipes_of(_git_dirs(place)), None)


def pipe_of_objects(objects: Path) -> Path | None:
    """As :func:`pipe_of_repository`, in a folder of objects and those that it borrows from."""
    return next(_pipes(_odd_below(str(objects), set())), None)


def pipe_of_listing(root: Path, rules: Collection[str] = (".gitignore",)) -> Path | None:
    """Where git would wait while it lists the work tree at ``root``, repositories in it included.

    :param rules: files that are read in every folder.
    """
    for folder, below, files in os.walk(root):
        if ".git" in below or ".git" in files:
            if found := pipe_of_repository(Path(folder)):
                return found
            below[:] = [name for name in below if name != ".git"]
        for name in rules:
            if name in files and is_pipe(path := os.path.join(folder, name)):
                return Path(path)
    return None


def is_pipe(path: str | Path) -> bool:
    """Whether a pipe or a device is what ``path`` leads to; a socket refuses at once."""
    try:
        info = os.stat(path)
    except (OSError, ValueError):
        return False
    kinds = (stat.S_ISFIFO, stat.S_ISCHR, stat.S_ISBLK)
    return any(is_it(info.st_mode) for is_it in kinds) and not _is_null(info)


def _pipes(paths: Iterable[str]) -> Iterator[Path]:
    return (Path(path) for path in paths if is_pipe(path))


def _pipes_of(git_dirs: Iterator[str]) -> Iterator[Path]:
    seen: set[tuple[int, int]] = set()
    for git_dir in git_dirs:
        yield from _pipes(_odd_in(git_dir))
        for name in _FOLDERS:
            yield from _pipes(_odd_below(f"{git_dir}/{name}", seen))


def _odd_below(top: str, seen: set[tuple[int, int]]) -> Iterator[str]:
    """What is neither file nor folder in ``top`` and all below it, through links too, each folder once.

    Folders from which objects are borrowed are looked through with it.

    :param seen: folders that were looked through, by device and inode.
    """
    folders = _with_lenders(top)
    for folder in folders:  # more are added on the way
        with suppress(OSError):
            info = os.stat(folder)
            if (info.st_dev, info.st_ino) not in seen:
                seen.add((info.st_dev, info.st_ino))
                yield from _odd_in(folder, folders)


def _odd_in(folder: str, below: list[str] | None = None) -> Iterator[str]:
    """The same directly in ``folder``; folders in it are added to ``below``."""
    with suppress(OSError), os.scandir(folder) as found:
        for one in found:
            if one.is_file(follow_symlinks=False):
                continue
            if not one.is_dir(follow_symlinks=False) and not os.path.isdir(one.path):
                yield one.path
            elif below is not None:
                below.append(one.path)


def _with_lenders(objects: str) -> list[str]:
    """A folder of objects and those that it borrows from, as a file in each names them, one a line."""
    found = [objects]
    for folder in found:  # more are added on the way
        for line in (_start_of(Path(folder, "info/alternates")) or b"").splitlines():
            lender = os.path.normpath(os.path.join(folder, os.fsdecode(line)))
            if line and not line.startswith(b"#") and lender not in found:
                found.append(lender)
    return found


def _git_dirs_around(start: Path) -> Iterator[str]:
    """Those of the repository that libgit2 would find from ``start``; it would read some to find it."""
    here = os.path.abspath(start)
    for place in (here, *map(str, Path(here).parents)):
        if os.path.lexists(f"{place}/.git"):
            yield from _git_dirs(Path(place))
            return
        if os.path.lexists(f"{place}/HEAD") and os.path.isdir(f"{place}/objects"):
            yield from _with_shared(place)  # perhaps no repository: then libgit2 goes on further up


def _git_dirs(place: Path) -> Iterator[str]:
    """``.git`` or what it names, and, where that is one of several work trees', what they share."""
    return _with_shared(_named(place, ".git", b"gitdir: ") or str(place / ".git"))


def _with_shared(git_dir: str) -> Iterator[str]:
    yield git_dir
    if shared := _named(Path(git_dir), "commondir", b""):
        yield shared


def _named(folder: Path, name: str, before: bytes) -> str | None:
    """The path that a file holds, relative to ``folder``; None where it is no file that can be read."""
    text = _start_of(folder / name)
    if text is None:
        return None
    return str(folder / os.fsdecode(text.partition(b"\0")[0].removeprefix(before).rstrip(b"\r\n")))


def _start_of(path: Path) -> bytes | None:
    with suppress(OSError):
        if path.is_file():
            with path.open("rb") as file:
                return file.read(_LONGEST)
    return None
