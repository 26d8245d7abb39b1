"""What keeps keys from code that runs as the same user: this process's own memory and ``/proc`` entries.

``PR_SET_DUMPABLE=0`` (Linux) gives ``/proc/<pid>/`` of this process to root and forbids to trace it; a
program that it starts is as open as ever again. Root is not kept out, and neither are other processes that
hold keys, such as the shell that harnessctl was started from: only the sandbox hides those.
"""

from __future__ import annotations

import ctypes
import os
import sys
from collections.abc import Callable, Iterable, Mapping

#: Option of prctl(2).
DUMPABLE = 4

ROOT = (
    "You are root: code in the kernel can read the memory and the environment of every process, this one "
    "with its keys included. Only --sandbox prevents that."
)


def close_memory() -> bool:
    """Close this process's memory and ``/proc`` entries to other processes of the same user.

    :returns: whether the system did it; False on others than Linux.
    """
    if sys.platform != "linux":
        return False
    return int(ctypes.CDLL(None).prctl(DUMPABLE, 0, 0, 0, 0)) == 0


def is_root() -> bool:
    """Whether this process may read every other one's memory."""
    return os.geteuid() == 0


def exposure(
    ancestors: Callable[[], Iterable[tuple[int, str, Mapping[str, str]]]], secret: Callable[[str, str], bool]
) -> str:
    """What protection does not reach, in one sentence; "" when nothing is known.

    :param ancestors: gives (pid, name, environment) of the processes above this one that can be read.
    :param secret: whether a variable, by name and value, is a credential.
    """
    if is_root():
        return ROOT
    for pid, name, variables in ancestors():
        found = sorted(key for key, value in variables.items() if secret(key, value))
        if found:
            shown = ", ".join(found[:4]) + (f" and {len(found) - 4} more" if len(found) > 4 else "")
            return (
                f"A process above this one ({name}, {pid}) has {shown} in its environment, where code in the "
                "kernel can read it. Only --sandbox prevents that."
            )
    return ""


def readable_ancestors() -> list[tuple[int, str, Mapping[str, str]]]:
    """(pid, name, environment) of the processes above this one, as far as this user can read them."""
    import psutil  # 40 ms

    found: list[tuple[int, str, Mapping[str, str]]] = []
    try:
        parents = psutil.Process().parents()
    except psutil.Error:
        return []
    for process in parents:
        try:
            found.append((process.pid, process.name(), process.environ()))
        except (psutil.Error, OSError):
            continue
    return found
