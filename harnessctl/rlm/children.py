"""The owner of a session's children: started from cells, ended with their parent, never lost with a kernel.

A child is a session of its own, in the same process and event loop. How one is built is the business of
whoever hands in ``spawn``; here it is a thing that runs and can be stopped. All children of a session are
tasks of one group, which the session closes; a defect in a child ends that child alone.
"""

from __future__ import annotations

import asyncio
import contextlib
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any, Protocol

from harnessctl.domain.errors import HarnessError, NotFoundError
from harnessctl.domain.event import EventType
from harnessctl.domain.ids import new_ulid
from harnessctl.domain.limits import Limits, Usage
from harnessctl.domain.outcome import RunStatus
from harnessctl.rlm.budget import Budget
from harnessctl.rlm.door import Handler
from harnessctl.rlm.given import count, seconds, word
from harnessctl.rlm.journal import Journal
from harnessctl.rlm.recorder import StorageError
from harnessctl.rlm.seat import Seat

_NAME = re.compile(r"[a-z0-9][a-z0-9-]{0,31}\Z")
#: Names that mean somebody else, in messages or in a script.
TAKEN_NAMES = frozenset({"root", "parent", "user", "post", "llm", "summary", "refine"})
#: Reasons with which a parent ends a child.
CANCELLED, PARENT_ENDED = "cancelled", "parent_ended"
#: Characters of a task that stand in the parent's log; the child's own holds all of it.
MOST_TASK = 500


class ChildRefusedError(HarnessError):
    """A child that cannot be."""


@dataclass(frozen=True)
class ChildSpec:
    """What a child is to do, and as whom.

    :ivar agent: the subagent entry that it works as.
    :ivar model: name of its model, None for its parent's.
    :ivar turns: limits of its own; None for what its parent's tree says.
    :ivar deadline: its parent's, on the clock of the session; None without one.
    """

    seat: Seat
    task: str
    agent: str | None = None
    model: str | None = None
    turns: int | None = None
    tokens: int | None = None
    wall_s: float | None = None
    deadline: float | None = None


@dataclass(frozen=True)
class ChildEnd:
    """How a child ended; ``usage`` is its own and that of all below it."""

    status: RunStatus
    reason: str = ""
    detail: str = ""
    answer: str | None = None
    usage: Usage = field(default_factory=Usage)

    @property
    def state(self) -> str:
        """In one word: ``done``, ``cancelled``, ``interrupted`` or ``failed``."""
        if self.status is RunStatus.SUCCESS:
            return "done"
        if self.status is RunStatus.INTERRUPTED:
            return "cancelled" if self.reason in (CANCELLED, PARENT_ENDED) else "interrupted"
        return "failed"


class ChildSession(Protocol):
    """A child that is ready: its log has begun."""

    async def run(self) -> ChildEnd:
        """To its end."""
        ...

    def stop(self, reason: str) -> None:
        """End it in order, soon."""
        ...

    def close(self) -> None:
        """Let go of what a child that will not run holds."""
        ...


#: Makes a child ready; raises :class:`HarnessError`, in words for the cell, where there can be none.
Spawn = Callable[[ChildSpec], ChildSession]


@dataclass
class Census:
    """Counts the children of a whole tree.

    :ivar started: so many were started, ended ones included.
    """

    limits: Limits
    started: int = 0

    def check(self, depth: int) -> None:
        """:raises ChildRefusedError: a child at ``depth`` would be too deep, or one too many."""
        if depth > self.limits.depth:
            raise ChildRefusedError(
                f"the depth limit is {self.limits.depth}, and this session is at depth {depth - 1}",
                id="depth",
                hint="do the work here",
            )
        if self.limits.children is not None and self.started >= self.limits.children:
            raise ChildRefusedError(
                f"the limit of {self.limits.children} children over the whole tree is reached",
                id="children",
                hint="do the work here, or with llm()",
            )


@dataclass
class Child:
    """One child as its parent knows it.

    :ivar end: None while it runs.
    :ivar session: None for one that was over when its parent was picked up.
    """

    spec: ChildSpec
    end: ChildEnd | None = None
    session: ChildSession | None = None
    recorded: bool = False
    done: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def name(self) -> str:
        """Its name."""
        return self.spec.seat.name


