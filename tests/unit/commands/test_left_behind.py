"""What cut-off sessions wished is proposed by whoever comes next, and said."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from pathlib import Path
from typing import Any

from harnessctl.commands.left_behind import propose_left_behind
from harnessctl.domain.errors import HarnessError, NotFoundError
from harnessctl.domain.pin import Pin, PinSource
from harnessctl.domain.snapshot import Snapshot
from harnessctl.domain.trajectory import Trajectory
from harnessctl.rlm.ports import Judged, Made
from harnessctl.rlm.proposing import STATE_NAME
from tests.fakes.trajectories import build, write

PIN = Pin(PinSource.TIP, "harness", "c" * 40, "d" * 40, "sha256:0")
SESSIONS = [f"01KA00000000000000000000{n:02}" for n in range(3)]


class OneDoor:
    """Proposes anything; ``refusal`` instead where it is given."""

    def __init__(self, refusal: HarnessError | None = None) -> None:
        self.refusal = refusal

    def judge(self, edits: Sequence[Mapping[str, Any]], trajectory: Trajectory) -> Judged:
        raise AssertionError("judged when it was wished")

    def propose(self, edits: Sequence[Mapping[str, Any]], trajectory: Trajectory) -> Made | None:
        if self.refusal:
            raise self.refusal
        return Made(f"U-{trajectory.session[-2:]}", "e" * 40, "s")


def leave(sessions: Path, name: str, *, header: Mapping[str, Any] | None = None) -> Path:
    """A session that was cut off after a wish."""
    data = {"session": name, "pin": PIN.to_json()} if header is None else dict(header)
    wish = {"entry": "memory/x", "action": "create", "edit": {}, "shown": None, "text": "create memory/x: w"}
    folder = write(build([("header", data), ("propose", wish)], name), sessions)
    (folder / STATE_NAME).write_text('{"done": [], "waits": true}')
    return folder


def snapshot_at(commit: str) -> Snapshot:
    assert commit == "c" * 40
    return Snapshot(commit)


def test_all_of_them_once_each_said(tmp_path: Path) -> None:
    for name in SESSIONS[:2]:
        leave(tmp_path, name)
    said: list[str] = []
    found = propose_left_behind(tmp_path, snapshot_at, lambda _: OneDoor(), said.append)
    assert [(one.session, one.update) for one in found] == [(SESSIONS[0], "U-00"), (SESSIONS[1], "U-01")]
    assert said[0] == (
        f"session {SESSIONS[0]}: what it wished for memory/x is now a proposal: harnessctl review show U-00"
    )
    assert propose_left_behind(tmp_path, snapshot_at, lambda _: OneDoor(), said.append) == ()
    assert len(said) == 2


def test_a_refusal_is_said_and_no_reason_to_stop(tmp_path: Path) -> None:
    leave(tmp_path, SESSIONS[0])
    said: list[str] = []
    door = OneDoor(HarnessError("it holds a secret", id="secret_in_evidence"))
    propose_left_behind(tmp_path, snapshot_at, lambda _: door, said.append)
    assert said == [f"session {SESSIONS[0]}: what it wished for memory/x is no proposal: it holds a secret"]


def test_what_cannot_be_read_does_not_stand_in_the_way(tmp_path: Path) -> None:
    leave(tmp_path, SESSIONS[0], header={"session": SESSIONS[0]})
    leave(tmp_path, SESSIONS[1])
    (leave(tmp_path, SESSIONS[2]) / "log.jsonl").unlink()

    def gone(commit: str) -> Snapshot:
        raise NotFoundError(f"commit {commit[:4]} is not here", id="pin_missing")

    said: list[str] = []
    assert propose_left_behind(tmp_path, gone, lambda _: OneDoor(), said.append) == ()
    assert len(said) == 3
    assert all("it cannot be done" in line for line in said)
    assert "commit cccc is not here" in said[1]


def test_without_sessions_there_is_nothing(tmp_path: Path) -> None:
    assert propose_left_behind(tmp_path / "none", snapshot_at, lambda _: OneDoor(), print) == ()
