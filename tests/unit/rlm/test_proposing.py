"""Wishes of a session: judged at once, kept over a crash, proposed once."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

import pytest

from harnessctl.domain.errors import ConflictError, HarnessError, RefusedError, UsageError
from harnessctl.domain.event import EventType
from harnessctl.domain.trajectory import Trajectory
from harnessctl.layers.l1_context.view import View
from harnessctl.rlm import proposing
from harnessctl.rlm.clock import SystemClock
from harnessctl.rlm.journal import Journal
from harnessctl.rlm.ports import Judged, Made
from harnessctl.rlm.proposing import STATE_NAME, Proposing, Settled, pick_up
from harnessctl.rlm.recorder import Recorder
from tests.fakes.runtime import SeenWatcher

WISH = {"id": "memory/x", "description": "d", "content": "c", "why": "because"}


class ListDoor:
    """A proposal door that keeps what came through it; ``refusals`` are raised first."""

    def __init__(self, *refusals: HarnessError | OSError) -> None:
        self.refusals = list(refusals)
        self.judged: list[Sequence[Mapping[str, Any]]] = []
        self.made: list[tuple[Sequence[Mapping[str, Any]], tuple[int, str]]] = []

    def judge(self, edits: Sequence[Mapping[str, Any]], trajectory: Trajectory) -> Judged:
        self.judged.append(edits)
        if "secret" in str(edits[-1]):
            raise RefusedError("content holds what looks like a secret", id="secret_in_evidence", hint="mend")
        files = {"x.md": edits[-1].get("content")}
        return Judged(
            str(edits[-1]["action"]), {"id": "memory/x", "description": "d", "files": files}, ("toned down",)
        )

    def propose(self, edits: Sequence[Mapping[str, Any]], trajectory: Trajectory) -> Made | None:
        if self.refusals:
            raise self.refusals.pop(0)
        if edits[-1]["action"] == "delete":
            return None
        self.made.append((edits, trajectory.head))
        return Made(f"01U{len(self.made)}", "c" * 40, "d")


class Session:
    """A log in a folder, with a room for proposals."""

    def __init__(self, folder: Path, door: ListDoor, *, again: bool = False) -> None:
        self.folder = folder
        open_log = Recorder.open if again else Recorder.create
        self.recorder = open_log(folder, SystemClock())
        self.journal = Journal(self.recorder, View("S", "tool"), SeenWatcher())
        self.settled: list[Settled] = []
        self.room = Proposing(self.journal, door, folder, (), self.settled)
        if not again:
            self.journal.record(EventType.HEADER, {"session": folder.name})

    def types(self) -> list[str]:
        return [str(e.type) for e in self.recorder.events]


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "01KA0000000000000000000000"


async def test_a_wish_is_judged_written_and_seen_and_becomes_a_proposal_at_the_end(folder: Path) -> None:
    door = ListDoor()
    session = Session(folder, door)
    said = await session.room.handlers()["harness.propose"](WISH)
    assert said.startswith("Proposed: create memory/x.")
    assert "Note: toned down." in said
    (seen,) = await session.room.handlers()["harness.proposed"]({})
    assert (seen["id"], seen["proposed"], seen["files"]) == ("memory/x", "create", {"x.md": "c"})
    assert session.types() == ["header", "propose"]
    (settled,) = session.room.settle()
    assert session.settled == [settled]
    assert settled.to_json() == {
        "session": folder.name,
        "entry": "memory/x",
        "events": [1],
        "update": "01U1",
        "commit": "c" * 40,
        "summary": "d",
        "refused": "",
    }
    assert door.made[0][1][0] == 1
    assert session.types() == ["header", "propose", "checkpoint"]
    assert session.room.settle() == ()
    assert len(door.made) == 1


async def test_a_refused_wish_leaves_no_trace(folder: Path) -> None:
    session = Session(folder, ListDoor())
    with pytest.raises(RefusedError):
        await session.room.propose({**WISH, "content": "secret"})
    assert session.types() == ["header"]
    assert session.room.settle() == ()


async def test_each_wish_for_an_entry_is_judged_on_top_of_those_before(folder: Path) -> None:
    door = ListDoor()
    session = Session(folder, door)
    await session.room.propose(WISH)
    await session.room.propose({"id": "memory/x", "content": "more", "why": "w"})
    assert [e["action"] for e in door.judged[1]] == ["create", "update"]
    (settled,) = session.room.settle()
    assert settled.events == (1, 2)
    assert len(door.made) == 1


async def test_wishes_that_undo_each_other_are_no_proposal(folder: Path) -> None:
    session = Session(folder, ListDoor())
    await session.room.propose(WISH)
    await session.room.propose({"id": "memory/x", "action": "delete", "why": "w"})
    (settled,) = session.room.settle()
    assert (settled.update, settled.refused) == ("", "")


async def test_what_a_crash_left_is_picked_up_once(folder: Path) -> None:
    session = Session(folder, ListDoor())
    await session.room.propose(WISH)
    session.recorder.close()
    door = ListDoor()
    (settled,) = pick_up(folder, lambda _: door)
    assert settled.update == "01U1"
    assert pick_up(folder, lambda _: door) == ()
    again = Session(folder, door, again=True)
    assert again.room.settle() == ()
    assert [e["proposed"] for e in await again.room.proposed({})] == ["create"]
    assert len(door.made) == 1


async def test_a_running_session_is_left_alone(folder: Path) -> None:
    session = Session(folder, ListDoor())
    await session.room.propose(WISH)
    assert pick_up(folder, lambda _: ListDoor()) == ()
    session.recorder.close()
    assert len(pick_up(folder, lambda _: ListDoor())) == 1


async def test_nothing_is_read_where_nothing_waits(folder: Path) -> None:
    session = Session(folder, ListDoor())
    session.recorder.close()
    (folder / "log.jsonl").unlink()
    assert pick_up(folder, lambda _: ListDoor()) == ()


@pytest.mark.parametrize(
    ("error", "again"),
    [
        (UsageError("who are you", id="no_identity", hint="set user.name"), True),
        (ConflictError("held", id="moved_ref"), True),
        (OSError(28, "No space left on device"), True),
        (RefusedError("a secret", id="secret_in_evidence"), False),
        (HarnessError("proposes the same", id="repeated_proposal"), False),
    ],
)
async def test_what_may_work_later_is_tried_again(
    folder: Path, error: HarnessError | OSError, again: bool
) -> None:
    session = Session(folder, ListDoor(error))
    await session.room.propose(WISH)
    (settled,) = session.room.settle()
    assert (error.strerror if isinstance(error, OSError) else error.message) in settled.refused
    session.recorder.close()
    assert len(pick_up(folder, lambda _: ListDoor())) == int(again)


async def test_a_lost_state_file_loses_nothing(folder: Path) -> None:
    """A state that cannot be read counts as: everything waits; the door sees repetitions."""
    session = Session(folder, ListDoor())
    await session.room.propose(WISH)
    session.recorder.close()
    (folder / STATE_NAME).write_text("{")
    assert len(pick_up(folder, lambda _: ListDoor())) == 1


async def test_the_state_is_on_the_disk_before_the_wish(
    folder: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    session = Session(folder, ListDoor())

    def full(*_: Any) -> None:
        raise OSError(28, "No space left on device")

    monkeypatch.setattr(proposing, "write_whole", full)
    with pytest.raises(HarnessError, match="No space left"):
        await session.room.propose(WISH)
    assert session.types() == ["header"]


async def test_the_state_names_what_is_done(folder: Path) -> None:
    session = Session(folder, ListDoor())
    await session.room.propose(WISH)
    assert json.loads((folder / STATE_NAME).read_text()) == {"done": [], "waits": True}
    session.room.settle()
    assert json.loads((folder / STATE_NAME).read_text()) == {"done": [1], "waits": False}
