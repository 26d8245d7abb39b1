"""Where each line of an entry came from: commit, update, and behind a rollback what it restored."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from harnessctl.domain.ids import HARNESS_DIR, EntryId
from harnessctl.domain.update import Record, RecordType
from harnessctl.layers.l3_durable.content import Content, entry_digest, entry_of, no_entry
from harnessctl.layers.l3_durable.git.blame import BlamedLine, blame_file
from harnessctl.layers.l3_durable.git.graph import shallow_commits
from harnessctl.layers.l3_durable.git.repository import Commit, Person
from harnessctl.layers.l3_durable.history.records import steps
from harnessctl.layers.l3_durable.history.updates import Accepters, brought_by
from harnessctl.layers.l3_durable.places.mode import Place

_TOP = f"{HARNESS_DIR}/"


@dataclass(frozen=True)
class Origin:
    """Where a line came from.

    :ivar records: what the commit brought about this entry; several after a squash of several updates
        of it, none for a commit by hand.
    :ivar cut: history ends here: a shallow clone, so the line may be older.
    """

    commit: Commit
    records: tuple[Record, ...]
    accepter: Person
    cut: bool = False


@dataclass(frozen=True)
class Line:
    """One line of an entry.

    :ivar path: file below ``.harness/``.
    :ivar restored: for a line that a rollback brought back, where it came from at first.
    """

    path: str
    n: int
    text: str
    origin: Origin
    restored: Origin | None = None


def blame_entry(place: Place, entry: EntryId, commit: str) -> tuple[Line, ...]:
    """The lines of ``entry`` at ``commit``, file by file.

    :raises NotFoundError: ``no_entry``.
    """
    paths = sorted(Content(place.repository, commit).listing(entry))
    if not paths:
        raise no_entry(Content(place.repository, commit), entry)
    blamer = _Blamer(place)
    return tuple(
        line for path in sorted(paths, key=lambda p: p != entry.path) for line in blamer.file(commit, path)
    )


class _Blamer:
    """One call's lookups, each made once."""

    def __init__(self, place: Place) -> None:
        self._place = place
        self._accepters = Accepters(place)
        self._shallow = shallow_commits(place.repository)
        self._origins: dict[tuple[str, str], Origin] = {}
        self._files: dict[tuple[str, str], Sequence[BlamedLine]] = {}
        self._restored: dict[tuple[str, str], str | None] = {}

    def file(self, commit: str, path: str) -> list[Line]:
        return [
            Line(path, line.n, line.text, self._origin(line), self._first(line))
            for line in self._blamed(commit, path)
        ]

    def _blamed(self, commit: str, path: str) -> Sequence[BlamedLine]:
        key = commit, path
        if key not in self._files:
            variables = self._place.environment.variables
            self._files[key] = blame_file(self._place.repository, variables, commit, _TOP + path)
        return self._files[key]

    def _origin(self, line: BlamedLine) -> Origin:
        key = line.commit, line.path
        if key not in self._origins:
            self._origins[key] = self._find(*key)
        return self._origins[key]

    def _find(self, commit: str, path: str) -> Origin:
        found = self._place.repository.commit(commit)
        if commit in self._shallow:
            return Origin(found, (), found.committer, cut=True)
        entry = str(entry_of(path.removeprefix(_TOP)))
        records = tuple(
            r
            for r in brought_by(self._place, commit)
            if r.type is not RecordType.DECISION and any(c.id == entry for c in r.entries)
        )
        accepter = self._accepters.of(found, records[0] if records else None)
        return Origin(found, records, accepter)

    def _first(self, line: BlamedLine) -> Origin | None:
        """Behind a rollback: where the line came from before it was taken away and brought back."""
        found = self._origin(line)
        if not any(r.type is RecordType.ROLLBACK for r in found.records):
            return None
        path = line.path.removeprefix(_TOP)
        before = self._state_before(line.commit, path)
        if before is None:
            return None
        lines = self._blamed(before, path)
        older = lines[line.then - 1]
        return self._first(older) or self._origin(older)

    def _state_before(self, commit: str, path: str) -> str | None:
        """The newest older commit that left the entry as the rollback ``commit`` restored it."""
        key = commit, path
        if key not in self._restored:
            self._restored[key] = self._search(commit, path)
        return self._restored[key]

    def _search(self, commit: str, path: str) -> str | None:
        entry = entry_of(path)
        if entry is None:
            return None
        repository = self._place.repository
        wanted = entry_digest(Content(repository, commit).entry(entry))
        for step in steps(repository, repository.commit(commit).parents):
            here = Content(repository, step.commit)
            if str(entry) in step.entries and entry_digest(here.entry(entry)) == wanted:
                return step.commit
        return None
