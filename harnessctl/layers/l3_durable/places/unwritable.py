"""harnessctl's own folders where the system does not let them be made, written or read: said in words."""

from __future__ import annotations

import errno
import os
from pathlib import Path

from harnessctl.config import Environment
from harnessctl.domain.errors import HarnessError

#: The folder's own file system, rights or place are why: never a defect of ours.
_DENIED = frozenset((errno.EROFS, errno.EACCES, errno.EPERM, errno.ENOTDIR, errno.ELOOP))


def state_unwritable(path: str | Path, error: OSError, variable: str = "XDG_STATE_HOME") -> HarnessError:
    """The error of a verb that needs ``path``, which ``error`` denies.

    :param variable: what puts the folder elsewhere.
    """
    return HarnessError(
        f"cannot use {path}: {error.strerror or error}",
        id="state_unwritable",
        hint=f"set {variable} to a folder that can be written, or mend this one",
    )


def denied_place(error: OSError, environment: Environment) -> HarnessError | None:
    """``error`` in words when it denies one of the folders for state, configuration or cache.

    None for any other path, and for an error that a folder's rights do not explain.
    """
    if not isinstance(error.filename, str | bytes):
        return None
    path = Path(os.fsdecode(error.filename))
    for home, variable in (
        (environment.state_home, "XDG_STATE_HOME"),
        (environment.config_home, "XDG_CONFIG_HOME"),
        (environment.cache_home, "XDG_CACHE_HOME"),
    ):
        on_the_way = home.is_relative_to(path)
        denied = error.errno in _DENIED or (error.errno == errno.EEXIST and on_the_way)
        if denied and (on_the_way or path.is_relative_to(home)):
            return state_unwritable(path, error, variable)
    return None
