from __future__ import annotations

import json
from pathlib import Path
from typing import Any

import pytest

from harnessctl.commands.refine import RefineOutcome, refine
from harnessctl.domain.errors import UsageError
from harnessctl.domain.trajectory import Trajectory
from harnessctl.refine.redact import Redactor
from harnessctl.refine.secrecy import Secrecy
from tests.fakes.refining import ListModel, MemoryHarness, edit, reply, scan_tokens
from tests.fakes.trajectories import SESSION, session, write


async def run(
    tmp_path: Path, model: ListModel, harness: MemoryHarness, trajectory: Trajectory | None = None
) -> Any:
    sessions = tmp_path / "sessions"
    folder = write(trajectory or session(), sessions)
    return await refine(
        folder,
        harness=harness,
        client=model,
        secrecy=Secrecy(scan_tokens),
        redactor=Redactor(),
        keep_in=tmp_path / "refine",
    )


async def test_the_log_on_disk_becomes_a_proposal(tmp_path: Path) -> None:
    outcome: RefineOutcome = await run(tmp_path, ListModel(reply(edit())), MemoryHarness())
    data = json.loads(json.dumps(outcome.to_json()))
    assert (data["session"], data["model"], data["state"]) == (SESSION, "list/model", "open")
    assert data["update"] == outcome.record.id if outcome.record else None
    assert data["risk"] == {"level": "low", "reasons": []}
    assert data["usage"]["calls"] == 1


async def test_nothing_to_learn_has_the_same_keys(tmp_path: Path) -> None:
    nothing = await run(tmp_path, ListModel(reply()), MemoryHarness())
    some = await run(tmp_path / "b", ListModel(reply(edit())), MemoryHarness())
    assert nothing.to_json().keys() == some.to_json().keys()
    assert (nothing.to_json()["update"], nothing.to_json()["entries"]) == (None, [])


class Nobody(MemoryHarness):
    def check_identity(self) -> None:
        raise UsageError("git has no user.name", id="no_identity")


async def test_without_identity_no_model_is_asked(tmp_path: Path) -> None:
    model = ListModel(reply(edit()))
    with pytest.raises(UsageError) as caught:
        await run(tmp_path, model, Nobody())
    assert caught.value.id == "no_identity"
    assert model.requests == []
