"""``remove``: a person takes an entry away."""

from __future__ import annotations

from harnessctl.domain.ids import EntryId
from harnessctl.layers.l3_durable.landing.adding import Addition
from harnessctl.layers.l3_durable.landing.landed import Landed
from harnessctl.layers.l3_durable.store import HarnessStore


def remove(store: HarnessStore, entry: str, *, summary: str = "", why: str = "") -> Landed:
    """Land the removal of ``entry``, or take its files out of the work tree in in-tree mode.

    :raises NotFoundError: ``no_entry``.
    :raises HarnessError: ``invalid_entry``: another entry depends on it; ``branch_in_use``.
    :raises ConflictError: in-tree, ``uncommitted``: its files hold what is not committed.
    :raises RefusedError: ``agent_refused``.
    """
    return store.add(Addition(EntryId.parse(entry), (), summary, why, remove=True))
