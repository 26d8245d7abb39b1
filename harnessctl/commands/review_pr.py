"""``review pr``: offer a proposal as a pull request."""

from __future__ import annotations

from harnessctl.layers.l3_durable.landing.offering import Offered
from harnessctl.layers.l3_durable.store import HarnessStore


def review_pr(store: HarnessStore, prefix: str) -> Offered:
    """Push the proposal whose id starts with ``prefix`` as branch ``harness-proposals/<id>``.

    :raises NotFoundError: ``no_proposal``.
    :raises UsageError: ``no_remote``.
    :raises HarnessError: ``push_refused``.
    :raises RefusedError: ``agent_refused``.
    """
    return store.offer_proposal(prefix)
