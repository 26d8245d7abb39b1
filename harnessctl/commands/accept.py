"""``review accept``: land a proposal."""

from __future__ import annotations

from harnessctl.layers.l3_durable.landing.landed import Landed
from harnessctl.layers.l3_durable.store import HarnessStore


def accept(store: HarnessStore, prefix: str, *, pin: bool = False) -> Landed:
    """Land the proposal whose id starts with ``prefix`` as a new commit on the tip.

    To say afterwards: the commit; "not pushed" when ``pushed`` is False; with ``lock``, what the next run
    reads; under a lock that did not move (``pinned``), how many updates it will not read (``unread``);
    that machine commits are not signed.

    :param pin: move the lock to the new commit, where there is a lock.
    :raises ConflictError: ``conflict``: the branch changed the same entry; the proposal stays open.
    :raises HarnessError: ``branch_in_use``, ``invalid_entry``.
    :raises RefusedError: ``agent_refused``, ``secret_found``, ``not_owner``, ``bad_proposal``.
    :raises UsageError: ``no_identity``.
    """
    return store.accept(prefix, pin=pin)
