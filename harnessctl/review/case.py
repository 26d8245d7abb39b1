"""What a reviewer needs to decide: the change, its evidence, its risk, and what stands in its way."""

from __future__ import annotations

from dataclasses import dataclass

from harnessctl.domain.update import Evidence, Record
from harnessctl.layers.l3_durable.landing.proposals import Proposal
from harnessctl.layers.l3_durable.store import HarnessStore
from harnessctl.review.diff import FileDiff, read_patch


@dataclass(frozen=True)
class ReviewCase:
    """One proposal, ready to be read.

    :ivar files: the change against the proposal's own base, records left out.
    :ivar patch: the same as patch text.
    :ivar author: who proposed, as the commit says.
    """

    proposal: Proposal
    files: tuple[FileDiff, ...]
    patch: bytes
    author: str

    @property
    def record(self) -> Record:
        """What the proposal says about itself."""
        return self.proposal.record

    @property
    def evidence(self) -> tuple[Evidence, ...]:
        """What it stands on."""
        return self.record.evidence

    def to_json(self) -> dict[str, object]:
        """The case as ``review show --json`` prints it: the proposal, its record and patch."""
        return self.proposal.to_json() | {
            "author": self.author,
            "record": self.record.to_json(),
            "patch": self.patch.decode("utf-8", "replace"),
            "files": [
                {"path": f.path, "status": f.status, "added": f.added, "removed": f.removed}
                for f in self.files
            ],
        }


def open_case(store: HarnessStore, prefix: str) -> ReviewCase:
    """The case of the proposal whose id starts with ``prefix``; errors as :meth:`HarnessStore.proposal`."""
    proposal = store.proposal(prefix)
    patch = b"".join(f.data for f in store.patch(proposal.base, proposal.commit))
    author = f"{proposal.author.name} <{proposal.author.email}>"
    return ReviewCase(proposal, read_patch(patch), patch, author)
