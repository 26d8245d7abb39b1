"""``diff``: what changes between two revisions of the harness."""

from __future__ import annotations

from dataclasses import dataclass

from harnessctl.domain.ids import HARNESS_DIR, EntryId
from harnessctl.layers.l3_durable.content import entry_of
from harnessctl.layers.l3_durable.git.patch import FilePatch
from harnessctl.layers.l3_durable.store import HarnessStore


@dataclass(frozen=True)
class Difference:
    """The change from ``before`` to ``after``, full commit ids; records are left out."""

    before: str
    after: str
    files: tuple[FilePatch, ...]

    @property
    def patch(self) -> bytes:
        """Unified patch text."""
        return b"".join(f.data for f in self.files)

    @property
    def entries(self) -> tuple[str, ...]:
        """Entries that differ, sorted."""
        found = (entry_of(f.path.removeprefix(f"{HARNESS_DIR}/")) for f in self.files)
        return tuple(sorted({str(e) for e in found if e}))

    def to_json(self) -> dict[str, object]:
        """As ``diff --json`` prints it."""
        return {
            "before": self.before,
            "after": self.after,
            "entries": list(self.entries),
            "files": [
                {
                    "path": f.path,
                    "status": f.status,
                    "added": f.added,
                    "removed": f.removed,
                    "binary": f.binary,
                }
                for f in self.files
            ],
            "patch": self.patch.decode("utf-8", "replace"),
        }


def diff(
    store: HarnessStore, before: str | None = None, after: str | None = None, *, entry: str | None = None
) -> Difference:
    """The change from ``before`` to ``after`` (REVs).

    With none named, from the pin to the landed tip: what the next run does not read yet. With one, from
    that one to the landed tip.

    :raises NotFoundError: ``unknown_revision``, ``not_initialised``.
    """
    one = store.resolve(before) if before else store.pin(allow_revoked=True).commit
    other = store.resolve(after) if after else store.landed_tip()
    files = store.patch(one, other)
    if entry is not None:
        wanted = EntryId.parse(entry)
        files = tuple(f for f in files if entry_of(f.path.removeprefix(f"{HARNESS_DIR}/")) == wanted)
    return Difference(one, other, files)
