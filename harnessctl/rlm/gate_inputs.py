"""What a gate judges by: files that a run must leave as they were, or the gate proves nothing.

Compared on disk, so that files which git ignores count too.
"""

from __future__ import annotations

import os
import re
import shlex
from collections.abc import Iterable, Iterator, Mapping, Sequence
from functools import lru_cache
from hashlib import sha256
from pathlib import Path

from harnessctl.config import GateSpec
from harnessctl.domain.contents import Room, contents

#: Files at the root that decide what a test command does (CONTRACT 7).
USUAL_INPUTS = ("Makefile", "justfile", "pyproject.toml", "package.json", "conftest.py")
_WILD = re.compile(r"[*?\[]")
_OPERATORS = ";&|()<>"


def inputs_of(spec: GateSpec, start: Mapping[str, str] | None = None) -> tuple[str, ...]:
    """The globs a gate declares; without any, the files its command names and the usual ones.

    :param start: the inputs at the start; a file that the command names and that was not there then is what
        the run is to make (``test -f report.md``), no input.
    """
    named = (word for word in named_in(spec.command) if start is None or word in start)
    return spec.inputs or (*named, *USUAL_INPUTS)


def named_in(command: str) -> tuple[str, ...]:
    """Every word of a command that could name a file of the work tree, the part behind ``=`` included.

    What output is sent to is no input.
    """
    words = _words(command)
    found: dict[str, None] = {}
    for before, word in zip(["", *words], words, strict=False):
        for part in () if before.startswith(">") else (word, word.partition("=")[2]):
            path = os.path.normpath(part) if part.strip(_OPERATORS) else ""
            inside = not path.startswith(("-", "/", "..", "~", "$")) and path != "."
            if path and inside and "\n" not in path and not _WILD.search(path):
                found[path] = None
    return tuple(found)


def _words(command: str) -> list[str]:
    """Words and operators of a shell command; roughly, where its quotes do not close."""
    split = shlex.shlex(command, posix=True, punctuation_chars=_OPERATORS)
    split.whitespace_split, split.commenters = True, ""
    try:
        return list(split)
    except ValueError:
        return command.split()


def capture(root: Path, globs: Iterable[str], *, folders: bool) -> dict[str, str]:
    """Path -> digest of every file below ``root`` that a glob names.

    :param folders: a glob that names a folder stands for everything below it.
    """
    found: dict[str, str] = {}
    room = Room()
    for glob in globs:
        for path in _files(root, glob, folders=folders):
            if path not in found:
                found[path] = _digest(root / path, room)
    return found


def changed(before: Mapping[str, str], after: Mapping[str, str]) -> tuple[str, ...]:
    """Paths that were added, removed or changed."""
    return tuple(p for p in sorted(before.keys() | after.keys()) if before.get(p) != after.get(p))


def matches(path: str, globs: Sequence[str]) -> bool:
    """Whether one of ``globs`` names ``path`` or a folder above it."""
    return any(_pattern(glob).match(path) for glob in globs)


def _files(root: Path, glob: str, *, folders: bool) -> Iterator[str]:
    glob = glob.removeprefix("./").rstrip("/")
    start = root / glob
    if not _WILD.search(glob):
        if start.is_dir() and not start.is_symlink():
            yield from _below(root, start) if folders else ()
        elif os.path.lexists(start):
            yield glob
        return
    fixed = list(_until_wild(glob))
    pattern = _pattern(glob)
    for path in _below(root, root.joinpath(*fixed)):
        if pattern.match(path):
            yield path


def _until_wild(glob: str) -> Iterator[str]:
    """The leading parts of a glob without a wildcard: nothing outside that folder can match."""
    for part in glob.split("/")[:-1]:
        if _WILD.search(part):
            return
        yield part


def _below(root: Path, folder: Path) -> Iterator[str]:
    for place, folders, files in os.walk(folder):
        folders[:] = sorted(name for name in folders if name != ".git")
        links = [name for name in folders if os.path.islink(os.path.join(place, name))]
        for name in (*sorted(files), *links):
            yield os.path.relpath(os.path.join(place, name), root)


@lru_cache(maxsize=256)
def _pattern(glob: str) -> re.Pattern[str]:
    """``**`` stands for any folders, ``*`` and ``?`` stay within a name; a folder stands for all below it."""
    parts = []
    for part in glob.removeprefix("./").rstrip("/").split("/"):
        if part == "**":
            parts.append(r"(?:[^/]+/)*")
        else:
            name = re.escape(part).replace(r"\*", "[^/]*").replace(r"\?", "[^/]")
            name = re.sub(r"\\\[(!?)(.*?)\\\]", lambda m: f"[{'^' if m[1] else ''}{m[2]}]", name)
            parts.append(name + "/")
    text = "".join(parts)
    return re.compile(text.removesuffix("/") + r"(?:/.*)?\Z" if text.endswith("/") else text + r".*\Z")


def _digest(path: Path, room: Room) -> str:
    """Of kind, execute bit and content; ``absent`` for what is gone by now."""
    try:
        if path.is_symlink():
            return f"link {os.readlink(path)} " + (_digest(path.resolve(), room) if path.exists() else "")
        if not path.is_file():
            return "no file"
        hashed = sha256(b"x" if path.stat().st_mode & 0o100 else b"-")
        with path.open("rb") as file:
            info = os.fstat(file.fileno())
            for piece in contents(file, info, whole=room.takes(info.st_size)):
                hashed.update(piece)
    except OSError:
        return "absent"
    return hashed.hexdigest()
