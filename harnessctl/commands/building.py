"""From what the user asked for to what the turns of one session work with: the root's and every child's."""

from __future__ import annotations

import json
from collections.abc import Callable, Mapping, Sequence
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any, cast

from harnessctl.commands.safety import Safety, environment_of, gates_of
from harnessctl.config import PROMPT_TOKENS
from harnessctl.domain.entry import Entry
from harnessctl.domain.errors import UsageError
from harnessctl.domain.event import LOG_SCHEMA
from harnessctl.domain.limits import Limits
from harnessctl.domain.pin import Pin
from harnessctl.domain.snapshot import Snapshot
from harnessctl.layers.l1_context.repository_files import RepositoryText
from harnessctl.layers.l1_context.skills import entry_for_cells
from harnessctl.layers.l1_context.view import View
from harnessctl.layers.l2_execution.process import Forking, GuardedProcess, Launch
from harnessctl.layers.l2_execution.python import PythonChoice
from harnessctl.layers.l2_execution.registration import KERNEL_FOLDER
from harnessctl.models.port import ModelClient
from harnessctl.rlm.asides import Asides
from harnessctl.rlm.budget import Budget
from harnessctl.rlm.children import Census, Children, Spawn
from harnessctl.rlm.clock import NoPin
from harnessctl.rlm.compaction_wish import CompactionWish
from harnessctl.rlm.door import Door
from harnessctl.rlm.inbox import Inbox
from harnessctl.rlm.interrupts import Interrupts
from harnessctl.rlm.journal import Journal
from harnessctl.rlm.kernels import PACKAGES, Kernels, RunningKernel, Wrap, kernel_starter
from harnessctl.rlm.parts import TurnParts
from harnessctl.rlm.ports import Clock, HarnessState, PinWatch, Proposer, Watcher, WorkTree
from harnessctl.rlm.post import Letters, Post
from harnessctl.rlm.prompt import base_prompt_digest
from harnessctl.rlm.proposing import Proposing, Settled
from harnessctl.rlm.protocol import Protocol
from harnessctl.rlm.recall import Recall
from harnessctl.rlm.recorder import Recorder, StorageError
from harnessctl.rlm.reopen import FILES_STAY
from harnessctl.rlm.result import write_whole
from harnessctl.rlm.seat import Seat
from harnessctl.rlm.skill_copies import MODULES_NAME, SkillCopies

#: A name -> the model that has it, and the name that finds it again from any folder.
ModelNamed = Callable[[str], tuple[ModelClient, str]]


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
    :ivar files: what sessions that are picked up are told of the files on disk.
    """

    task: str
    python: PythonChoice
    limits: Limits
    protocol: str = "auto"
    params: tuple[tuple[str, float], ...] = ()
    max_output: int | None = None
    prompt_tokens: int = PROMPT_TOKENS
    skip_broken: bool = False
    variables: Mapping[str, str] = field(default_factory=dict)
    key_names: tuple[str, ...] = ()
    repository: str = ""
    version: str = ""
    session: str = ""
    model_name: str = ""
    linked: Mapping[str, str] | None = None
    safety: Safety = field(default_factory=Safety)
    files: str = FILES_STAY


@dataclass(frozen=True)
class RunPorts:
    """Adapters, built by the composition root.

    :ivar proposer: None where nothing can be proposed.
    :ivar settled: gets what became of what the tree's cells wished to be remembered.
    :ivar changed_skills: gets the copies of skills that the tree's cells changed.
    :ivar model_named: finds a child's model; None where children have their parent's alone.
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
    settled: list[Settled] = field(default_factory=list)
    changed_skills: list[Mapping[str, Any]] = field(default_factory=list)
    model_named: ModelNamed | None = None
    repository_files: RepositoryText = field(default_factory=RepositoryText)


@dataclass(frozen=True)
class Circle:
    """What a session shares with the others of its tree, and its place among them.

    :ivar budget: of the tree; what is in the logs already is booked.
    :ivar deadline: moment at which the session above ends, None without one.
    :ivar launch: starts the processes of its kernels.
    """

    seat: Seat
    budget: Budget
    census: Census
    post: Post
    spawn: Spawn
    deadline: float | None = None
    launch: Launch = GuardedProcess.start


def check_price(limits: Limits, model: ModelClient) -> None:
    """:raises UsageError: there is a limit of cost, and what ``model`` costs is not known."""
    if limits.cost_usd is not None and model.identity.price is None:
        raise UsageError(
            f"there is a cost limit, and the price of {model.identity} is not known",
            id="unknown_price",
            hint="limit tokens instead (--max-tokens), or choose a model with a known price",
        )


