"""The ``.harness/`` folder of one commit: its files, entry by entry."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import cached_property

from harnessctl.domain.canonical import files_digest, sha256_hex
from harnessctl.domain.entry import EntryFile
from harnessctl.domain.errors import HarnessError, NotFoundError
from harnessctl.domain.ids import HARNESS_DIR, UPDATES_DIR, EntryId, Kind, is_ulid, record_path, suggestion
from harnessctl.layers.l3_durable.files.tree import GITLINK, TreeItem
from harnessctl.layers.l3_durable.git.repository import Repository, TreeFile
from harnessctl.layers.l3_durable.rules.names import place

#: Name of the policy file below ``.harness/``.
POLICY = "harness.toml"

#: path below ``.harness/`` -> (mode, blob id)
Listing = Mapping[str, tuple[int, str]]


def entry_of(path: str) -> EntryId | None:
    """The entry that ``path`` (below ``.harness/``) belongs to; None for records, policy and strangers."""
    return place(path).entry


@dataclass(frozen=True)
class Content:
    """``.harness/`` at ``commit``; nothing is read before it is asked for."""

    repository: Repository
    commit: str

    @cached_property
    def tree(self) -> str:
        """Tree of the commit."""
        return self.repository.commit(self.commit).tree

    @cached_property
    def folder(self) -> str | None:
        """Tree of ``.harness/``, None when the commit has none."""
        return self.repository.folder(self.tree, HARNESS_DIR)

    @property
    def unreadable(self) -> str:
        """Why not even the commit and its top folder can be read, in words; "" when they can."""
        try:
            self.folder  # noqa: B018 - looked up to see whether it can be
        except HarnessError as error:
            return error.message
        return ""

    @property
    def files(self) -> tuple[TreeFile, ...]:
        """Every file below ``.harness/``."""
        return self.repository.files(self.folder)

    @property
    def entry_files(self) -> Iterator[TreeFile]:
        """Files of the four kinds' folders."""
        for name, tree in self.repository.subfolders(self.folder).items():
            if Kind.of_directory(name) is not None:
                for found in self.repository.files(tree):
                    yield TreeFile(f"{name}/{found.path}", found.mode, found.oid)

    @cached_property
    def digest(self) -> str:
        """The entries digest (CONTRACT 2)."""
        return files_digest(self.hashes())

    def hashes(self) -> Iterator[tuple[str, int, str]]:
        """(path, mode, SHA-256 of the content) of every entry file; of a gitlink, SHA-256 of its id."""
        for found in self.entry_files:
            gitlink = found.mode == GITLINK
            digest = sha256_hex(found.oid.encode()) if gitlink else self.repository.content_hash(found.oid)
            yield found.path, found.mode, digest

    def read(self, path: str) -> bytes | None:
        """Content of one file below ``.harness/``."""
        return self.repository.file(self.folder, path) if self.folder else None

    def listing(self, entry: EntryId) -> dict[str, tuple[int, str]]:
        """Files of one entry; {} when the entry is not there."""
        if self.folder is None:
            return {}
        if entry.kind is Kind.SKILL:
            top = f"{entry.kind.directory}/{entry.name}"
            below = self.repository.files(self.repository.folder(self.folder, top))
            return {f"{top}/{f.path}": (f.mode, f.oid) for f in below}
        found = self.repository.entry(self.folder, entry.path)
        return {found.path: (found.mode, found.oid)} if found else {}

    def entry(self, entry: EntryId) -> tuple[EntryFile, ...]:
        """One entry's files with their content, sorted by path; () when it is not there."""
        found = sorted(self.listing(entry).items())
        return tuple(EntryFile(path, mode, self.repository.blob(oid)) for path, (mode, oid) in found)

    def entry_items(self, entry: EntryId) -> tuple[TreeItem, ...]:
        """One entry's files, as the load rules read them."""
        return tuple(self._item(TreeFile(p, mode, oid)) for p, (mode, oid) in self.listing(entry).items())

    def item(self, path: str) -> TreeItem | None:
        """One file below ``.harness/``, as the rules read it; None when it is not there."""
        found = self.repository.entry(self.folder, path) if self.folder else None
        return self._item(TreeFile(path, found.mode, found.oid)) if found else None

    def items(self) -> tuple[TreeItem, ...]:
        """Every file, as the load rules read it."""
        return tuple(self._item(f) for f in self.files)

    def has_record(self, update: str) -> bool:
        """Whether the record of ``update`` is here."""
        return self.folder is not None and self.repository.entry(self.folder, record_path(update)) is not None

    def records(self) -> dict[str, str]:
        """Update id -> blob id of each record file; names that are not a record's are left to the rules."""
        if self.folder is None:
            return {}
        found: dict[str, str] = {}
        months = self.repository.folder(self.folder, UPDATES_DIR)
        for tree in self.repository.subfolders(months).values():
            for item in self.repository.files(tree):
                name = item.path.removesuffix(".json")
                if name != item.path and is_ulid(name):
                    found[name] = item.oid
        return found

    def _item(self, found: TreeFile) -> TreeItem:
        return TreeItem(found.path, found.mode, found.oid, lambda: self.repository.blob(found.oid))


def no_entry(content: Content | None, entry: EntryId, *others: Content) -> NotFoundError:
    """``no_entry``: the error that says so, with the nearest name there is in any of the contents."""
    contents = [content, *others] if content else others
    known = {str(e) for one in contents for f in one.entry_files if (e := entry_of(f.path))}
    where = " at " + " or ".join(one.commit[:12] for one in contents) if contents else ""
    return NotFoundError(
        f"there is no entry '{entry}'{where}",
        id="no_entry",
        hint=f"{suggestion(str(entry), known)}harnessctl list",
    )


def entry_digest(files: tuple[EntryFile, ...]) -> str | None:
    """Content digest of an entry given by its files (CONTRACT 2); None for an entry that is not there."""
    return files_digest((f.path, f.mode, f.sha256) for f in files) if files else None


def files_at(content: Content | None, paths: Iterable[str]) -> dict[str, tuple[int, bytes]]:
    """Mode and bytes of those ``paths`` that are there, by path below the repository's root; {} for None."""
    found: dict[str, tuple[int, bytes]] = {}
    if content is None or content.folder is None:
        return found
    for path in paths:
        item = content.repository.entry(content.folder, path)
        if item is not None:
            found[f".harness/{path}"] = (item.mode, content.repository.blob(item.oid))
    return found
