"""The composition root: the only place that builds adapters, each imported where it is built.

What a verb does not use, it does not load: ``list`` never pays for litellm, ``--help`` for nothing.
"""

from __future__ import annotations

from collections.abc import Mapping
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

if TYPE_CHECKING:
    from collections.abc import Callable

    from harnessctl.commands.refine import RefineOutcome
    from harnessctl.commands.run import RunOutcome
    from harnessctl.domain.snapshot import Snapshot
    from harnessctl.layers.l2_execution.python import PythonChoice
    from harnessctl.layers.l3_durable.store import HarnessStore
    from harnessctl.models.catalogue import ModelSource
    from harnessctl.models.local_weights import OnProgress
    from harnessctl.rlm.ports import Watcher


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


def mask() -> Callable[[str], str]:
    """Hides what looks like a secret in text that is about to be shown."""
    from harnessctl.layers.l3_durable import secrets

    return secrets.mask


def _model(
    environment: Environment, chosen: Settings, name: str | None, on_progress: OnProgress | None
) -> ModelSource:
    """The model called ``name``, by default the configured one; nothing heavy is loaded yet."""
    from harnessctl.models import catalogue

    if on_progress is None:
        return catalogue.resolve(name, chosen, environment)
    return catalogue.resolve(name, chosen, environment, on_progress=on_progress)


def run_session(
    *,
    task: str,
    watcher: Watcher,
    model: str | None = None,
    at: str | None = None,
    python: str | None = None,
    flags: Mapping[str, Any] | None = None,
    skip_broken: bool = False,
    allow_revoked: bool = False,
    trust: bool = False,
    on_progress: OnProgress | None = None,
) -> RunOutcome:
    """Run ``task`` on the pinned harness, or on ``at``; errors as :func:`commands.run.run`.

    :param flags: settings given on the command line, by dotted name.
    :param trust: ``harness.toml`` may name a Python inside the clone.
    """
    import asyncio
    from importlib.metadata import version

    from harnessctl.commands import run as use_case
    from harnessctl.layers.l3_durable.git.worktree import GitWorkTree
    from harnessctl.rlm.clock import SystemClock
    from harnessctl.rlm.interrupts import Interrupts

    environment = read_environment()
    harness = store(environment)
    pin = harness.pin(at, allow_revoked=allow_revoked)
    snapshot = harness.snapshot_at(pin.commit)
    chosen = settings(environment, harness, snapshot, flags)
    source = _model(environment, chosen, model, on_progress)
    kernel_python = _python(harness, chosen, python, trust=trust)
    # The model's library takes seconds to load: it begins while the kernel starts.
    source.warm()
    spec = use_case.RunSpec(
        task=task,
        python=kernel_python,
        limits=chosen.limits,
        protocol=chosen.protocol,
        params=chosen.params,
        max_output=chosen.max_output,
        prompt_tokens=chosen.prompt_tokens,
        skip_broken=skip_broken,
        variables=environment.variables,
        key_names=(chosen.api_key_env,) if chosen.api_key_env else (),
        repository=harness.repository_id,
        version=version("harnessctl"),
    )

    async def work() -> RunOutcome:
        client = source.build()
        ports = use_case.RunPorts(
            model=client,
            worktree=GitWorkTree(harness.root, harness.state_dir / "worktree", environment.variables),
            harness_state=harness.fence,
            clock=SystemClock(),
            watcher=watcher,
            interrupts=Interrupts(),
        )
        try:
            return await use_case.run(
                spec, snapshot, pin, ports, state_dir=harness.state_dir, machine_dir=environment.state_home
            )
        finally:
            await client.aclose()

    return asyncio.run(work())


def _python(harness: HarnessStore, chosen: Settings, flag: str | None, *, trust: bool) -> PythonChoice:
    from harnessctl.layers.l2_execution.python import choose_python

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
    *, session: str | None = None, model: str | None = None, on_progress: OnProgress | None = None
) -> RefineOutcome:
    """Turn a session's log into a proposal; errors as :func:`commands.refine.refine`."""
    import asyncio
    import platform

    from harnessctl.commands import refine as use_case
    from harnessctl.layers.l3_durable import secrets
    from harnessctl.refine.redact import local_redactor
    from harnessctl.refine.secrecy import Secrecy

    environment = read_environment()
    harness = store(environment)
    harness.check_identity()
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
            )
        finally:
            await client.aclose()

    return asyncio.run(work())
