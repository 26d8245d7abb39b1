"""All entries at one commit, read-only."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from functools import cached_property

from harnessctl.domain.canonical import files_digest
from harnessctl.domain.entry import Entry
from harnessctl.domain.finding import Finding

#: Schema version of the files under ``.harness/``. Load rules are frozen per version.
SCHEMA_VERSION = 1


@dataclass(frozen=True)
class Snapshot:
    """Entries at one commit.

    :ivar commit: full commit id, "" for the empty harness of a repository without one.
    :ivar tree: id of the commit's tree, "" as above.
    :ivar entries: by id text, sorted; only entries that pass the load rules.
    :ivar broken: what failed the load rules; never silently dropped.
    :ivar files: (path, mode, SHA-256) of every entry file, broken ones included, so that the
        entries digest says the same whether or not this version can read them all.
    :ivar policy: bytes of ``harness.toml``, b"" when absent.
    """

    commit: str = ""
    tree: str = ""
    entries: Mapping[str, Entry] = field(default_factory=dict)
    broken: tuple[Finding, ...] = ()
    files: tuple[tuple[str, int, str], ...] = ()
    policy: bytes = b""
    schema: int = SCHEMA_VERSION

    @cached_property
    def digest(self) -> str:
        """The entries digest: one digest over all entries, records and policy left out."""
        return files_digest(self.files)
