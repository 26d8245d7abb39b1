"""What code in a kernel can call, and how cells behave there.

A real package, loaded into the kernel by its path: the kernel's Python may be the project's own and
need not have harnessctl. So: standard library only, and nothing of harnessctl is imported.

The host runs two cells in silence before the first: one loads the package and calls :func:`install`,
one calls :func:`.output.limit_output`.

Rules of a cell: ``final(value)`` ends the run with that answer; ``sys.exit(0)``, ``exit`` and
``quit`` end the cell, never the kernel; ``!command`` and ``%%bash`` run without a terminal and say
a status other than 0.
"""

from __future__ import annotations

import atexit
import builtins
import contextlib
import json
import os
import re
import signal
import subprocess
import warnings
from pathlib import Path
from typing import Any

from .asides import Llm
from .delegation import ChildError, Rlm
from .entries import Harness
from .history import History
from .host import Host, HostError
from .interrupts import CodeAlone
from .letters import Messages
from .output import keep_messages_valid, wait_for_reader
from .shell import Final, Shell, final, leave_cell, make_exit
from .skills import find_skills
from .variables import Variables


def wake_for_signals(ip: Any) -> None:
    """Let an interrupt reach a cell that awaits.

    ipykernel's handler asks the loop to cancel the cell, and tornado does so without waking it: the
    loop sleeps on until its next timer. A handler of asyncio's own, for any signal, makes every
    signal wake it; this one is for a signal that nobody sends to a kernel.
    """
    loop = getattr(getattr(ip.kernel, "io_loop", None), "asyncio_loop", None)
    if loop is not None:
        loop.add_signal_handler(signal.SIGWINCH, int)


def end_in_order(ip: Any) -> None:
    """Let the thread that is asked for the kernel's end finish before anything else is ended.

    It stops the main thread first, and then says through the publishing thread that it is idle. An
    ipykernel ends the publishing thread meanwhile, and now and then hangs or aborts.
    """

    def wait() -> None:
        thread = getattr(ip.kernel, "control_thread", None)
        if thread is not None and thread.is_alive():
            thread.stop()
            thread.join()

    atexit.register(wait)


def no_colours() -> None:
    """Undo what IPython tells its children: that somebody looks at a colour terminal."""
    for name in ("FORCE_COLOR", "CLICOLOR", "CLICOLOR_FORCE"):
        os.environ.pop(name, None)
    os.environ["TERM"] = "dumb"


def install(ip: Any, entries: str, door: str) -> None:
    """Put the names into the namespace and the rules into the shell ``ip``.

    :param entries: JSON file with the pinned entries.
    :param door: socket on which the host answers.
    """
    shell = Shell(ip)
    # Builtins, so that ``%reset`` and a module that a cell imports both see them.
    builtins.final = final  # type: ignore[attr-defined]
    host = Host(door)
    builtins.harness = Harness(entries, host)  # type: ignore[attr-defined]
    builtins.history = History(host)  # type: ignore[attr-defined]
    builtins.llm = Llm(host)  # type: ignore[attr-defined]
    builtins.rlm = Rlm(host)  # type: ignore[attr-defined]
    builtins.messages = Messages(host)  # type: ignore[attr-defined]
    builtins.HostError = HostError  # type: ignore[attr-defined]
    builtins.ChildError = ChildError  # type: ignore[attr-defined]
    find_skills(os.path.join(os.path.dirname(entries), "modules.json"))
    # What models use without importing it; hidden, so that ``%who`` lists the cells' own names only.
    common = {"os": os, "re": re, "json": json, "subprocess": subprocess, "Path": Path}
    ip.user_ns.update(common)
    ip.user_ns_hidden.update(common)
    # IPython hides the builtins of these names; what it puts in their place ends the kernel.
    for name in ("exit", "quit"):
        ip.user_ns[name] = ip.user_ns_hidden[name] = make_exit()
    ip.ask_exit = leave_cell
    ip.system = shell.system
    ip.getoutput = shell.getoutput
    for magic in ("bash", "sh"):
        ip.register_magic_function(shell.cell_script, "cell", magic)
    ip.set_custom_exc((Final,), shell.show_nothing)
    ip.showtraceback = shell.showtraceback
    CodeAlone(ip)
    ip.events.register("post_execute", Variables(ip).tell)
    warnings.filterwarnings("ignore", message="To exit: use")
    keep_messages_valid(ip.kernel.session)
    wait_for_reader(ip)
    wake_for_signals(ip)
    end_in_order(ip)
    # IPython keeps a copy of everything printed, for notebooks; and puts ``write`` back after this cell.
    ip._tee = lambda **_: contextlib.nullcontext()
    no_colours()
