"""Who is an agent (CONTRACT 6): landing verbs are for people.

An agent is a process that says so (``HARNESSCTL_ACTOR=agent``), carries the kernel's mark in its
environment, or descends from a kernel. The ancestors' own environments are read as they were at
their start, so that ``env -i`` in a cell, or a variable removed in Python, hides nothing; where
they cannot be read (macOS for some processes, another user's) the registrations that the host
keeps beside each session, process id with start time, still name them.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import psutil

from harnessctl.config import KERNEL_MARK, Environment
from harnessctl.domain.errors import RefusedError
from harnessctl.domain.plain_files import read_small

#: Bytes of a registration: two process ids and a path.
MOST = 64 * 1024
#: Start times are compared with this tolerance, in seconds: clock ticks differ by source.
SAME_START = 2.0


def agent_reason(environment: Environment) -> str:
    """Why this process counts as an agent, in words; "" for a person."""
    if environment.actor == "agent":
        return "HARNESSCTL_ACTOR is 'agent'"
    if environment.kernel_mark:
        return f"it runs in the kernel of session {environment.kernel_mark}"
    registered = dict(_registered(environment.state_home))
    for process in _lineage():
        mark = _mark(process)
        if mark:
            return f"process {process.pid} above it is the kernel of session {mark}"
        session = registered.get(process.pid)
        if session is not None and abs(process.create_time() - session[1]) < SAME_START:
            return f"process {process.pid} above it belongs to session {session[0]}"
    return ""


def refuse_agents(environment: Environment, verb: str) -> None:
    """Let people pass.

    :raises RefusedError: ``agent_refused`` (exit 6).
    """
    reason = agent_reason(environment)
    if reason:
        raise RefusedError(
            f"'{verb}' changes what later runs read, and only a person may do that: {reason}",
            id="agent_refused",
            hint="propose the change instead; a person reviews it outside the session",
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


def _registered(state_home: Path) -> Iterator[tuple[int, tuple[str, float]]]:
    """(pid, (session, start time)) of the kernels, and their guards, of any repository's sessions."""
    for path in state_home.glob("*/sessions/*/kernel/kernel.json"):
        try:
            data, session = json.loads(read_small(path, MOST)), path.parents[1].name
            yield int(data["pid"]), (session, float(data["started"]))
            yield int(data["guard"]), (session, float(data["guard_started"]))
        except (OSError, ValueError, KeyError, TypeError):
            continue
