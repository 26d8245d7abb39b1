"""Finding and opening a repository, and saying in words why one cannot be used.

libgit2 checks ownership (``safe.directory``) like git, and cannot open SHA-256 or reftable
repositories (facts measured with pygit2 1.21); both are refused here with what the user can do.
"""

from __future__ import annotations

import atexit
import shutil
import tempfile
from collections.abc import Mapping
from pathlib import Path

import pygit2
from pygit2.enums import ConfigLevel, Option, RepositoryOpenFlag

from harnessctl.config import read_environment
from harnessctl.domain.errors import HarnessError, NotFoundError
from harnessctl.layers.l3_durable.git.waiting import refuse_waiting

# libgit2 writes objects and refs without fsync unless told otherwise; a landing must survive a power cut.
pygit2.option(Option.ENABLE_FSYNC_GITDIR, True)

#: A folder that does not exist: where libgit2 looks, it finds no configuration.
NOWHERE = "/nonexistent/harnessctl"


def honour_config_variables(variables: Mapping[str, str]) -> None:
    """Make libgit2 read the configuration files that git would read.

    libgit2 knows none of ``GIT_CONFIG_GLOBAL``, ``GIT_CONFIG_SYSTEM`` and ``GIT_CONFIG_NOSYSTEM``; it
    looks for files with fixed names in the folders it is given, so a file of another name is reached
    through a link in a folder of ours, which goes with the process.
    """
    if "GIT_CONFIG_GLOBAL" in variables:
        _look(ConfigLevel.GLOBAL, ".gitconfig", variables["GIT_CONFIG_GLOBAL"])
        _look(ConfigLevel.XDG, "config", "")
    if _is_true(variables.get("GIT_CONFIG_NOSYSTEM", "")):
        _look(ConfigLevel.SYSTEM, "gitconfig", "")
    elif "GIT_CONFIG_SYSTEM" in variables:
        _look(ConfigLevel.SYSTEM, "gitconfig", variables["GIT_CONFIG_SYSTEM"])


def _look(level: ConfigLevel, name: str, file: str) -> None:
    path = Path(file)
    if not file or not path.is_file():
        folder = NOWHERE
    elif path.name == name:
        folder = str(path.parent.absolute())
    else:
        folder = tempfile.mkdtemp(prefix="harnessctl-config-")
        atexit.register(shutil.rmtree, folder, ignore_errors=True)
        (Path(folder) / name).symlink_to(path.absolute())
    pygit2.settings.search_path[level] = folder


def _is_true(text: str) -> bool:
    return text.lower() not in ("", "0", "false", "no", "off")


honour_config_variables(read_environment().variables)


def open_raw(start: Path, *, from_env: bool = False) -> pygit2.Repository:
    """The repository that holds ``start``.

    :param from_env: honour ``GIT_DIR``, ``GIT_INDEX_FILE`` and the object directories that git hands
        to a hook; never set outside one, because an inherited variable names another repository.
    :raises NotFoundError: ``no_repository``.
    :raises HarnessError: ``unsupported_repository``, ``foreign_owner`` or ``not_a_file``.
    """
    refuse_waiting(start)
    try:
        if from_env:
            return pygit2.Repository(str(start), RepositoryOpenFlag.FROM_ENV)
        found = pygit2.discover_repository(str(start))
        if found is None:
            raise _no_repository(start)
        return pygit2.Repository(found)
    except (pygit2.GitError, KeyError, ValueError, OSError) as error:
        raise _in_words(start, error) from error


def _no_repository(start: Path) -> NotFoundError:
    return NotFoundError(
        f"{start} is not inside a git repository", id="no_repository", hint="run it inside one, or `git init`"
    )


def _in_words(start: Path, error: Exception) -> HarnessError:
    text = str(error)
    lowered = text.lower()
    if "not owned by" in lowered or "owner" in lowered:
        return HarnessError(
            f"the repository at {start} belongs to another user, and git's safe.directory does not list it",
            id="foreign_owner",
            hint="read git's documentation of safe.directory before trusting a repository of another user",
        )
    if "sha256" in lowered or "object format" in lowered or "objectformat" in lowered:
        return _unsupported(start, "SHA-256 object ids")
    if "reftable" in lowered or "refstorage" in lowered:
        return _unsupported(start, "reftable reference storage")
    if "extension" in lowered or "version" in lowered:
        return _unsupported(start, f"a repository format that libgit2 cannot read ({text})")
    if "not found" in lowered:
        return _no_repository(start)
    return HarnessError(f"cannot open the repository at {start}: {text}", id="bad_repository")


def _unsupported(start: Path, what: str) -> HarnessError:
    return HarnessError(
        f"the repository at {start} uses {what}, which harnessctl cannot read or write",
        id="unsupported_repository",
        hint="use a clone with SHA-1 object ids and file-based references",
    )
