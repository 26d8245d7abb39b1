"""``refine``: the log of one session becomes a proposal, or the finding that there is nothing to learn."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from harnessctl.domain.limits import Usage
from harnessctl.domain.update import Record
from harnessctl.models.port import ModelClient
from harnessctl.refine.ports import Harness
from harnessctl.refine.propose import Refiner, Tell, silent
from harnessctl.refine.redact import Redactor
from harnessctl.refine.secrecy import Secrecy
from harnessctl.rlm.log import read_trajectory


@dataclass(frozen=True)
class RefineOutcome:
    """What ``refine`` did.

    :ivar commit: the proposal's commit, None when nothing was proposed.
    :ivar record: the proposal's record, None as above.
    :ivar notes: what a reader should know: edits dropped or toned down, damage of the log.
    """

    session: str
    model: str
    commit: str | None
    record: Record | None
    notes: tuple[str, ...]
    usage: Usage

    def to_json(self) -> dict[str, object]:
        """The outcome as ``refine --json`` prints it; the update's keys are null when there is none."""
        record = self.record
        update = record.to_json() if record else {}
        return {
            "update": record.id if record else None,
            "commit": self.commit,
            "entries": [change.id for change in record.entries] if record else [],
            "state": "open" if record else None,
            "session": self.session,
            "model": self.model,
            "summary": update.get("summary"),
            "why": update.get("why"),
            "risk": update.get("risk"),
            "base": update.get("base"),
            "notes": list(self.notes),
            "usage": self.usage.to_json(),
        }


async def refine(
    folder: Path,
    *,
    harness: Harness,
    client: ModelClient,
    secrecy: Secrecy,
    redactor: Redactor,
    keep_in: Path,
    params: tuple[tuple[str, float], ...] = (),
    tell: Tell = silent,
) -> RefineOutcome:
    """Propose what the session in ``folder`` teaches. Writes one proposal, or nothing.

    :param keep_in: folder for a reply that could not be used.
    :param params: sampling parameters the user set.
    :param tell: called with a line on each step.
    :raises UsageError: ``no_identity``, before the model is asked.
    :raises NotFoundError: it has no log.
    :raises RefusedError: a secret in a cited event (exit 6).
    :raises HarnessError: as :meth:`harnessctl.refine.propose.Refiner.refine`.
    """
    harness.check_identity()
    trajectory = read_trajectory(folder)
    refiner = Refiner(
        trajectory,
        client=client,
        harness=harness,
        secrecy=secrecy,
        redactor=redactor,
        keep_in=keep_in,
        params=params,
        tell=tell,
    )
    tell(f"reads session {trajectory.session}: {len(trajectory.events):,} events")
    refined = await refiner.refine()
    proposal = refined.proposal
    return RefineOutcome(
        session=trajectory.session,
        model=str(client.identity),
        commit=proposal.commit if proposal else None,
        record=proposal.record if proposal else None,
        notes=refined.notes,
        usage=refined.usage,
    )
