"""Records read from trees and from history: which commit brought which update, which entries it changed."""

from __future__ import annotations

import json
from collections.abc import Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass

from harnessctl.domain.errors import HarnessError
from harnessctl.domain.ids import HARNESS_DIR, UPDATES_DIR, is_ulid, record_path
from harnessctl.domain.update import Record
from harnessctl.layers.l3_durable.content import POLICY, Content, entry_of
from harnessctl.layers.l3_durable.git.graph import Node, node, nodes
from harnessctl.layers.l3_durable.git.repository import Repository
from harnessctl.layers.l3_durable.git.treediff import Sides, differing


def read_record(data: bytes) -> Record:
    """A record file's bytes as a record.

    :raises HarnessError: ``bad_record``: not one; the load rules say where.
    """
    try:
        return Record.from_json(json.loads(data))
    except (ValueError, KeyError, TypeError, AttributeError, RecursionError, OverflowError) as error:
        raise HarnessError(f"a record cannot be read: {error}", id="bad_record") from error


def find_record(content: Content, update: str) -> Record | None:
    """The record of ``update`` at a commit, None when it is absent or unreadable."""
    try:
        data = content.read(record_path(update))
        return read_record(data) if data is not None else None
    except (HarnessError, ValueError):
        return None


@dataclass(frozen=True, slots=True)
class Step:
    """What one commit of harness history did.

    :ivar records: (update id, blob id) of record files that none of its parents has.
    :ivar entries: ids of entries that are other than in every parent; a merge of what both sides
        did to different entries has none.
    :ivar changed: something that people may change is other than in every parent: a file below the kinds'
        folders, strangers too, the policy, or a record that was there.
    """

    commit: str
    records: tuple[tuple[str, str], ...] = ()
    entries: tuple[str, ...] = ()
    changed: bool = False

    @property
    def updates(self) -> tuple[str, ...]:
        """Ids of the updates it brought, sorted."""
        return tuple(update for update, _ in self.records)


def steps(repository: Repository, tips: Sequence[str], hidden: Sequence[str] = ()) -> Iterator[Step]:
    """History from ``tips`` back to ``hidden``, newest first."""
    folders = Folders(repository)
    for found in nodes(repository, tips, hidden):
        yield make_step(repository, found, folders)


def step(repository: Repository, commit: str) -> Step:
    """What one commit did."""
    return make_step(repository, node(repository, commit), Folders(repository))


class Folders:
    """Commit -> tree of ``.harness/``; each is looked up once, as a commit and as a parent."""

    def __init__(self, repository: Repository) -> None:
        self._repository = repository
        self._known: dict[str, str | None] = {}

    def of(self, commit: str, tree: str = "") -> str | None:
        """The tree of ``.harness/`` at ``commit``, None when it has none."""
        if commit not in self._known:
            root = tree or self._repository.commit(commit).tree
            self._known[commit] = self._repository.subfolders(root).get(HARNESS_DIR)
        return self._known[commit]


def make_step(repository: Repository, found: Node, folders: Folders) -> Step:
    """What the commit ``found`` did, compared with every one of its parents."""
    mine = folders.of(found.id, found.tree)
    theirs = [folders.of(parent) for parent in found.parents] or [None]
    if mine in theirs:
        return Step(found.id)
    return step_from(found.id, [differing(repository.raw, parent, mine) for parent in theirs])


def step_from(commit: str, sides: Sequence[Mapping[str, Sides]]) -> Step:
    """The step of a commit from what differs below ``.harness/`` between each parent and it."""
    paths = set.intersection(*(set(found) for found in sides))
    new = {path: sides[0][path][1] for path in paths if all(found[path][0] is None for found in sides)}
    records = sorted((update, oid) for path, oid in new.items() if oid and (update := _update(path)))
    entries = {str(entry) for path in paths if (entry := entry_of(path)) is not None}
    changed = any(_is_change(path, new=path in new) for path in paths)
    return Step(commit, tuple(records), tuple(sorted(entries)), changed)


def _is_change(path: str, *, new: bool) -> bool:
    """Whether a path counts as changed; a record that comes is an update, a policy that comes a beginning."""
    if path == POLICY:
        return not new
    return "/" in path and not (new and _update(path))


def _update(path: str) -> str:
    """The update whose record ``path`` is, "" for any other path."""
    if not path.startswith(f"{UPDATES_DIR}/"):
        return ""
    name = path.rpartition("/")[2].removesuffix(".json")
    return name if is_ulid(name) and path.endswith(".json") else ""


def new_records(old: Content | None, new: Content) -> dict[str, str]:
    """Update id -> blob id of the record files that ``new`` has and ``old`` (None: nothing) lacks."""
    sides = differing(new.repository.raw, _updates(old), _updates(new))
    added = ((path, after) for path, (before, after) in sides.items() if before is None and after)
    return {update: oid for path, oid in added if (update := _update(f"{UPDATES_DIR}/{path}"))}


def _updates(content: Content | None) -> str | None:
    if content is None or content.folder is None:
        return None
    return content.repository.folder(content.folder, UPDATES_DIR)


def records_since(old: Content | None, new: Content) -> dict[str, Record]:
    """Readable records that ``new`` has and ``old`` lacks; their gists alone are quicker to come by."""
    found = {}
    for update, oid in new_records(old, new).items():
        with suppress(HarnessError):
            found[update] = read_record(new.repository.blob(oid))
    return found
