"""A tree of sessions as its logs tell it: who started whom, how each ended, what each used."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from pathlib import Path
from typing import Any

from harnessctl.domain.errors import NotFoundError
from harnessctl.domain.event import ASIDES, Event, EventType
from harnessctl.domain.limits import Usage
from harnessctl.rlm.log import LOG_NAME, first_events, read_log
from harnessctl.rlm.reopen import last_end
from harnessctl.rlm.seat import ROOT, Seat
from harnessctl.rlm.tally import Tally


@dataclass(frozen=True)
class Kin:
    """One session below another.

    :ivar told: data of the newest ``child`` event that its parent's log has on it.
    :ivar events: of its own log; none where that is gone.
    :ivar damage: what is wrong with its log, "" for nothing.
    """

    seat: Seat
    folder: Path
    told: Mapping[str, Any]
    events: tuple[Event, ...]
    damage: str = ""

    @property
    def end(self) -> Mapping[str, Any] | None:
        """Data of its end, None while it has none."""
        event = last_end(self.events)
        return event.data if event is not None else None


def kin_of(seat: Seat, events: Iterable[Event], sessions: Path) -> Iterator[Kin]:
    """The children that the log of ``seat`` names, in the order of their beginning.

    :param sessions: the folder with all sessions.
    """
    told: dict[str, Mapping[str, Any]] = {}
    for event in events:
        if event.type is EventType.CHILD:
            told[str(event.data["child"])] = {**told.get(str(event.data["child"]), {}), **event.data}
    for session, data in told.items():
        folder = sessions / session
        try:
            content = read_log(folder / LOG_NAME)
            found, damage = content.events, content.damage
        except (NotFoundError, OSError):
            found, damage = (), "its log is gone"
        yield Kin(seat.below(session, str(data["name"])), folder, data, found, damage)


def descendants(seat: Seat, events: Iterable[Event], sessions: Path) -> Iterator[Kin]:
    """All below ``seat``, each before those below it.

    A session that is named a second time, perhaps by one below itself, is damage: nothing of it counts there.
    """
    known, open_ = {seat.session}, [kin_of(seat, events, sessions)]
    while open_:
        kin = next(open_[-1], None)
        if kin is None:
            open_.pop()
            continue
        if kin.seat.session in known:
            kin = replace(kin, events=(), damage="it stands in this tree already")
        known.add(kin.seat.session)
        yield kin
        open_.append(kin_of(kin.seat, kin.events, sessions))


def usage_by_node(seat: Seat, events: Sequence[Event]) -> dict[str, Usage]:
    """What a session itself used, by node: its turns, and its calls beside them."""
    tally = Tally()
    for event in events:
        tally.add(event)
    used: dict[str, Usage] = {}
    for consumer, usage in tally.used.items():
        node = node_of(consumer, seat)
        used[node] = used.get(node, Usage()) + usage
    return used


def node_of(consumer: str, seat: Seat) -> str:
    """The node that a call of ``consumer`` in the session at ``seat`` is booked on.

    Its own, also for what was asked beside the turns; anybody else is a session that an old log names.
    """
    if consumer == seat.name or consumer in ASIDES:
        return seat.node
    return consumer if seat.node == ROOT else f"{seat.node}/{consumer}"


def tree_usage(seat: Seat, events: Sequence[Event], kin: Iterable[Kin]) -> dict[str, Usage]:
    """The same for a session and those below it; the logs are the truth."""
    used = usage_by_node(seat, events)
    for one in kin:
        used |= usage_by_node(one.seat, one.events)
    return used


def is_root(folder: Path) -> bool:
    """Whether the session in ``folder`` was started by no other; no for what has no header to tell."""
    first = first_events(folder, 1)
    return bool(first) and not first[0].data.get("parent")


def seat_of(session: str, events: Sequence[Event]) -> Seat:
    """The place of a session, as its own log tells it."""
    header: Mapping[str, Any] = events[0].data if events and events[0].type is EventType.HEADER else {}
    name = str(header.get("name") or ROOT)
    parent = header.get("parent")
    return Seat(
        str(header.get("session") or session),
        name,
        str(header.get("node") or name),
        int(header.get("depth") or 0),
        str(parent) if parent else None,
    )
