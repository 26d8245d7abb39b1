"""``diff``: what changes between two revisions of the harness, and what that does to the prompt."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass

from harnessctl.config import PROMPT_TOKENS
from harnessctl.domain.entry import Entry
from harnessctl.domain.ids import HARNESS_DIR, EntryId
from harnessctl.layers.l1_context.harness import Place, Rendered, render_harness
from harnessctl.layers.l1_context.tokens import rough_tokens
from harnessctl.layers.l3_durable.checking.ownership import read_entry
from harnessctl.layers.l3_durable.content import Content, entry_of
from harnessctl.layers.l3_durable.git.patch import FilePatch
from harnessctl.layers.l3_durable.store import HarnessStore


@dataclass(frozen=True)
class EntryDifference:
    """One entry that differs.

    :ivar before: estimated tokens of the entry's main file, None where there is no such entry.
    :ivar shown_before: where the prompt has it (``full``, ``line``, ``search``), None as above.
    """

    id: str
    before: int | None
    after: int | None
    shown_before: Place | None
    shown_after: Place | None

    @property
    def action(self) -> str:
        """``create``, ``update`` or ``delete``."""
        return "create" if self.before is None else "delete" if self.after is None else "update"

    def to_json(self) -> dict[str, object]:
        """As ``diff --json`` prints it."""
        return {
            "id": self.id,
            "action": self.action,
            "tokens": {"before": self.before, "after": self.after},
            "shown": {"before": self.shown_before, "after": self.shown_after},
        }


@dataclass(frozen=True)
class Difference:
    """The change from ``before`` to ``after``, full commit ids; records are left out.

    :ivar prompt: estimated tokens of the rendered harness before and after, whole.
    """

    before: str
    after: str
    files: tuple[FilePatch, ...]
    changes: tuple[EntryDifference, ...]
    prompt: tuple[int, int]

    @property
    def patch(self) -> bytes:
        """Unified patch text."""
        return b"".join(f.data for f in self.files)

    @property
    def entries(self) -> tuple[str, ...]:
        """Entries that differ, sorted."""
        return tuple(change.id for change in self.changes)

    def to_json(self) -> dict[str, object]:
        """As ``diff --json`` prints it."""
        return {
            "before": self.before,
            "after": self.after,
            "entries": list(self.entries),
            "changes": [change.to_json() for change in self.changes],
            "prompt_tokens": {
                "before": self.prompt[0],
                "after": self.prompt[1],
                "change": self.prompt[1] - self.prompt[0],
            },
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
    store: HarnessStore,
    before: str | None = None,
    after: str | None = None,
    *,
    entry: str | None = None,
    prompt_tokens: int = PROMPT_TOKENS,
) -> Difference:
    """The change from ``before`` to ``after`` (REVs).

    With none named, from the pin to the landed tip: what the next run does not read yet. With one, from
    that one to the landed tip.

    :param prompt_tokens: budget of the rendered harness.
    :raises NotFoundError: ``unknown_revision``, ``not_initialised``.
    """
    one = store.resolve(before) if before else store.pin(allow_revoked=True).commit
    other = store.resolve(after) if after else store.landed_tip()
    wanted = EntryId.parse(entry) if entry is not None else None
    files = store.patch(one, other)
    differing = sorted({found for f in files if (found := _entry(f)) is not None})
    old = store.snapshot_at(one).entries
    new = _later(old, differing, store.content(other) if other else None)
    shown = render_harness(old.values(), prompt_tokens), render_harness(new.values(), prompt_tokens)
    return Difference(
        one,
        other,
        tuple(f for f in files if wanted is None or _entry(f) == wanted),
        tuple(_change(str(e), (old, new), shown) for e in differing if wanted in (None, e)),
        (shown[0].tokens, shown[1].tokens),
    )


def _later(old: Mapping[str, Entry], differing: list[EntryId], content: Content | None) -> dict[str, Entry]:
    """The entries before with anew what differs, so that 10,000 are read once and not twice."""
    new = dict(old)
    for entry in differing:
        read = _read(content, entry)
        if read is None:
            new.pop(str(entry), None)
        else:
            new[str(entry)] = read
    return new


def _read(content: Content | None, entry: EntryId) -> Entry | None:
    return read_entry(entry, content.entry(entry)) if content else None


def _change(
    entry: str, entries: tuple[Mapping[str, Entry], Mapping[str, Entry]], shown: tuple[Rendered, Rendered]
) -> EntryDifference:
    tokens = [_tokens(side.get(entry)) for side in entries]
    places = [side.places.get(entry) for side in shown]
    return EntryDifference(entry, tokens[0], tokens[1], places[0], places[1])


def _tokens(entry: Entry | None) -> int | None:
    return rough_tokens(entry.main.data.decode("utf-8", "replace")) if entry else None


def _entry(file: FilePatch) -> EntryId | None:
    return entry_of(file.path.removeprefix(f"{HARNESS_DIR}/"))
