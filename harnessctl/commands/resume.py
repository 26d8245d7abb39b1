"""``sessions resume``: go on with a session that stopped, whatever stopped it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from contextlib import AbstractContextManager, nullcontext, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harnessctl.commands.building import RunPorts, RunSpec, parts_of, resume_facts
from harnessctl.commands.children import Household, header_of_stopped, settle, stated_of, view_again
from harnessctl.commands.linked import LinkedTrees, Made, own_work_tree_again
from harnessctl.commands.loading import check_loads
from harnessctl.commands.run import RunOutcome, finish
from harnessctl.domain.errors import HarnessError, UsageError
from harnessctl.domain.event import Event, EventType
from harnessctl.domain.limits import Limits, Usage
from harnessctl.domain.outcome import RunStatus
from harnessctl.domain.pin import Pin
from harnessctl.domain.snapshot import Snapshot
from harnessctl.layers.l1_context.view import View
from harnessctl.layers.l2_execution.python import PythonChoice
from harnessctl.layers.l2_execution.registration import KERNEL_FOLDER, end_left_over
from harnessctl.rlm.continuation import decide
from harnessctl.rlm.ending import Ending
from harnessctl.rlm.lineage import descendants, tree_usage
from harnessctl.rlm.occupancy import occupied
from harnessctl.rlm.ports import Clock, WorkTree
from harnessctl.rlm.prompt import SessionFacts, system_message
from harnessctl.rlm.protocol import Protocol
from harnessctl.rlm.recorder import Recorder
from harnessctl.rlm.reopen import FILES_ANEW, FILES_STAY, Addition, additions, last_end
from harnessctl.rlm.seat import Seat
from harnessctl.rlm.tally import Tally

#: Said of a work tree that is not as the session left it.
CHANGED_MEANWHILE = "files changed since the session ended; its result will count that as its own"
#: Flags that raise a limit, by the reason that names the limit.
LIMIT_FLAGS = {"turns": "--max-turns", "tokens": "--max-tokens", "cost": "--max-cost", "wall": "--max-time"}


@dataclass(frozen=True)
class Stopped:
    """A session's log, open to go on, and what it says of itself.

    :ivar root: work tree that the session works in.
    :ivar home: work tree whose repository, lock and refs count: another one after ``--worktree``.
    :ivar linked: how ``root`` was made after ``--worktree``: {"from", "commit"}; None otherwise.
    :ivar model_name: the name that finds its model again, "" when the log does not tell.
    """

    recorder: Recorder
    header: Mapping[str, Any]
    pin: Pin
    root: Path
    home: Path
    linked: Mapping[str, str] | None
    model_name: str
    limits: Limits

    @property
    def session(self) -> str:
        """Its id."""
        return str(self.header["session"])

    @property
    def kernel(self) -> str:
        """Name of the installed Jupyter kernel that it runs on, "" for none."""
        return str(self.header["python"].get("kernel") or "")

    @property
    def files_tokens(self) -> int | None:
        """Tokens for the repository's own files, 0 where the user left them unread; None in an older log."""
        said = self.header.get("repository_files_tokens")
        return None if said is None else int(said)

    @property
    def python(self) -> PythonChoice | None:
        """The Python of its kernels, None when that is gone or is that of an installed Jupyter kernel."""
        said = self.header["python"]
        if self.kernel:
            return None
        if not Path(said["path"]).exists():
            return None
        return PythonChoice(said["path"], "as before", virtual=bool(said.get("virtual")))


def open_stopped(folder: Path, clock: Clock) -> Stopped:
    """Open the log in ``folder``; a torn tail is repaired.

    :raises ConflictError: the session runs.
    :raises NotFoundError: there is no log.
    :raises HarnessError: the log is damaged, or holds no header.
    :raises UsageError: another session started it, and goes on with it.
    """
    recorder = Recorder.open(folder, clock)
    try:
        return _stopped(recorder)
    except BaseException:
        recorder.close()
        raise


def _stopped(recorder: Recorder) -> Stopped:
    header, stated = header_of_stopped(recorder), stated_of(recorder.events)
    if header.get("parent"):
        raise UsageError(
            f"session {recorder.folder.name} is a child of {header['parent']}",
            id="child_session",
            hint=f"it goes on with its parent: harnessctl sessions resume {header['parent']}",
        )
    linked = header.get("linked")
    return Stopped(
        recorder=recorder,
        header=header,
        pin=Pin.from_json(header["pin"]),
        root=Path(header["root"]),
        home=Path(linked["from"] if linked else header["root"]),
        linked=linked,
        model_name=str(stated.get("model_name") or ""),
        limits=Limits.from_json(stated["limits"]),
    )


def own_work_tree(
    stopped: Stopped, trees: LinkedTrees, tell: Callable[[str], None]
) -> AbstractContextManager[Made | None]:
    """The work tree made for the session, made anew where it is gone; None for a session without one."""
    if stopped.linked is None:
        return nullcontext(None)
    end = last_end(stopped.recorder.events)
    left = end.data.get("tree") if end is not None else None  # of a session that was cut off it is not known
    lost = not left or left != stopped.header["tree"]
    made = Made(stopped.root, stopped.linked["commit"], stopped.recorder.folder, lost=lost)
    return own_work_tree_again(trees, stopped.home, made, tell)


