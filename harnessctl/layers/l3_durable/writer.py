"""The transaction: the only code that moves harness refs.

A landing is planned on the tip, checked as a whole, written as objects, and then the ref is moved
from exactly that tip. Whoever loses the race plans again on the new tip, after a random pause; so no
landing overwrites another, and edits of one update land together or not at all.
"""

from __future__ import annotations

import random
import time
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

from harnessctl.domain.errors import ConflictError, HarnessError
from harnessctl.domain.finding import Finding
from harnessctl.domain.ids import HARNESS_DIR
from harnessctl.domain.pin import Mode
from harnessctl.layers.l3_durable.content import Content
from harnessctl.layers.l3_durable.git.occupied import occupants
from harnessctl.layers.l3_durable.git.refs import LostRaceError
from harnessctl.layers.l3_durable.git.repository import Person
from harnessctl.layers.l3_durable.mode import Place
from harnessctl.layers.l3_durable.operations import Operations
from harnessctl.layers.l3_durable.validation import Checks, Edits

#: Seconds a landing keeps trying against other writers. A landing takes milliseconds; eight busy
#: writers need well under a second each.
PATIENCE = 30.0
#: First pause after a lost race, in seconds; doubled up to :data:`LONGEST_PAUSE`, with full jitter.
FIRST_PAUSE = 0.002
LONGEST_PAUSE = 0.25


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

    :param reached: told the name of each point as it is passed (``checked``, ``written``,
        ``moved``, ``cleaned``): where tests stop a process.
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
        self.checks.refuse_secrets(change.edits, change.message)
        verdict = self.checks.refuse_broken(content, change.edits)
        warnings = self.checks.lint(content, change.edits) if change.linted else ()
        self.reached("checked")
        edits: dict[str, tuple[int, str] | None] = {
            f"{HARNESS_DIR}/{path}": (file.mode, repository.write_blob(file.data)) if file else None
            for path, file in change.edits.items()
        }
        for path, data in change.beside.items():
            edits[path] = (0o100644, repository.write_blob(data))
        tree = repository.write_tree(content.tree if content else None, edits)
        self.checks.remember(repository.folder(tree, HARNESS_DIR), verdict)
        parents = (base,) if base else ()
        commit = repository.write_commit(tree, parents, change.author, change.committer, change.message)
        self.reached("written")
        return commit, warnings

    def land(self, plan: Callable[[Content], Change]) -> Moved:
        """Land what ``plan`` makes of the tip; it is called again on each new tip.

        :raises HarnessError: ``branch_in_use``; whatever ``plan`` and the checks raise.
        :raises ConflictError: ``moved_ref``: the race was lost for :data:`PATIENCE` seconds.
        """
        deadline = time.monotonic() + PATIENCE
        pause = FIRST_PAUSE
        while True:
            tip = self.place.landing_tip()
            refuse_occupied(self.place)
            change = plan(Content(self.place.repository, tip))
            commit, warnings = self.build(tip, change)
            try:
                self.move(self.place.ref, tip, commit, change.message.partition("\n")[0])
            except LostRaceError as error:
                if time.monotonic() > deadline:
                    raise _gave_up(self.place.ref, error) from error
                time.sleep(random.uniform(0, pause))  # noqa: S311 - spreads writers, guards nothing
                pause = min(pause * 2, LONGEST_PAUSE)
            else:
                self.reached("moved")
                return Moved(tip, commit, warnings)

    def move(self, ref: str, old: str | None, new: str | None, why: str) -> None:
        """Move one harness ref with compare-and-swap, and note the move for the fence.

        :raises LostRaceError: it was not at ``old``.
        """
        self.place.repository.refs.move(ref, old, new, f"harnessctl: {why}")
        self.operations.moved(ref, old, new)


def refuse_occupied(place: Place) -> None:
    """:raises HarnessError: ``branch_in_use``: some work tree has the branch checked out or half rebased."""
    places = occupants(place.repository, place.ref)
    if places:
        raise HarnessError(
            f"branch '{place.branch}' is {places[0]}; it is not moved under anyone's hands",
            id="branch_in_use",
            hint=_how_instead(place),
        )


def _how_instead(place: Place) -> str:
    if place.mode is Mode.IN_TREE:
        return "land it there yourself: git merge refs/harness/proposals/ID, or a pull request"
    return "finish there or switch that work tree to another branch, then try again"


def _gave_up(ref: str, error: LostRaceError) -> ConflictError:
    return ConflictError(
        f"{ref} could not be moved for {PATIENCE:.0f} s: {error}",
        id="moved_ref",
        hint="other writers were faster, or a stale .lock file is in the way; nothing was landed, try again",
    )
