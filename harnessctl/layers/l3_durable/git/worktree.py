"""The user's files as a run finds and leaves them: hashed, compared and shown as a patch.

Raw bytes are read straight from disk: no filter, hook or monitor runs, and neither index, refs nor
the object database of the repository are written. Contents that the object database does not hold
already are kept in a folder of ours, so that the state before a run can still be shown after it.
"""

from __future__ import annotations

import json
import os
import stat
import time
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass
from hashlib import sha256
from pathlib import Path
from typing import BinaryIO

import pygit2
from pygit2.enums import RepositoryOpenFlag

from harnessctl.domain.canonical import canonical_json, sha256_hex
from harnessctl.domain.change import FileChange
from harnessctl.domain.contents import MOST_READ, Room, contents
from harnessctl.domain.errors import HarnessError, NotFoundError
from harnessctl.domain.plain_files import make, read_small
from harnessctl.layers.l3_durable.git.cli import TooSlowError, run_git
from harnessctl.layers.l3_durable.git.patch import FilePatch, Files, patch_files
from harnessctl.layers.l3_durable.git.repository import Repository
from harnessctl.layers.l3_durable.git.waiting import (
    is_pipe,
    pipe_of_listing,
    pipe_of_objects,
    pipe_of_repository,
    refuse_waiting,
)

#: Bytes of a file whose content is kept for patches; larger ones are compared by digest and shown as binary.
MAX_KEPT = 1024 * 1024
#: A file changed less than this many nanoseconds before it was read is read again the next time: its
#: time stamp could not tell a second change (Linux stamps files in steps of up to 10 ms).
RACY = 100_000_000
#: Seconds in which git lists the files of a work tree.
LISTED_S = 120.0
#: Seconds after which it is looked whether git waits at a pipe.
LOOKED_S = 10.0
#: Seconds that git may be held up by nested repositories, all together.
PATIENCE_S = 60.0

LINK = 0o120000
GITLINK = 0o160000


@dataclass(frozen=True, slots=True)
class _Seen:
    """One file as it was read; ``stamp`` is (inode, size, mtime, ctime), or None when not to be trusted."""

    stamp: tuple[int, int, int, int] | None
    mode: int
    digest: str
    oid: str


@dataclass(frozen=True, slots=True)
class _Nested:
    """A repository in the work tree, with what git lists there; None where it lists nothing."""

    repository: Repository
    names: list[str] | None


