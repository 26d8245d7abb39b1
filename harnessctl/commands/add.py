"""``add``: a person writes an entry."""

from __future__ import annotations

from pathlib import Path

from harnessctl.domain.entry import EntryFile
from harnessctl.domain.ids import EntryId
from harnessctl.layers.l3_durable.files.tree import FILE
from harnessctl.layers.l3_durable.landing.adding import Addition, read_files, refuse_large
from harnessctl.layers.l3_durable.landing.landed import Landed
from harnessctl.layers.l3_durable.rules.load_rules import MAX_MAIN_FILE
from harnessctl.layers.l3_durable.store import HarnessStore

#: Bytes to read of standard input: enough to see that it is too much.
ENOUGH = MAX_MAIN_FILE + 1


def add(store: HarnessStore, entry: str, source: Path | bytes, *, summary: str = "", why: str = "") -> Landed:
    """Write ``entry`` (``kind/name``) from a file, a skill's folder, or bytes read from standard input.

    To say afterwards: branch mode, the commit, how many updates the next run will not read
    (``unread``), and "not pushed" when ``pushed`` is False; in-tree mode (``written``), "commit them".

    :raises HarnessError: ``invalid_entry`` (an ``InvalidError`` with ``findings``), ``branch_in_use``.
    :raises ConflictError: in-tree, ``uncommitted``: it would overwrite what is not committed.
    :raises RefusedError: ``agent_refused``, ``secret_found``; nothing was written.
    :raises UsageError: ``bad_entry_id``, ``no_identity``, ``nothing_changed``.
    """
    wanted = EntryId.parse(entry)
    if isinstance(source, bytes):
        files: tuple[EntryFile, ...] = (EntryFile(wanted.path, FILE, refuse_large(wanted.path, source)),)
    else:
        files = read_files(wanted, source)
    return store.add(Addition(wanted, files, summary, why))
