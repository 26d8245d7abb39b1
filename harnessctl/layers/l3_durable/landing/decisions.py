"""Decisions that could not land at once: in-tree, with the branch checked out, they wait under a ref.

The next landing takes them along; until then they count as made.
"""

from __future__ import annotations

from collections.abc import Callable
from contextlib import suppress
from dataclasses import replace

from harnessctl.domain.entry import EntryFile
from harnessctl.domain.errors import ConflictError
from harnessctl.domain.ids import record_path
from harnessctl.domain.update import Record, Verdict
from harnessctl.layers.l3_durable.content import Content
from harnessctl.layers.l3_durable.git.refs import LostRaceError
from harnessctl.layers.l3_durable.history.records import find_record
from harnessctl.layers.l3_durable.landing.writer import Change, Moved, Writer
from harnessctl.layers.l3_durable.places.mode import Place
from harnessctl.layers.l3_durable.places.names import DECISIONS


def park(writer: Writer, record: Record, change: Change) -> str:
    """Keep a decision for the next landing; the ref's commit."""
    commit, _ = writer.build(record.base, change)
    writer.settle(DECISIONS + record.id, None, commit, "decide", "parked")
    return commit


def land(writer: Writer, plan: Callable[[Content], Change], instead: str = "") -> Moved:
    """Land ``plan`` together with every waiting decision, then take their refs away.

    :param instead: as :meth:`Writer.land` takes it.
    """
    waiting = writer.place.repository.refs.list(DECISIONS)
    files = _files(writer.place, waiting)

    def with_decisions(tip: Content) -> Change:
        change = plan(tip)
        # One may have landed already, where its ref could not be taken away any more.
        new = {path: file for path, file in files.items() if tip.item(path) is None}
        return replace(change, edits={**new, **change.edits}) if new else change

    moved = writer.land(with_decisions, instead)
    for name, commit in waiting.items():
        with suppress(LostRaceError, ConflictError):
            writer.settle(name, commit, None, "decision landed", "unparked")
    return moved


def rejected_waiting(place: Place) -> frozenset[str]:
    """Updates that a waiting decision rejects."""
    found = place.repository.refs.list(DECISIONS)
    records = (find_record(Content(place.repository, c), n.removeprefix(DECISIONS)) for n, c in found.items())
    return frozenset(r.of for r in records if r is not None and r.verdict is Verdict.REJECTED and r.of)


def _files(place: Place, waiting: dict[str, str]) -> dict[str, EntryFile]:
    found = {}
    for name, commit in waiting.items():
        path = record_path(name.removeprefix(DECISIONS))
        content = Content(place.repository, commit)
        data = None if content.unreadable else content.read(path)  # doctor names what cannot be read
        if data is not None:
            found[path] = EntryFile(path, 0o100644, data)
    return found
