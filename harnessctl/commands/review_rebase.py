"""``review rebase``: put a waiting proposal on the landed tip."""

from __future__ import annotations

from harnessctl.layers.l3_durable.landing.reworking import Reworked
from harnessctl.layers.l3_durable.store import HarnessStore


def review_rebase(store: HarnessStore, prefix: str) -> Reworked:
    """Three-way merge of the proposal whose id starts with ``prefix``; its id stays.

    :raises ConflictError: ``conflict``: names entries and files; the proposal stays as it is.
    :raises UsageError: ``nothing_changed``.
    :raises NotFoundError: ``no_proposal``.
    :raises RefusedError: ``agent_refused``, ``not_owner``, ``secret_found``.
    """
    return store.rebase_proposal(prefix)


def reworked_json(done: Reworked) -> dict[str, object]:
    """As ``review rebase --json`` and ``review edit --json`` print it: the proposal and what was merged."""
    return done.proposal.to_json() | {"merged": list(done.merged), "settled": list(done.settled)}
