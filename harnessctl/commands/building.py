"""From what the user asked for to what the turns of one session work with: the root's and every child's."""

from __future__ import annotations

import json
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from pathlib import Path
from typing import cast

from harnessctl.commands.safety import Safety, environment_of, gates_of
from harnessctl.domain.entry import Entry
from harnessctl.domain.limits import Limits
from harnessctl.domain.snapshot import Snapshot
from harnessctl.layers.l1_context.repository_files import RepositoryText
from harnessctl.layers.l1_context.skills import entry_for_cells
from harnessctl.layers.l1_context.view import View
from harnessctl.layers.l2_execution.python import PythonChoice
from harnessctl.models.port import ModelClient
from harnessctl.rlm.asides import Asides
from harnessctl.rlm.budget import Budget
from harnessctl.rlm.clock import NoPin
from harnessctl.rlm.door import Door
from harnessctl.rlm.inbox import Inbox
from harnessctl.rlm.interrupts import Interrupts
from harnessctl.rlm.journal import Journal
from harnessctl.rlm.kernels import Kernels, RunningKernel, Wrap, kernel_starter
from harnessctl.rlm.parts import TurnParts
from harnessctl.rlm.ports import Clock, HarnessState, PinWatch, Proposer, Watcher, WorkTree
from harnessctl.rlm.proposing import Proposing
from harnessctl.rlm.protocol import Protocol
from harnessctl.rlm.recorder import Recorder, StorageError
from harnessctl.rlm.result import write_whole
from harnessctl.rlm.skill_copies import MODULES_NAME, SkillCopies


@dataclass(frozen=True)
class RunSpec:
    """What the user asked for.

    :ivar protocol: ``tool``, ``fence`` or ``auto`` (what the model can do).
    :ivar prompt_tokens: budget of the rendered harness.
    :ivar variables: the environment the kernel inherits, less the keys.
    :ivar key_names: variables the model client takes keys from; they never reach the kernel.
    :ivar session: id of the session; "" makes one.
    :ivar model_name: the name that finds the model again.
    :ivar safety: what the run is kept within.
    :ivar linked: for a work tree made for this session: {"from": its repository's, "commit": its HEAD}.
    """

    task: str
    python: PythonChoice
    limits: Limits
    protocol: str = "auto"
    params: tuple[tuple[str, float], ...] = ()
    max_output: int | None = None
    prompt_tokens: int = 2000
    skip_broken: bool = False
    variables: Mapping[str, str] = field(default_factory=dict)
    key_names: tuple[str, ...] = ()
    repository: str = ""
    version: str = ""
    session: str = ""
    model_name: str = ""
    linked: Mapping[str, str] | None = None
    safety: Safety = field(default_factory=Safety)


@dataclass(frozen=True)
class RunPorts:
    """Adapters, built by the composition root.

    :ivar proposer: None where nothing can be proposed.
    :ivar repository_files: what AGENTS.md and CLAUDE.md of the work tree say.
    """

    model: ModelClient
    worktree: WorkTree
    harness_state: HarnessState
    clock: Clock
    watcher: Watcher
    interrupts: Interrupts
    pin: PinWatch = field(default_factory=NoPin)
    inbox: Inbox = field(default_factory=Inbox)
    proposer: Proposer | None = None
    repository_files: RepositoryText = field(default_factory=RepositoryText)


def parts_of(spec: RunSpec, snapshot: Snapshot, ports: RunPorts, recorder: Recorder, view: View) -> TurnParts:
    """What the turns of a session work with; what its log holds already counts against the budget."""
    journal = Journal(recorder, view, ports.watcher)
    entries = tuple(snapshot.entries.values())
    wall = spec.limits.wall_s
    left = None if wall is None else wall - journal.tally.running_s
    header = recorder.events[0].data if recorder.events else None
    environment = _environment(spec, recorder.folder.name)
    budget = Budget(spec.limits, dict(journal.tally.used))
    door = Door()
    door.admit(Asides(journal, ports.model, budget, spec.params))
    copies = SkillCopies(snapshot.entries, recorder.folder, journal, ports.watcher)
    door.admit(copies)
    proposing = None
    if ports.proposer is not None:
        proposing = Proposing(journal, ports.proposer, recorder.folder, snapshot.entries.keys())
        door.admit(proposing)
    return TurnParts(
        journal=journal,
        model=ports.model,
        kernels=_kernels(spec, ports, recorder.folder, entries, door, copies),
        budget=budget,
        limits=spec.limits,
        interrupts=ports.interrupts,
        watcher=ports.watcher,
        clock=ports.clock,
        protocol=view.protocol,
        inbox=ports.inbox,
        pin=ports.pin,
        door=door,
        proposing=proposing,
        copies=copies,
        params=spec.params,
        max_output=spec.max_output,
        deadline=None if left is None else ports.clock.monotonic() + left,
        gates=gates_of(spec.safety, environment, ports.worktree, header),
    )


def protocol_of(wanted: str, model: ModelClient) -> Protocol:
    """How the model asks for code: as wanted, with ``auto`` as it can."""
    if wanted in ("tool", "fence"):
        return cast(Protocol, wanted)
    return "tool" if model.identity.tools else "fence"


def _kernels(
    spec: RunSpec,
    ports: RunPorts,
    session: Path,
    entries: tuple[Entry, ...],
    door: Door,
    copies: SkillCopies,
) -> Kernels:
    folder = session / "kernel"
    file = folder / "entries.json"
    try:
        folder.mkdir(mode=0o700, exist_ok=True)
        write_whole(file, json.dumps([entry_for_cells(entry) for entry in entries]).encode())
    except OSError as error:
        raise StorageError(file, error.strerror or str(error)) from error
    environment = _environment(spec, session.name, folder) | dict(spec.python.variables)
    root, sandbox = ports.worktree.root, spec.safety.sandbox
    wrap: Wrap | None = None
    if sandbox is not None:
        home = folder / "ipython"
        home.mkdir(mode=0o700, exist_ok=True)

        def wrap(command: Sequence[str], sockets: Path) -> Sequence[str]:
            readable = (file, file.with_name(MODULES_NAME), copies.folder)
            return sandbox.wrap(command, (sockets, home), readable)

    begin = kernel_starter(
        spec.python.path, root, folder, environment, file, door, wrap, command=spec.python.command
    )

    async def start() -> RunningKernel:
        copies.ready()
        return await begin()

    return Kernels(start)


def _environment(spec: RunSpec, session: str, folder: Path | None = None) -> dict[str, str]:
    return environment_of(
        spec.variables, spec.safety, session=session, keys=spec.key_names, python=spec.python, folder=folder
    )
