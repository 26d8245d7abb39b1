"""What the runtime needs from outside: the work tree, the state of harness refs, time, a watcher.

Adapters live where the knowledge is (git's in ``layers.l3_durable``) and are built in
``bootstrap``; the runtime sees these shapes only, which is how it cannot reach durable state.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any, Protocol

from harnessctl.domain.change import FileChange
from harnessctl.domain.event import Event
from harnessctl.domain.trajectory import Trajectory
from harnessctl.models.port import Attempt


class WorkTree(Protocol):
    """The user's files. Reading never moves an index or a ref and runs no filter and no hook."""

    @property
    def root(self) -> Path:
        """Absolute path of the work tree."""
        ...

    def tree_hash(self) -> str:
        """Hash of the content of tracked and of untracked, not ignored files."""
        ...

    def changes(self, before: str, after: str) -> tuple[FileChange, ...]:
        """What differs between two hashes that :meth:`tree_hash` gave, sorted by path."""
        ...

    def patch(self, before: str, after: str) -> bytes:
        """The same as a patch that ``git apply`` takes."""
        ...


class HarnessState(Protocol):
    """The fence: what a run must find unmoved at its end (CONTRACT 6)."""

    def capture(self) -> Mapping[str, str]:
        """Harness ref -> tree of ``.harness/``, and ``harness.lock`` -> digest of its bytes or ``absent``."""
        ...

    def unknown_moves(self, before: Mapping[str, str], after: Mapping[str, str]) -> tuple[str, ...]:
        """Names that differ between two captures for no reason that the host knows of."""
        ...

    def commit_of(self, name: str, value: str | None) -> str | None:
        """Commit at which a capture of this process found ``name`` with ``value``, None where unknown."""
        ...


class PinWatch(Protocol):
    """The revision a session reads, kept and watched while it runs."""

    def hold(self) -> None:
        """Keep the pinned commit from garbage collection until :meth:`release`."""
        ...

    def release(self) -> None:
        """Let go of it; harmless when nothing is held."""
        ...

    def revoked(self) -> tuple[str, ...]:
        """Ids of updates in the pin that were taken back since the session began; asked once a turn."""
        ...


@dataclass(frozen=True, slots=True)
class Judged:
    """What an edit of a session would make of an entry.

    :ivar entry: the entry as cells see it (its id, description, files, …), None when it would be gone.
    :ivar notes: what was toned down, in words for the cell.
    """

    action: str
    entry: Mapping[str, Any] | None
    notes: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Made:
    """A proposal that now waits for review."""

    update: str
    commit: str
    summary: str


class Proposer(Protocol):
    """The proposal door: a session's wishes become updates that wait for a person, and nothing else.

    Edits are JSON objects as a refiner writes them (CONTRACT 9), all of one entry, in the order in which
    the session wanted them; each works on what those before it made.
    """

    def judge(self, edits: Sequence[Mapping[str, Any]], trajectory: Trajectory) -> Judged:
        """What ``edits`` would make, by the rules of :meth:`propose`; nothing is written.

        :raises HarnessError: they cannot be proposed, in words for whoever wrote the last of them.
        """
        ...

    def propose(self, edits: Sequence[Mapping[str, Any]], trajectory: Trajectory) -> Made | None:
        """Propose what ``edits`` make, on evidence from ``trajectory``; None where they undo each other.

        :raises HarnessError: refused, or not possible now; nothing was written.
        """
        ...


class Clock(Protocol):
    """Time, so that tests can hold it still."""

    def utc(self) -> str:
        """Now, ISO 8601 with milliseconds and ``Z``."""
        ...

    def monotonic(self) -> float:
        """Seconds that only grow."""
        ...


class Watcher(Protocol):
    """Sees a session live. Called on the event loop; must return at once and not raise."""

    def event(self, event: Event) -> None:
        """A record was written to the log."""
        ...

    def text(self, delta: str) -> None:
        """A piece of the model's reply arrived."""
        ...

    def output(self, stream: str, text: str) -> None:
        """A piece of a cell's output arrived, as the kernel sent it."""
        ...

    def wait(self, attempt: Attempt, seconds: float) -> None:
        """A model call failed and is tried again after ``seconds``."""
        ...

    def note(self, text: str) -> None:
        """Something the user should read once."""
        ...
