"""Verbs that look at logs and history."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from harnessctl.bootstrap.opening import prompt_tokens, store
from harnessctl.config import read_environment

if TYPE_CHECKING:
    from harnessctl.commands.diff import Difference
    from harnessctl.commands.prune import Pruned
    from harnessctl.commands.verify import Verification


def sessions_state_dir() -> Path:
    """The state folder of the repository around the current folder; to read, so it may not be there."""
    return store().state_path


def prune_sessions(*, older_than: str, keep: int | None, remove: bool, force: bool) -> Pruned:
    """Remove old sessions, or say which would go; errors as :func:`commands.prune.prune`.

    :param force: also those that an open proposal or an unpushed record cites.
    :raises RefusedError: ``agent_refused``: with ``remove``; proposals are checked against logs.
    """
    from harnessctl.bootstrap.adapters import LinkedTrees
    from harnessctl.commands import prune as use_case
    from harnessctl.layers.l3_durable.git.kept_trees import sweep
    from harnessctl.layers.l3_durable.pins.live import LivePin, citing
    from harnessctl.layers.l3_durable.places.actor import refuse_agents

    environment = read_environment()
    if remove:
        refuse_agents(environment, "sessions prune --yes")
    harness = store(environment)
    return use_case.prune(
        harness.state_dir,
        older_than_s=use_case.seconds_in(older_than) if older_than else None,
        keep=keep,
        cited={} if force else citing(harness.place),
        remove=remove,
        forget=lambda session: LivePin(harness.place, session, "").release(),
        sweep=lambda trees, running: sweep(harness.state_dir / "worktree", trees, running=running),
        trees=LinkedTrees(environment),
    )


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
    budget = prompt_tokens(environment, harness, harness.landed_snapshot())
    return use_case.diff(harness, before, after, entry=entry, prompt_tokens=budget)
