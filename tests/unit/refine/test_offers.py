"""What a session proposes by itself: by the refiner's rules, judged before it is made."""

from __future__ import annotations

import re
from collections.abc import Sequence
from typing import Any

import pytest

from harnessctl.domain.canonical import files_digest
from harnessctl.domain.entry import EntryFile
from harnessctl.domain.errors import HarnessError, RefusedError
from harnessctl.domain.trajectory import Trajectory
from harnessctl.domain.update import Actor, EntryChange, EntryEdit, Evidence, Record, RecordType, UpdateState
from harnessctl.layers.l3_durable.landing.proposals import Draft
from harnessctl.refine.offers import Offers
from harnessctl.refine.redact import Redactor
from harnessctl.refine.secrecy import Secrecy
from tests.fakes import refining
from tests.fakes.refining import MemoryHarness, Past, PatternHit, entry, scan_tokens, snapshot
from tests.fakes.trajectories import OUTPUT, SESSION, build, session

TOKEN = "ghp_" + "q" * 36
OWN = entry("memory/mine", "---\ndescription: mine\nowner: agent\nstatus: hypothesis\n---\nOld.\n")
HUMAN = entry("memory/theirs", "---\ndescription: theirs\nowner: human\n---\nOld.\n")


class JudgingHarness(MemoryHarness):
    """A harness that says what it would write: the edits as they are; keeps what it was asked."""

    def __init__(self, *args: Any, **options: Any) -> None:
        super().__init__(*args, **options)
        self.judged: list[tuple[tuple[EntryEdit, ...], Draft, str]] = []

    def judge_proposal(
        self, edits: Sequence[EntryEdit], draft: Draft, base: str = ""
    ) -> tuple[EntryEdit, ...]:
        self.judged.append((tuple(edits), draft, base))
        return tuple(edits)


def edit(**changes: Any) -> dict[str, Any]:
    """An edit as a session's room makes it; None removes a key."""
    cited = [{"session": "", "event": OUTPUT, "quote": "tracked: app.py"}]
    unsaid = dict.fromkeys(("status", "expected_outcome", "how_to_see"))
    return refining.edit(**{**unsaid, "evidence": cited, **changes})


def update(**changes: Any) -> dict[str, Any]:
    return edit(**{"action": "update", "name": "mine", "description": None, "content": "New.", **changes})


def offers(harness: JudgingHarness | None = None) -> Offers:
    return Offers(harness or JudgingHarness(), snapshot(OWN, HUMAN), Secrecy(scan_tokens), Redactor())


def test_a_good_edit_is_judged_and_proposed_on_what_the_session_reads() -> None:
    harness = JudgingHarness()
    door = offers(harness)
    judged = door.judge([edit()], session())
    assert judged.action == "create"
    assert judged.entry is not None
    assert judged.entry["id"] == "memory/count-files"
    assert judged.entry["status"] == "hypothesis"
    assert harness.proposals == []
    assert harness.judged[0][2] == "c" * 40
    made = door.propose([edit()], session())
    assert made is not None
    ((edits, draft),) = harness.proposals
    assert [(str(e.id), e.action) for e in edits] == [("memory/count-files", "create")]
    assert (draft.summary, draft.why) == ("git ls-files lists what is tracked", "seen in the run")
    assert (draft.model, draft.may_verify, draft.risk.level) == (None, False, "low")
    (evidence,) = draft.evidence
    assert (evidence.session, evidence.events, evidence.quotes) == (SESSION, (OUTPUT,), ("tracked: app.py",))


def test_edits_of_one_entry_become_one() -> None:
    harness = JudgingHarness()
    more = edit(
        action="update",
        description=None,
        content="Use `git ls-files -z`.",
        reason="spaces",
        evidence=[{"session": "", "event": 1}],
    )
    offers(harness).propose([edit(), more], session())
    (((built,), draft),) = harness.proposals
    assert built.action == "create"
    assert built.files[0].data.endswith(b"Use `git ls-files -z`.\n")
    assert draft.why == "seen in the run\nspaces"
    assert draft.evidence[0].events == (1, OUTPUT)


def test_an_edit_of_what_stands_is_an_update_and_a_deletion_a_deletion() -> None:
    harness = JudgingHarness()
    offers(harness).propose([update()], session())
    offers(harness).propose([update(action="delete", content=None)], session())
    (((changed,), _), ((gone,), risky)) = harness.proposals
    assert (changed.action, gone.action, gone.files) == ("update", "delete", ())
    assert risky.risk.reasons == ("HRN706",)
    judged = offers(harness).judge([update(action="delete", content=None)], session())
    assert (judged.action, judged.entry) == ("delete", None)


def test_what_undoes_itself_is_no_proposal() -> None:
    harness = JudgingHarness()
    gone = edit(action="delete", description=None, content=None)
    assert offers(harness).judge([edit(), gone], session()).entry is None
    assert offers(harness).propose([edit(), gone], session()) is None
    back = update(content="Old.")
    assert offers(harness).propose([update(), back], session()) is None
    assert harness.proposals == []


def test_an_entry_can_be_made_again_after_it_was_wished_away() -> None:
    harness = JudgingHarness()
    gone = update(action="delete", content=None)
    again = edit(name="mine", content="Anew.")
    offers(harness).propose([gone, again], session())
    (((built,), _),) = harness.proposals
    assert (built.action, b"Anew." in built.files[0].data) == ("update", True)


