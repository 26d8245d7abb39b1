"""Pipes and devices where git and libgit2 expect files: who opens one waits for ever."""

from __future__ import annotations

import os
import stat
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

#: What is read of a git directory besides the files directly in it.
_FOLDERS = ("refs", "objects", "info")
#: Bytes read of a file that names another git directory.
_LONGEST = 4096


def pipe_of_repository(place: Path) -> Path | None:
    """Where in its git directory the reader of the repository at ``place`` would wait; None: nowhere.

    What lies outside, and only its configuration names, is not looked at.
    """
    for git_dir in _git_dirs(place):
        if found := _pipe_in(git_dir):
            return found
        for name in _FOLDERS:
            for folder, _, _ in os.walk(os.path.join(git_dir, name)):
                if found := _pipe_in(folder):
                    return found
    return None


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
        mode = os.stat(path).st_mode
    except OSError:
        return False
    return stat.S_ISFIFO(mode) or stat.S_ISCHR(mode) or stat.S_ISBLK(mode)


def _pipe_in(folder: str) -> Path | None:
    with suppress(OSError), os.scandir(folder) as found:
        for one in found:
            if not one.is_file(follow_symlinks=False) and is_pipe(one.path):
                return Path(one.path)
    return None


def _git_dirs(place: Path) -> Iterator[str]:
    """``.git`` or what it names, and, where that is one of several work trees', what they share."""
    git_dir = _named(place, ".git", b"gitdir: ") or str(place / ".git")
    yield git_dir
    if shared := _named(Path(git_dir), "commondir", b""):
        yield shared


def _named(folder: Path, name: str, before: bytes) -> str | None:
    """The path that a file holds, relative to ``folder``; None where it is no file that can be read."""
    path = folder / name
    with suppress(OSError):
        if path.is_file():
            with path.open("rb") as file:
                text = file.read(_LONGEST).partition(b"\0")[0]
            return str(folder / os.fsdecode(text.removeprefix(before).rstrip(b"\r\n")))
    return None
