"""What cut-off sessions wished to propose: ``run``, ``resume`` and ``refine`` begin with it."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

from harnessctl.domain.errors import HarnessError
from harnessctl.domain.pin import Pin
from harnessctl.domain.snapshot import Snapshot
from harnessctl.domain.trajectory import Trajectory
from harnessctl.rlm.ports import Proposer
from harnessctl.rlm.proposing import STATE_NAME, Settled, pick_up

#: Builds the proposal door of a session from what it read.
DoorOf = Callable[[Snapshot], Proposer]


def propose_left_behind(
    sessions: Path, snapshot_at: Callable[[str], Snapshot], door_of: DoorOf, note: Callable[[str], None]
) -> tuple[Settled, ...]:
    """Make the proposals that sessions left as wishes; what came of it is said, one line each.

    Never stands in the way of what the user asked for: what cannot be done is said as well.

    :param sessions: folder with one folder a session.
    :param snapshot_at: entries at a commit.
    """

    def proposer_of(trajectory: Trajectory) -> Proposer:
        pin: Any = trajectory.header["pin"]
        return door_of(snapshot_at(Pin.from_json(pin).commit))

    found: list[Settled] = []
    for state in sorted(sessions.glob(f"*/{STATE_NAME}")):
        session = state.parent.name
        try:
            settled = pick_up(state.parent, proposer_of)
        except (HarnessError, OSError, KeyError, ValueError) as error:
            note(f"session {session} wished to propose something, and it cannot be done: {error}")
            continue
        found += settled
        for one in settled:
            note(f"session {session}: {_said(one)}")
    return tuple(found)


def _said(one: Settled) -> str:
    if one.update:
        return f"what it wished for {one.entry} is now a proposal: harnessctl review show {one.update}"
    return f"what it wished for {one.entry} is no proposal: {one.refused or 'it took the wish back'}"
