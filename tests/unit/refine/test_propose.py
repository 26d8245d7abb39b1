from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from harnessctl.domain.errors import ExitCode, HarnessError, NotFoundError, RefusedError
from harnessctl.domain.finding import Finding, Severity
from harnessctl.domain.limits import Usage
from harnessctl.domain.snapshot import Snapshot
from harnessctl.domain.trajectory import Trajectory
from harnessctl.domain.update import Actor, EntryChange, Evidence, Record, RecordType, UpdateState
from harnessctl.layers.l3_durable.checking.validation import InvalidError
from harnessctl.models.port import ModelReply, ModelRequest, ProviderError
from harnessctl.refine import propose
from harnessctl.refine.propose import Refined, Refiner
from harnessctl.refine.redact import Redactor
from harnessctl.refine.secrecy import Secrecy
from tests.fakes.refining import ListModel, MemoryHarness, Past, edit, entry, reply, scan_tokens
from tests.fakes.trajectories import SESSION, build, session

TOKEN = "ghp_" + "q" * 36
WRONG_QUOTE = reply(edit(evidence=[{"session": "s1", "event": 5, "quote": "made up"}]))
GOOD = reply(edit())


@pytest.fixture
def refine(tmp_path: Path) -> Callable[..., Any]:
    async def call(
        model: Any, harness: MemoryHarness | None = None, trajectory: Trajectory | None = None
    ) -> Refined:
        return await Refiner(
            trajectory or session(),
            client=model,
            harness=harness or MemoryHarness(),
            secrecy=Secrecy(scan_tokens),
            redactor=Redactor(),
            keep_in=tmp_path / "refine",
        ).refine()

    return call


def kept(tmp_path: Path) -> dict[str, Any]:
    (path,) = (tmp_path / "refine").iterdir()
    value: dict[str, Any] = json.loads(path.read_text())
    return value


async def test_a_good_reply_becomes_one_proposal(refine: Any, tmp_path: Path) -> None:
    model, harness = ListModel(GOOD), MemoryHarness()
    refined = await refine(model, harness)
    ((edits, draft),) = harness.proposals
    assert [(str(e.id), e.action) for e in edits] == [("memory/count-files", "create")]
    assert draft.summary == "remember how files are counted"
    assert draft.why == "one call gave it\nseen in the run"
    assert draft.how_to_see == "cells of the next run"
    assert draft.evidence[0].quotes == ("tracked: app.py",)
    assert (draft.model, draft.risk.level) == ("list/model", "low")
    assert refined.proposal is not None
    assert refined.usage.calls == 1
    (request,) = model.requests
    assert (request.consumer, request.place, request.tool) == ("refine", 0, False)
    assert not (tmp_path / "refine").exists()


async def test_several_edits_are_one_update_that_names_them(refine: Any) -> None:
    harness = MemoryHarness()
    await refine(ListModel(reply(edit(), edit(kind="prompt", name="short", reason="second"))), harness)
    ((edits, draft),) = harness.proposals
    assert len(edits) == 2
    assert draft.why.splitlines()[1:] == ["memory/count-files: seen in the run", "prompts/short: second"]
    assert draft.risk.level == "review"
    assert draft.evidence[0].events == (5,)


async def test_no_edits_propose_nothing(refine: Any) -> None:
    harness = MemoryHarness()
    refined = await refine(ListModel(reply()), harness)
    assert (refined.proposal, harness.proposals) == (None, [])


async def test_a_session_without_a_reply_asks_no_model(refine: Any) -> None:
    model = ListModel()
    refined = await refine(model, trajectory=build([("header", {}), ("task", {"text": "x"})]))
    assert (refined.proposal, model.requests) == (None, [])
    assert "no reply" in refined.notes[0]


class NoHarness(MemoryHarness):
    def landed_snapshot(self) -> Snapshot:
        return Snapshot()


async def test_without_a_harness_no_model_is_asked(refine: Any) -> None:
    model = ListModel()
    with pytest.raises(NotFoundError, match="has no harness"):
        await refine(model, NoHarness())
    assert model.requests == []