@pytest.mark.parametrize(
    ("wrong", "words"),
    [
        (edit(description=None), "description"),
        (edit(kind="lesson"), "kind: must be one of"),
        (edit(name="A B"), "name"),
        (edit(content="---\nowner: human\n---\n"), "content: give the text only"),
        (edit(content="\ud800"), "half of a surrogate pair"),
        (edit(content=5), "content"),
        (edit(files={"a.py": "x"}), "files: only a skill has files"),
        (edit(evidence=[{"session": "", "event": 99}]), "event 99 does not exist"),
        (edit(evidence=[{"session": "", "event": OUTPUT, "quote": "made up"}]), "the quote is not in event"),
        (edit(evidence=[]), "no event is cited"),
        (update(name="theirs"), "memory/theirs belongs to a human"),
        (update(name="none"), "memory/none does not exist"),
        (edit(name="mine"), "exists already; use 'update'"),
        (update(content="Old."), "it would change nothing"),
    ],
)
def test_what_is_wrong_is_said_in_words_of_the_one_edit(wrong: dict[str, Any], words: str) -> None:
    harness = JudgingHarness()
    with pytest.raises(HarnessError) as raised:
        offers(harness).judge([wrong], session())
    assert words in raised.value.message
    assert "edits[0]" not in raised.value.message
    with pytest.raises(HarnessError):
        offers(harness).propose([wrong], session())
    assert (harness.judged, harness.proposals) == ([], [])


@pytest.mark.parametrize(
    ("wrong", "trajectory", "place"),
    [
        (edit(content=f"use {TOKEN}"), session(), "content"),
        (edit(reason=TOKEN), session(), "reason"),
        (
            edit(evidence=[{"session": "", "event": OUTPUT}]),
            session(f"token {TOKEN}\n"),
            f"{SESSION}#{OUTPUT}",
        ),
    ],
)
def test_a_secret_is_refused_at_once_and_not_repeated(
    wrong: dict[str, Any], trajectory: Trajectory, place: str
) -> None:
    with pytest.raises(RefusedError) as raised:
        offers().judge([wrong], trajectory)
    assert raised.value.message.startswith(f"{place} holds what looks like a secret")
    assert TOKEN not in f"{raised.value.message}{raised.value.hint}"


def scan_assigned(data: str, *, allow: frozenset[str]) -> tuple[PatternHit, ...]:
    """Finds a value only where its name stands before it."""
    found = re.finditer(r"token = (\S{20,})", data)
    return tuple(PatternHit("token", 1, hit.start(1), hit.end(1), "sha256:0") for hit in found)


def test_a_secret_seen_anywhere_in_the_log_is_known_when_the_proposal_is_made() -> None:
    value = "abcdef0123456789ABCDEF"
    door = Offers(JudgingHarness(), snapshot(), Secrecy(scan_assigned), Redactor())
    bare = edit(content=f"use {value}", evidence=[{"session": "", "event": 1}])
    assert door.propose([bare], session()) is not None
    with pytest.raises(RefusedError, match="seen elsewhere in the log"):
        door.propose([bare], session(f"token = {value}\n"))


def past(state: UpdateState, files: tuple[EntryFile, ...], cited: str = SESSION) -> Past:
    after = files_digest((f.path, f.mode, f.sha256) for f in files)
    record = Record(
        type=RecordType.UPDATE,
        id="01JDXYZ0000000000000000002",
        actor=Actor("agent", "a"),
        base="b",
        summary="s",
        entries=(EntryChange("memory/count-files", "create", None, after),),
        evidence=(Evidence(cited, 1, "h", (1,)),),
    )
    return Past(record.id, state, record)


@pytest.mark.parametrize(
    ("state", "cited", "refused"),
    [
        (UpdateState.OPEN, "other", True),
        (UpdateState.REJECTED, SESSION, True),
        (UpdateState.TAKEN_BACK, SESSION, True),
        (UpdateState.TAKEN_BACK, "other", False),
    ],
)
def test_what_was_refused_needs_new_evidence(state: UpdateState, cited: str, refused: bool) -> None:
    first = JudgingHarness()
    offers(first).propose([edit()], session())
    files = first.proposals[0][0][0].files
    harness = JudgingHarness(past=[past(state, files, cited)])
    if refused:
        with pytest.raises(HarnessError, match="01JDXYZ0000000000000000002"):
            offers(harness).judge([edit()], session())
    else:
        offers(harness).judge([edit()], session())


def test_the_model_is_the_one_of_the_sessions_log() -> None:
    first = {"session": SESSION, "model": {"provider": "list", "name": "model"}}
    trajectory = build([("header", first), ("task", {"text": "tracked: app.py"})])
    harness = JudgingHarness()
    cited = [{"session": "", "event": 1, "quote": "tracked: app.py"}]
    offers(harness).propose([edit(evidence=cited)], trajectory)
    assert harness.proposals[0][1].model == "list/model"


def test_verified_is_written_as_a_hypothesis_and_said() -> None:
    judged = offers().judge([edit(status="verified")], session(verified=True))
    assert judged.entry is not None
    assert judged.entry["status"] == "hypothesis"
    assert "hypothesis" in judged.notes[0]
