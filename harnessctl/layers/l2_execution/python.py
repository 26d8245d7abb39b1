"""Which Python a kernel runs on."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path

from harnessctl.domain.errors import RefusedError, UsageError

#: Folders of the work tree where people keep a virtual environment.
VENV_FOLDERS = (".venv", "venv")
_PROBE = "import importlib.util, sys; sys.exit(importlib.util.find_spec('ipykernel') is None)"


@dataclass(frozen=True, slots=True)
class PythonChoice:
    """An interpreter and why it was taken.

    :ivar why: for ``run`` to say: ``--python``, ``the project's .venv``, …
    :ivar virtual: it belongs to a virtual environment whose programs the kernel should find first.
    :ivar kernel: name of the installed Jupyter kernel that brings it; "" for none.
    :ivar command: that kernel's command line, with ``{connection_file}``; () for the usual one.
    :ivar variables: names and values that it adds to the environment.
    """

    path: str
    why: str
    virtual: bool = False
    kernel: str = ""
    command: tuple[str, ...] = ()
    variables: tuple[tuple[str, str], ...] = ()

    def to_json(self) -> dict[str, object]:
        """As it stands in a session's header."""
        return {"path": self.path, "why": self.why, "virtual": self.virtual, "kernel": self.kernel or None}


def choose_python(
    root: Path,
    *,
    flag: str | None = None,
    configured: str | None = None,
    configured_by: str = "the user's configuration",
    from_repository: bool = False,
    trusted: bool = False,
    tracked: Callable[[str], bool] = lambda _: False,
    own: str = sys.executable,
) -> PythonChoice:
    """``flag``, else ``configured``, else the project's virtual environment, else ``own``.

    A relative path counts from the current folder as a flag, from ``root`` in a setting.

    A virtual environment counts when it has ipykernel and is no part of the repository: a clone
    must not bring the program that runs.

    :param from_repository: ``configured`` stands in ``harness.toml``.
    :param tracked: whether a path of the work tree is tracked by git.
    :raises UsageError: the named Python does not run or has no ipykernel.
    :raises RefusedError: ``harness.toml`` names one inside the clone and the clone is not trusted.
    """
    if flag:
        return _named(flag, Path.cwd(), "--python")
    if configured:
        choice = _named(configured, root, configured_by)
        if from_repository and not trusted and _is_inside(choice.path, root):
            raise RefusedError(
                f"harness.toml names {configured}, a program inside this clone",
                id="untrusted_python",
                hint="look at it, then run with --trust; or choose a Python with --python",
            )
        return choice
    for name in VENV_FOLDERS:
        python = root / name / "bin" / "python"
        if python.exists() and not tracked(f"{name}/bin/python") and has_ipykernel(str(python)):
            return PythonChoice(str(python), f"the project's {name}", virtual=True)
    return PythonChoice(own, "harnessctl's own")


def has_ipykernel(python: str) -> bool:
    """Whether ``python`` runs and can import ipykernel; nothing of the package is imported for it."""
    try:
        done = subprocess.run([python, "-I", "-c", _PROBE], capture_output=True, timeout=30, check=False)
    except (OSError, subprocess.TimeoutExpired):
        return False
    return done.returncode == 0


def _is_inside(path: str, root: Path) -> bool:
    """Whether ``path`` lies below ``root``, however written; a program that is a link lies where it is."""
    folder = os.path.realpath(os.path.dirname(path)) if os.sep in path else ""
    return bool(folder) and Path(folder).is_relative_to(os.path.realpath(root))


def _named(text: str, base: Path, why: str) -> PythonChoice:
    """The interpreter called ``text``: a path, from ``base`` where it is relative, or a program on PATH."""
    path = Path(os.path.expanduser(text))
    if os.sep in text or os.path.isdir(base / path):  # also of a name that is too long for any file
        path = base / path
    if os.path.isdir(path):
        path = path / "bin" / "python"
    if os.sep in str(path) and not os.path.exists(path):
        raise UsageError(
            f"{why}: there is no {path}",
            id="bad_python",
            hint="name a Python, or the folder of its environment",
        )
    if not has_ipykernel(str(path)):
        raise UsageError(
            f"{why}: {text} does not run, or has no ipykernel",
            id="bad_python",
            hint=f"{path} -m pip install ipykernel",
        )
    return PythonChoice(str(path), why, virtual=(path.parent.parent / "pyvenv.cfg").exists())
