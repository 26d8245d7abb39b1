"""The state of every update, derived from records and refs alone; pure (CONTRACT 2).

*Landed wins*: a crash between landing and the removal of the proposal ref leaves both, and the record
on the branch decides. A record that history once had and the tip lacks was reverted: taken back.
A rollback that was itself taken back no longer takes anything back.
"""

from __future__ import annotations

from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Protocol

from harnessctl.domain.update import RecordType, UpdateState, Verdict


class Told(Protocol):
    """The part of a record that states depend on: a whole record, or the gist of one."""

    @property
    def type(self) -> RecordType: ...
    @property
    def takes_back(self) -> tuple[str, ...]: ...
    @property
    def of(self) -> str | None: ...
    @property
    def verdict(self) -> Verdict | None: ...


@dataclass(frozen=True)
class Facts:
    """What refs and trees say.

    :ivar records: every readable record, by id: landed, reverted, proposed or deciding.
    :ivar present: ids whose record is in the landed state.
    :ivar reverted: ids whose record landed and is gone from the landed state.
    :ivar proposed: ids with a proposal ref -> whether it conflicts with the tip.
    """

    records: Mapping[str, Told]
    present: Collection[str]
    reverted: Collection[str] = ()
    proposed: Mapping[str, bool] = field(default_factory=dict)


def derive(facts: Facts) -> dict[str, UpdateState]:
    """State of each update and rollback; decisions have none and are left out."""
    takers, rejected = _takers(facts), _rejected(facts)
    states: dict[str, UpdateState] = {}
    for update, record in facts.records.items():
        if record.type is RecordType.DECISION:
            continue
        if update in facts.reverted:
            states[update] = UpdateState.TAKEN_BACK
        elif update in facts.present:
            landed = _in_force(update, takers, set())
            states[update] = UpdateState.LANDED if landed else UpdateState.TAKEN_BACK
        elif update in rejected:
            states[update] = UpdateState.REJECTED
        elif update in facts.proposed:
            states[update] = UpdateState.CONFLICT if facts.proposed[update] else UpdateState.OPEN
    return states


def in_force(records: Mapping[str, Told], present: Collection[str]) -> frozenset[str]:
    """Ids among ``present`` that no other present record, itself in force, takes back."""
    takers = _takers(Facts(records, present))
    return frozenset(update for update in present if _in_force(update, takers, set()))


def _takers(facts: Facts) -> dict[str, list[str]]:
    """Update -> landed records that take it back."""
    found: dict[str, list[str]] = {}
    for update in facts.present:
        record = facts.records.get(update)
        if record is None:
            continue
        targets = record.takes_back if record.type is RecordType.ROLLBACK else ()
        if record.type is RecordType.DECISION and record.verdict is Verdict.TAKEN_BACK and record.of:
            targets = (record.of,)
        for target in targets:
            found.setdefault(target, []).append(update)
    return found


def _in_force(update: str, takers: Mapping[str, list[str]], seen: set[str]) -> bool:
    """Whether nothing in force takes ``update`` back; a circle, which no writer makes, takes nothing."""
    if update in seen:
        return False
    return not any(_in_force(taker, takers, seen | {update}) for taker in takers.get(update, ()))


def _rejected(facts: Facts) -> set[str]:
    return {
        record.of
        for record in facts.records.values()
        if record.type is RecordType.DECISION and record.verdict is Verdict.REJECTED and record.of
    }