@pytest.mark.parametrize(
    ("first", "said"),
    [
        ("I learned a lot.", "reply: it holds no JSON object"),
        (WRONG_QUOTE, "edits[0].evidence[0]: the quote is not in event 5"),
        (reply(edit(evidence=None, events=[77])), "event 77 does not exist"),
        (reply(edit(kind="lesson")), "edits[0].kind: must be one of"),
        (reply(edit(action="update")), "memory/count-files does not exist"),
    ],
)
async def test_one_repair_is_asked_for_with_what_was_wrong(refine: Any, first: str, said: str) -> None:
    model, harness = ListModel(first, GOOD), MemoryHarness()
    refined = await refine(model, harness)
    assert len(harness.proposals) == 1
    assert refined.usage.calls == 2
    assert model.requests[1].place == 1
    *before, answer, repair = model.requests[1].messages
    assert tuple(before) == model.requests[0].messages
    assert (answer.role, answer.content) == ("assistant", first)
    assert said in repair.content


async def test_what_the_load_rules_refuse_may_be_mended(refine: Any) -> None:
    finding = Finding("HRN110", Severity.ERROR, ".harness/memory/x.md", "it is too long", "make it shorter")
    model, harness = ListModel(GOOD, GOOD), MemoryHarness(refusals=[InvalidError([finding])])
    await refine(model, harness)
    assert len(harness.proposals) == 1
    assert "too long (HRN110); make it shorter" in model.requests[1].messages[-1].content


async def test_a_second_bad_reply_fails_and_is_kept(refine: Any, tmp_path: Path) -> None:
    harness = MemoryHarness()
    with pytest.raises(HarnessError, match="the quote is not in event 5") as caught:
        await refine(ListModel("nothing", WRONG_QUOTE), harness)
    assert caught.value.id == "bad_refiner_reply"
    assert caught.value.exit_code is ExitCode.FAILED
    assert harness.proposals == []
    saved = kept(tmp_path)
    assert [a["reply"] for a in saved["attempts"]] == ["nothing", WRONG_QUOTE]
    assert saved["attempts"][1]["problems"][0]["path"] == "edits[0].evidence[0]"
    (path,) = (tmp_path / "refine").iterdir()
    assert str(path) in caught.value.hint


async def test_a_secret_in_a_cited_event_stops_at_once(refine: Any, tmp_path: Path) -> None:
    model, harness = ListModel(reply(edit(evidence=None, events=[5])), GOOD), MemoryHarness()
    with pytest.raises(RefusedError, match=f"{SESSION}#5") as caught:
        await refine(model, harness, session(f"T={TOKEN}\n"))
    assert TOKEN not in f"{caught.value.message}{caught.value.hint}"
    assert (len(model.requests), harness.proposals) == (1, [])
    assert all(TOKEN not in m.content for m in model.requests[0].messages)
    assert not (tmp_path / "refine").exists()


