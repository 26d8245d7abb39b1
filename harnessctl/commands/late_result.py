"""The result of a session that was killed between its end and its ``result.json``: made from its log."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping
from pathlib import Path
from typing import Any

from harnessctl.commands.children import stated_of
from harnessctl.commands.resume import Stopped, refuse_ended
from harnessctl.commands.run import RunOutcome, changes_of, kept
from harnessctl.domain.change import FileChange
from harnessctl.domain.contents import MOST_READ
from harnessctl.domain.errors import UsageError
from harnessctl.domain.event import Event, EventType
from harnessctl.domain.limits import Limits
from harnessctl.domain.outcome import RunStatus
from harnessctl.domain.plain_files import read_small
from harnessctl.layers.l0_weights import ModelIdentity, Price
from harnessctl.rlm.ending import Ending
from harnessctl.rlm.gate_inputs import matches
from harnessctl.rlm.gates import last_runs
from harnessctl.rlm.lineage import Kin, descendants, tree_usage
from harnessctl.rlm.log import LOG_NAME
from harnessctl.rlm.ports import WorkTree
from harnessctl.rlm.reopen import last_end
from harnessctl.rlm.result import RESULT_NAME, Moved, RunResult
from harnessctl.rlm.seat import Seat
from harnessctl.rlm.tally import Tally


def ended_without_result(
    stopped: Stopped, task: str, limits: Limits, worktree: Callable[[], WorkTree]
) -> RunOutcome | None:
    """The late result of a session that ended without one; None for a session that can go on.

    :raises UsageError: it can not go on, and its result is there: see :func:`refuse_ended`.
    """
    try:
        refuse_ended(stopped, task, limits)
    except UsageError:
        late = None if task.strip() else late_result(stopped, worktree())
        if late is None:
            raise
        return late
    return None


def late_result(stopped: Stopped, worktree: WorkTree) -> RunOutcome | None:
    """Write the result that the session's last end still lacks; None where there is one, or no end.

    It says what the run would have said, but for the commits of refs that moved: a log has their digests.
    """
    folder, events = stopped.recorder.folder, tuple(stopped.recorder.events)
    end = last_end(events)
    if end is None or _has_result(folder):
        return None
    header, data, stated = stopped.header, end.data, stated_of(events)
    seat, tally = Seat(stopped.session), Tally()
    for event in events[: end.n]:
        tally.add(event)
    kin = tuple(descendants(seat, events, folder.parent))
    changes = changes_of(worktree, header["tree"], data.get("tree") or "")
    reason, detail = str(data.get("reason") or ""), str(data.get("detail") or "")
    ending = Ending(RunStatus(data["status"]), reason, data.get("answer"), detail)
    state = data.get("harness_state") or {}
    result = RunResult(
        session=stopped.session,
        root=header["root"],
        ending=ending,
        verified=bool(data.get("verified")),
        model=_identity(stated["model"]),
        pin=stopped.pin,
        python=header["python"]["path"],
        usage=tree_usage(seat, events, kin),
        tree_before=header["tree"],
        tree_after=data.get("tree") or "",
        changes=changes,
        skipped=tuple(header["skipped"]),
        gates=last_runs(events),
        allowed_inputs=_allowed(header, changes),
        sandbox=header.get("sandbox"),
        cells=tally.cells,
        turns=tally.last_turn,
        proposals=tuple(_proposals(events, kin)),
        changed_skills=tuple(_changed_skills(stopped.session, events, kin)),
        moved=tuple(_moved(name, tally.harness_state, state) for name in data.get("moved") or ()),
    )
    return RunOutcome(kept(worktree, result, folder), folder)


def _has_result(folder: Path) -> bool:
    """Whether ``result.json`` is of this end: it names the log's size, and a later end made that larger."""
    try:
        result = json.loads(read_small(folder / RESULT_NAME, MOST_READ))
        sizes = {one["path"]: one["bytes"] for one in result["artifacts"]}
        return bool(sizes.get(LOG_NAME) == (folder / LOG_NAME).stat().st_size)
    except (OSError, ValueError, KeyError, TypeError):
        return False


def _identity(data: Mapping[str, Any]) -> ModelIdentity:
    price = data.get("price")
    costs = Price(price["prompt"], price["completion"], price.get("cached")) if price else None
    window, most = data.get("window"), data.get("max_output")
    return ModelIdentity(data["provider"], data["name"], window, most, costs, bool(data.get("tools", True)))


def _allowed(header: Mapping[str, Any], changes: tuple[FileChange, ...]) -> dict[str, list[str]]:
    globs = [str(glob) for glob in (header.get("gates") or {}).get("allowed") or ()]
    return {"globs": globs, "changed": sorted(c.path for c in changes if matches(c.path, globs))}


def _moved(name: str, before: Mapping[str, str], after: Mapping[str, str]) -> Moved:
    return Moved(name, before.get(name), after.get(name))


def _since_resume(events: tuple[Event, ...]) -> tuple[Event, ...]:
    """What the last process wrote: a result tells of that one."""
    at = max((e.n for e in events if e.data.get("what") == "resume"), default=0)
    return events[at:]


def _proposals(events: tuple[Event, ...], kin: tuple[Kin, ...]) -> list[Mapping[str, Any]]:
    logs = [*(one.events for one in kin), events]
    last = [event for log in logs for event in _since_resume(log) if event.type is EventType.CHECKPOINT]
    return [one for event in last for one in event.data.get("proposals") or ()]


def _changed_skills(session: str, events: tuple[Event, ...], kin: tuple[Kin, ...]) -> list[Mapping[str, Any]]:
    logs = [*((one.seat.session, one.events) for one in kin), (session, events)]
    return [
        {"session": name, "entry": event.data.get("entry"), "files": event.data.get("files") or []}
        for name, log in logs
        for event in _since_resume(log)
        if event.data.get("what") == "skill_copy"
    ]
