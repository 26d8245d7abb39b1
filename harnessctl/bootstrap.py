"""The composition root: the only place that builds adapters, each imported where it is built.

What a verb does not use, it does not load: ``list`` never pays for litellm, ``--help`` for nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harnessctl.config import (
    GIT_KEYS,
    Environment,
    Settings,
    load_settings,
    parse_toml,
    read_environment,
    read_toml,
)
from harnessctl.domain.errors import HarnessError

if TYPE_CHECKING:
    from collections.abc import Awaitable, Callable
    from contextlib import AbstractContextManager

    from harnessctl.commands.building import RunPorts, RunSpec
    from harnessctl.commands.diff import Difference
    from harnessctl.commands.prompt import ShownPrompt
    from harnessctl.commands.prune import Pruned
    from harnessctl.commands.refine import RefineOutcome
    from harnessctl.commands.run import RunOutcome
    from harnessctl.commands.safety import Safety, SafetyOptions
    from harnessctl.commands.verify import Verification
    from harnessctl.config import GateSpec
    from harnessctl.domain.snapshot import Snapshot
    from harnessctl.layers.l1_context.repository_files import RepositoryText
    from harnessctl.layers.l2_execution.python import PythonChoice
    from harnessctl.layers.l3_durable.store import HarnessStore
    from harnessctl.models.catalogue import ModelSource
    from harnessctl.models.local_weights import OnProgress
    from harnessctl.models.port import ModelClient
    from harnessctl.rlm.ports import Proposer, Watcher

    #: Given a function that queues a message, listens for what the user types while the context lasts.
    Steering = Callable[[Callable[[str], None]], AbstractContextManager[None]]


def store(environment: Environment | None = None) -> HarnessStore:
    """The harness of the repository around the current folder.

    :raises HarnessError: there is no repository, or one that cannot be used, in words.
    """
    from harnessctl.layers.l3_durable.store import open_store

    environment = environment or read_environment()
    return open_store(Path.cwd(), environment, allow=allowed_by_user(environment))


def user_config(environment: Environment) -> dict[str, Any]:
    """The user's own ``config.toml``, {} when there is none."""
    return read_toml(environment.config_home / "config.toml")


def allowed_by_user(environment: Environment) -> tuple[str, ...]:
    """Digests of strings that the user's own configuration declares to be no secrets."""
    secrets = user_config(environment).get("secrets")
    listed = secrets.get("allow") if isinstance(secrets, dict) else None
    return tuple(map(str, listed)) if isinstance(listed, list) else ()


def settings(
    environment: Environment,
    harness: HarnessStore,
    snapshot: Snapshot,
    flags: Mapping[str, Any] | None = None,
) -> Settings:
    """Settings for work on ``snapshot``: flags, environment, user, git, the snapshot's policy."""
    git = {key: value for key in GIT_KEYS if (value := harness.repository.config(key)) is not None}
    return load_settings(
        flags=flags,
        env=environment.variables,
        user=user_config(environment),
        git=git,
        harness=parse_toml(snapshot.policy, "harness.toml"),
    )


def sessions_state_dir() -> Path:
    """The state folder of the repository around the current folder."""
    return store().state_dir


def prune_sessions(*, older_than: str, keep: int | None, remove: bool, force: bool) -> Pruned:
    """Remove old sessions, or say which would go; errors as :func:`commands.prune.prune`.

    :param force: also those that an open proposal or an unpushed record cites.
    """
    from harnessctl.commands import prune as use_case
    from harnessctl.layers.l3_durable.git.kept_trees import sweep
    from harnessctl.layers.l3_durable.pins.live import LivePin, citing

    harness = store()
    return use_case.prune(
        harness.state_dir,
        older_than_s=use_case.seconds_in(older_than) if older_than else None,
        keep=keep,
        cited={} if force else citing(harness.place),
        remove=remove,
        forget=lambda session: LivePin(harness.place, session, "").release(),
        sweep=lambda trees, running: sweep(harness.state_dir / "worktree", trees, running=running),
    )


