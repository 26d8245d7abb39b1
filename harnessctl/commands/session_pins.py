"""Which revision each session on this machine read: from the headers of the logs and the live refs."""

from __future__ import annotations

from collections.abc import Collection
from dataclasses import dataclass
from pathlib import Path

from harnessctl.domain.errors import HarnessError
from harnessctl.layers.l3_durable.content import Content
from harnessctl.layers.l3_durable.places.names import LIVE
from harnessctl.layers.l3_durable.store import HarnessStore
from harnessctl.rlm.log import LOG_NAME, header_of_log
from harnessctl.rlm.occupancy import is_written


@dataclass(frozen=True, slots=True)
class SessionPin:
    """One session with the commit it read.

    :ivar running: a process writes its log at this moment.
    """

    session: str
    commit: str
    running: bool


def session_pins(store: HarnessStore) -> tuple[SessionPin, ...]:
    """Every session of this repository whose log says what it read, oldest first."""
    folder = store.state_dir / "sessions"
    logs = sorted(folder.glob(f"*/{LOG_NAME}")) if folder.is_dir() else []
    found = {p.session: p for log in logs if (p := _of_log(log)) is not None}
    for name, commit in store.repository.refs.list(LIVE).items():
        session = name.removeprefix(LIVE)
        found.setdefault(session, SessionPin(session, commit, running=True))
    return tuple(found[session] for session in sorted(found))


def readers(store: HarnessStore, updates: Collection[str]) -> tuple[SessionPin, ...]:
    """Sessions whose revision holds one of ``updates``."""
    held: dict[str, bool] = {}
    found = []
    for pin in session_pins(store):
        if pin.commit not in held:
            held[pin.commit] = holds(store, pin.commit, updates)
        if held[pin.commit]:
            found.append(pin)
    return tuple(found)


def holds(store: HarnessStore, commit: str, updates: Collection[str]) -> bool:
    """Whether the state at ``commit`` has one of ``updates``; no for a commit that is not here any more."""
    try:
        content = Content(store.repository, commit)
        return any(content.has_record(update) for update in updates)
    except HarnessError:
        return False


def _of_log(log: Path) -> SessionPin | None:
    pin = header_of_log(log.parent).get("pin")
    commit = pin.get("commit") if isinstance(pin, dict) else None
    return (
        SessionPin(log.parent.name, commit, is_written(log)) if isinstance(commit, str) and commit else None
    )
