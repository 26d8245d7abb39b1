"""``harness.propose`` in a cell: a wish in the log, seen by this session at once, a proposal at its end.

A wish is a ``propose`` event. It is judged when the cell asks, by the rules that every proposal is
judged by, and brought onto the disk before the cell goes on. At the end of the session the wishes of
each entry become one proposal. What a crash kept from that is found by :func:`pick_up`, which a resume,
the next run and ``refine`` call; ``proposals.json`` beside the log says what is done already.
"""

from __future__ import annotations

import fcntl
import json
from collections.abc import Callable, Collection, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harnessctl.domain.errors import ConflictError, HarnessError
from harnessctl.domain.event import Event, EventType
from harnessctl.domain.ids import EntryId
from harnessctl.domain.plain_files import read_small
from harnessctl.domain.trajectory import Trajectory
from harnessctl.rlm.door import Handler
from harnessctl.rlm.journal import Journal
from harnessctl.rlm.log import LOG_NAME, open_log, read_trajectory
from harnessctl.rlm.ports import Proposer
from harnessctl.rlm.proposed_edits import edit_of, proposed_by_entry, standing
from harnessctl.rlm.recorder import StorageError
from harnessctl.rlm.result import write_whole

STATE_NAME = "proposals.json"
#: Bytes of it that are read: it holds numbers of events.
MOST = 16 * 1024 * 1024
#: Failures after which the same wish may still become a proposal, later and unchanged.
_LATER = frozenset({"no_identity", "storage", "moved_ref"})


@dataclass(frozen=True, slots=True)
class Settled:
    """What became of a session's wishes for one entry.

    :ivar session: who wished.
    :ivar events: numbers of the ``propose`` events.
    :ivar update: id of the proposal, "" when there is none.
    :ivar refused: why there is none, in words; "" where the wishes undid each other.
    """

    session: str
    entry: str
    events: tuple[int, ...]
    update: str = ""
    commit: str = ""
    summary: str = ""
    refused: str = ""

    def to_json(self) -> dict[str, Any]:
        """As it stands in ``result.json`` and in the log."""
        return {
            "session": self.session,
            "entry": self.entry,
            "events": list(self.events),
            "update": self.update or None,
            "commit": self.commit or None,
            "summary": self.summary,
            "refused": self.refused,
        }


class Proposing:
    """What a session's cells wish to be remembered; a room of the door.

    :param known: ids of the entries that the session reads.
    :param settled: gets what became of it, at the session's end.
    """

    def __init__(
        self,
        journal: Journal,
        proposer: Proposer,
        folder: Path,
        known: Collection[str],
        settled: list[Settled],
    ) -> None:
        self._known = known
        self._settled = settled
        self._journal = journal
        self._proposer = proposer
        self._folder = folder

    def handlers(self) -> Mapping[str, Handler]:
        """By the name of the request."""
        return {"harness.propose": self.propose, "harness.proposed": self.proposed}

    async def propose(self, wish: Mapping[str, Any]) -> str:
        """Take in a wish; words for the cell.

        :raises HarnessError: it cannot become a proposal, or not be written down.
        """
        events = self._journal.events
        edit = edit_of(wish, events, self._known)
        entry = str(EntryId.parse(f"{edit['kind']}/{edit['name']}"))
        earlier = [event.data["edit"] for event in proposed_by_entry(events).get(entry, ())]
        judged = self._proposer.judge([*earlier, edit], self._trajectory())
        data = {
            "text": f"{judged.action} {entry}: {edit['reason']}",
            "entry": entry,
            "action": judged.action,
            "edit": edit,
            "shown": judged.entry,
            "notes": list(judged.notes),
        }
        self._say_that_something_waits()
        self._journal.record(EventType.PROPOSE, data, turn=self._journal.tally.last_turn)
        self._journal.sync()
        said = (
            f"Proposed: {judged.action} {entry}. This session has it from now on; later ones have it when a "
        )
        return said + "person has accepted it." + "".join(f" Note: {note}." for note in judged.notes)

    async def proposed(self, _: Mapping[str, Any]) -> list[dict[str, Any]]:
        """What the session wishes so far, as entries for cells."""
        return standing(self._journal.events)

    def settle(self) -> tuple[Settled, ...]:
        """Make proposals of what is not one yet; harmless when repeated."""
        with suppress(StorageError):
            self._journal.sync()  # evidence is on the disk before anything stands on it
        new = _settle(self._trajectory(), self._folder, self._proposer)
        if new:
            data = {"why": "proposals", "proposals": [one.to_json() for one in new]}
            with suppress(StorageError):
                self._journal.record(EventType.CHECKPOINT, data)
        self._settled += new
        return new

    def _say_that_something_waits(self) -> None:
        """Before the wish is written: what a crash left is looked for where this says so."""
        try:
            replace(_State.read(self._folder), waits=True).write(self._folder)
        except OSError as error:
            raise StorageError(self._folder / STATE_NAME, error) from error

    def _trajectory(self) -> Trajectory:
        return Trajectory(self._folder.name, tuple(self._journal.events))


