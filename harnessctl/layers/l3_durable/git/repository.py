"""One repository: where it is, its configuration, and reading and writing of objects.

Trees, blobs and commits are named by full hex ids. Paths in trees are text with surrogate escapes
for bytes that are not UTF-8, so that a strange name can be shown and refused, never mangled.
"""

from __future__ import annotations

import os
import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from functools import cached_property
from hashlib import sha256
from pathlib import Path
from typing import TypeVar

import pygit2
from pygit2.enums import FileMode, ObjectType

from harnessctl.domain.errors import HarnessError, NotFoundError
from harnessctl.layers.l3_durable.git.opening import open_raw
from harnessctl.layers.l3_durable.git.refs import Refs
from harnessctl.layers.l3_durable.git.staging import staged
from harnessctl.layers.l3_durable.git.turns import NotYoursError, holding
from harnessctl.layers.l3_durable.git.waiting import pipe_of_objects, refuse_no_file, refuse_waiting

T = TypeVar("T")

#: Mode of a folder in a git tree.
TREE_MODE = int(FileMode.TREE)
#: Trees kept by :meth:`Repository.files`; one harness has few hundred folders.
KEPT_FOLDERS = 4096
#: Bytes of free space below which a write that failed without a reason failed for want of space.
LITTLE_ROOM = 1024 * 1024
#: Seconds to wait for another process that sets the repository up; it takes milliseconds.
PATIENCE = 30.0
_OBJECT = re.compile("[0-9a-f]{40}")
#: What cannot stand in the line of a commit that names a person.
_UNFIT = re.compile("[\x00-\x08\x0a-\x1f\x7f<>]")


@dataclass(frozen=True, slots=True)
class TreeFile:
    """One file, symlink or gitlink of a tree; ``path`` is relative to the tree that was asked for."""

    path: str
    mode: int
    oid: str


@dataclass(frozen=True, slots=True)
class Person:
    """Name, address and time of an author or committer; ``time`` in seconds, ``offset`` in minutes."""

    name: str
    email: str
    time: int
    offset: int = 0


@dataclass(frozen=True, slots=True)
class Commit:
    """A commit object."""

    id: str
    tree: str
    parents: tuple[str, ...]
    author: Person
    committer: Person
    message: str

    @property
    def subject(self) -> str:
        """First line of the message."""
        return self.message.partition("\n")[0]


