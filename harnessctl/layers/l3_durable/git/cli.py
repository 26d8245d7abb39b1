"""The one place that runs git's command line.

Used for what libgit2 lacks (listing a work tree under ignore rules, the index as git sees it).
Everything that a repository's configuration could make git run is switched off, and inherited
``GIT_*`` variables, which would name another repository, are dropped.
"""

from __future__ import annotations

import subprocess
from collections.abc import Mapping, Sequence
from pathlib import Path

from harnessctl.domain.errors import HarnessError, UsageError

#: Configuration that overrides every file: no hook, monitor, pager, editor or diff program runs.
SAFE = (
    "core.hooksPath=/dev/null",
    "core.fsmonitor=false",
    "core.pager=cat",
    "core.editor=false",
    "sequence.editor=false",
    "core.askPass=",
    "core.sshCommand=false",
    "core.gitProxy=",
    "core.alternateRefsCommand=false",
    "credential.helper=",
    "diff.external=",
    "interactive.diffFilter=",
    "gc.auto=0",
    "maintenance.auto=false",
    "submodule.recurse=false",
    "log.showSignature=false",
    "gpg.program=false",
    "commit.gpgSign=false",
    "tag.gpgSign=false",
    "color.ui=false",
    "core.quotePath=true",
)


#: What git hands to a hook about the hook's own repository: which index, which objects.
HOOK_VARIABLES = frozenset(
    {
        "GIT_DIR",
        "GIT_COMMON_DIR",
        "GIT_WORK_TREE",
        "GIT_INDEX_FILE",
        "GIT_OBJECT_DIRECTORY",
        "GIT_ALTERNATE_OBJECT_DIRECTORIES",
        "GIT_QUARANTINE_PATH",
    }
)


#: Where the user's own configuration lies: no other repository is named by these.
CONFIG_VARIABLES = frozenset({"GIT_CONFIG_GLOBAL", "GIT_CONFIG_SYSTEM", "GIT_CONFIG_NOSYSTEM"})


class TooSlowError(HarnessError):
    """git was ended because it took longer than its limit."""


def safe_environment(variables: Mapping[str, str], *, in_hook: bool = False) -> dict[str, str]:
    """``variables`` without ``GIT_*``, in the C locale, never asking or paging.

    :param in_hook: keep :data:`HOOK_VARIABLES`; only for the repository that the hook runs in.
    """
    keep = HOOK_VARIABLES if in_hook else frozenset()
    kept = {k: v for k, v in variables.items() if k in keep or not k.startswith("GIT_")}
    kept |= {name: variables[name] for name in CONFIG_VARIABLES if name in variables}
    return kept | {
        "LC_ALL": "C",
        "GIT_PAGER": "cat",
        "GIT_EDITOR": "false",
        "GIT_TERMINAL_PROMPT": "0",
        "GIT_OPTIONAL_LOCKS": "0",
        # A partial clone fetches what it lacks in the middle of reading, through whatever transport the
        # repository names (`remote.*.uploadpack`, `ext::`, an ssh command): no transport is allowed here.
        "GIT_NO_LAZY_FETCH": "1",
        "GIT_ALLOW_PROTOCOL": "none",
    }


def run_git(
    args: Sequence[str],
    cwd: Path,
    variables: Mapping[str, str],
    *,
    timeout: float | None = 120,
    in_hook: bool = False,
) -> bytes:
    """Standard output of ``git <args>`` run in ``cwd``.

    :param variables: the process environment to start from.
    :param in_hook: as for :func:`safe_environment`.
    :raises UsageError: ``git_missing``.
    :raises HarnessError: ``git_failed``, with git's own words; :class:`TooSlowError`: without any.
    """
    command = ["git", "--no-pager", *(part for key in SAFE for part in ("-c", key)), *args]
    return run_checked(command, cwd, safe_environment(variables, in_hook=in_hook), timeout, args[0])


def run_checked(
    command: Sequence[str], cwd: Path, environment: Mapping[str, str], timeout: float | None, what: str
) -> bytes:
    """Standard output of ``command``, which runs git to do ``what``; errors as :func:`run_git`."""
    try:
        done = subprocess.run(
            command,
            cwd=cwd,
            env=dict(environment),
            stdin=subprocess.DEVNULL,
            capture_output=True,
            timeout=timeout,
            check=False,
        )
    except FileNotFoundError as error:
        if not cwd.is_dir():
            raise HarnessError(f"there is no folder {cwd}", id="git_failed") from error
        raise UsageError("git is not on PATH", id="git_missing", hint="install git 2.30 or newer") from error
    except subprocess.TimeoutExpired as error:
        raise TooSlowError(f"git {what} took longer than {timeout:.0f} s", id="git_failed") from error
    if done.returncode != 0:
        said = done.stderr.decode("utf-8", "replace").strip() or f"exit status {done.returncode}"
        raise HarnessError(f"git {what} failed: {said}", id="git_failed")
    return done.stdout