class Children:
    """The children of one session; a room of its door.

    :param seat: of the session itself.
    :param deadline: moment at which the session must end.
    """

    def __init__(
        self,
        seat: Seat,
        journal: Journal,
        budget: Budget,
        census: Census,
        spawn: Spawn,
        deadline: float | None = None,
    ) -> None:
        self._seat = seat
        self._journal = journal
        self._budget = budget
        self._census = census
        self._spawn = spawn
        self._deadline = deadline
        self._children: dict[str, Child] = {}
        self._group: asyncio.TaskGroup | None = None

    def handlers(self) -> Mapping[str, Handler]:
        """By the name of the request."""
        return {
            "rlm.spawn": self._start,
            "rlm.wait": self._wait,
            "rlm.list": self._list,
            "rlm.get": self._get,
            "rlm.cancel": self._cancel,
        }

    def restore(self, children: Iterable[Child]) -> None:
        """Know these again, from the log of a session that is picked up; before :meth:`begin`."""
        for child in children:
            self._children[child.name] = child

    def begin(self, group: asyncio.TaskGroup) -> None:
        """Children are tasks of ``group`` from now on; those that were picked up go on."""
        self._group = group
        for child in self._children.values():
            if child.end is not None:
                self._over(child, child.end)
            else:
                self._go(child)

    def stop(self, reason: str) -> None:
        """Ask every child that runs to end."""
        for child in self._running():
            if child.session is not None:
                child.session.stop(reason)

    async def end(self, reason: str) -> None:
        """End every child and wait until none is left, whoever starts one meanwhile."""
        while running := self._running():
            self.stop(reason)
            await asyncio.gather(*(child.done.wait() for child in running))

    def _running(self) -> list[Child]:
        return [child for child in self._children.values() if child.end is None and self._group is not None]

    async def _start(self, what: Mapping[str, Any]) -> dict[str, Any]:
        if self._group is None:
            raise ChildRefusedError("the session is not running", id="not_running")
        spec = self._spec(what)
        self._census.check(spec.seat.depth)
        session = self._spawn(spec)
        try:
            self._record(spec, "started", task=spec.task[:MOST_TASK], agent=spec.agent, model=spec.model)
            self._journal.sync()
        except BaseException:
            session.close()
            raise
        self._census.started += 1
        child = self._children[spec.seat.name] = Child(spec, session=session)
        self._go(child)
        return {"name": child.name, "session": spec.seat.session}

    def _spec(self, what: Mapping[str, Any]) -> ChildSpec:
        task = what.get("task")
        if not isinstance(task, str) or not task.strip():
            raise ChildRefusedError("a child needs a task, as text", id="no_child_task")
        return ChildSpec(
            seat=self._seat.below(new_ulid(), self._name(what.get("name"))),
            task=task,
            agent=word("agent", what.get("agent")),
            model=word("model", what.get("model")),
            turns=count("max_turns", what.get("max_turns")),
            tokens=count("max_tokens", what.get("max_tokens")),
            wall_s=seconds("max_time", what.get("max_time")),
            deadline=self._deadline,
        )

    def _name(self, wanted: Any) -> str:
        if wanted is None:
            number = len(self._children) + 1
            while f"child-{number}" in self._children:
                number += 1
            return f"child-{number}"
        if not isinstance(wanted, str) or not _NAME.fullmatch(wanted) or wanted in TAKEN_NAMES:
            raise ChildRefusedError(
                f"{wanted!r} is no name for a child",
                id="bad_name",
                hint="lower case letters, digits and '-', 32 at most; not one of: "
                + ", ".join(sorted(TAKEN_NAMES)),
            )
        if wanted in self._children:
            raise ChildRefusedError(
                f"there is a child {wanted} already, {self._told(self._children[wanted])['state']}",
                id="name_taken",
                hint="choose another name",
            )
        return wanted

    def _go(self, child: Child) -> None:
        assert self._group is not None
        self._group.create_task(self._run(child), name=f"child {child.name}")

    async def _run(self, child: Child) -> None:
        assert child.session is not None
        end = ChildEnd(RunStatus.INTERRUPTED, PARENT_ENDED)
        try:
            end = await child.session.run()
        except Exception as error:
            # A defect in one child must end neither its parent nor its siblings.
            usage, cause = self._budget.of(child.spec.seat.node), _cause(error)
            end = ChildEnd(RunStatus.FAILED, "error", f"{type(cause).__name__}: {cause}", usage=usage)
        finally:
            self._over(child, end)

    def _over(self, child: Child, end: ChildEnd) -> None:
        child.end = end
        child.done.set()
        if not child.recorded:
            told = {"status": str(end.status), "reason": end.reason, "detail": end.detail}
            # A full disk ends the parent at its next record; the child's own log tells its end too.
            with contextlib.suppress(StorageError):
                self._record(child.spec, end.state, **told, usage=end.usage.to_json())
            child.recorded = True

    def _record(self, spec: ChildSpec, state: str, **more: Any) -> None:
        data = {"child": spec.seat.session, "name": spec.seat.name, "state": state, **more}
        self._journal.record(EventType.CHILD, data, turn=self._journal.tally.last_turn)

    async def _wait(self, what: Mapping[str, Any]) -> dict[str, Any]:
        child = self._named(what)
        with contextlib.suppress(TimeoutError):
            async with asyncio.timeout(seconds("timeout", what.get("timeout"))):
                await child.done.wait()
        return self._told(child, answer=True)

    async def _list(self, _: Mapping[str, Any]) -> list[dict[str, Any]]:
        return [self._told(child) for child in self._children.values()]

    async def _get(self, what: Mapping[str, Any]) -> dict[str, Any]:
        return self._told(self._named(what))

    async def _cancel(self, what: Mapping[str, Any]) -> dict[str, Any]:
        child = self._named(what)
        if child.session is not None and child.end is None:
            child.session.stop(CANCELLED)
            await child.done.wait()
        return self._told(child)

    def _named(self, what: Mapping[str, Any]) -> Child:
        name = str(what.get("name"))
        if name not in self._children:
            there = ", ".join(self._children) or "none yet"
            raise NotFoundError(f"no child {name!r}", id="no_child", hint=f"there are: {there}")
        return self._children[name]

    def _told(self, child: Child, *, answer: bool = False) -> dict[str, Any]:
        end, seat = child.end, child.spec.seat
        usage = self._budget.of(seat.node)
        told: dict[str, Any] = {
            "name": seat.name,
            "session": seat.session,
            "state": "running" if end is None else end.state,
            "status": None if end is None else str(end.status),
            "reason": "" if end is None else end.reason,
            "detail": "" if end is None else end.detail,
            "tokens": usage.tokens,
            "cost_usd": usage.cost_usd,
            "agent": child.spec.agent,
            "model": child.spec.model,
        }
        return {**told, "answer": end.answer if end is not None else None} if answer else told


def _cause(error: BaseException) -> BaseException:
    """What went wrong, without the groups that task groups put around it."""
    while isinstance(error, BaseExceptionGroup) and len(error.exceptions) == 1:
        error = error.exceptions[0]
    return error
