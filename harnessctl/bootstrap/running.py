"""``run`` and ``sessions resume``: one session, from its options to its result."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harnessctl.bootstrap.adapters import (
    LinkedTrees,
    Models,
    model_source,
    propose_left_behind,
    proposer_of,
    python_for,
    repository_files,
    safety_of,
)
from harnessctl.bootstrap.opening import settings, store, store_at, unread_settings
from harnessctl.config import Environment, Settings, read_environment
from harnessctl.domain.errors import UsageError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from contextlib import AbstractContextManager

    from harnessctl.commands.building import RunPorts, RunSpec
    from harnessctl.commands.run import RunOutcome
    from harnessctl.commands.safety import SafetyOptions
    from harnessctl.domain.snapshot import Snapshot
    from harnessctl.layers.l2_execution.python import PythonChoice
    from harnessctl.layers.l3_durable.git.worktree import GitWorkTree
    from harnessctl.layers.l3_durable.store import HarnessStore
    from harnessctl.models.local_weights import OnProgress
    from harnessctl.rlm.ports import Watcher

    #: Given a function that queues a message, listens for what the user types while the context lasts.
    Steering = Callable[[Callable[[str], None]], AbstractContextManager[None]]


def run_session(
    *,
    task: str,
    watcher: Watcher,
    model: str | None = None,
    at: str | None = None,
    python: str | None = None,
    kernel: str | None = None,
    flags: Mapping[str, Any] | None = None,
    skip_broken: bool = False,
    allow_revoked: bool = False,
    safety: SafetyOptions | None = None,
    worktree: bool = False,
    steering: Steering | None = None,
    on_progress: OnProgress | None = None,
) -> RunOutcome:
    """Run ``task`` on the pinned harness, or on ``at``; errors as :func:`commands.run.run`.

    After the session's end signals have no effect until :func:`harnessctl.rlm.signals.let_go`.

    :param flags: settings given on the command line, by dotted name.
    :param safety: gates, sandbox and trust as the command line has them.
    :param worktree: work in a work tree made for this session.
    :param steering: hands over what the user types while the session works.
    """
    from harnessctl.commands import run as use_case
    from harnessctl.commands.linked import own_work_tree
    from harnessctl.commands.safety import (
        SafetyOptions,
        brought_python,
        gate_specs,
        say_exposure,
        settle_trust,
    )
    from harnessctl.domain.ids import new_ulid
    from harnessctl.layers.l2_execution.protection import close_memory

    close_memory()
    options = safety or SafetyOptions()
    environment = read_environment()
    harness = store(environment)
    if harness.repository.root is None:
        raise UsageError(
            f"{harness.root} is a bare repository: there are no files to work on",
            id="no_work_tree",
            hint="run in a clone or a work tree of it; git config core.bare says whether it is bare",
        )
    propose_left_behind(environment, harness, watcher.note)
    pin = harness.pin(at, allow_revoked=allow_revoked)
    snapshot = harness.snapshot_at(pin.commit)
    chosen = settings(environment, harness, snapshot, flags)
    for line in unread_settings(environment, harness, pin.commit):
        watcher.note(f"note: {line}")
    source = model_source(environment, chosen, model, on_progress)
    pinned = () if options.no_gates else chosen.gates
    settle_trust(pinned, None if python or kernel else brought_python(chosen), harness.state_dir, options)
    kernel_python = python_for(harness, chosen, python, kernel, trust=True)
    kept = safety_of(
        environment,
        harness,
        kernel_python,
        gate_specs(pinned, options.gates),
        sandbox={"network": options.network} if options.sandbox else None,
        allowed=options.allow_gate_inputs,
        extra=options.gate_inputs,
    )
    if options.gate_inputs and not kept.gates:
        raise UsageError(
            "--gate-input says by what a gate judges, and there is no gate",
            id="no_gate",
            hint="add --gate CMD",
        )
    say_exposure(kept, chosen.api_key_env, watcher.note)
    # The model's library takes seconds to load: it begins while the kernel starts.
    source.warm()
    models = Models(source, lambda name: model_source(environment, chosen, name, on_progress))
    session = new_ulid()
    spec = replace(
        _spec(environment, harness, chosen, kernel_python),
        task=task,
        skip_broken=skip_broken,
        session=session,
        model_name=source.name,
        safety=kept,
    )

    async def begin(ports: RunPorts) -> RunOutcome:
        ports = _with_harness(ports, environment, harness, snapshot, chosen.prompt_files_tokens)
        return await use_case.run(
            spec, snapshot, pin, ports, state_dir=harness.state_dir, machine_dir=environment.state_home
        )

    if not worktree:
        return _in_loop(environment, harness, models, (session, pin.commit), watcher, steering, begin)
    folder = harness.state_dir / "sessions" / session
    with own_work_tree(LinkedTrees(environment), harness.root, folder, watcher.note) as made:
        spec = replace(
            spec, linked={"from": str(harness.root), "commit": made.commit}, safety=kept.at(made.path)
        )
        outcome = _in_loop(
            environment, harness, models, (session, pin.commit), watcher, steering, begin, root=made.path
        )
        made.changed = outcome.result.tree_after != outcome.result.tree_before
        return outcome


def resume_session(
    *,
    session: str,
    watcher: Watcher,
    task: str = "",
    model: str | None = None,
    python: str | None = None,
    kernel: str | None = None,
    flags: Mapping[str, Any] | None = None,
    allow_revoked: bool = False,
    trust: bool = False,
    steering: Steering | None = None,
    on_progress: OnProgress | None = None,
) -> RunOutcome:
    """Go on with a session that stopped; errors as :func:`commands.resume.resume`."""
    from contextlib import ExitStack, closing

    from harnessctl.commands import resume as use_case
    from harnessctl.commands.late_result import ended_without_result
    from harnessctl.commands.safety import say_exposure
    from harnessctl.commands.sessions import find_session
    from harnessctl.layers.l2_execution.protection import close_memory
    from harnessctl.layers.l3_durable.pins.pinning import refuse_absent, refuse_revoked
    from harnessctl.rlm.clock import SystemClock

    close_memory()
    environment = read_environment()
    here = store(environment)
    state_dir = here.state_dir
    propose_left_behind(environment, here, watcher.note)
    stopped = use_case.open_stopped(find_session(state_dir, session), SystemClock())
    with ExitStack() as held:
        held.enter_context(closing(stopped.recorder))
        harness = store_at(stopped.home, environment)
        limits = use_case.merged_limits(stopped.limits, flags or {})
        late = ended_without_result(
            stopped, task, limits, lambda: _work_tree(environment, harness, stopped.root)
        )
        if late is not None:
            watcher.note(
                f"session {stopped.session} had ended: its result was missing, and is made from its log"
            )
            return late
        made = held.enter_context(use_case.own_work_tree(stopped, LinkedTrees(environment), watcher.note))
        refuse_absent(harness.place, stopped.pin)
        refuse_revoked(harness.place, stopped.pin.commit, allow=allow_revoked)
        snapshot = harness.snapshot_at(stopped.pin.commit)
        chosen = settings(environment, harness, snapshot, flags)
        source = model_source(environment, chosen, model or stopped.model_name or None, on_progress)
        kernel_python = None if python or kernel else stopped.python
        if kernel_python is None:
            kernel = kernel or (None if python else stopped.kernel)
            kernel_python = python_for(harness, chosen, python, kernel, trust=trust)
        box = stopped.header.get("sandbox")
        kept = safety_of(environment, harness, kernel_python, (), sandbox=box).at(stopped.root)
        say_exposure(kept, chosen.api_key_env, watcher.note)
        watcher.note(f"session {stopped.session} goes on, Python: {kernel_python.why}")
        source.warm()
        models = Models(source, lambda name: model_source(environment, chosen, name, on_progress))
        spec = replace(
            _spec(environment, harness, chosen, kernel_python),
            task=task,
            limits=limits,
            session=stopped.session,
            model_name=source.name,
            linked=stopped.linked,
            safety=kept,
            files=use_case.files_told(made),
        )

        said = stopped.files_tokens
        files_tokens = chosen.prompt_files_tokens if said is None else said

        async def go_on(ports: RunPorts) -> RunOutcome:
            ports = _with_harness(ports, environment, harness, snapshot, files_tokens)
            return await use_case.resume(stopped, spec, snapshot, ports, state_dir=state_dir)

        live = (stopped.session, stopped.pin.commit)
        outcome = _in_loop(environment, harness, models, live, watcher, steering, go_on, root=stopped.root)
        if made is not None:
            made.changed = outcome.result.tree_after != outcome.result.tree_before
        return outcome


def _spec(environment: Environment, harness: HarnessStore, chosen: Settings, python: PythonChoice) -> RunSpec:
    """What settings say about a run; the task and what belongs to one session are still to be put in."""
    from importlib.metadata import version

    from harnessctl.commands.building import RunSpec

    return RunSpec(
        task="",
        python=python,
        limits=chosen.limits,
        protocol=chosen.protocol,
        params=chosen.params,
        max_output=chosen.max_output,
        prompt_tokens=chosen.prompt_tokens,
        variables=environment.variables,
        key_names=(chosen.api_key_env,) if chosen.api_key_env else (),
        repository=harness.repository_id,
        version=version("harnessctl"),
    )


def _in_loop(
    environment: Environment,
    harness: HarnessStore,
    models: Models,
    live: tuple[str, str],
    watcher: Watcher,
    steering: Steering | None,
    work: Callable[[RunPorts], Awaitable[RunOutcome]],
    *,
    root: Path | None = None,
) -> RunOutcome:
    """Build the adapters of one session and run ``work`` with them.

    :param live: the session's id and its pinned commit.
    :param root: the work tree, by default the one around the current folder.
    """
    import asyncio
    from contextlib import nullcontext

    from harnessctl.commands.building import RunPorts
    from harnessctl.layers.l3_durable.pins.live import LivePin
    from harnessctl.rlm.clock import SystemClock
    from harnessctl.rlm.inbox import Inbox
    from harnessctl.rlm.interrupts import Interrupts

    async def in_loop() -> RunOutcome:
        inbox = Inbox()
        ports = RunPorts(
            model=models.root,
            model_named=models.named,
            worktree=_work_tree(environment, harness, root or harness.root),
            harness_state=harness.fence,
            clock=SystemClock(),
            watcher=watcher,
            interrupts=Interrupts(last=True),
            pin=LivePin(harness.place, *live),
            inbox=inbox,
        )
        try:
            with steering(inbox.put) if steering else nullcontext():
                return await work(ports)
        finally:
            await models.aclose()

    return asyncio.run(in_loop())


def _work_tree(environment: Environment, harness: HarnessStore, root: Path) -> GitWorkTree:
    from harnessctl.layers.l2_execution.environment import without_keys
    from harnessctl.layers.l3_durable.git.worktree import GitWorkTree

    return GitWorkTree(root, harness.state_dir / "worktree", without_keys(environment.variables))


def _with_harness(
    ports: RunPorts,
    environment: Environment,
    harness: HarnessStore,
    snapshot: Snapshot,
    files_tokens: int,
) -> RunPorts:
    """``ports`` with what a session learns and teaches: its proposal door and the repository's own files."""
    files = repository_files(ports.worktree.root, files_tokens)
    door = proposer_of(environment, harness, snapshot)
    return replace(ports, proposer=door, repository_files=files)