def mask() -> Callable[[str], str]:
    """Hides what looks like a secret in text that is about to be shown."""
    from harnessctl.layers.l3_durable.checking import secrets

    return secrets.mask


def _model(
    environment: Environment, chosen: Settings, name: str | None, on_progress: OnProgress | None
) -> ModelSource:
    """The model called ``name``, by default the configured one; nothing heavy is loaded yet."""
    from harnessctl.commands.safety import key_values
    from harnessctl.models import catalogue
    from harnessctl.models.discreet import DiscreetClient

    more = {} if on_progress is None else {"on_progress": on_progress}
    found = catalogue.resolve(name, chosen, environment, **more)
    keys = key_values(environment.variables, chosen.api_key_env)
    return replace(found, build=lambda: DiscreetClient(found.build(), keys))


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
    _propose_left_behind(environment, harness, watcher.note)
    pin = harness.pin(at, allow_revoked=allow_revoked)
    snapshot = harness.snapshot_at(pin.commit)
    chosen = settings(environment, harness, snapshot, flags)
    source = _model(environment, chosen, model, on_progress)
    pinned = () if options.no_gates else chosen.gates
    settle_trust(pinned, None if python or kernel else brought_python(chosen), harness.state_dir, options)
    kernel_python = _python(harness, chosen, python, kernel, trust=True)
    kept = _safety(
        environment,
        harness,
        kernel_python,
        gate_specs(pinned, options.gates),
        sandbox={"network": options.network} if options.sandbox else None,
        allowed=options.allow_gate_inputs,
        extra=options.gate_inputs,
    )
    say_exposure(kept, chosen.api_key_env, watcher.note)
    # The model's library takes seconds to load: it begins while the kernel starts.
    source.warm()
    models = _Models(source, lambda name: _model(environment, chosen, name, on_progress))
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
        ports = _with_harness(ports, environment, harness, snapshot, chosen)
        return await use_case.run(
            spec, snapshot, pin, ports, state_dir=harness.state_dir, machine_dir=environment.state_home
        )

    if not worktree:
        return _in_loop(environment, harness, models, (session, pin.commit), watcher, steering, begin)
    with own_work_tree(_LinkedTrees(environment), harness.root, session, watcher.note) as made:
        spec = replace(
            spec, linked={"from": str(harness.root), "commit": made.commit}, safety=kept.at(made.path)
        )
        outcome = _in_loop(
            environment, harness, models, (session, pin.commit), watcher, steering, begin, root=made.path
        )
        made.changed = bool(outcome.result.changes)
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
    from contextlib import closing

    from harnessctl.commands import resume as use_case
    from harnessctl.commands.safety import say_exposure
    from harnessctl.commands.sessions import find_session
    from harnessctl.layers.l2_execution.protection import close_memory
    from harnessctl.layers.l3_durable.pins.pinning import refuse_absent, refuse_revoked
    from harnessctl.rlm.clock import SystemClock

    close_memory()
    environment = read_environment()
    here = store(environment)
    state_dir = here.state_dir
    _propose_left_behind(environment, here, watcher.note)
    stopped = use_case.open_stopped(find_session(state_dir, session), SystemClock())
    with closing(stopped.recorder):
        use_case.refuse_ended(stopped, task, use_case.merged_limits(stopped.limits, flags or {}))
        harness = _store_at(stopped.home, environment)
        use_case.restore_work_tree(stopped, _LinkedTrees(environment))
        refuse_absent(harness.place, stopped.pin)
        refuse_revoked(harness.place, stopped.pin.commit, allow=allow_revoked)
        snapshot = harness.snapshot_at(stopped.pin.commit)
        chosen = settings(environment, harness, snapshot, flags)
        source = _model(environment, chosen, model or stopped.model_name or None, on_progress)
        kernel_python = None if python or kernel else stopped.python
        if kernel_python is None:
            kernel = kernel or (None if python else stopped.kernel)
            kernel_python = _python(harness, chosen, python, kernel, trust=trust)
        box = stopped.header.get("sandbox")
        kept = _safety(environment, harness, kernel_python, (), sandbox=box).at(stopped.root)
        say_exposure(kept, chosen.api_key_env, watcher.note)
        source.warm()
        models = _Models(source, lambda name: _model(environment, chosen, name, on_progress))
        spec = replace(
            _spec(environment, harness, chosen, kernel_python),
            task=task,
            limits=use_case.merged_limits(stopped.limits, flags or {}),
            session=stopped.session,
            model_name=source.name,
            linked=stopped.linked,
            safety=kept,
        )

        async def go_on(ports: RunPorts) -> RunOutcome:
            ports = _with_harness(ports, environment, harness, snapshot, chosen)
            return await use_case.resume(stopped, spec, snapshot, ports, state_dir=state_dir)

        live = (stopped.session, stopped.pin.commit)
        return _in_loop(environment, harness, models, live, watcher, steering, go_on, root=stopped.root)


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
    models: _Models,
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
    from harnessctl.layers.l2_execution.environment import without_keys
    from harnessctl.layers.l3_durable.git.worktree import GitWorkTree
    from harnessctl.layers.l3_durable.pins.live import LivePin
    from harnessctl.rlm.clock import SystemClock
    from harnessctl.rlm.inbox import Inbox
    from harnessctl.rlm.interrupts import Interrupts

    async def in_loop() -> RunOutcome:
        inbox = Inbox()
        ports = RunPorts(
            model=models.root,
            model_named=models.named,
            worktree=GitWorkTree(
                root or harness.root, harness.state_dir / "worktree", without_keys(environment.variables)
            ),
            harness_state=harness.fence,
            clock=SystemClock(),
            watcher=watcher,
            interrupts=Interrupts(),
            pin=LivePin(harness.place, *live),
            inbox=inbox,
        )
        try:
            with steering(inbox.put) if steering else nullcontext():
                return await work(ports)
        finally:
            await models.aclose()

    return asyncio.run(in_loop())


