"""``status``: where the harness stands."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import asdict, dataclass

from harnessctl.commands.sessions import newest_session, summary_of
from harnessctl.domain.errors import HarnessError, NotFoundError
from harnessctl.domain.finding import Finding
from harnessctl.domain.pin import Mode, Pin, PinSource
from harnessctl.domain.update import UpdateState
from harnessctl.layers.l3_durable.landing import repairs
from harnessctl.layers.l3_durable.landing.repairs import Repair
from harnessctl.layers.l3_durable.store import HarnessStore


@dataclass(frozen=True)
class LastSession:
    """The newest session that no other one started.

    :ivar state: its status, or ``running`` or ``no_end`` where it has none.
    """

    id: str
    state: str
    started: str


@dataclass(frozen=True)
class Status:
    """Where the harness stands.

    :ivar mode: None when there is no harness.
    :ivar pin: None when the pin cannot be resolved; ``problem`` says why.
    :ivar entries: number of entries at the pin.
    :ivar unread: landed updates that the next run will not read.
    :ivar pushed: whether the landed tip is on the remote ("not pushed" when False); None without one.
    :ivar in_use: work trees that have the branch checked out or half rebased, in words.
    :ivar session: None where none was run.
    :ivar wrong: what keeps the harness from being read, with what to do.
    """

    mode: Mode | None
    branch: str
    tip: str
    pin: Pin | None
    problem: HarnessError | None
    entries: int
    broken: tuple[Finding, ...]
    proposals: int
    conflicts: int
    unread: int
    pushed: bool | None
    in_use: tuple[str, ...]
    wrong: tuple[Repair, ...] = ()
    session: LastSession | None = None

    @property
    def pinned(self) -> str:
        """ "pinned", "unpinned", "at HEAD", or "" without a harness."""
        if self.pin is None:
            return ""
        words = {PinSource.LOCK: "pinned", PinSource.TIP: "unpinned", PinSource.HEAD: "at HEAD"}
        return words.get(self.pin.source, "")

    @property
    def lost(self) -> bool:
        """Whether the branch that should hold the harness does not, or cannot be read."""
        return any(one.id == repairs.LOST for one in self.wrong)

    def to_json(self) -> dict[str, object]:
        """As ``status --json`` prints it."""
        return {
            "mode": self.mode.value if self.mode else None,
            "branch": self.branch,
            "tip": self.tip or None,
            "pin": self.pin.to_json() if self.pin else None,
            "pinned": self.pinned or None,
            "problem": {"id": self.problem.id, "message": self.problem.message} if self.problem else None,
            "entries": self.entries,
            "broken": [f.to_json() for f in self.broken],
            "proposals": self.proposals,
            "conflicts": self.conflicts,
            "unread": self.unread,
            "pushed": self.pushed,
            "in_use": list(self.in_use),
            "session": asdict(self.session) if self.session else None,
            "wrong": [{"id": w.id, "what": w.what, "remedy": w.remedy} for w in self.wrong],
        }


def status(store: HarnessStore, wrong: Iterable[HarnessError] = ()) -> Status:
    """Where the harness stands; a problem with the pin is part of the answer, not an error.

    :param wrong: what is wrong with the user's settings.
    """
    lost = tuple(repairs.lost_harness(store.place, store.readable_lock()))
    pin, problem = None, None
    try:
        pin = store.pin()
    except HarnessError as error:
        problem = error
    snapshot = store.snapshot_at(pin.commit) if pin else None
    proposals = () if lost else store.proposals()
    tip = store.landed_tip() if store.place.landed_tips() else ""
    return Status(
        mode=store.mode,
        branch=store.branch,
        tip=tip,
        pin=pin,
        problem=problem,
        entries=len(snapshot.entries) if snapshot else 0,
        broken=snapshot.broken if snapshot else (),
        proposals=len(proposals),
        conflicts=sum(p.state is UpdateState.CONFLICT for p in proposals),
        unread=store.unread(pin) if pin else 0,
        pushed=store.pushed(tip) if tip and not lost else None,
        in_use=store.in_use(),
        session=_last_session(store),
        wrong=(
            *repairs.odd_mode(store.place),
            *repairs.odd_branch(store.place),
            *lost,
            *repairs.broken_policies(store.place, pin.commit if pin else ""),
            *(Repair(error.id, error.message, error.hint) for error in wrong),
        ),
    )


def _last_session(store: HarnessStore) -> LastSession | None:
    if store.mode is None:  # a look at what is not there makes no state folder
        return None
    try:
        found = summary_of(newest_session(store.state_path))
    except (NotFoundError, OSError):
        return None
    return LastSession(found.id, found.status or found.reason, found.started) if found else None
