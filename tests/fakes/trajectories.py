"""Hand-built trajectories: a short session with one cell, or any list of events."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path
from typing import Any

from harnessctl.domain.event import GENESIS, Event, EventType
from harnessctl.domain.trajectory import Trajectory

SESSION = "01JDXYZ0000000000000000000"
OUTPUT = 5


def build(steps: Sequence[tuple[str, dict[str, Any]]], session: str = SESSION) -> Trajectory:
    """A trajectory of ``(type, data)`` steps, with whole hashes."""
    events: list[Event] = []
    prev = GENESIS
    for n, (kind, data) in enumerate(steps):
        event = Event.make(
            n=n,
            t="2026-11-29T10:00:00.000Z",
            type=EventType(kind),
            turn=1 if n > 1 else 0,
            data=data,
            prev=prev,
        )
        events.append(event)
        prev = event.hash
    return Trajectory(session, tuple(events))


def session(
    output: str = "tracked: app.py\n",
    *,
    verified: bool = False,
    more: Sequence[tuple[str, dict[str, Any]]] = (),
) -> Trajectory:
    """Task, request, reply with code, cell, output (event 5), result, ``more``, final reply, end."""
    code = "print(subprocess.run(['git', 'ls-files']))"
    return build(
        [
            ("header", {"schema": 1, "session": SESSION, "parent": None}),
            ("task", {"text": "how many files are tracked?"}),
            ("request", {"append": [{"role": "user", "content": "how many files are tracked?"}]}),
            (
                "reply",
                {"request": 2, "content": "I count.", "calls": [{"id": "c", "name": "x", "code": code}]},
            ),
            ("cell", {"cell": 1, "code": code, "reply": 3, "call": "c"}),
            ("output", {"cell": 1, "stream": "stdout", "text": output, "bytes": len(output), "cut": 0}),
            ("result", {"cell": 1, "status": "ok", "text": f"[stdout]\n{output}"}),
            *more,
            ("reply", {"request": 2, "content": "One file, app.py.", "calls": []}),
            ("end", {"status": "success", "reason": "", "verified": verified, "answer": "One file, app.py."}),
        ]
    )


def write(trajectory: Trajectory, sessions: Path) -> Path:
    """The trajectory as a log on disk; the session's folder."""
    folder = sessions / trajectory.session
    folder.mkdir(parents=True)
    (folder / "log.jsonl").write_bytes(b"".join(event.to_line() for event in trajectory.events))
    return folder