async def test_without_the_guard_the_value_would_reach_the_record(
    refine: Any, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(propose, "refuse_secrets", lambda *_: None)
    harness = MemoryHarness()
    await refine(ListModel(reply(edit(evidence=None, events=[5]))), harness, session(f"T={TOKEN}\n"))
    assert TOKEN in str(harness.proposals[0][1].evidence)


async def test_a_secret_in_another_event_stops_nothing_and_stays_out(refine: Any) -> None:
    model, harness = ListModel(GOOD), MemoryHarness()
    await refine(model, harness, session(more=[("message", {"text": TOKEN})]))
    assert TOKEN not in str(harness.proposals)
    assert TOKEN not in str(model.requests)


@pytest.mark.parametrize(
    "changes",
    [
        {"content": f"use {TOKEN}"},
        {"description": TOKEN},
        {"reason": TOKEN},
        {"how_to_see": TOKEN},
        {"kind": "skill", "files": {"scripts/x.sh": f"#!/bin/sh\nexport T={TOKEN}\n"}},
    ],
)
async def test_a_secret_in_the_reply_is_refused(refine: Any, changes: dict[str, Any]) -> None:
    harness = MemoryHarness()
    with pytest.raises(RefusedError, match="of the refiner's reply") as caught:
        await refine(ListModel(reply(edit(**changes))), harness)
    assert TOKEN not in str(caught.value)
    assert harness.proposals == []


async def test_a_kept_reply_and_the_repair_are_masked(refine: Any, tmp_path: Path) -> None:
    model = ListModel(f"oh {TOKEN}", f'{{"edits": [], "{TOKEN}": 1, "{TOKEN}": 2}}')
    with pytest.raises(HarnessError) as caught:
        await refine(model)
    assert TOKEN not in f"{caught.value.message}{caught.value.hint}{model.requests}"
    assert TOKEN not in json.dumps(kept(tmp_path))
    assert "[secret: GitHub token]" in kept(tmp_path)["attempts"][0]["reply"]


async def test_a_taken_back_update_is_not_proposed_again(refine: Any) -> None:
    first = MemoryHarness()
    await refine(ListModel(GOOD), first)
    (made,) = first.proposals[0][0]
    after = entry("memory/count-files", made.files[0].data.decode()).digest
    record = Record(
        type=RecordType.UPDATE,
        id="01JDXYZ0000000000000000009",
        actor=Actor("agent", "a"),
        base="",
        summary="s",
        entries=(EntryChange("memory/count-files", "create", None, after),),
        evidence=(Evidence(SESSION, 1, "h", (1,)),),
    )
    again = MemoryHarness(past=[Past(record.id, UpdateState.TAKEN_BACK, record)])
    refined = await refine(ListModel(GOOD), again)
    assert again.proposals == []
    assert "taken back" in refined.notes[0]


async def test_damage_of_the_log_is_said(refine: Any) -> None:
    whole = session()
    refined = await refine(ListModel(GOOD), trajectory=Trajectory(SESSION, whole.events, ("torn tail",)))
    assert "torn tail" in refined.notes


class Failing(ListModel):
    """Fails at ``fail_at``, naming a secret as providers do when they quote the request."""

    fail_at = 0

    async def complete(self, request: ModelRequest, **_: Any) -> ModelReply:
        if request.place == self.fail_at:
            raise ProviderError(f"bad: {TOKEN}", kind="bad_request", usage=Usage(prompt=7))
        return await super().complete(request)


async def test_no_answer_is_an_expected_failure(refine: Any, tmp_path: Path) -> None:
    with pytest.raises(HarnessError, match=r"gave no answer: bad: \[secret") as caught:
        await refine(Failing())
    assert caught.value.id == "provider_error"
    assert not (tmp_path / "refine").exists()


async def test_no_answer_to_the_repair_keeps_the_first_reply(refine: Any, tmp_path: Path) -> None:
    model = Failing("prose")
    model.fail_at = 1
    with pytest.raises(HarnessError) as caught:
        await refine(model)
    assert "kept in" in caught.value.hint
    problem = kept(tmp_path)["attempts"][0]["problems"][0]
    assert f"its first reply could not be used: {problem['path'] or 'reply'}: " in caught.value.message
    assert problem["message"] in caught.value.message
    assert kept(tmp_path)["attempts"][0]["reply"] == "prose"


async def test_without_a_key_the_next_step_is_one(refine: Any) -> None:
    class Keyless(ListModel):
        async def complete(self, request: ModelRequest, **_: Any) -> ModelReply:
            raise ProviderError("Missing credentials", kind="auth", usage=Usage())

    with pytest.raises(HarnessError) as caught:
        await refine(Keyless())
    assert "set a key" in caught.value.hint


async def test_a_folder_that_cannot_be_written_hides_no_failure(refine: Any, tmp_path: Path) -> None:
    (tmp_path / "refine").write_text("a file")
    with pytest.raises(HarnessError, match="could not be used") as caught:
        await refine(ListModel("a", "b"))
    assert "could not be kept" in caught.value.hint
