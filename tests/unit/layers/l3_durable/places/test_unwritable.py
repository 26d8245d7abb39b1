"""Which errors of the system are a folder's of ours, and which are not."""

from __future__ import annotations

import errno
import os

import pytest

from harnessctl.config import read_environment
from harnessctl.layers.l3_durable.places.unwritable import denied_place

HOME = {"HOME": "/home/ada"}
STATE = "/home/ada/.local/state/harnessctl"


@pytest.mark.parametrize(
    ("number", "path", "variable"),
    [
        (errno.EROFS, f"{STATE}/1/sessions/2", "XDG_STATE_HOME"),
        (errno.EACCES, "/home/ada/.local", "XDG_STATE_HOME"),
        (errno.EEXIST, "/home/ada/.local/state", "XDG_STATE_HOME"),
        (errno.ENOTDIR, "/home/ada/.config/harnessctl/config.toml", "XDG_CONFIG_HOME"),
        (errno.EROFS, "/home/ada/.cache/harnessctl/models", "XDG_CACHE_HOME"),
    ],
)
def test_a_denied_folder_of_ours_is_said(number: int, path: str, variable: str) -> None:
    said = denied_place(OSError(number, os.strerror(number), path), read_environment(HOME))
    assert said is not None
    assert (said.id, path in said.message, variable in said.hint) == ("state_unwritable", True, True)


@pytest.mark.parametrize(
    ("number", "path"),
    [
        (errno.EACCES, "/srv/project/app.py"),
        (errno.EEXIST, f"{STATE}/1/sessions/2"),
        (errno.ENOENT, f"{STATE}/1/sessions/2"),
        (errno.EACCES, None),
    ],
)
def test_any_other_error_stays_a_defect(number: int, path: str | None) -> None:
    error = OSError(number, os.strerror(number), path)
    assert denied_place(error, read_environment(HOME)) is None
