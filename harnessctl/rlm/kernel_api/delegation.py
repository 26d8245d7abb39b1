"""``rlm("task")``: children of this session, for code in cells.

A child lives in the host. Its handle is a name: another kernel of the same session finds it again.
"""

from __future__ import annotations

import asyncio
import builtins
from collections.abc import Generator
from typing import Any

from .host import Host


class ChildError(RuntimeError):
    """A child that ended without an answer.

    :ivar status: as of a run: ``failed``, ``incomplete``, ``budget_exhausted``, ``interrupted``.
    :ivar reason: stable word, such as ``turns``, ``cancelled`` or ``provider_error``.
    :ivar detail: the same for people.
    """

    def __init__(self, told: dict[str, Any]) -> None:
        self.name, self.status = told["name"], told["status"]
        self.reason, self.detail = told["reason"], told["detail"]
        because = ", ".join(filter(None, (self.reason, self.detail)))
        super().__init__(f"child {self.name}: {self.status}{f' ({because})' if because else ''}")


class Handle:
    """One child. ``await`` it for its answer.

    :ivar session: id of its session.
    """

    def __init__(self, host: Host, name: str, session: str) -> None:
        self.name = name
        self.session = session
        self._host = host

    def __await__(self) -> Generator[Any, None, str]:
        return self._answer().__await__()

    async def _answer(self) -> str:
        return _answer(await asyncio.wrap_future(self._host.submit("rlm.wait", name=self.name)))

    def wait(self, timeout: float | None = None) -> str:
        """Its answer.

        :raises ChildError: it ended without one.
        :raises TimeoutError: it still runs after ``timeout`` seconds, and goes on.
        """
        return _answer(self._host.call("rlm.wait", name=self.name, timeout=timeout))

    def cancel(self) -> str:
        """End it; the state it is in then."""
        return str(self._host.call("rlm.cancel", name=self.name)["state"])

    @property
    def state(self) -> str:
        """``running``, ``done``, ``failed``, ``cancelled`` or ``interrupted``."""
        return str(self._host.call("rlm.get", name=self.name)["state"])

    def __repr__(self) -> str:
        return f"<child {self.name}; await it for its answer>"


class Rlm:
    """Starts children, ``rlm("task")``, and knows those there are: ``list()``, ``get(name)``."""

    ChildError = ChildError

    def __init__(self, host: Host) -> None:
        self._host = host

    def __call__(
        self,
        task: str,
        *,
        name: str | None = None,
        model: str | None = None,
        agent: str | None = None,
        max_turns: int | None = None,
        max_tokens: int | None = None,
        max_time: float | None = None,
    ) -> Handle:
        """Start a child with a context and a kernel of its own; it works while this cell goes on.

        :param name: lower case letters, digits and ``-``; made up when not given.
        :param agent: a subagent of the harness that it works as.
        :param max_time: seconds.
        :raises HostError: there can be no such child; why.
        """
        given = {
            "task": task,
            "name": name,
            "model": model,
            "agent": agent,
            "max_turns": max_turns,
            "max_tokens": max_tokens,
            "max_time": max_time,
        }
        told = self._host.call("rlm.spawn", **given)
        return Handle(self._host, told["name"], told["session"])

    def list(self) -> builtins.list[dict[str, Any]]:
        """Every child of this session: name, session, state, reason, tokens, cost_usd, …"""
        found: builtins.list[dict[str, Any]] = self._host.call("rlm.list")
        return found

    def get(self, name: str) -> Handle:
        """The child called ``name``, also one that an earlier kernel started."""
        told = self._host.call("rlm.get", name=name)
        return Handle(self._host, told["name"], told["session"])

    def cancel(self, name: str) -> str:
        """End the child called ``name``; the state it is in then."""
        return self.get(name).cancel()

    def __repr__(self) -> str:
        return "<rlm: rlm('task', name=, model=, agent=), list(), get(name), cancel(name)>"


def _answer(told: dict[str, Any]) -> str:
    if told["state"] == "running":
        raise TimeoutError(f"child {told['name']} still runs")
    if told["state"] != "done":
        raise ChildError(told)
    return str(told["answer"] or "")
