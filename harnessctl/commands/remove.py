"""``remove``: a person takes an entry away."""

from __future__ import annotations

from harnessctl.domain.ids import EntryId
from harnessctl.layers.l3_durable.checking.validation import InvalidError
from harnessctl.layers.l3_durable.landing.adding import Addition
from harnessctl.layers.l3_durable.landing.landed import Landed
from harnessctl.layers.l3_durable.rules.load_rules import DEPENDENCY
from harnessctl.layers.l3_durable.store import HarnessStore


def remove(store: HarnessStore, entry: str, *, summary: str = "", why: str = "") -> Landed:
    """Land the removal of ``entry``, or take its files out of the work tree in in-tree mode.

    :raises NotFoundError: ``no_entry``.
    :raises HarnessError: ``invalid_entry``: another entry depends on it; ``branch_in_use``.
    :raises ConflictError: in-tree, ``uncommitted``: its files hold what is not committed.
    :raises RefusedError: ``agent_refused``.
    """
    wanted = Addition(EntryId.parse(entry), (), summary, why, remove=True)
    try:
        return store.add(wanted)
    except InvalidError as error:
        error.message = f"without {wanted.entry}: {error.message}"  # it is still there
        if error.findings[0].rule == DEPENDENCY.id:
            error.hint = f"take {wanted.entry} out of depends_on there first"
        raise
