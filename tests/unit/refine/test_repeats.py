from __future__ import annotations

import pytest

from harnessctl.domain.update import (
    Actor,
    EntryChange,
    EntryEdit,
    Evidence,
    Record,
    RecordType,
    UpdateState,
)
from harnessctl.refine.repeats import repeated
from tests.fakes.refining import Past, entry
from tests.fakes.trajectories import SESSION

ENTRY = entry("memory/a", "---\ndescription: d\n---\nx\n")
OTHER = entry("memory/a", "---\ndescription: d\n---\ny\n")
EDIT = EntryEdit(ENTRY.id, "create", ENTRY.files)


def past(record: Record, state: UpdateState) -> list[Past]:
    return [Past(record.id, state, record)]


def record(session: str = SESSION, after: str | None = ENTRY.digest) -> Record:
    return Record(
        type=RecordType.UPDATE,
        id="01JDXYZ0000000000000000009",
        actor=Actor("agent", "a"),
        base="",
        summary="s",
        entries=(EntryChange("memory/a", "create", None, after),),
        evidence=(Evidence(session, 1, "h", (1,)),),
    )


@pytest.mark.parametrize(
    ("state", "session", "said"),
    [
        (UpdateState.OPEN, "other", "waits for review"),
        (UpdateState.CONFLICT, "other", "waits for review"),
        (UpdateState.REJECTED, SESSION, "was rejected"),
        (UpdateState.TAKEN_BACK, SESSION, "was taken back"),
        (UpdateState.REJECTED, "other", ""),
        (UpdateState.TAKEN_BACK, "other", ""),
        (UpdateState.LANDED, SESSION, ""),
    ],
)
def test_the_same_content(state: UpdateState, session: str, said: str) -> None:
    found = repeated(EDIT, SESSION, past(record(session), state))
    assert (said in found) if said else found == ""


def test_other_content_is_no_repetition() -> None:
    assert repeated(EDIT, SESSION, past(record(after=OTHER.digest), UpdateState.REJECTED)) == ""


def test_a_deletion_repeats_a_deletion() -> None:
    deletion = EntryEdit(ENTRY.id, "delete")
    assert "rejected" in repeated(deletion, SESSION, past(record(after=None), UpdateState.REJECTED))
