"""``refine``: the log of one session becomes a proposal, or the finding that there is nothing to learn."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

from harnessctl.domain.errors import NotFoundError, UsageError
from harnessctl.domain.limits import Usage
from harnessctl.domain.update import Record
from harnessctl.models.port import ModelClient
from harnessctl.refine.ports import Harness
from harnessctl.refine.propose import Refiner, Tell, silent
from harnessctl.refine.redact import Redactor
from harnessctl.refine.secrecy import Secrecy
from harnessctl.rlm.lineage import is_root
from harnessctl.rlm.log import LOG_NAME, read_trajectory


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
    session: str,
    *,
    sessions: Path,
    harness: Harness,
    client: ModelClient,
    secrecy: Secrecy,
    redactor: Redactor,
    keep_in: Path,
    params: tuple[tuple[str, float], ...] = (),
    tell: Tell = silent,
) -> RefineOutcome:
    """Propose what ``session`` teaches. Writes one proposal, or nothing.

    :param session: id or unique beginning of one; "" for the newest run.
    :param sessions: folder with one folder a session.
    :param keep_in: folder for a reply that could not be used.
    :param params: sampling parameters the user set.
    :param tell: called with a line on each step.
    :raises UsageError: ``no_identity``, before the model is asked.
    :raises NotFoundError: no such session.
    :raises RefusedError: a secret in a cited event (exit 6).
    :raises HarnessError: as :meth:`harnessctl.refine.propose.Refiner.refine`.
    """
    folder = choose_session(sessions, session)
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


def choose_session(sessions: Path, wanted: str) -> Path:
    """Folder of the session whose id begins with ``wanted``, or of the newest run for "".

    :raises NotFoundError: there is none.
    :raises UsageError: several begin so.
    """
    found = sorted((path.parent for path in sessions.glob(f"*/{LOG_NAME}")), key=lambda path: path.name)
    if not wanted:
        if not found:
            raise NotFoundError(
                "there is no session to learn from", id="no_session", hint="harnessctl run makes one"
            )
        # A kill may leave a log without a header, of a child that was about to begin.
        return next((folder for folder in reversed(found) if is_root(folder)), found[-1])
    matching = [folder for folder in found if folder.name.startswith(wanted.upper())]
    if not matching:
        raise NotFoundError(
            f"there is no session '{wanted}'", id="no_session", hint="harnessctl sessions list"
        )
    if len(matching) > 1:
        raise UsageError(
            f"{len(matching)} sessions begin with '{wanted}'",
            id="ambiguous_session",
            hint="write more of the id",
        )
    return matching[0]
