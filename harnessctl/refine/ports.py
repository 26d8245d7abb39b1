"""What refining needs of durable state: read it, propose a change of it, nothing else.

:class:`harnessctl.layers.l3_durable.store.HarnessStore` has this shape; tests have one in memory.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import Protocol

from harnessctl.domain.snapshot import Snapshot
from harnessctl.domain.update import EntryEdit, Record, UpdateState
from harnessctl.layers.l3_durable.landing.proposals import Draft, Proposal


class KnownUpdate(Protocol):
    """An earlier update.

    :ivar state: None for a commit that somebody made by hand.
    :ivar record: None as above; of a rejected update it may be the decision's.
    """

    @property
    def id(self) -> str: ...
    @property
    def state(self) -> UpdateState | None: ...
    @property
    def record(self) -> Record | None: ...


class Harness(Protocol):
    """The harness of one repository, as an agent may use it."""

    def check_identity(self) -> None:
        """:raises UsageError: ``no_identity``: a commit could not say who made it."""
        ...

    def landed_snapshot(self) -> Snapshot:
        """Entries at the landed tip, empty where nothing has landed."""
        ...

    def updates(self) -> Sequence[KnownUpdate]:
        """Earlier updates, open proposals included."""
        ...

    def propose(self, edits: Sequence[EntryEdit], draft: Draft, base: str = "") -> Proposal:
        """Write a proposal on commit ``base`` as the agent; all edits or none.

        :raises InvalidError: the result breaks a load rule; nothing was written.
        :raises HarnessError: refused otherwise; nothing was written.
        """
        ...
