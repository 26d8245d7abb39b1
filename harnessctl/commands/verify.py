"""``verify``: does an update still stand on what its record says? Everything is recomputed."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from enum import StrEnum
from pathlib import Path

from harnessctl.domain.errors import NotFoundError
from harnessctl.domain.update import Evidence, RecordType
from harnessctl.layers.l3_durable.history.updates import Update
from harnessctl.layers.l3_durable.history.verifying import other_records, record_problems
from harnessctl.layers.l3_durable.store import HarnessStore
from harnessctl.refine.redact import Redactor
from harnessctl.refine.standing import excerpt_problems, standing_problems
from harnessctl.rlm.log import read_trajectory


class Answer(StrEnum):
    """What ``verify`` answers; the first that holds, in the order mismatch, no_log, excerpt_only, ok."""

    OK = "ok"
    EXCERPT_ONLY = "excerpt_only"
    MISMATCH = "mismatch"
    NO_LOG = "no_log"


@dataclass(frozen=True)
class Verified:
    """One update's answer.

    :ivar problems: for a mismatch what does not match, beginning with the event's address or the
        record's field.
    :ivar note: what was not there to check; "" when everything was.
    """

    update: str
    state: str
    answer: Answer
    problems: tuple[str, ...] = ()
    note: str = ""

    def to_json(self) -> dict[str, object]:
        """As ``verify --json`` prints it."""
        return {
            "update": self.update,
            "state": self.state,
            "answer": self.answer.value,
            "problems": list(self.problems),
            "note": self.note or None,
        }


@dataclass(frozen=True)
class Verification:
    """The answers, newest update first; ``failed`` when one is a mismatch."""

    answers: tuple[Verified, ...]

    @property
    def failed(self) -> bool:
        """Whether something does not match."""
        return any(one.answer is Answer.MISMATCH for one in self.answers)

    def to_json(self) -> list[dict[str, object]]:
        """One array (CONTRACT 10)."""
        return [one.to_json() for one in self.answers]


def verify(store: HarnessStore, prefix: str | None, redactor: Redactor) -> Verification:
    """Check the update whose id begins with ``prefix`` (or that a commit brought); None: all of them.

    :param redactor: this machine's, for comparing what was redacted when it was written.
    :raises NotFoundError: ``no_update``, ``unknown_revision``.
    :raises UsageError: ``ambiguous_revision``.
    """
    found = store.updates(lambda row: bool(row.id)) if prefix is None else _named(store, prefix)
    answers = [_verify(store, update, redactor) for update in found]
    if prefix is None:
        answers += _others(store, {update.id for update in found})
    return Verification(tuple(answers))


def _others(store: HarnessStore, told: set[str]) -> Iterator[Verified]:
    """Records of the landed state that are no update's: decisions, and what cannot be read."""
    for record, problems in other_records(store.place, told):
        answer = Answer.MISMATCH if problems else Answer.OK
        yield Verified(record, "decision" if not problems else "unreadable", answer, problems)


def _named(store: HarnessStore, prefix: str) -> tuple[Update, ...]:
    commit, wanted = store.resolve(prefix), prefix.strip().upper()
    found = store.updates(lambda row: bool(row.id) and (row.id.startswith(wanted) or row.commit == commit))
    named = tuple(u for u in found if u.id.startswith(wanted)) or found
    if not named:
        raise NotFoundError(f"{prefix} brought no update", id="no_update", hint="harnessctl log")
    return named


def _verify(store: HarnessStore, update: Update, redactor: Redactor) -> Verified:
    state = update.state.value if update.state else "unrecorded"
    problems = list(record_problems(store.place, update))
    evidence = update.record.evidence if update.record else ()
    missing: list[Evidence] = []
    for one in evidence:
        folder = store.state_path / "sessions" / one.session
        problems += _check(one, folder, redactor, missing)
    if problems:
        return Verified(update.id, state, Answer.MISMATCH, tuple(problems))
    return _without_mismatch(update, state, missing)


def _check(one: Evidence, folder: Path, redactor: Redactor, missing: list[Evidence]) -> Iterator[str]:
    try:
        trajectory = read_trajectory(folder)
    except NotFoundError:
        missing.append(one)
        yield from excerpt_problems(one)
    else:
        yield from standing_problems(one, trajectory, redactor)


def _without_mismatch(update: Update, state: str, missing: list[Evidence]) -> Verified:
    record = update.record
    if missing:
        sessions = ", ".join(one.session for one in missing)
        note = f"the log of {sessions} is not on this machine"
        shown = all(one.excerpt for one in missing)
        return Verified(update.id, state, Answer.EXCERPT_ONLY if shown else Answer.NO_LOG, (), note)
    agents = record is not None and record.actor.kind == "agent"
    if record is not None and not record.evidence and agents and record.type is RecordType.UPDATE:
        return Verified(update.id, state, Answer.NO_LOG, (), "an agent's update that cites no event")
    note = "" if record is None or record.evidence else "a person's own: it cites no session"
    return Verified(update.id, state, Answer.OK, (), note)