def pick_up(folder: Path, proposer_of: Callable[[Trajectory], Proposer]) -> tuple[Settled, ...]:
    """Make the proposals that the session in ``folder`` left as wishes when it was cut off.

    Nothing is done for a session that a process writes to; the log is locked meanwhile, so that two
    do not pick up the same.

    :param proposer_of: called only when there is something to do.
    :raises HarnessError: what the session read is gone, or its log cannot be read.
    """
    if not (folder / STATE_NAME).exists() or not _State.read(folder).waits:
        return ()
    with open_log(folder / LOG_NAME) as log:
        try:
            fcntl.flock(log, fcntl.LOCK_EX | fcntl.LOCK_NB)
        except OSError:
            return ()
        trajectory = read_trajectory(folder)
        if not proposed_by_entry(trajectory.events):
            return ()
        return _settle(trajectory, folder, proposer_of(trajectory))


def _settle(trajectory: Trajectory, folder: Path, proposer: Proposer) -> tuple[Settled, ...]:
    state, found = _State.read(folder), []
    for entry, events in proposed_by_entry(trajectory.events).items():
        if all(event.n in state.done for event in events):
            continue
        one, later = _propose(entry, events, trajectory, proposer)
        found.append(one)
        if not later:
            state.done.update(one.events)
    if found:
        state.waits = any(event.n not in state.done for event in _wishes(trajectory.events))
        with suppress(OSError):
            state.write(folder)
    return tuple(found)


def _propose(
    entry: str, events: Sequence[Event], trajectory: Trajectory, proposer: Proposer
) -> tuple[Settled, bool]:
    """What became of the wishes ``events``, and whether to try again later."""
    numbers = tuple(event.n for event in events)
    try:
        made = proposer.propose([event.data["edit"] for event in events], trajectory)
    except HarnessError as error:
        later = error.id in _LATER or isinstance(error, ConflictError)
        return Settled(trajectory.session, entry, numbers, refused=error.words), later
    except OSError as error:  # a full disk, most of all
        return Settled(trajectory.session, entry, numbers, refused=error.strerror or str(error)), True
    if made is None:
        return Settled(trajectory.session, entry, numbers), False
    return Settled(trajectory.session, entry, numbers, made.update, made.commit, made.summary), False


def _wishes(events: Sequence[Event]) -> list[Event]:
    return [event for group in proposed_by_entry(events).values() for event in group]


@dataclass
class _State:
    """``proposals.json``: which ``propose`` events are done with.

    :ivar waits: whether there are others.
    """

    done: set[int]
    waits: bool

    @classmethod
    def read(cls, folder: Path) -> _State:
        """The state; one in which everything waits where there is none, or none that can be read."""
        try:
            raw = json.loads(read_small(folder / STATE_NAME, MOST))
            return cls(set(map(int, raw["done"])), bool(raw["waits"]))
        except (OSError, ValueError, KeyError, TypeError):
            return cls(set(), True)

    def write(self, folder: Path) -> None:
        """Write it, whole or not at all.

        :raises OSError: it cannot be written.
        """
        text = json.dumps({"done": sorted(self.done), "waits": self.waits})
        write_whole(folder / STATE_NAME, text.encode())