class _Models:
    """The models of one run, each built once: the root's, and those that children ask for by name."""

    def __init__(self, source: ModelSource, find: Callable[[str], ModelSource]) -> None:
        self._source = source
        self._find = find
        self._clients: dict[str, ModelClient] = {}

    @property
    def root(self) -> ModelClient:
        """The root's."""
        return self._built(self._source)

    def named(self, name: str) -> tuple[ModelClient, str]:
        """The model called ``name``, and the name that finds it again from any folder.

        :raises HarnessError: there is none.
        """
        source = self._find(name)
        if source.name not in self._clients:
            source.warm()
        return self._built(source), source.name

    async def aclose(self) -> None:
        """Free what they hold."""
        for client in self._clients.values():
            await client.aclose()

    def _built(self, source: ModelSource) -> ModelClient:
        if source.name not in self._clients:
            self._clients[source.name] = source.build()
        return self._clients[source.name]


def _with_harness(
    ports: RunPorts,
    environment: Environment,
    harness: HarnessStore,
    snapshot: Snapshot,
    chosen: Settings,
) -> RunPorts:
    """``ports`` with what a session learns and teaches: its proposal door and the repository's own files."""
    files = repository_files(ports.worktree.root, chosen)
    door = _proposer(environment, harness, snapshot)
    return replace(ports, proposer=door, repository_files=files)


def repository_files(root: Path, chosen: Settings) -> RepositoryText:
    """What AGENTS.md and CLAUDE.md of the work tree at ``root`` say, within the budget of the settings."""
    from harnessctl.layers.l1_context.repository_files import (
        RepositoryText,
        is_guidance,
        read_repository_files,
    )
    from harnessctl.layers.l3_durable.git.repository import Repository

    if not chosen.prompt_files_tokens:
        return RepositoryText()
    repository = Repository.open(root)
    return read_repository_files(
        root,
        chosen.prompt_files_tokens,
        tracked=repository.tracked,
        nested=repository.tracked_where(is_guidance),
    )


