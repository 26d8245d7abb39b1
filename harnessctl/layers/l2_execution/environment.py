"""What a kernel inherits from the environment: what a user's shell has, without keys."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path

from harnessctl.config import KERNEL_MARK

#: Names that hold credentials. Words are parted by ``_`` or stand at an end, so that ``MONKEY`` or
#: ``KEYBOARD`` stay; ``SSH_AUTH_SOCK`` and the like are the user's own agents and stay too.
_SECRET = re.compile(
    r"(^|_)((API|ACCESS|SECRET|PRIVATE|AUTH|ENCRYPTION)?_?KEY|(ACCESS|AUTH)?TOKENS?|SECRETS?|PASSWORD|PASSWD"
    r"|PASSPHRASE|CREDENTIALS?|AUTHORIZATION|PAT)(_|$)|(APIKEY|TOKEN|SECRET|PASSWORD)$",
    re.IGNORECASE,
)
#: A URL with a password in it (proxies, databases).
_URL_SECRET = re.compile(r"^[a-z][a-z0-9+.-]*://[^/@\s]*:[^/@\s]+@", re.IGNORECASE)
#: Never handed on: they point git or Python at something that is not the kernel's business, or they
#: make programs paint.
_DROPPED = re.compile(
    r"GIT_(DIR|WORK_TREE|INDEX_FILE|OBJECT_DIRECTORY|ALTERNATE_.*|COMMON_DIR|PREFIX|QUARANTINE_PATH)$"
)
_DROPPED_NAMES = frozenset({"PYTHONSTARTUP", "PYTHONINSPECT", "CLICOLOR_FORCE", "FORCE_COLOR"})


def holds_secret(name: str, value: str) -> bool:
    """Whether a variable looks like a credential, by its name or by a password in its URL."""
    return _SECRET.search(name) is not None or _URL_SECRET.match(value) is not None


def without_keys(
    variables: Mapping[str, str], *, keys: Iterable[str] = (), secret: Callable[[str], bool] = lambda _: False
) -> dict[str, str]:
    """``variables`` without what is a credential by its name or its value, and without ``keys``."""
    named = set(keys)
    return {
        name: value
        for name, value in variables.items()
        if name not in named and not holds_secret(name, value) and not secret(value)
    }


def kernel_environment(
    variables: Mapping[str, str],
    session: str,
    *,
    keys: Iterable[str] = (),
    secret: Callable[[str], bool] = lambda _: False,
    ipython_folder: Path | None = None,
    python: Path | None = None,
) -> dict[str, str]:
    """The environment of a session's kernel.

    :param keys: further names to leave out: those the model client reads its key from.
    :param secret: whether a value looks like a credential, whatever the variable is called.
    :param ipython_folder: an IPython profile of its own, so that the user's start-up files do not run.
    :param python: the interpreter of a virtual environment, whose programs then come first on ``PATH``.
    """
    env = {
        name: value
        for name, value in without_keys(variables, keys=keys, secret=secret).items()
        if name not in _DROPPED_NAMES and not _DROPPED.match(name)
    }
    env |= {
        KERNEL_MARK: session,
        # Nobody sits at this terminal: no pager, no colour, no question.
        "PAGER": "cat",
        "GIT_PAGER": "cat",
        "GIT_TERMINAL_PROMPT": "0",
        "NO_COLOR": "1",
        "TERM": "dumb",
        "PYTHONIOENCODING": "utf-8",
    }
    if ipython_folder is not None:
        env["IPYTHONDIR"] = str(ipython_folder)
    if python is not None:
        env["VIRTUAL_ENV"] = str(python.parent.parent)
        env["PATH"] = f"{python.parent}:{env.get('PATH', '')}".rstrip(":")
    return env
