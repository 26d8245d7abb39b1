"""``init``: make a harness in a repository."""

from __future__ import annotations

from dataclasses import dataclass

from harnessctl.domain.pin import Mode
from harnessctl.layers.l3_durable.landing.landed import Landed
from harnessctl.layers.l3_durable.store import HarnessStore


@dataclass(frozen=True)
class Initialised:
    """What ``init`` made.

    :ivar landed: commit and lock in branch mode, written files in in-tree mode.
    """

    mode: Mode
    branch: str
    landed: Landed

    def to_json(self) -> dict[str, object]:
        """As ``init --json`` prints it."""
        return {
            "mode": self.mode.value,
            "branch": self.branch,
            "commit": self.landed.commit or None,
            "finished": self.landed.finished,
            "lock": self.landed.lock.commit if self.landed.lock else None,
            "pushed": self.landed.pushed,
            "written": [str(p) for p in self.landed.written],
        }


def init(store: HarnessStore, *, in_tree: bool = False, unpinned: bool = False) -> Initialised:
    """Make a harness: an orphan branch with a lock, or ``.harness/`` in the work tree.

    To say afterwards: branch mode, that ``harness.lock`` is to be committed or ignored; in-tree mode,
    that the written files are to be committed; with a remote, "not pushed".

    :raises HarnessError: ``already_initialised``, ``name_taken``, ``mixed_modes``, ``branch_in_use``.
    :raises UsageError: ``no_identity``.
    :raises RefusedError: ``agent_refused``.
    """
    landed = store.initialise(in_tree=in_tree, unpinned=unpinned)
    return Initialised(Mode.IN_TREE if in_tree else Mode.BRANCH, store.branch, landed)
