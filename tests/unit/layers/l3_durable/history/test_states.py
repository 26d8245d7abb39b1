"""States of updates follow from records and refs alone."""

from __future__ import annotations

from harnessctl.domain.update import Actor, Record, RecordType, UpdateState, Verdict
from harnessctl.layers.l3_durable.history.states import Facts, derive, in_force

ACTOR = Actor("agent", "a")


def update(name: str) -> Record:
    return Record(RecordType.UPDATE, name, ACTOR, "b", "s")


def rollback(name: str, *taken: str) -> Record:
    return Record(RecordType.ROLLBACK, name, ACTOR, "b", "s", takes_back=taken)


def decision(name: str, of: str, verdict: Verdict) -> Record:
    return Record(RecordType.DECISION, name, ACTOR, "b", "s", of=of, verdict=verdict)


def facts(*records: Record, present: str = "", reverted: str = "", **proposed: bool) -> Facts:
    return Facts({r.id: r for r in records}, set(present), set(reverted), proposed)


def test_a_record_on_the_branch_is_landed_even_while_its_proposal_ref_is_left_over() -> None:
    assert derive(facts(update("u"), present="u", u=False)) == {"u": UpdateState.LANDED}


def test_a_proposal_is_open_or_in_conflict() -> None:
    states = derive(facts(update("u"), update("v"), u=False, v=True))
    assert states == {"u": UpdateState.OPEN, "v": UpdateState.CONFLICT}


def test_a_rejection_holds_until_the_update_lands_after_all() -> None:
    no = decision("d", "u", Verdict.REJECTED)
    assert derive(facts(update("u"), no, present="d", u=False)) == {"u": UpdateState.REJECTED}
    assert derive(facts(update("u"), no, present="du"))["u"] is UpdateState.LANDED


def test_a_record_that_history_had_and_the_tip_lacks_is_taken_back() -> None:
    assert derive(facts(update("u"), reverted="u")) == {"u": UpdateState.TAKEN_BACK}


def test_a_rollback_takes_back_and_its_own_undo_restores() -> None:
    one = facts(update("u"), rollback("r", "u"), present="ur")
    assert derive(one) == {"u": UpdateState.TAKEN_BACK, "r": UpdateState.LANDED}
    two = facts(update("u"), rollback("r", "u"), rollback("s", "r"), present="urs")
    assert derive(two)["u"] is UpdateState.LANDED
    assert derive(two)["r"] is UpdateState.TAKEN_BACK


def test_a_rollback_that_only_waits_takes_nothing_back() -> None:
    assert derive(facts(update("u"), rollback("r", "u"), present="u"))["u"] is UpdateState.LANDED


def test_a_decision_can_say_that_a_hand_made_revert_took_something_back() -> None:
    said = decision("d", "u", Verdict.TAKEN_BACK)
    assert derive(facts(update("u"), said, present="ud"))["u"] is UpdateState.TAKEN_BACK


def test_records_that_take_each_other_back_end() -> None:
    records = {"r": rollback("r", "s"), "s": rollback("s", "r")}
    assert in_force(records, records.keys()) <= {"r", "s"}
