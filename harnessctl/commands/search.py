"""``search``: entries that hold all of some words."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from dataclasses import dataclass

from harnessctl.domain.entry import Entry
from harnessctl.domain.finding import Finding
from harnessctl.domain.snapshot import Snapshot
from harnessctl.layers.l3_durable.store import HarnessStore


@dataclass(frozen=True)
class Hit:
    """One entry that holds every word.

    :ivar line: the first line of its body that holds one of them, "" when only its head does.
    """

    entry: Entry
    line: str

    def to_json(self) -> dict[str, object]:
        """As ``search --json`` prints it."""
        return self.entry.to_json() | {"line": self.line}


@dataclass(frozen=True)
class Hits:
    """Entries by how near the words stand to their head, and what cannot be read.

    :ivar since: ids of those that have landed since the pin, where the pin has none.
    """

    hits: tuple[Hit, ...]
    broken: tuple[Finding, ...]
    since: tuple[str, ...] = ()


def search(store: HarnessStore, words: str, *, at: str | None = None) -> Hits:
    """Entries at ``at`` (a REV), by default at the pin, that hold all of ``words``, letter case aside.

    Those with all words in id, title, description or tags come first, then the rest, each by id.

    :raises NotFoundError: ``unknown_revision``, ``pin_missing``.
    """
    snapshot = store.snapshot(at)
    wanted = words.casefold().split()
    hits = _hits(snapshot, wanted)
    since = _hits(store.landed_snapshot(), wanted) if at is None and not hits else ()
    return Hits(hits, snapshot.broken, tuple(str(hit.entry.id) for hit in since))


def _hits(snapshot: Snapshot, wanted: list[str]) -> tuple[Hit, ...]:
    ranked = sorted(_ranked(snapshot.entries.values(), wanted), key=lambda found: found[0])
    return tuple(hit for _, hit in ranked)


def _ranked(entries: Iterable[Entry], wanted: list[str]) -> Iterator[tuple[tuple[int, str], Hit]]:
    for entry in entries:
        head = " ".join((str(entry.id), entry.title, entry.description, *entry.tags)).casefold()
        body = entry.body.casefold()
        if all(word in head or word in body for word in wanted):
            lines = (line.strip() for line in entry.body.splitlines())
            line = next((text for text in lines if any(word in text.casefold() for word in wanted)), "")
            yield (0 if all(word in head for word in wanted) else 1, str(entry.id)), Hit(entry, line)
