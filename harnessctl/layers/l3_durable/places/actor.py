"""Who is an agent (CONTRACT 6): landing verbs, and those that remove what checks rest on, are for people.

An agent is a process that says so (``HARNESSCTL_ACTOR=agent``), carries the kernel's mark in its
environment, or descends from a kernel. The ancestors' own environments are read as they were at
their start, so that ``env -i`` in a cell, or a variable removed in Python, hides nothing. What a
session's folder says of its kernel is not asked: a cell can write there that a person's shell is one.
"""

from __future__ import annotations

from collections.abc import Iterator

import psutil

from harnessctl.config import KERNEL_MARK, Environment
from harnessctl.domain.errors import RefusedError


def agent_reason(environment: Environment) -> str:
    """Why this process counts as an agent, in words; "" for a person."""
    if environment.actor == "agent":
        return "HARNESSCTL_ACTOR is 'agent'"
    if environment.kernel_mark:
        return f"it runs in the kernel of session {environment.kernel_mark}"
    for process in _lineage():
        mark = _mark(process)
        if mark:
            return f"process {process.pid} above it is the kernel of session {mark}"
    return ""


def refuse_agents(environment: Environment, verb: str) -> None:
    """Let people pass.

    :raises RefusedError: ``agent_refused`` (exit 6).
    """
    reason = agent_reason(environment)
    if reason:
        raise RefusedError(
            f"'{verb}' changes what later runs read or checks rest on; only a person may do that: {reason}",
            id="agent_refused",
            hint="propose the change instead, or leave it to a person, who does it outside the session",
        )


def _lineage() -> Iterator[psutil.Process]:
    """This process and its ancestors, as far as they can be seen."""
    try:
        here = psutil.Process()
        yield here
        yield from here.parents()
    except psutil.Error:
        return


def _mark(process: psutil.Process) -> str:
    try:
        return process.environ().get(KERNEL_MARK, "")
    except (psutil.Error, OSError):
        return ""