class GitWorkTree:
    """One work tree.

    :param keep: folder of ours, made when needed; outside the repository.
    :param variables: environment for git's command line, which lists the files.
    """

    def __init__(self, root: Path, keep: Path, variables: Mapping[str, str]) -> None:
        self._root = root
        self._keep = keep
        self._variables = variables
        self._repository = Repository.open(root)
        self._patience = PATIENCE_S
        self._pipe: Path | None = None
        self._looked = LOOKED_S
        self._room = Room()
        self._nested: dict[str, _Nested | None] = {}
        self._lenders: dict[str, bool] = {}
        self._seen: dict[str, _Seen] = {}
        self._recorded: dict[str, dict[str, tuple[int, str, str]]] = {}

    @property
    def root(self) -> Path:
        """Absolute path of the work tree."""
        return self._root

    def tree_hash(self) -> str:
        """``sha256:`` over path, mode and content of tracked and of untracked, not ignored files.

        Those of nested repositories count too, under the nested repository's own ignore rules, and so does
        the commit that each has checked out.

        :raises HarnessError: ``git_failed``: git does not list the files.
        """
        rows: dict[str, tuple[int, str, str]] = {}
        fresh: dict[str, _Seen] = {}
        self._room = Room()
        folders = [""]
        for folder in folders:  # nested ones are added on the way
            nested = self._nested[folder] if folder else None
            for path in self._paths(folder, nested):
                found = self._look(path, nested.repository if nested else self._repository)
                if found is not None:
                    fresh[path] = found
                    rows[path] = (found.mode, found.digest, found.oid)
                    if found.mode == GITLINK and self._is_below(path):
                        folders.append(path)
        self._nested.clear()
        self._seen = fresh
        digest = "sha256:" + sha256_hex(canonical_json([[p, *rows[p][:2]] for p in sorted(rows)]))
        self._recorded[digest] = rows
        self._write(self._manifest(digest), json.dumps(rows, sort_keys=True).encode())
        return digest

    def changes(self, before: str, after: str) -> tuple[FileChange, ...]:
        """What differs between two hashes that :meth:`tree_hash` gave, sorted by path."""
        return tuple(
            FileChange(p.path, p.status, p.added, p.removed, p.binary) for p in self._patches(before, after)
        )

    def patch(self, before: str, after: str) -> bytes:
        """The same as a patch that ``git apply`` takes."""
        return b"".join(p.data for p in self._patches(before, after))

    def _patches(self, before: str, after: str) -> tuple[FilePatch, ...]:
        if before == after:
            return ()
        old, new = self._rows(before), self._rows(after)
        for path in {p for rows in (old, new) for p, row in rows.items() if row[0] == GITLINK}:
            self._enter(path)
        self._borrow()
        differing = {p for p in old.keys() | new.keys() if old.get(p) != new.get(p)}
        return patch_files(self._files(old, differing), self._files(new, differing))

    def _paths(self, folder: str, nested: _Nested | None) -> Iterable[str]:
        """What lies in the work tree or, with ``folder``, in the one nested there."""
        if not folder:
            return self._listed_here()
        names = nested.names if nested else None
        return (f"{folder}/{name}" for name in (_plain(self._root / folder) if names is None else names))

    def _listed_here(self) -> list[str]:
        refuse_waiting(self._root)
        if self._pipe is not None and is_pipe(self._pipe):
            raise _waits_at(self._pipe)
        try:
            return self._listed(self._root, min(self._looked, LISTED_S))
        except TooSlowError as error:
            self._pipe = pipe_of_listing(self._root)
            if self._pipe is not None:
                raise _waits_at(self._pipe) from error
        self._looked = LISTED_S  # there are many files, it seems: not once more for nothing
        return self._listed(self._root, LISTED_S)

    def _listed(self, place: Path, limit_s: float, *where: str) -> list[str]:
        args = [*where, "ls-files", "-z", "-c", "-o", "--exclude-standard"]
        listed = run_git(args, place, self._variables, timeout=limit_s)
        return sorted({os.fsdecode(p).rstrip("/") for p in listed.split(b"\0") if p})

    def _is_below(self, path: str) -> bool:
        """Whether no link and no ``..`` leads there: an index can name such paths, in a circle too."""
        return os.path.realpath(self._root / path) == os.path.join(os.path.realpath(self._root), path)

    def _enter(self, folder: str) -> _Nested | None:
        """The repository whose work tree lies at ``folder``, None where there is none that can be read.

        libgit2 reads in this very process, which a pipe in the place of a file would hold up for ever: it
        opens nothing that git has not read within the limit.
        """
        place = self._root / folder
        if not os.path.lexists(place / ".git") or pipe_of_repository(place):
            return None
        names, begun = None, time.monotonic()
        try:
            # Both are named: git would look for one further up, for the other where configuration sends it.
            names = self._listed(place, self._patience, "--git-dir=.git", "--work-tree=.")
        except TooSlowError:
            self._patience -= min(self._patience, time.monotonic() - begun)
            return None
        except (HarnessError, OSError):
            pass  # its index, say, is damaged: libgit2 may tell its commit all the same
        try:
            found = Repository(pygit2.Repository(str(place), RepositoryOpenFlag.NO_SEARCH))
        except (pygit2.GitError, KeyError, ValueError, OSError):
            return None
        # What its object database holds is not kept by us: :meth:`_borrow` has it read from there.
        self._lenders.setdefault(str(found.common_dir / "objects"), False)
        return _Nested(found, names)

    def _borrow(self) -> None:
        waits = {objects for objects in self._lenders if pipe_of_objects(Path(objects))}
        if any(self._lenders[objects] for objects in waits):  # there is no giving back
            self._repository = Repository.open(self._root)
            self._lenders = dict.fromkeys(self._lenders, False)
        for objects in [path for path, read in self._lenders.items() if not read and path not in waits]:
            with suppress(pygit2.GitError):
                self._repository.raw.odb.add_disk_alternate(objects)
            self._lenders[objects] = True

    def _look(self, path: str, repository: Repository) -> _Seen | None:
        """The file as it is now, None when it is gone or nothing that git keeps."""
        place = self._root / path
        try:
            info = place.lstat()
            whole = self._room.takes(info.st_size)
            known = self._seen.get(path)
            if known is not None and known.stamp == _stamp(info):
                return known
            now = time.time_ns()
            if stat.S_ISDIR(info.st_mode):
                self._nested[path] = self._enter(path)
                mode, data = GITLINK, _head(self._nested[path])
            else:
                mode, data = _read(place, info, whole=whole)
        except OSError:
            return None
        if mode == 0:
            return None
        settled = mode != GITLINK and max(info.st_mtime_ns, info.st_ctime_ns) < now - RACY
        return _Seen(_stamp(info) if settled else None, mode, *self._kept(data, repository))

    def _kept(self, data: bytes, repository: Repository) -> tuple[str, str]:
        """(SHA-256, blob id) of ``data``, which can be read again afterwards."""
        digest, oid = sha256_hex(data), str(pygit2.hash(data))
        if not repository.has(oid):
            self._write(self._blob(digest), data)
        return digest, oid

    def _rows(self, tree: str) -> dict[str, tuple[int, str, str]]:
        if tree in self._recorded:
            return self._recorded[tree]
        try:
            found = json.loads(read_small(self._manifest(tree), MOST_READ))
        except (OSError, ValueError) as error:
            raise NotFoundError(f"the work tree's state {tree} was not recorded", id="no_tree") from error
        return {path: (int(mode), str(digest), str(oid)) for path, (mode, digest, oid) in found.items()}

    def _files(self, rows: Mapping[str, tuple[int, str, str]], paths: set[str]) -> Files:
        return {p: (rows[p][0], self._content(*rows[p][1:])) for p in paths if p in rows}

    def _content(self, digest: str, oid: str) -> bytes:
        kept = self._blob(digest)
        try:
            return read_small(kept, MAX_KEPT) if kept.exists() else self._repository.blob(oid)
        except (NotFoundError, OSError):
            return f"not kept: sha256 {digest}\n\0".encode()

    def _manifest(self, tree: str) -> Path:
        return self._keep / "trees" / tree.removeprefix("sha256:")

    def _blob(self, digest: str) -> Path:
        return self._keep / "blobs" / digest[:2] / digest

    def _write(self, path: Path, data: bytes) -> None:
        """Write once, by rename; no fsync, and nothing on a full disk.

        What is lost so is only a patch that cannot be shown; that files differ is told by their digests.
        """
        with suppress(OSError):
            os.utime(path)  # it is there; what is needed now is not swept away as old
            return
        if not self._keep.parent.is_dir():
            return  # the state folder was removed meanwhile: it is not for us to make it, with what rights
        temporary = path.with_name(f".{path.name}.{os.getpid()}")
        try:
            path.parent.mkdir(mode=0o700, parents=True, exist_ok=True)
            with make(temporary) as file:
                file.write(data)
            temporary.replace(path)
        except OSError:
            with suppress(OSError):
                temporary.unlink()