def files_told(made: Made | None) -> str:
    """What the model is told of the files on disk."""
    return FILES_ANEW.format(commit=made.commit) if made is not None and made.lost else FILES_STAY


async def resume(
    stopped: Stopped, spec: RunSpec, snapshot: Snapshot, ports: RunPorts, *, state_dir: Path
) -> RunOutcome:
    """Go on with ``stopped`` to its next end. Nothing that ran is run again.

    :param spec: limits and task (more work for it, or "") among others; its model is ``ports.model``.
    :raises UsageError: it has ended with an answer and there is no further task, or a limit is used up.
    :raises OccupiedError: another session works in its work tree.
    """
    refuse_ended(stopped, spec.task, spec.limits)
    check_loads(snapshot, skip_broken=bool(stopped.header["skipped"]))
    folder = stopped.recorder.folder
    with occupied(state_dir, stopped.root, stopped.session):
        end_left_over(folder / KERNEL_FOLDER, stopped.session)
        skipped = tuple(stopped.header["skipped"])
        async with Household(spec, snapshot, stopped.pin, ports, folder.parent, skipped) as household:
            return await _picked_up(stopped, spec, snapshot, ports, household)


async def _picked_up(
    stopped: Stopped, spec: RunSpec, snapshot: Snapshot, ports: RunPorts, household: Household
) -> RunOutcome:
    events, seat = stopped.recorder.events, Seat(stopped.session)
    household.gather(seat, events)
    view, circle = _view(stopped, spec, household, ports), household.circle(seat)
    parts = parts_of(spec, snapshot, ports, stopped.recorder, view, circle)
    tally = parts.journal.tally
    # After an end the fence was looked at; a cut-off run is still to be compared with its beginning.
    end = last_end(events)
    state = ports.harness_state.capture() if end is not None else tally.harness_state
    if end is not None and spec.files == FILES_STAY and _changed_since(end, ports.worktree):
        parts.watcher.note(CHANGED_MEANWHILE)
    facts = resume_facts(spec, ports.model, view.protocol, state)
    opening = additions(events, tally.variables, facts, spec.files)
    below = tuple(household.restored(seat, events, parts.deadline))
    settle(opening, seat, below, parts, household.budget)
    if spec.task.strip():
        opening.append(Addition(EventType.TASK, {"text": spec.task}))
    return await finish(opening, spec, stopped.pin, ports, parts, stopped.recorder)


def _changed_since(end: Event, worktree: WorkTree) -> bool:
    with suppress(HarnessError):  # git cannot list it: the session's end will say so
        return end.data.get("tree") not in ("", None, worktree.tree_hash())
    return False


def refuse_ended(stopped: Stopped, task: str, limits: Limits) -> None:
    """Refuse what would end at once: an answered session without a further task, a spent limit.

    :raises UsageError: ``session_ended`` or ``limit_used``.
    """
    events = stopped.recorder.events
    end = last_end(events)
    if end is not None and end.data.get("status") == RunStatus.SUCCESS and not task.strip():
        raise UsageError(
            f"session {stopped.session} has ended with an answer",
            id="session_ended",
            hint='give it more to do: --task "…"',
        )
    tally = Tally()
    for event in events:
        tally.add(event)
    seat = Seat(stopped.session)
    kin = descendants(seat, events, stopped.recorder.folder.parent)
    ending = decide(events, limits, sum(tree_usage(seat, events, kin).values(), Usage()))
    if limits.wall_s is not None and tally.running_s >= limits.wall_s:
        detail = f"{tally.running_s:.0f} of {limits.wall_s:.0f} s of wall clock used"
        ending = Ending(RunStatus.BUDGET_EXHAUSTED, "wall", detail=detail)
    if ending is not None and ending.status is RunStatus.BUDGET_EXHAUSTED:
        raise UsageError(
            f"the session has used up a limit: {ending.detail}",
            id="limit_used",
            hint=f"raise it with {LIMIT_FLAGS[ending.reason]}; what was used before counts",
        )


def _view(stopped: Stopped, spec: RunSpec, household: Household, ports: RunPorts) -> View:
    def system(protocol: Protocol) -> str:
        facts = SessionFacts(str(stopped.root), spec.python.path, protocol)
        return system_message(facts, household.harness, ports.repository_files.text)

    return view_again(stopped.recorder.events, spec, ports.model, system)


def merged_limits(logged: Limits, flags: Mapping[str, Any]) -> Limits:
    """The session's own limits, with those given on the command line in their place.

    :param flags: by dotted name, such as ``budgets.turns``; None for what was not given.
    """
    given = {
        key.removeprefix("budgets."): value
        for key, value in flags.items()
        if key.startswith("budgets.") and value is not None
    }
    return replace(logged, **given)
