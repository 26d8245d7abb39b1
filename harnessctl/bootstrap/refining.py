"""``refine``: a model that reads a log, and the door for what it proposes."""

from __future__ import annotations

from dataclasses import replace
from typing import TYPE_CHECKING

from harnessctl.bootstrap.adapters import model_source, propose_left_behind
from harnessctl.bootstrap.opening import settings, store
from harnessctl.config import read_environment

if TYPE_CHECKING:
    from collections.abc import Callable

    from harnessctl.commands.refine import RefineOutcome
    from harnessctl.models.local_weights import OnProgress


def refine(
    *,
    session: str | None = None,
    model: str | None = None,
    on_progress: OnProgress | None = None,
    tell: Callable[[str], None] = lambda _: None,
) -> RefineOutcome:
    """Turn a session's log into a proposal; errors as :func:`commands.refine.refine`.

    :raises NotFoundError: ``no_session``; ``not_initialised``, ``not_committed``, ``lost_harness``: nothing
        that a proposal could be made on.
    """
    import asyncio
    import platform

    from harnessctl.commands import refine as use_case
    from harnessctl.commands.sessions import find_session
    from harnessctl.layers.l3_durable.rules import secrets
    from harnessctl.refine.redact import local_redactor
    from harnessctl.refine.secrecy import Secrecy

    environment = read_environment()
    harness = store(environment)
    harness.check_identity()
    folder = find_session(harness.state_dir, session or "")
    harness.landed_tip()
    left: list[str] = []
    propose_left_behind(environment, harness, left.append)
    chosen = settings(environment, harness, harness.landed_snapshot())
    source = model_source(environment, chosen, model, on_progress)

    async def work() -> RefineOutcome:
        client = source.build()
        try:
            return await use_case.refine(
                folder,
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
