"""``sessions list`` and ``sessions show``: past runs, read from their logs."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

from harnessctl.commands.session_tree import Branch, tree_lines, tree_of
from harnessctl.domain.errors import HarnessError, NotFoundError, UsageError
from harnessctl.domain.event import Event, EventType, is_aside
from harnessctl.domain.ids import is_ulid
from harnessctl.domain.outcome import DAMAGED, NO_END, NO_HEADER
from harnessctl.rlm.lineage import is_root
from harnessctl.rlm.log import (
    LOG_NAME,
    LONGEST,
    DamagedLogError,
    first_events,
    no_log,
    open_log,
    read_line,
    read_log,
    read_trajectory,
)
from harnessctl.rlm.occupancy import is_written, may_begin
from harnessctl.rlm.seat import ROOT

#: Bytes read at a time from the end of a log.
CHUNK = 65_536

#: Hides secrets in text before it is shown.
Mask = Callable[[str], str]


@dataclass(frozen=True)
class SessionSummary:
    """One line of ``sessions list``.

    :ivar status: None for a session without an end: it runs, or was killed.
    :ivar running: a process holds its log at this moment.
    :ivar parent: id of the session that started it, None for a root.
    """

    id: str
    status: str | None
    reason: str
    verified: bool
    started: str
    task: str
    usage: Mapping[str, Any] | None
    running: bool = False
    parent: str | None = None
    name: str = ROOT

    def to_json(self) -> dict[str, object]:
        """As ``--json`` prints it (CONTRACT 10); a child says whose it is."""
        whose = {} if self.parent is None else {"parent": self.parent, "name": self.name}
        return {
            **whose,
            "id": self.id,
            "status": self.status,
            "reason": self.reason,
            "verified": self.verified,
            "started": self.started,
            "task": self.task,
            "usage": dict(self.usage) if self.usage is not None else None,
        }


@dataclass(frozen=True)
class ShownSession:
    """A session with its events, secrets masked.

    :ivar damage: what is wrong with the log; empty for a whole one.
    :ivar tree: the session and all below it.
    """

    summary: SessionSummary
    events: tuple[Event, ...]
    damage: tuple[str, ...]
    tree: tuple[Branch, ...] = ()

    def to_json(self) -> dict[str, object]:
        """As ``sessions show --json`` prints it; hashes stand for the original, not for masked text."""
        return {
            **self.summary.to_json(),
            "damage": list(self.damage),
            "tree": [branch.to_json() for branch in self.tree],
            "events": [
                {"n": e.n, "t": e.t, "type": str(e.type), "turn": e.turn, "data": e.data, "hash": e.hash}
                for e in self.events
            ],
        }


def list_sessions(state_dir: Path, mask: Mask, *, children: bool = False) -> tuple[SessionSummary, ...]:
    """Every session of a repository, newest first, also those whose header cannot be read.

    :param children: also those that another session started.
    """
    folder = state_dir / "sessions"
    names = sorted((p.name for p in folder.iterdir()), reverse=True) if folder.is_dir() else []
    found = (_summary(folder / name, mask) for name in names)
    return tuple(s for s in found if s is not None and (children or s.parent is None))


def show_session(state_dir: Path, prefix: str, mask: Mask) -> ShownSession:
    """The session whose id begins with ``prefix``; "" is the newest.

    :raises NotFoundError: none.
    :raises UsageError: more than one.
    :raises HarnessError: nothing of it can be read.
    """
    folder = find_session(state_dir, prefix)
    refuse_unreadable(folder)
    trajectory = read_trajectory(folder)
    events = tuple(masked(event, mask) for event in trajectory.events)
    summary = _summary(folder, mask)
    if summary is None:
        raise no_log(folder / LOG_NAME)
    return ShownSession(summary, events, trajectory.damage, tree_of(folder, trajectory.events))


def find_session(state_dir: Path, prefix: str) -> Path:
    """Folder of the session whose id begins with ``prefix``; "" is the newest that no other one started.

    :raises NotFoundError: none.
    :raises UsageError: more than one.
    :raises DamagedLogError: it is to be the newest, and whether that is one is what its log does not tell.
    """
    if not prefix:
        newest = newest_session(state_dir)
        if damage := _damaged_at_once(newest):
            error = DamagedLogError(newest / LOG_NAME, damage)
            error.hint = "this is the newest session; name another: harnessctl sessions list shows them"
            raise error
        return newest
    folder = state_dir / "sessions"
    names = _names(folder)
    found = [name for name in names if name.startswith(prefix.upper())]
    if not found:
        raise NotFoundError(
            f"there is no session '{prefix}'", id="no_session", hint="harnessctl sessions list"
        )
    if len(found) > 1:
        raise UsageError(
            f"{len(found)} sessions begin with {prefix}: {', '.join(found[:5])}{', …' if found[5:] else ''}",
            id="ambiguous_session",
            hint="write more of the id",
        )
    return folder / found[0]


def newest_session(state_dir: Path) -> Path:
    """Folder of the newest session that no other one started, or that may be one: damage hides its header.

    :raises NotFoundError: none.
    """
    folder = state_dir / "sessions"
    names = _names(folder)
    if not names:
        raise NotFoundError("there is no session yet", id="no_session", hint="harnessctl run makes one")
    # A kill may leave a log without a header, of a child that was about to begin.
    for one in (folder / name for name in reversed(names)):
        if is_root(one) or (is_ulid(one.name) and _damaged_at_once(one)):
            return one
    return folder / names[-1]


def _damaged_at_once(folder: Path) -> str:
    """What hides the header of a session, "" where that can be read, or was never written whole."""
    return "" if first_events(folder, 1) else read_log(folder / LOG_NAME).damage


def _names(folder: Path) -> list[str]:
    return sorted(p.parent.name for p in folder.glob(f"*/{LOG_NAME}") if not p.parent.name.startswith("."))


def refuse_unreadable(folder: Path, *, copied: bool = False) -> None:
    """Refuse a log that there is nothing to show of.

    :param copied: as it stands, which a damaged one can be.
    :raises HarnessError: it has no record that can be read.
    """
    if first_events(folder, 1):
        return
    content = read_log(folder / LOG_NAME)
    if content.damage and not copied:
        raise DamagedLogError(folder / LOG_NAME, content.damage)
    if not content.events and not content.damage:
        begins = may_begin(folder / LOG_NAME)
        raise HarnessError(
            f"the log of session {folder.name} holds no record"
            + (" yet" if begins else ": it was stopped before its header was written, or lost what it held"),
            id=NO_HEADER,
            hint="try again in a moment" if begins else "start anew: harnessctl run",
        )


def summary_of(folder: Path) -> SessionSummary | None:
    """The session in ``folder`` without its task, None where there is no log."""
    return _summary(folder, lambda _: "")


def _summary(folder: Path, mask: Mask) -> SessionSummary | None:
    path = folder / LOG_NAME
    first = first_events(folder, 2)
    if not first or first[0].type is not EventType.HEADER:
        return _without_header(folder)
    header, task = first[0], first[1] if len(first) > 1 else None
    try:
        line = _last_line(path)
    except (OSError, HarnessError):
        return None
    last = _event_or_none(line)
    end = last.data if last is not None and last.type is EventType.END else None
    running = end is None and is_written(path)
    cut = NO_END if last is not None or not line.endswith(b"\n") else DAMAGED
    return SessionSummary(
        id=folder.name,
        status=str(end["status"]) if end else None,
        reason=str(end.get("reason") or "") if end else ("running" if running else cut),
        verified=bool(end and end.get("verified")),
        started=header.t,
        parent=header.data.get("parent"),
        name=str(header.data.get("name") or ROOT),
        task=mask(str(task.data.get("text", ""))) if task else "",
        usage=end.get("usage") if end else None,
        running=running,
    )


def _without_header(folder: Path) -> SessionSummary | None:
    """What can be said of a log without a header; None where there is none, or it is about to get one."""
    path = folder / LOG_NAME
    try:
        content, made = read_log(path), datetime.fromtimestamp(path.stat().st_mtime, UTC)
        running = is_written(path)
        if not running and may_begin(path):
            return None
    except (OSError, NotFoundError):
        return None
    reason = "running" if running else DAMAGED if content.damage else NO_HEADER
    started = made.isoformat(timespec="milliseconds").replace("+00:00", "Z")
    return SessionSummary(folder.name, None, reason, False, started, "", None, running)


def _event_or_none(line: bytes) -> Event | None:
    try:
        return read_line(line)
    except ValueError:
        return None


def _last_line(path: Path) -> bytes:
    """The last line, with its LF if it has one, read from the end: logs may be long.

    Of what is longer than :data:`LONGEST`, and so no record, the end.
    """
    with open_log(path) as file:
        at = file.seek(0, os.SEEK_END)
        data = b""
        while at > 0 and len(data) < LONGEST and data.rstrip(b"\n").count(b"\n") < 1:
            step = min(max(CHUNK, len(data)), at)
            at = file.seek(at - step)
            data = file.read(step) + data
    return data[data.rstrip(b"\n").rfind(b"\n") + 1 :]


def masked(event: Event, mask: Mask) -> Event:
    """``event`` as it may be shown; its hash stands for the original."""
    data = {key: masked_value(value, mask) for key, value in event.data.items()}
    return Event(event.n, event.t, event.type, event.turn, data, event.prev, event.hash)


def masked_value(value: Any, mask: Mask) -> Any:
    """A JSON value with every text in it masked."""
    if isinstance(value, str):
        return mask(value)
    if isinstance(value, Mapping):
        return {key: masked_value(inner, mask) for key, inner in value.items()}
    if isinstance(value, list | tuple):
        return [masked_value(inner, mask) for inner in value]
    return value


def lines_of(shown: ShownSession) -> Iterator[str]:
    """The session as plain text, a turn at a time."""
    for event in shown.events:
        yield from _lines(event)
    torn = all(problem.startswith("torn tail") for problem in shown.damage)  # a resume repairs that
    if shown.summary.reason == NO_END and torn:
        yield f"cut off here; it can go on: harnessctl sessions resume {shown.summary.id}"
    yield from tree_lines(shown.tree)
    for problem in shown.damage:
        yield f"! log: {problem}"


def _lines(event: Event) -> Iterator[str]:
    data = event.data
    match event.type:
        case EventType.HEADER:
            model = data.get("model") or {}
            pin = data.get("pin") or {}
            yield f"session {data.get('session')}  model {model.get('provider')}/{model.get('name')}"
            yield f"pin {(pin.get('commit') or 'none')[:12]} ({pin.get('source')})"
        case EventType.MESSAGE if data.get("state") == "queued":
            pass
        case EventType.MESSAGE:
            lost = " (not delivered)" if data.get("state") == "undeliverable" else ""
            yield f"#{event.n} message from {data.get('from')}{lost}: {data.get('text')}"
        case EventType.TASK:
            yield f"#{event.n} {event.type}: {data.get('text')}"
        case EventType.CHILD:
            yield f"#{event.n} child {data.get('name')} {data.get('state')}: {data.get('child')}"
        case EventType.REPLY if "error" in data:
            yield f"#{event.n} turn {event.turn}: {data['error'].get('kind')}: {data['error'].get('message')}"
        case EventType.REPLY:
            if data.get("content"):
                who = data["consumer"] if is_aside(event) else f"turn {event.turn}"
                yield f"#{event.n} {who}: {data['content']}"
        case EventType.CELL:
            yield f"#{event.n} In [{data.get('cell')}]:"
            yield from (f"    {line}" for line in str(data.get("code")).splitlines())
        case EventType.RESULT:
            yield f"#{event.n} Out [{data.get('cell')}]:"
            yield from (f"    {line}" for line in str(data.get("text")).splitlines())
        case EventType.PROPOSE:
            yield f"#{event.n} proposes to {data.get('text')}"
        case EventType.COMPACTION:
            yield f"#{event.n} {data.get('text')}"
        case EventType.REPAIR:
            yield f"#{event.n} repair {data.get('what')}: {data.get('text')}"
        case EventType.END:
            reason = f" ({data.get('reason')})" if data.get("reason") else ""
            yield f"#{event.n} end: {data.get('status')}{reason}"
            if data.get("answer"):
                yield str(data["answer"])
        case _:
            pass
