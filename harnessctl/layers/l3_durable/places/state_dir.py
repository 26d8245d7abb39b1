"""The folder outside the repository that holds run state, named by an id in its configuration."""

from __future__ import annotations

import errno
import re
import stat
from pathlib import Path

from harnessctl.domain.errors import HarnessError
from harnessctl.domain.ids import new_ulid
from harnessctl.layers.l3_durable.git.repository import Repository
from harnessctl.layers.l3_durable.places.unwritable import state_unwritable

ID_KEY = "harness.repositoryId"

_ID = re.compile(r"[0-9A-Za-z][0-9A-Za-z._-]{0,63}\Z")


def repository_id(repository: Repository) -> str | None:
    """The id, None while the repository has none.

    :raises HarnessError: ``bad_repository_id``: not usable as the name of a folder.
    """
    found = repository.config(ID_KEY)
    if found is not None and not _ID.match(found):
        raise HarnessError(
            f"git configuration {ID_KEY} is not an id: {found!r}",
            id="bad_repository_id",
            hint="set it to the name of this repository's folder in the state folder, or unset it: the next "
            "verb makes a new one, without the sessions so far",
        )
    return found


def ensure_repository_id(repository: Repository) -> str:
    """The id, made and written into the repository's own configuration when there is none."""
    found = repository_id(repository)
    if found is not None:
        return found
    with repository.exclusive():
        found = repository_id(repository)
        if found is None:
            found = new_ulid()
            repository.set_config(ID_KEY, found)
    return found


def ensure_state_dir(state_home: Path, name: str) -> Path:
    """``<state_home>/<name>``, made 0700 with its parent when it is not there.

    :raises HarnessError: ``state_unwritable``.
    :raises OSError: there is no space left.
    """
    path = state_home / name
    try:
        for folder in (state_home, path):
            folder.mkdir(mode=0o700, parents=True, exist_ok=True)
        if stat.S_IMODE(path.stat().st_mode) != 0o700:  # on a read-only disk the right mode is left alone
            path.chmod(0o700)
    except OSError as error:
        if error.errno in (errno.ENOSPC, errno.EDQUOT):
            raise
        raise state_unwritable(error.filename or path, error) from error
    return path
