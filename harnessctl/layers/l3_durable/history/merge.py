"""Three-way merge by entry, from blobs: nothing of a file is ever mixed with another version of it."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from harnessctl.domain.ids import UPDATES_DIR, EntryId
from harnessctl.layers.l3_durable.content import Content, entry_of
from harnessctl.layers.l3_durable.git.treediff import differing

#: path below ``.harness/`` -> (mode, blob id), None to remove
TreeEdits = dict[str, tuple[int, str] | None]


@dataclass(frozen=True)
class Merged:
    """What a proposal asks of the tip.

    :ivar edits: what to change on the tip.
    :ivar conflicts: entries that both sides changed, each to something else.
    :ivar strangers: paths that are no entry and no record: an update has no business there.
    """

    edits: TreeEdits
    conflicts: tuple[str, ...]
    strangers: tuple[str, ...]


def changed_entries(before: Content | None, after: Content | None) -> tuple[list[EntryId], list[str]]:
    """Entries that differ between two commits, and other paths that do."""
    known = before or after
    if known is None:
        return [], []
    folders = [content.folder if content else None for content in (before, after)]
    paths = sorted(differing(known.repository.raw, folders[0], folders[1]))
    entries = {found for found in map(entry_of, paths) if found is not None}
    return sorted(entries), [p for p in paths if entry_of(p) is None]


def merge(base: Content, theirs: Content, tip: Content) -> Merged:
    """Bring the change from ``base`` to ``theirs`` to ``tip``."""
    entries, others = changed_entries(base, theirs)
    edits: TreeEdits = {}
    conflicts = []
    for entry in entries:
        old, new, now = base.listing(entry), theirs.listing(entry), tip.listing(entry)
        if now == new:
            continue
        if now != old:
            conflicts.append(str(entry))
        edits |= replacing(now, new)
    records = [p for p in others if p.startswith(f"{UPDATES_DIR}/")]
    edits |= _new_files(records, theirs)
    return Merged(edits, tuple(conflicts), tuple(p for p in others if p not in set(records)))


def replacing(now: dict[str, tuple[int, str]], new: dict[str, tuple[int, str]]) -> TreeEdits:
    """The edits that turn the files ``now`` into the files ``new``."""
    gone: TreeEdits = {path: None for path in now if path not in new}
    return gone | {path: item for path, item in new.items() if now.get(path) != item}


def _new_files(paths: Iterable[str], theirs: Content) -> TreeEdits:
    found: TreeEdits = {}
    for path in paths:
        item = theirs.repository.entry(theirs.folder, path) if theirs.folder else None
        if item is not None:
            found[path] = (item.mode, item.oid)
    return found
