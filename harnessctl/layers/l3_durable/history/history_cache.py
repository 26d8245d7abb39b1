"""What each commit of harness history did, kept in the state directory: speed only.

Everything here is derived from objects named by the hash of their content: a commit's step and the
gist of a record's blob never change. A batch counts only sealed
(:mod:`harnessctl.layers.l3_durable.places.sealed`); a lost, torn or forged one is as if it were not there,
and the commits are read anew. In shallow clones nothing is kept, because there a commit's parents
may be other tomorrow.

One line a batch:
``{"form", "steps": {commit: [[[update, blob]…], [entry…], changed]}, "gists": {blob: [...]|null}}``.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harnessctl.domain.errors import HarnessError
from harnessctl.domain.ids import HARNESS_DIR
from harnessctl.domain.update import Record, RecordType, Verdict
from harnessctl.layers.l3_durable.git.changes import changes
from harnessctl.layers.l3_durable.git.graph import Node, has_grafts
from harnessctl.layers.l3_durable.git.repository import Repository
from harnessctl.layers.l3_durable.history.records import Folders, Step, make_step, read_record, step_from
from harnessctl.layers.l3_durable.places.mode import Place
from harnessctl.layers.l3_durable.places.sealed import SealedLines

FILE = "history"
#: Raised whenever what is kept changes its meaning.
FORM = 3
#: Commits from which on git is asked for all at one go; a process start costs about as much.
MANY = 200


@dataclass(frozen=True, slots=True)
class Gist:
    """The part of a record that states and lists are derived from."""

    type: RecordType
    entries: tuple[str, ...]
    sessions: tuple[str, ...] = ()
    takes_back: tuple[str, ...] = ()
    of: str | None = None
    verdict: Verdict | None = None

    @classmethod
    def of_record(cls, record: Record) -> Gist:
        """The gist of ``record``."""
        return cls(
            record.type,
            tuple(change.id for change in record.entries),
            tuple(evidence.session for evidence in record.evidence),
            record.takes_back,
            record.of,
            record.verdict,
        )

    def to_row(self) -> list[Any]:
        """As a line of the file holds it."""
        return [self.type, self.entries, self.sessions, self.takes_back, self.of, self.verdict]

    @classmethod
    def from_row(cls, row: list[Any]) -> Gist:
        """The reverse of :meth:`to_row`."""
        kind, entries, sessions, takes_back, of, verdict = row
        return cls(
            RecordType(kind),
            tuple(entries),
            tuple(sessions),
            tuple(takes_back),
            of,
            Verdict(verdict) if verdict else None,
        )


class HistoryCache:
    """Steps and gists of one repository.

    :param path: the file, made when it is first saved; None keeps nothing on disk.
    :param key: the HMAC key, see :func:`harnessctl.layers.l3_durable.places.sealed.read_key`.
    """

    def __init__(self, path: Path | None = None, key: bytes = b"") -> None:
        self._lines = SealedLines(path, key)
        self._steps: dict[str, Step] = {}
        self._gists: dict[str, Gist | None] = {}
        self._new_steps: list[Step] = []
        self._new_gists: list[str] = []
        for batch in self._lines.read():
            self._take(batch)

    def steps(self, place: Place, found: Sequence[Node]) -> Iterator[Step]:
        """The step of each node, kept or made, in the same order."""
        repository = place.repository
        folders, keep = Folders(repository), not has_grafts(repository)
        unknown = [node for node in found if node.id not in self._steps]
        if keep and len(unknown) >= MANY:
            self._ask_git(place, found, unknown)
        for node in found:
            known = self._steps.get(node.id) if keep else None
            if known is None:
                known = make_step(repository, node, folders)
                if keep:
                    self._keep(known)
            yield known

    def _keep(self, step: Step) -> None:
        self._steps[step.commit] = step
        self._new_steps.append(step)

    def _ask_git(self, place: Place, found: Sequence[Node], unknown: Sequence[Node]) -> None:
        """Make many steps from one answer of git's; without git they are made one by one.

        What is known is hidden from git where it can be: it says nothing of what stands behind that, so
        nothing unknown may. Children come before their parents in ``found``: that holds when no known
        commit comes before an unknown one.
        """
        newest = all(node.id not in self._steps for node in found[: len(unknown)])
        asked = unknown if newest else found
        ids = {node.id for node in asked}
        parents = {parent for node in asked for parent in node.parents}
        tips, hidden = sorted(ids - parents), sorted(parents - ids)
        if len(tips) + len(hidden) > MANY:
            return
        try:
            variables = place.environment.variables
            sides = changes(place.repository, variables, tips, hidden, HARNESS_DIR)
        except HarnessError:
            return
        for node in unknown:
            mine = sides.get(node.id, [])
            whole = len(mine) == max(1, len(node.parents))
            self._keep(step_from(node.id, mine) if whole else Step(node.id))

    def gist(self, repository: Repository, blob: str) -> Gist | None:
        """The gist of the record ``blob``, None when it cannot be read as one."""
        if blob not in self._gists:
            if not repository.has(blob):  # of a partial clone; it may be fetched
                return None
            self._gists[blob] = _read(repository, blob)
            self._new_gists.append(blob)
        return self._gists[blob]

    def save(self) -> None:
        """Append what is new. A failure costs time at the next call, nothing else."""
        if self._new_steps or self._new_gists:
            self._lines.append([self._batch()])
        self._new_steps.clear()
        self._new_gists.clear()

    def _batch(self) -> bytes:
        steps = {s.commit: [s.records, s.entries, s.changed] for s in self._new_steps}
        gists = {b: g.to_row() if (g := self._gists[b]) else None for b in self._new_gists}
        batch = {"form": FORM, "steps": steps, "gists": gists}
        return json.dumps(batch, separators=(",", ":")).encode()

    def _take(self, batch: dict[str, Any]) -> None:
        if batch["form"] != FORM:
            return
        for commit, (records, entries, changed) in batch["steps"].items():
            pairs = tuple((update, blob) for update, blob in records)
            self._steps[commit] = Step(commit, pairs, tuple(entries), changed)
        for blob, row in batch["gists"].items():
            self._gists[blob] = Gist.from_row(row) if row else None


def _read(repository: Repository, blob: str) -> Gist | None:
    try:
        return Gist.of_record(read_record(repository.blob(blob)))
    except HarnessError:
        return None