class Repository:
    """An open repository. Not for sharing between threads."""

    def __init__(self, raw: pygit2.Repository) -> None:
        self.raw = raw
        self.refs = Refs(raw, self.common_dir)
        self._hashes: dict[str, str] = {}
        self._folders: dict[str, tuple[TreeFile, ...]] = {}
        self._written: list[str] = []

    @classmethod
    def open(cls, start: Path, *, from_env: bool = False) -> Repository:
        """Open the repository around ``start``; errors as :func:`open_raw`."""
        return cls(open_raw(start, from_env=from_env))

    @property
    def root(self) -> Path | None:
        """Root of the work tree, None in a bare repository."""
        return Path(self.raw.workdir).resolve() if self.raw.workdir else None

    @cached_property
    def git_dir(self) -> Path:
        """This work tree's git directory."""
        return Path(self.raw.path).resolve()

    @cached_property
    def common_dir(self) -> Path:
        """The git directory shared by all work trees of the repository."""
        try:
            text = (self.git_dir / "commondir").read_text().strip()
        except OSError:
            return self.git_dir
        return (self.git_dir / text).resolve()

    @cached_property
    def _objects(self) -> str:
        return str(self.common_dir / "objects")

    @property
    def head_commit(self) -> str | None:
        """Commit of HEAD, None while it is unborn.

        :raises HarnessError: ``bad_head``.
        """
        with self._reading_head():
            return None if self.raw.head_is_unborn else str(self.raw.head.target)

    @property
    def head_ref(self) -> str | None:
        """Full name of the checked-out branch (born or not), None when HEAD is detached.

        :raises HarnessError: ``bad_head``.
        """
        with self._reading_head():
            target = self.raw.lookup_reference("HEAD").raw_target
        return target.decode("utf-8", "surrogateescape") if isinstance(target, bytes) else None

    @contextmanager
    def _reading_head(self) -> Iterator[None]:
        """Name the file that is damaged: HEAD, or that of the branch which it names."""
        refuse_no_file(self.git_dir / "HEAD")
        self.refs.read("HEAD")  # refuses a pipe in the branch's place
        try:
            yield
        except (KeyError, ValueError, pygit2.GitError) as error:
            branch = self.refs.symbolic("HEAD") or ""
            damaged = self.refs.broken(branch) if branch.startswith("refs/") else None
            file, holds, log = self.git_dir / "HEAD", "'ref: refs/heads/BRANCH'", self.git_dir / "logs/HEAD"
            if damaged is not None:
                file, holds, log = damaged, "a commit's id", self.common_dir / "logs" / branch
            raise HarnessError(
                f"what is checked out cannot be told: {file} is damaged",
                id="bad_head",
                hint=f"one line belongs into it, {holds}; {log} lists where it was, newest last",
            ) from error

    def tracked(self, path: str) -> bool:
        """Whether the index holds ``path``, relative to the work tree's root; errors as :attr:`_index`."""
        return path in self._index

    def tracked_where(self, wanted: Callable[[str], bool]) -> tuple[str, ...]:
        """Paths in the index that ``wanted`` says yes to, sorted; errors as :attr:`_index`."""
        return tuple(sorted(entry.path for entry in self._index if wanted(entry.path)))

    @property
    def _index(self) -> pygit2.Index:
        """:raises HarnessError: ``bad_index``, ``not_a_file``."""
        refuse_no_file(self.git_dir / "index")
        try:
            index: pygit2.Index = self.raw.index
        except (pygit2.GitError, OSError) as error:
            raise HarnessError(
                f"{self.git_dir / 'index'} cannot be read: it is damaged, or not for this user to read",
                id="bad_index",
                hint="once it is moved away, git reset makes it anew from HEAD and leaves files as they are; "
                "what was staged is to be staged again",
            ) from error
        return index

    def refuse_waiting(self) -> None:
        """Refuse what libgit2 would wait for ever at, as at the opening; for who reads on much later.

        :raises HarnessError: ``not_a_file``.
        """
        refuse_waiting(self.root or self.git_dir)

    # -- configuration -------------------------------------------------------------------------

    @property
    def _config(self) -> pygit2.Config:
        """:raises HarnessError: ``not_a_file``: libgit2 reads the file anew when it has changed."""
        refuse_no_file(self.common_dir / "config")
        return self.raw.config

    def config(self, key: str) -> str | None:
        """Value of a configuration key as git merges it, None when unset; a key without a value is true."""
        try:
            value = self._config[key]
        except KeyError:
            return None
        return "true" if value is None else str(value)

    def config_flag(self, key: str) -> bool:
        """Whether a configuration key is true, in any of the ways git knows."""
        try:
            return self._config.get_bool(key)
        except (KeyError, ValueError, pygit2.GitError):
            return False

    def config_names(self, prefix: str) -> tuple[str, ...]:
        """Names of configuration keys that are set and begin with ``prefix``, in lower case, each once."""
        names = (str(entry.name) for entry in self._config)
        return tuple(dict.fromkeys(name for name in names if name.startswith(prefix)))

    def config_now(self, key: str) -> str | None:
        """As :meth:`config`, from the file as it is now: libgit2 may answer from what it read before."""
        return Repository.open(self.root or self.git_dir).config(key)

    def set_config(self, key: str, value: str) -> None:
        """Write ``key`` into the repository's own configuration, shared by its work trees.

        :raises HarnessError: ``write_failed``, ``not_a_file``.
        """
        refuse_no_file(self.common_dir / "config")
        with _in_words(self.common_dir):
            pygit2.Config(str(self.common_dir / "config"))[key] = value

    def remotes(self) -> tuple[str, ...]:
        """Names of the configured remotes."""
        return tuple(name for name in self.raw.remotes.names() if name)

    @contextmanager
    def exclusive(self) -> Iterator[None]:
        """Set this repository up while no other process does.

        :raises HarnessError: ``busy``: somebody else was at it for :data:`PATIENCE` s; ``write_failed``.
        """
        try:
            with _in_words(self.common_dir), holding(self.common_dir / "harnessctl.setup", PATIENCE):
                yield
        except NotYoursError as error:
            raise HarnessError(
                f"another harnessctl holds {error} for {PATIENCE:.0f} s", id="busy", hint="try again"
            ) from error

    # -- reading -------------------------------------------------------------------------------

    def commit(self, commit: str) -> Commit:
        """:raises NotFoundError: ``missing_object``, ``unreadable_object``, ``not_a_commit``."""
        found = self._get(commit)
        if not isinstance(found, pygit2.Commit):
            raise NotFoundError(
                f"{commit} is not a commit",
                id="not_a_commit",
                hint="git cat-file -t says what it is; harnessctl doctor, whether it is the harness",
            )
        return Commit(
            id=str(found.id),
            tree=str(found.tree_id),
            parents=tuple(str(p) for p in found.parent_ids),
            author=_person(found.author),
            committer=_person(found.committer),
            message=found.raw_message.decode(found.message_encoding or "utf-8", "replace"),
        )

    def has(self, oid: str) -> bool:
        """Whether the object is in this repository, be it readable or not."""
        return oid in self.raw.odb

    def expand(self, prefix: str) -> str | None:
        """Full id of the one object whose id starts with ``prefix``, None for none or several."""
        try:
            return str(self.raw.expand_id(prefix))
        except (KeyError, ValueError, pygit2.GitError):
            return None

    def folder(self, tree: str, path: str) -> str | None:
        """Id of the folder ``path`` in ``tree``, None when it is absent or no folder."""
        found = self._at(tree, path)
        return str(found.id) if isinstance(found, pygit2.Tree) else None

    def file(self, tree: str, path: str) -> bytes | None:
        """Content of the file ``path`` in ``tree``, None when it is absent or no file.

        :raises NotFoundError: ``missing_object``.
        """
        found = self.entry(tree, path)
        return self.blob(found.oid) if found is not None and found.mode != FileMode.COMMIT else None

    def entry(self, tree: str, path: str) -> TreeFile | None:
        """Mode and id of the file ``path`` in ``tree``, None when it is absent or a folder."""
        found = self._at(tree, path)
        if found is None or found.type == ObjectType.TREE:
            return None
        return TreeFile(path, int(found.filemode), str(found.id))

    def changed(self, before: str | None, after: str | None) -> tuple[str, ...]:
        """Paths that differ between two trees (None: the empty one), sorted."""
        if before == after:
            return ()
        one = self._tree(before or self._empty_tree())
        diff = one.diff_to_tree(self._tree(after or self._empty_tree()))
        paths = {f.raw_path for d in diff.deltas for f in (d.old_file, d.new_file)}
        return tuple(sorted(p.decode("utf-8", "surrogateescape") for p in paths))

    def names(self, tree: str) -> tuple[str, ...]:
        """Names directly in ``tree``."""
        return tuple(_name(item) for item in self._tree(tree))

    def files(self, tree: str | None) -> tuple[TreeFile, ...]:
        """Everything below ``tree`` that is not a folder, in git's order; () for None."""
        if tree is None:
            return ()
        known = self._folders.get(tree)
        if known is None:
            if len(self._folders) >= KEPT_FOLDERS:
                self._folders.clear()
            known = self._folders[tree] = tuple(self._walk(tree))
        return known

    def subfolders(self, tree: str | None) -> dict[str, str]:
        """Name and tree id of each folder directly in ``tree``; {} for None."""
        if tree is None:
            return {}
        return {_name(item): str(item.id) for item in self._tree(tree) if item.type == ObjectType.TREE}

    def blob(self, oid: str) -> bytes:
        """Content of a blob.

        :raises NotFoundError: ``missing_object``.
        """
        found = self._get(oid)
        if not isinstance(found, pygit2.Blob):
            raise NotFoundError(f"{oid} is not a file's content", id="not_a_blob")
        return found.data

    def content_hash(self, oid: str) -> str:
        """SHA-256 of a blob's content, hex; kept for the life of this object."""
        known = self._hashes.get(oid)
        if known is None:
            known = self._hashes[oid] = sha256(self.blob(oid)).hexdigest()
        return known

    def _walk(self, tree: str) -> Iterator[TreeFile]:
        for item in self._tree(tree):
            name = _name(item)
            if item.filemode == FileMode.TREE:
                for below in self.files(str(item.id)):
                    yield TreeFile(f"{name}/{below.path}", below.mode, below.oid)
            else:
                yield TreeFile(name, int(item.filemode), str(item.id))

    def _get(self, oid: str) -> pygit2.Object:
        refuse_no_file(f"{self._objects}/{oid[:2]}/{oid[2:]}")
        with self.reading(oid):
            return self.raw[oid]

    @contextmanager
    def reading(self, oid: str) -> Iterator[None]:
        """Say in words what is wrong with an object: ``oid``, or one that the history from there needs.

        :raises NotFoundError: ``missing_object``, ``unreadable_object``.
        """
        try:
            yield
        except (KeyError, ValueError, pygit2.GitError) as error:
            damaged, _, why = str(error).rpartition(": ")
            if self.has(oid) and not isinstance(error, KeyError):
                which = damaged if _OBJECT.fullmatch(damaged) else oid
                raise NotFoundError(
                    f"object {which} cannot be read: {why}",
                    id="unreadable_object",
                    hint="git fsck names what is damaged; harnessctl doctor says what of the harness it is",
                ) from error
            raise NotFoundError(
                f"object {oid} is not in this repository",
                id="missing_object",
                hint="fetch it: a shallow, partial or fresh clone may lack it",
            ) from error

    @contextmanager
    def walking(self, oid: str) -> Iterator[None]:
        """As :meth:`reading`, for walks, in which libgit2 chooses what it reads: errors as there.

        :raises HarnessError: ``not_a_file``.
        """
        if self._pipe is not None:
            refuse_no_file(self._pipe)
        with self.reading(oid):
            yield

    @cached_property
    def _pipe(self) -> Path | None:
        """Looked for once: 10,000 loose objects take 7 ms."""
        return pipe_of_objects(self.common_dir / "objects")

    def _tree(self, oid: str) -> pygit2.Tree:
        found = self._get(oid)
        if not isinstance(found, pygit2.Tree):
            raise NotFoundError(f"{oid} is not a folder", id="not_a_tree")
        return found

    def _at(self, tree: str, path: str) -> pygit2.Object | None:
        try:
            found: pygit2.Object = self._tree(tree) / path if path else self._tree(tree)
        except (KeyError, ValueError, TypeError):
            return None
        return found

    # -- writing: objects only; nothing here moves a ref -----------------------------------------

    @staticmethod
    def blob_id(data: bytes) -> str:
        """Id that ``data`` will have as a blob; writes nothing."""
        return str(pygit2.hash(data))

    def write_blob(self, data: bytes) -> str:
        """Write a blob, untouched by any filter; its id."""
        return self._wrote(_writing(self.common_dir, lambda: self.raw.create_blob(data)))

    def write_tree(self, base: str | None, edits: Mapping[str, tuple[int, str] | None]) -> str:
        """The tree ``base`` with ``edits`` applied: path -> (mode, blob id), or None to remove.

        Only folders on the way to an edit are read and written; a folder that becomes empty goes.
        """
        return str(_writing(self.common_dir, lambda: self._edited(base, edits)) or self._empty_tree())

    @contextmanager
    def durably(self) -> Iterator[None]:
        """Objects written inside are in the store, and on the disk, when the context ends well.

        :raises HarnessError: ``write_failed``: one is not; no ref may name them then.
        """
        self._written.clear()
        with _in_words(self.common_dir), staged(self.raw, self.common_dir / "objects", self._written):
            yield

    def _wrote(self, oid: object) -> str:
        self._written.append(str(oid))
        return str(oid)

    def write_commit(
        self, tree: str, parents: Iterable[str], author: Person, committer: Person, message: str
    ) -> str:
        """Write a commit object, unsigned; its id. No ref moves."""
        return self._wrote(
            _writing(
                self.common_dir,
                lambda: self.raw.create_commit(
                    None,
                    _signature(author),
                    _signature(committer),
                    message,
                    pygit2.Oid(hex=tree),
                    [pygit2.Oid(hex=p) for p in parents],
                ),
            )
        )

    def _empty_tree(self) -> str:
        return self._wrote(self.raw.TreeBuilder().write())

    def _edited(self, base: str | None, edits: Mapping[str, tuple[int, str] | None]) -> str:
        """Id of the new tree, "" when nothing is left in it."""
        builder = self.raw.TreeBuilder(self._tree(base)) if base else self.raw.TreeBuilder()
        below: dict[str, dict[str, tuple[int, str] | None]] = {}
        for path, edit in edits.items():
            head, slash, rest = path.partition("/")
            if slash:
                below.setdefault(head, {})[rest] = edit
            else:
                _put(builder, head, edit)
        for name, inner in below.items():
            subtree = self._edited(self.folder(base, name) if base else None, inner)
            _put(builder, name, (TREE_MODE, subtree) if subtree else None)
        return self._wrote(builder.write()) if len(builder) else ""