def _stamp(info: os.stat_result) -> tuple[int, int, int, int]:
    return info.st_ino, info.st_size, info.st_mtime_ns, info.st_ctime_ns


def _read(place: Path, info: os.stat_result, *, whole: bool) -> tuple[int, bytes]:
    """git's mode and the content; mode 0 for sockets, pipes and devices, which git does not keep."""
    if stat.S_ISLNK(info.st_mode):
        return LINK, os.fsencode(os.readlink(place))
    if not stat.S_ISREG(info.st_mode):
        return 0, b""
    mode = 0o100755 if info.st_mode & stat.S_IXUSR else 0o100644
    with place.open("rb") as file:
        return mode, file.read(MAX_KEPT) if info.st_size <= MAX_KEPT else _summary(file, info, whole=whole)


def _summary(file: BinaryIO, info: os.stat_result, *, whole: bool) -> bytes:
    """Stands for the content of a large file. The NUL makes it binary, so that no line of it is counted."""
    digest = sha256()
    for piece in contents(file, info, whole=whole):
        digest.update(piece)
    return f"file of {info.st_size} bytes, sha256 {digest.hexdigest()}\n\0".encode()


def _head(nested: _Nested | None) -> bytes:
    """What a nested repository has checked out."""
    try:
        head = nested and nested.repository.head_commit
    except HarnessError:
        head = None
    return f"Subproject commit {head}\n".encode() if head else b"nested repository\n"


def _waits_at(pipe: Path) -> HarnessError:
    return HarnessError(
        f"the files cannot be listed: git would wait for ever at {pipe}, which is no file",
        id="git_failed",
        hint="remove it, or put back the file that was there",
    )


def _plain(place: Path) -> Iterator[str]:
    """All files below a folder that is no repository, and the repositories among them."""
    waiting = [""]
    while waiting:
        folder = waiting.pop()
        with suppress(OSError), os.scandir(place / folder) as found:
            for one in found:
                path = os.path.join(folder, one.name)
                if one.name == ".git":
                    continue
                if one.is_dir(follow_symlinks=False) and not os.path.lexists(f"{one.path}/.git"):
                    waiting.append(path)
                else:
                    yield path
