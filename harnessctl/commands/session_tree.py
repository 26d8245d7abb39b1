"""The tree of a session: who was started below it, how each ended, what each used."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from harnessctl.domain.event import Event
from harnessctl.domain.limits import Usage
from harnessctl.domain.outcome import NO_END
from harnessctl.rlm.lineage import descendants, seat_of, usage_by_node
from harnessctl.rlm.log import LOG_NAME, read_log
from harnessctl.rlm.occupancy import is_written
from harnessctl.rlm.reopen import last_end
from harnessctl.rlm.seat import Seat


@dataclass(frozen=True)
class Branch:
    """One session of a tree.

    :ivar status: None for one without an end.
    :ivar usage: of the session itself, without those below it, as far as its log can be read.
    :ivar damage: what is wrong with its log, "" for nothing.
    """

    seat: Seat
    status: str | None
    reason: str
    usage: Usage
    damage: str = ""

    def to_json(self) -> dict[str, Any]:
        """As ``sessions show --json`` prints it."""
        return {
            "session": self.seat.session,
            "name": self.seat.name,
            "node": self.seat.node,
            "depth": self.seat.depth,
            "status": self.status,
            "reason": self.reason,
            "usage": self.usage.to_json(),
            "damage": self.damage,
        }


def tree_of(folder: Path, events: Sequence[Event]) -> tuple[Branch, ...]:
    """The session in ``folder`` and all below it, each before those below it."""
    seat = seat_of(folder.name, events)
    below = descendants(seat, events, folder.parent)
    return (
        _branch(seat, events, folder, {}),
        *(_branch(kin.seat, kin.events, kin.folder, kin.told, kin.damage) for kin in below),
    )


def family_of(folder: Path) -> Iterator[Path]:
    """The folder of a session, then those of all below it, as far as their logs are there."""
    yield folder
    events = read_log(folder / LOG_NAME).events
    for kin in descendants(seat_of(folder.name, events), events, folder.parent):
        if kin.events:
            yield kin.folder


def tree_lines(tree: Sequence[Branch]) -> Iterator[str]:
    """A tree of more than one session, drawn: name, status, tokens and cost of each, and the sum."""
    if len(tree) < 2:
        return
    top = tree[0].seat.depth
    names = ["  " * (b.seat.depth - top) + b.seat.name for b in tree]
    states = [f"{b.status or 'no end'}{f' ({b.reason})' if b.reason else ''}" for b in tree]
    wide, wider = max(map(len, [*names, "total"])), max(map(len, states))
    yield ""
    for branch, name, state in zip(tree, names, states, strict=True):
        used, where = _used(branch.usage), f"{branch.seat.session}{_damaged(branch)}"
        yield f"{name:<{wide}}  {state:<{wider}}  {used}  {where}"
    yield f"{'total':<{wide}}  {'':<{wider}}  {_used(sum((b.usage for b in tree), Usage()))}"


def _damaged(branch: Branch) -> str:
    return f"  [{branch.damage}]" if branch.damage else ""


def _branch(
    seat: Seat, events: Sequence[Event], folder: Path, told: Mapping[str, Any], damage: str = ""
) -> Branch:
    usage = sum(usage_by_node(seat, events).values(), Usage())
    end = last_end(events)
    data = end.data if end is not None else told if "status" in told else {}
    reason = str(data.get("reason") or "")
    if not data:
        log = folder / LOG_NAME
        reason = "running" if log.exists() and is_written(log) else NO_END
    return Branch(seat, data.get("status"), reason, usage, damage)


def _used(usage: Usage) -> str:
    cost = "price unknown" if usage.cost_usd is None else f"${usage.cost_usd:.4f}"
    return f"{'~' if usage.estimated else ' '}{usage.tokens:>10,} tokens  {cost:>13}"
