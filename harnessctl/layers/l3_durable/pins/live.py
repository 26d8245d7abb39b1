"""Sessions on this machine as refs and records know them: pins kept and watched, logs that are cited."""

from __future__ import annotations

from contextlib import suppress

from harnessctl.domain.errors import HarnessError
from harnessctl.domain.update import UpdateState
from harnessctl.layers.l3_durable.git.lost_race import LostRaceError
from harnessctl.layers.l3_durable.history.updates import list_updates
from harnessctl.layers.l3_durable.pins.pinning import revoked_updates
from harnessctl.layers.l3_durable.places.mode import Place
from harnessctl.layers.l3_durable.places.names import LIVE


class LivePin:
    """The runtime's ``PinWatch`` over one repository.

    :param session: id of the session; names the ref.
    :param commit: full id of the pinned commit, "" when nothing is pinned.
    """

    def __init__(self, place: Place, session: str, commit: str) -> None:
        self._place = place
        self._ref = LIVE + session
        self._commit = commit
        self._tips = place.landed_tips()
        # What was taken back already was accepted with --allow-revoked.
        self._known = set(revoked_updates(place, commit))

    def hold(self) -> None:
        """Point the ref at the commit. A ref that cannot be written is gone without: it only keeps."""
        refs = self._place.repository.refs
        with suppress(LostRaceError, HarnessError):
            left = refs.read(self._ref)
            if self._commit and left != self._commit:
                refs.move(self._ref, left, self._commit, "harnessctl: a session reads it")

    def release(self) -> None:
        """Remove the ref; one that cannot be removed is left to ``doctor``."""
        refs = self._place.repository.refs
        with suppress(LostRaceError, HarnessError):
            held = refs.read(self._ref)
            if held is not None:
                refs.move(self._ref, held, None, "")

    def revoked(self) -> tuple[str, ...]:
        """Updates in the pin that were taken back since the session began.

        Costs two reads of refs while nothing lands.

        :raises HarnessError: ``not_a_file``, ``unreadable_object``: it cannot be told.
        """
        tips = self._place.landed_tips()
        if tips == self._tips:
            return ()
        self._place.repository.refuse_waiting()
        found = tuple(u for u in revoked_updates(self._place, self._commit) if u not in self._known)
        if not found:
            self._tips = tips
        return found


def citing(place: Place) -> dict[str, str]:
    """Sessions whose logs are still wanted: id -> which update cites it, in words.

    Wanted by an open proposal, since its reviewer may follow the evidence, and by a record that is not on
    the remote, since until then this machine alone can check it.
    """
    found: dict[str, str] = {}
    for update in list_updates(place):
        waits = update.state in (UpdateState.OPEN, UpdateState.CONFLICT)
        if update.record is None or (update.shared and not waits):
            continue
        what = "open proposal" if waits else "record not on the remote"
        for evidence in update.record.evidence:
            found.setdefault(evidence.session, f"cited by {update.id} ({what})")
    return found