def parts_of(
    spec: RunSpec, snapshot: Snapshot, ports: RunPorts, recorder: Recorder, view: View, circle: Circle
) -> TurnParts:
    """What the turns of a session work with."""
    journal = Journal(recorder, view, ports.watcher)
    entries = tuple(snapshot.entries.values())
    wall = spec.limits.wall_s
    left = None if wall is None else wall - journal.tally.running_s
    header = recorder.events[0].data if recorder.events else None
    environment = _environment(spec, recorder.folder.name)
    moments = [] if left is None else [ports.clock.monotonic() + left]
    deadline = min([*moments, *([] if circle.deadline is None else [circle.deadline])], default=None)
    seat, budget, door = circle.seat, circle.budget, Door()
    door.admit(Asides(journal, ports.model, budget, spec.params, seat.node))
    children = Children(seat, journal, budget, circle.census, circle.spawn, deadline)
    door.admit(children)
    letters = Letters(seat, circle.post, ports.inbox, journal)
    door.admit(letters)
    copies = SkillCopies(snapshot.entries, recorder.folder, journal, ports.changed_skills)
    door.admit(copies)
    recall, wish = Recall(journal, recorder.folder), CompactionWish()
    door.admit(recall)
    door.admit(wish)
    proposing = None
    if ports.proposer is not None:
        known = snapshot.entries.keys()
        proposing = Proposing(journal, ports.proposer, recorder.folder, known, ports.settled)
        door.admit(proposing)
    return TurnParts(
        journal=journal,
        model=ports.model,
        kernels=_kernels(spec, ports, recorder.folder, entries, door, copies, circle.launch),
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
        compaction=wish,
        recall=recall,
        params=spec.params,
        max_output=spec.max_output,
        deadline=deadline,
        consumer=seat.name,
        node=seat.node,
        children=children,
        letters=letters,
        eager=seat.depth == 0,
        gates=gates_of(spec.safety, environment, ports.worktree, header),
    )


def header_of(
    spec: RunSpec, pin: Pin, ports: RunPorts, seat: Seat, skipped: tuple[str, ...], protocol: str
) -> dict[str, Any]:
    """Data of the header of the session at ``seat``, but for what keeps it safe."""
    return {
        "schema": LOG_SCHEMA,
        "session": seat.session,
        "parent": seat.parent,
        "name": seat.name,
        "node": seat.node,
        "depth": seat.depth,
        "version": spec.version,
        "repository": spec.repository,
        "root": str(ports.worktree.root),
        "linked": dict(spec.linked) if spec.linked else None,
        "pin": pin.to_json(),
        "skipped": list(skipped),
        "model": ports.model.identity.to_json(),
        "model_name": spec.model_name,
        "protocol": protocol,
        "python": spec.python.to_json(),
        "base_prompt": base_prompt_digest(),
        "repository_files": [file.to_json() for file in ports.repository_files.files],
        "repository_files_tokens": ports.repository_files.budget,
        "repository_files_left_out": list(ports.repository_files.left_out),
        "limits": asdict(spec.limits),
        "harness_state": dict(ports.harness_state.capture()),
        "tree": ports.worktree.tree_hash(),
    }


def resume_facts(
    spec: RunSpec, model: ModelClient, protocol: str, harness_state: Mapping[str, str]
) -> dict[str, Any]:
    """What the record that picks a session up states: with what it goes on."""
    return {
        "model": model.identity.to_json(),
        "model_name": spec.model_name,
        "protocol": protocol,
        "limits": asdict(spec.limits),
        "harness_state": dict(harness_state),
        "version": spec.version,
    }


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
    launch: Launch,
) -> Kernels:
    folder = session / KERNEL_FOLDER
    file = folder / "entries.json"
    environment = _environment(spec, session.name, folder) | dict(spec.python.variables)
    root, sandbox = ports.worktree.root, spec.safety.sandbox
    wrap: Wrap | None = None
    if sandbox is not None:

        def wrap(command: Sequence[str], sockets: Path) -> Sequence[str]:
            home = folder / "ipython"
            home.mkdir(mode=0o700, exist_ok=True)
            readable = (file, file.with_name(MODULES_NAME), copies.folder)
            return sandbox.wrap(command, (sockets, home), readable)

    begin = kernel_starter(
        spec.python.path, root, folder, environment, file, door, wrap, launch, spec.python.command
    )

    async def start() -> RunningKernel:
        try:
            folder.mkdir(mode=0o700, exist_ok=True)
            # Each kernel finds it as pinned, whatever a cell of the one before made of it.
            write_whole(file, json.dumps([entry_for_cells(entry) for entry in entries]).encode())
        except OSError as error:
            raise StorageError(file, error) from error
        copies.ready()
        return await begin()

    return Kernels(start)


def forking_of(spec: RunSpec, session: str, folder: Path) -> Forking:
    """What forks the kernels of children of the root ``session``, whose folder is given."""
    return Forking(spec.python.path, _environment(spec, session, folder / KERNEL_FOLDER), PACKAGES)


def _environment(spec: RunSpec, session: str, folder: Path | None = None) -> dict[str, str]:
    return environment_of(
        spec.variables, spec.safety, session=session, keys=spec.key_names, python=spec.python, folder=folder
    )
