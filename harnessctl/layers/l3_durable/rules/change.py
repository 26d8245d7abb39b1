"""What a change touches: two trees of ``.harness/`` compared file by file."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import UTC, date, datetime
from functools import cached_property

from harnessctl.domain.ids import EntryId, Kind
from harnessctl.layers.l3_durable.files.tree import TreeItem


@dataclass(frozen=True, slots=True)
class Change:
    """One file before and after; None where it is not there."""

    path: str
    before: TreeItem | None
    after: TreeItem | None


def compare(bases: Sequence[Iterable[TreeItem]], after: Iterable[TreeItem]) -> tuple[Change, ...]:
    """Files of ``after`` that differ from every one of ``bases``, sorted by path.

    With no base everything is new. A merge has two bases: what came unchanged from either side was
    judged there, and only what the merge itself made is its change.
    """
    maps = [{item.path: item for item in base} for base in bases] or [{}]
    now = {item.path: item for item in after}
    paths = set(now).union(*maps)
    first = maps[0]
    return tuple(
        Change(path, first.get(path), now.get(path))
        for path in sorted(paths)
        if all(_differs(base.get(path), now.get(path)) for base in maps)
    )


def _differs(one: TreeItem | None, other: TreeItem | None) -> bool:
    if one is None or other is None:
        return one is not other
    return (one.oid, one.mode) != (other.oid, other.mode)


def today() -> date:
    """The current day, UTC: what ``expires`` is compared with."""
    return datetime.now(UTC).date()


@dataclass(frozen=True)
class LintContext:
    """What lint rules need beside the files.

    :ivar after: the whole tree after the change, by path.
    :ivar before: the whole tree before it.
    :ivar allow: digests of strings that are known to be no secrets.
    """

    after: Mapping[str, TreeItem] = field(default_factory=dict)
    before: Mapping[str, TreeItem] = field(default_factory=dict)
    allow: frozenset[str] = frozenset()
    today: date = field(default_factory=today)

    def beside(self, entry: EntryId) -> tuple[TreeItem, ...]:
        """All files of a skill after the change; of another entry none that count."""
        return tuple(self._skills.get(entry.name, ())) if entry.kind is Kind.SKILL else ()

    @cached_property
    def _skills(self) -> dict[str, list[TreeItem]]:
        found: dict[str, list[TreeItem]] = {}
        for path, item in self.after.items():
            head, _, rest = path.partition("/")
            if head == Kind.SKILL.directory:
                found.setdefault(rest.partition("/")[0], []).append(item)
        return found
