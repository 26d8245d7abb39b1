"""``review reject``: decide against a proposal."""

from __future__ import annotations

from harnessctl.layers.l3_durable.landing.landed import Landed
from harnessctl.layers.l3_durable.store import HarnessStore


def reject(store: HarnessStore, prefix: str, *, why: str = "") -> Landed:
    """Reject the proposal whose id starts with ``prefix``; the decision lands as a record.

    :raises NotFoundError: ``no_proposal``.
    :raises RefusedError: ``agent_refused``.
    :raises UsageError: ``no_identity``.
    """
    return store.reject(prefix, why)
