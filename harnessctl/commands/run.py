"""``run``: one task, one session, one result."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harnessctl.commands.building import RunPorts, RunSpec, check_price, header_of, parts_of, protocol_of
from harnessctl.commands.children import Household
from harnessctl.commands.loading import check_loads
from harnessctl.commands.safety import sandbox_json
from harnessctl.domain.change import FileChange
from harnessctl.domain.errors import ExitCode, NotFoundError, UsageError
from harnessctl.domain.event import EventType
from harnessctl.domain.ids import new_ulid
from harnessctl.domain.outcome import RunStatus
from harnessctl.domain.pin import Pin
from harnessctl.domain.snapshot import Snapshot
from harnessctl.layers.l1_context.view import View
from harnessctl.rlm.ending import exit_code
from harnessctl.rlm.gates import Gates, last_runs
from harnessctl.rlm.log import LOG_NAME
from harnessctl.rlm.occupancy import occupied
from harnessctl.rlm.parts import TurnParts
from harnessctl.rlm.ports import Watcher, WorkTree
from harnessctl.rlm.prompt import SessionFacts, system_message
from harnessctl.rlm.recorder import Recorder
from harnessctl.rlm.reopen import Addition
from harnessctl.rlm.result import Moved, RunResult, artifact, write_whole
from harnessctl.rlm.seat import Seat
from harnessctl.rlm.session import SessionEnd, run_session
from harnessctl.rlm.signals import heard

PATCH_NAME = "changes.patch"
#: Stands in the machine's state folder once the user has been told.
TOLD_NAME = "told-kernel-rights"
KERNEL_RIGHTS = (
    "Code that the model writes runs with your rights on this machine: it can read and change your files "
    "and use the network. This is said once."
)


@dataclass(frozen=True)
class RunOutcome:
    """What a run came to.

    :ivar folder: the session's folder with log and ``result.json``.
    """

    result: RunResult
    folder: Path

    @property
    def exit_code(self) -> ExitCode:
        """Exit code of the command."""
        return exit_code(self.result.ending.status, refused=bool(self.result.moved))


async def run(
    spec: RunSpec, snapshot: Snapshot, pin: Pin, ports: RunPorts, *, state_dir: Path, machine_dir: Path
) -> RunOutcome:
    """Run ``spec.task`` with the entries of ``snapshot``.

    :param state_dir: the repository's state folder; the session gets a folder below ``sessions/``.
    :param machine_dir: state folder of this user on this machine.
    :raises UsageError: no task, or a cost limit with a model of unknown price.
    :raises HarnessError: ``broken_entries``: the pinned revision does not load.
    """
    if not spec.task.strip():
        raise UsageError("there is no task", id="no_task", hint='harnessctl run "what to do"')
    check_price(spec.limits, ports.model)
    skipped = check_loads(snapshot, skip_broken=spec.skip_broken)
    tell_rights_once(machine_dir, ports.watcher)
    session = spec.session or new_ulid()
    spec = replace(spec, session=session)
    folder = state_dir / "sessions" / session
    with occupied(state_dir, ports.worktree.root, session):
        recorder = Recorder.create(folder, ports.clock)
        try:
            async with Household(spec, snapshot, pin, ports, folder.parent, skipped) as household:
                return await _begun(spec, snapshot, pin, ports, recorder, household)
        finally:
            recorder.close()


async def _begun(
    spec: RunSpec, snapshot: Snapshot, pin: Pin, ports: RunPorts, recorder: Recorder, household: Household
) -> RunOutcome:
    protocol, seat = protocol_of(spec.protocol, ports.model), Seat(spec.session)
    facts = SessionFacts(str(ports.worktree.root), spec.python.path, protocol)
    system = system_message(facts, household.harness, ports.repository_files.text)
    parts = parts_of(spec, snapshot, ports, recorder, View(system, protocol), household.circle(seat))
    header = header_of(spec, pin, ports, seat, household.skipped, protocol)
    header |= spec.safety.to_json(parts.gates)
    opening = (Addition(EventType.HEADER, header), Addition(EventType.TASK, {"text": spec.task}))
    return await finish(opening, spec, pin, ports, parts, recorder)


async def finish(
    opening: Sequence[Addition],
    spec: RunSpec,
    pin: Pin,
    ports: RunPorts,
    parts: TurnParts,
    recorder: Recorder,
) -> RunOutcome:
    """Run a session that is ready, to its result. A signal after its end keeps nothing of that from the disk.

    :param opening: what is written first.
    """
    with heard(ports.interrupts):
        end = await run_session(opening, parts, ports.worktree, ports.harness_state)
        begun = opening[0].type is EventType.HEADER  # perhaps nothing of it could be written
        header = opening[0].data if begun else recorder.events[0].data
        recorder.close()
        result = _result(spec, pin, ports, parts, end, header)
        return RunOutcome(kept(ports.worktree, result, recorder.folder), recorder.folder)


def kept(worktree: WorkTree, result: RunResult, folder: Path) -> RunResult:
    """``result`` with its artifacts, written beside the log; where that fails it says so itself."""
    try:
        if result.changes:
            write_whole(folder / PATCH_NAME, worktree.patch(result.tree_before, result.tree_after))
        result = _with_artifacts(result, folder)
        result.write(folder)
    except OSError as error:
        detail = f"the result could not be written into {folder}: {error.strerror or error}"
        ending = replace(result.ending, status=RunStatus.FAILED, reason="storage", detail=detail)
        return replace(result, ending=ending)
    return result


def tell_rights_once(machine_dir: Path, watcher: Watcher) -> None:
    """Say on the first run of this machine what code in the kernel may do."""
    marker = machine_dir / TOLD_NAME
    if not marker.exists():
        watcher.note(KERNEL_RIGHTS)
        machine_dir.mkdir(mode=0o700, parents=True, exist_ok=True)
        marker.touch()


def _result(
    spec: RunSpec,
    pin: Pin,
    ports: RunPorts,
    parts: TurnParts,
    end: SessionEnd,
    header: Mapping[str, Any],
) -> RunResult:
    tally = parts.journal.tally
    return RunResult(
        session=header["session"],
        root=header["root"],
        ending=end.ending,
        verified=end.verified,
        model=ports.model.identity,
        pin=pin,
        python=spec.python.path,
        usage=parts.budget.used,
        tree_before=header["tree"],
        tree_after=end.tree,
        changes=changes_of(ports.worktree, header["tree"], end.tree),
        skipped=tuple(header["skipped"]),
        gates=last_runs(parts.journal.events),
        allowed_inputs=_allowed(parts.gates),
        sandbox=sandbox_json(spec.safety.sandbox),
        cells=tally.cells,
        turns=tally.last_turn,
        proposals=tuple(one.to_json() for one in ports.settled),
        changed_skills=tuple(ports.changed_skills),
        moved=tuple(_moved(name, ports, tally.harness_state, end.harness_state) for name in end.moved),
    )


def _moved(name: str, ports: RunPorts, before: Mapping[str, str], after: Mapping[str, str]) -> Moved:
    old, new = before.get(name), after.get(name)
    commit_of = ports.harness_state.commit_of
    return Moved(name, old, new, commit_of(name, old), commit_of(name, new))


def changes_of(worktree: WorkTree, before: str, after: str) -> tuple[FileChange, ...]:
    """What changed; nothing where a full disk kept the state before from being recorded."""
    try:
        return worktree.changes(before, after)
    except NotFoundError:
        return ()


def _with_artifacts(result: RunResult, folder: Path) -> RunResult:
    names = [name for name in (LOG_NAME, PATCH_NAME) if (folder / name).exists()]
    return replace(result, artifacts=tuple(artifact(folder, name) for name in names))


def _allowed(gates: Gates | None) -> dict[str, list[str]]:
    """What ``--allow-gate-input`` permitted, and what of it was used."""
    if gates is None:
        return {"globs": [], "changed": []}
    return {"globs": list(gates.plan.allowed), "changed": list(gates.allowed_changes)}
