"""``sync``: the harness branch to and from its remote."""

from __future__ import annotations

from harnessctl.layers.l3_durable.landing.syncing import Synced
from harnessctl.layers.l3_durable.store import HarnessStore


def sync(store: HarnessStore) -> Synced:
    """Fetch the harness branch, then fast-forward or push it; nothing is forced.

    :raises ConflictError: ``diverged``.
    :raises HarnessError: ``detached_head``, ``rewritten``, ``push_refused``, ``git_failed``,
        ``branch_in_use``.
    :raises UsageError: ``no_remote``.
    :raises RefusedError: ``agent_refused``.
    """
    return store.sync()
