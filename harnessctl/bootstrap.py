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
    from harnessctl.commands.refine import RefineOutcome
    from harnessctl.domain.snapshot import Snapshot
    from harnessctl.layers.l3_durable.store import HarnessStore
    from harnessctl.models.catalogue import ModelSource
    from harnessctl.models.local_weights import OnProgress


def store(environment: Environment | None = None) -> HarnessStore:
    """The harness of the repository around the current folder.

    :raises HarnessError: there is no repository, or one that cannot be used, in words.
    """
    from harnessctl.layers.l3_durable.store import open_store

    environment = environment or read_environment()
    allow = user_config(environment).get("secrets", {}).get("allow", [])
    return open_store(Path.cwd(), environment, allow=allow if isinstance(allow, list) else ())


def user_config(environment: Environment) -> dict[str, Any]:
    """The user's own ``config.toml``, {} when there is none."""
    return read_toml(environment.config_home / "config.toml")


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


def model(
    environment: Environment, chosen: Settings, name: str | None, on_progress: OnProgress | None = None
) -> ModelSource:
    """The model called ``name``, by default the configured one; nothing heavy is loaded yet."""
    from harnessctl.models import catalogue

    if on_progress is None:
        return catalogue.resolve(name, chosen, environment)
    return catalogue.resolve(name, chosen, environment, on_progress=on_progress)


def refine(
    *, session: str | None = None, model: str | None = None, on_progress: OnProgress | None = None
) -> RefineOutcome:
    """Turn a session's log into a proposal; errors as :func:`commands.refine.refine`."""
    import asyncio
    import platform

    from harnessctl.commands import refine as use_case
    from harnessctl.layers.l3_durable import secrets
    from harnessctl.models import catalogue
    from harnessctl.refine.redact import local_redactor
    from harnessctl.refine.secrecy import Secrecy

    environment = read_environment()
    harness = store(environment)
    harness.check_identity()
    chosen = settings(environment, harness, harness.landed_snapshot())
    source = (
        catalogue.resolve(model, chosen, environment, on_progress=on_progress)
        if on_progress
        else catalogue.resolve(model, chosen, environment)
    )

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