def _propose_left_behind(
    environment: Environment, harness: HarnessStore, note: Callable[[str], None]
) -> None:
    """Make proposals of what sessions wished that were cut off; what came of it is said."""
    from harnessctl.commands.left_behind import propose_left_behind

    def door(snapshot: Snapshot) -> Proposer:
        return _proposer(environment, harness, snapshot)

    propose_left_behind(harness.state_dir / "sessions", harness.snapshot_at, door, note)


def _proposer(environment: Environment, harness: HarnessStore, snapshot: Snapshot) -> Proposer:
    """The proposal door of a session that reads ``snapshot``."""
    import platform

    from harnessctl.layers.l3_durable.checking import secrets
    from harnessctl.refine.offers import Offers
    from harnessctl.refine.redact import local_redactor
    from harnessctl.refine.secrecy import Secrecy

    secrecy = Secrecy(secrets.scan, harness.checks.allow)
    return Offers(harness, snapshot, secrecy, local_redactor(environment, platform.node()))


def _safety(
    environment: Environment,
    harness: HarnessStore,
    python: PythonChoice,
    gates: tuple[GateSpec, ...],
    *,
    sandbox: Mapping[str, bool] | None,
    allowed: tuple[str, ...] = (),
    extra: tuple[str, ...] = (),
) -> Safety:
    """What a run is kept within.

    :param sandbox: {"network": whether it has one}; None for none.
    :raises UsageError: ``no_sandbox``: none can be made here.
    """
    from harnessctl.commands.safety import Safety, looks_secret, sandbox_of

    box = None
    if sandbox is not None:
        box = sandbox_of(
            harness.root,
            environment.home,
            python,
            git_dirs=(harness.git_dir, harness.common_dir),
            hidden=(environment.state_home, environment.config_home),
            network=sandbox["network"],
        )
        box.check()
    return Safety(gates, allowed, extra, box, looks_secret)


def _store_at(root: Path, environment: Environment) -> HarnessStore:
    """The harness of the repository that has its work tree at ``root``.

    :raises NotFoundError: the folder is gone.
    """
    from harnessctl.domain.errors import NotFoundError
    from harnessctl.layers.l3_durable.store import open_store

    if not root.is_dir():
        raise NotFoundError(f"the session's work tree {root} is gone", id="work_tree_gone")
    return open_store(root, environment, allow=allowed_by_user(environment))


class _LinkedTrees:
    """Work trees made and removed by git, for :mod:`harnessctl.commands.linked`."""

    def __init__(self, environment: Environment) -> None:
        self._variables = environment.variables

    def head(self, root: Path) -> str:
        """Commit checked out at ``root``, "" for none."""
        from harnessctl.layers.l3_durable.git.linked import head_of

        return head_of(root)

    def add(self, root: Path, path: Path, commit: str) -> None:
        """Make ``path``, detached at ``commit``."""
        from harnessctl.layers.l3_durable.git.linked import add_linked

        add_linked(root, path, commit, self._variables)

    def remove(self, root: Path, path: Path) -> None:
        """Remove ``path``."""
        from harnessctl.layers.l3_durable.git.linked import remove_linked

        remove_linked(root, path, self._variables)


def _python(
    harness: HarnessStore, chosen: Settings, flag: str | None, kernel: str | None, *, trust: bool
) -> PythonChoice:
    from harnessctl.layers.l2_execution.python import choose_python

    if kernel:
        from harnessctl.layers.l2_execution.kernelspecs import kernel_named

        return kernel_named(kernel)
    where = chosen.sources.get("run.python", "")

    return choose_python(
        harness.root,
        flag=flag,
        configured=chosen.python,
        configured_by=where,
        from_repository=where == "harness.toml",
        trusted=trust,
        tracked=harness.repository.tracked,
    )


