"""The transaction: the only code that moves harness refs.

A landing is planned on the tip, checked as a whole, written as objects, and then the ref is moved
from exactly that tip. Whoever loses the race plans again on the new tip, after a random pause; so no
landing overwrites another, and edits of one update land together or not at all.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Iterator, Mapping
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field

from harnessctl.domain.errors import ConflictError, HarnessError
from harnessctl.domain.finding import Finding
from harnessctl.domain.ids import HARNESS_DIR
from harnessctl.domain.pin import Mode
from harnessctl.layers.l3_durable.checking.validation import Checks, Edits
from harnessctl.layers.l3_durable.content import Content
from harnessctl.layers.l3_durable.git.moving import lock_age
from harnessctl.layers.l3_durable.git.occupied import occupants
from harnessctl.layers.l3_durable.git.refs import HeldError, LostRaceError
from harnessctl.layers.l3_durable.git.repository import Person
from harnessctl.layers.l3_durable.git.turns import NotYoursError, holding
from harnessctl.layers.l3_durable.places.mode import Place
from harnessctl.layers.l3_durable.places.operations import Operations
from harnessctl.layers.l3_durable.rules.verdict import Verdict

#: Seconds a landing keeps trying against other writers. A landing takes milliseconds; eight busy
#: writers need well under a second each, on a machine with nothing else to do.
PATIENCE = 60.0
#: First pause after a lost race, in seconds; doubled up to :data:`LONGEST_PAUSE`, with full jitter.
FIRST_PAUSE = 0.002
#: Seconds to wait for one's turn; eight landings take less, on a busy machine too.
TURN = 10.0
#: Seconds after which a branch that nobody moves, and that cannot be moved, is no race that is being
#: lost; longer than it takes to be sure of a dead process's lock file (:data:`git.moving.STALE`).
STUCK = 5.0
LONGEST_PAUSE = 0.25


#: What a landing passes, in order: checked, objects written, objects on the disk, branch moved, refs of
#: waiting decisions removed, proposal's ref removed, lock written. A proposal is ``proposed`` and a
#: decision that has to wait ``parked`` where a landing is ``moved``.
POINTS = (
    "checked",
    "blobs",
    "tree",
    "commit",
    "written",
    "before moved",
    "moved",
    "before proposed",
    "proposed",
    "before parked",
    "parked",
    "before unparked",
    "unparked",
    "before cleaned",
    "cleaned",
    "before locked",
    "locked",
)


@dataclass(frozen=True)
class Change:
    """One commit to be.

    :ivar linted: judged by the lint rules too; a rollback is not, since those may have grown since
        what it restores was written.
    :ivar beside: files outside ``.harness/``, path from the root of the tree; only ``init`` has any.
    """

    edits: Edits
    message: str
    author: Person
    committer: Person
    linted: bool = True
    beside: Mapping[str, bytes] = field(default_factory=dict)


@dataclass(frozen=True, slots=True)
class Moved:
    """A landing that happened: the branch went from ``old`` to ``new``.

    :ivar warnings: what the lint rules say about the touched entries.
    """

    old: str
    new: str
    warnings: tuple[Finding, ...] = ()


class Writer:
    """Builds commits and moves refs in one repository.

    :param reached: told the name of each point as it is passed (:data:`POINTS`): where tests stop a
        process.
    """

    def __init__(
        self,
        place: Place,
        checks: Checks,
        operations: Operations,
        reached: Callable[[str], None] = lambda _: None,
    ) -> None:
        self.place = place
        self.checks = checks
        self.operations = operations
        self.reached = reached

    def build(self, base: str | None, change: Change) -> tuple[str, tuple[Finding, ...]]:
        """Check the whole result and write its commit; no ref moves. The commit, and lint warnings.

        :raises RefusedError: a secret in what would be written; no object exists then.
        :raises InvalidError: the result breaks a rule; no object exists then.
        """
        repository = self.place.repository
        content = Content(repository, base) if base else None
        verdict, warnings = self.judge(content, change)
        self.reached("checked")
        with repository.durably():
            tree = self._write_tree(content, change)
            self.reached("tree")
            parents = (base,) if base else ()
            commit = repository.write_commit(tree, parents, change.author, change.committer, change.message)
            self.reached("commit")
        self.checks.remember(repository.folder(tree, HARNESS_DIR), verdict)
        self.reached("written")
        return commit, warnings

    def judge(self, content: Content | None, change: Change) -> tuple[Verdict | None, tuple[Finding, ...]]:
        """Check the whole result of ``change`` and write nothing; errors as :meth:`build`."""
        self.checks.refuse_secrets(change.edits, change.message)
        verdict = self.checks.refuse_broken(content, change.edits)
        return verdict, self.checks.lint(content, change.edits) if change.linted else ()

    def _write_tree(self, content: Content | None, change: Change) -> str:
        repository = self.place.repository
        edits: dict[str, tuple[int, str] | None] = {
            f"{HARNESS_DIR}/{path}": (file.mode, repository.write_blob(file.data)) if file else None
            for path, file in change.edits.items()
        }
        for path, data in change.beside.items():
            edits[path] = (0o100644, repository.write_blob(data))
        self.reached("blobs")
        return repository.write_tree(content.tree if content else None, edits)

    def land(self, plan: Callable[[Content], Change], instead: str = "") -> Moved:
        """Land what ``plan`` makes of the tip; it is called again on each new tip.

        :param instead: what a person can do in-tree while their branch is checked out.
        :raises HarnessError: ``branch_in_use``; whatever ``plan`` and the checks raise.
        :raises ConflictError: ``moved_ref``: the race was lost for :data:`PATIENCE` seconds, or the
            branch stood still and could not be moved all the same for :data:`STUCK` seconds.
        """
        race = _Race(self.place.ref)
        while True:
            tip = ""
            try:
                with self._turn():
                    tip = self.place.landing_tip()
                    return self._attempt(tip, plan, instead)
            except LostRaceError as error:
                race.lost(tip, error)

    @contextmanager
    def _turn(self) -> Iterator[None]:
        """Wait for other landings: politeness, so that nobody builds what would lose the race.

        A writer that is stopped keeps others waiting for :data:`TURN` seconds and no longer; nothing
        depends on having the turn.
        """
        with ExitStack() as stack:
            with suppress(NotYoursError, OSError):
                stack.enter_context(holding(self.place.repository.common_dir / "harnessctl.landing", TURN))
            yield

    def _attempt(self, tip: str, plan: Callable[[Content], Change], instead: str) -> Moved:
        refuse_occupied(self.place, instead)
        change = plan(Content(self.place.repository, tip))
        commit, warnings = self.build(tip, change)
        refuse_occupied(self.place, instead)
        self.move(self.place.ref, tip, commit, change.message.partition("\n")[0])
        return Moved(tip, commit, warnings)

    def settle(self, ref: str, old: str | None, new: str | None, why: str, point: str = "moved") -> None:
        """Move a ref that nobody else has a reason to move, waiting for whoever holds it (`git pack-refs`).

        :raises LostRaceError: somebody moved it all the same.
        :raises ConflictError: ``moved_ref``: it stayed held for :data:`STUCK` seconds.
        """
        race = _Race(ref)
        while True:
            try:
                return self.move(ref, old, new, why, point)
            except LostRaceError as error:
                if self.place.repository.refs.read(ref) != old:
                    raise
                race.lost(old or "", error)

    def move(self, ref: str, old: str | None, new: str | None, why: str, point: str = "moved") -> None:
        """Move one harness ref with compare-and-swap, and note the move for the fence.

        The note comes first: after a kill between the two, a run's fence would otherwise take our
        own move for a stranger's. A note of a move that did not happen explains nothing else.

        :param point: what :attr:`reached` is told afterwards, and with ``before `` in front of it first.
        :raises LostRaceError: it was not at ``old``.
        """
        refs = self.place.repository.refs
        if refs.read(ref) != old:
            raise LostRaceError(f"{ref} is not at {old}")
        self.reached(f"before {point}")
        self.operations.moved(ref, old, new, why)
        refs.move(ref, old, new, f"harnessctl: {why}")
        self.reached(point)


class _Race:
    """How often and how long one landing has lost against others."""

    def __init__(self, ref: str) -> None:
        self._ref = ref
        self._began = self._changed = time.monotonic()
        self._tip = ""
        self._pause = FIRST_PAUSE

    def lost(self, tip: str, error: LostRaceError) -> None:
        """Wait a little before the next attempt.

        :raises ConflictError: ``moved_ref``: there should be none.
        """
        now = time.monotonic()
        if tip != self._tip:
            self._tip, self._changed = tip, now
        age = lock_age(error.lock) if isinstance(error, HeldError) else None
        stuck = now - self._changed > STUCK or (age is not None and age > STUCK)
        if stuck or now - self._began > PATIENCE:
            raise self._gave_up(error, age)
        time.sleep(random.uniform(0, self._pause))  # noqa: S311 - spreads writers, guards nothing
        self._pause = min(self._pause * 2, LONGEST_PAUSE)

    def _gave_up(self, error: LostRaceError, age: float | None) -> ConflictError:
        if isinstance(error, HeldError) and age is not None:
            return ConflictError(
                f"{self._ref} cannot be moved: {error.lock} has been there for {age:.0f} s",
                id="moved_ref",
                hint="some git process holds it, or left it behind when it was killed; nothing was landed",
            )
        return ConflictError(
            f"{self._ref} could not be moved: {error}", id="moved_ref", hint="nothing was landed; try again"
        )


def refuse_occupied(place: Place, instead: str = "") -> None:
    """:raises HarnessError: ``branch_in_use``: some work tree has the branch checked out or half rebased."""
    places = occupants(place.repository, place.ref)
    if places:
        raise HarnessError(
            f"branch '{place.branch}' is {places[0]}; it is not moved under anyone's hands",
            id="branch_in_use",
            hint=instead if instead and place.mode is Mode.IN_TREE else _ELSEWHERE,
        )


_ELSEWHERE = "finish there or switch that work tree to another branch, then try again"