def _put(builder: pygit2.TreeBuilder, name: str, edit: tuple[int, str] | None) -> None:
    if edit is not None:
        builder.insert(name, edit[1], edit[0])
    elif builder.get(name) is not None:
        builder.remove(name)


def _name(item: pygit2.Object) -> str:
    return (item.raw_name or b"").decode("utf-8", "surrogateescape")


def _person(signature: pygit2.Signature) -> Person:
    return Person(
        signature.raw_name.decode("utf-8", "replace"),
        signature.raw_email.decode("utf-8", "replace"),
        signature.time,
        signature.offset,
    )


def fit_for_a_commit(text: str) -> str:
    """A name or an address as a commit can hold it, by git's rule: without what would end its line.

    git drops line breaks and angle brackets; here other control characters go too. libgit2 writes them
    as they are, and what follows a line break is then read as further headers of the commit.
    """
    readable = text.encode("utf-8", "surrogateescape").decode("utf-8", "replace")
    return _UNFIT.sub("", readable).strip()


def _signature(person: Person) -> pygit2.Signature:
    name, address = fit_for_a_commit(person.name), fit_for_a_commit(person.email)
    return pygit2.Signature(name, address, person.time, person.offset, "utf-8")


def _writing(where: Path, action: Callable[[], T]) -> T:
    with _in_words(where):
        return action()


@contextmanager
def _in_words(where: Path) -> Iterator[None]:
    try:
        yield
    except (pygit2.GitError, OSError) as error:
        raise HarnessError(
            f"cannot write into the repository: {_why(error, where)}",
            id="write_failed",
            hint="check free space and the permissions of the git directory; nothing was landed",
        ) from error


def _why(error: Exception, where: Path) -> str:
    """The system's words; libgit2 has none, or the name of an object, where a full disk cut a write short."""
    text = str(error)
    with suppress(OSError):
        room = os.statvfs(where)
        if not _says_why(text) and room.f_bavail * room.f_frsize < LITTLE_ROOM:
            return "no space left"
    return "no reason was given" if text in ("", "no error") else text


def _says_why(text: str) -> bool:
    return bool(text) and "no error" not in text and not _OBJECT.fullmatch(text.strip("'"))