def refine(
    *,
    session: str | None = None,
    model: str | None = None,
    on_progress: OnProgress | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> RefineOutcome:
    """Turn a session's log into a proposal; errors as :func:`commands.refine.refine`."""
    import asyncio
    import platform

    from harnessctl.commands import refine as use_case
    from harnessctl.layers.l3_durable.checking import secrets
    from harnessctl.refine.redact import local_redactor
    from harnessctl.refine.secrecy import Secrecy

    environment = read_environment()
    harness = store(environment)
    harness.check_identity()
    use_case.choose_session(harness.state_dir / "sessions", session or "")
    left: list[str] = []
    _propose_left_behind(environment, harness, left.append)
    chosen = settings(environment, harness, harness.landed_snapshot())
    source = _model(environment, chosen, model, on_progress)

    async def work() -> RefineOutcome:
        client = source.build()
        try:
            return await use_case.refine(
                session or "",
                sessions=harness.state_dir / "sessions",
                harness=harness,
                client=client,
                secrecy=Secrecy(secrets.scan, harness.checks.allow),
                redactor=local_redactor(environment, platform.node()),
                keep_in=harness.state_dir / "refine",
                params=chosen.params,
                tell=tell,
            )
        finally:
            await client.aclose()

    outcome = asyncio.run(work())
    return replace(outcome, notes=(*left, *outcome.notes))


def prompt(
    *, at: str | None = None, model: str | None = None, flags: Mapping[str, Any] | None = None
) -> ShownPrompt:
    """The system message of a run started now; errors as :func:`run_session` before its first call."""
    from harnessctl.commands import prompt as use_case
    from harnessctl.rlm.prompt import SessionFacts

    environment = read_environment()
    harness = store(environment)
    pin = harness.pin(at)
    snapshot = harness.snapshot_at(pin.commit)
    chosen = settings(environment, harness, snapshot, flags)
    protocol, notes = _protocol_before(environment, chosen, model)
    python, more = _python_before(harness, chosen)
    return use_case.prompt(
        snapshot,
        pin,
        SessionFacts(str(harness.root), python, protocol),
        tokens=chosen.prompt_tokens,
        files=repository_files(harness.root, chosen),
        notes=(*notes, *more),
    )


def _protocol_before(
    environment: Environment, chosen: Settings, model: str | None
) -> tuple[str, tuple[str, ...]]:
    """How the model would ask for code, and what was assumed for it."""
    if chosen.protocol != "auto":
        return chosen.protocol, ()
    try:
        tools = _model(environment, chosen, model, None).identity.tools
    except HarnessError as error:
        if model:
            raise
        said = error.message.partition("\n")[0]
        return "tool", (f"shown as for a model that calls tools: {said}",)
    return ("tool" if tools else "fence"), ()


def _python_before(harness: HarnessStore, chosen: Settings) -> tuple[str, tuple[str, ...]]:
    """The kernel's Python, and what was assumed: a program that the repository names is not run for it."""
    if chosen.python and chosen.sources.get("run.python") == "harness.toml":
        return chosen.python, (f"the Python is what harness.toml says, not tried: {chosen.python}",)
    return _python(harness, chosen, None, None, trust=False).path, ()


def verify(update: str | None) -> Verification:
    """Check one update, or with None all of them; errors as :func:`commands.verify.verify`."""
    import platform

    from harnessctl.commands import verify as use_case
    from harnessctl.refine.redact import local_redactor

    environment = read_environment()
    return use_case.verify(store(environment), update, local_redactor(environment, platform.node()))


def diff(before: str | None, after: str | None, entry: str | None) -> Difference:
    """What differs between two revisions, and what it does to the prompt; errors as :func:`commands.diff`."""
    from harnessctl.commands import diff as use_case

    environment = read_environment()
    harness = store(environment)
    budget = settings(environment, harness, harness.landed_snapshot()).prompt_tokens
    return use_case.diff(harness, before, after, entry=entry, prompt_tokens=budget)
