"""The repository, its harness and its settings: what every verb begins with."""

from __future__ import annotations

from collections.abc import Mapping
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

from harnessctl import config
from harnessctl.config import (
    GIT_KEYS,
    PROMPT_TOKENS,
    Environment,
    Settings,
    load_settings,
    one_setting,
    parse_toml,
    read_environment,
    unread_keys,
    user_config,
)
from harnessctl.domain.errors import HarnessError, NotFoundError, UsageError

if TYPE_CHECKING:
    from collections.abc import Callable

    from harnessctl.domain.snapshot import Snapshot
    from harnessctl.layers.l3_durable.store import HarnessStore


def store(environment: Environment | None = None, *, lenient: bool = False) -> HarnessStore:
    """The harness of the repository around the current folder.

    :param lenient: the user's own settings and HEAD may be unreadable; ``doctor`` says so.
    :raises HarnessError: there is no repository, or one that cannot be used, in words.
    """
    from harnessctl.layers.l3_durable.store import open_store

    environment = environment or read_environment()
    try:
        allow = allowed_by_user(environment)
    except UsageError:
        if not lenient:
            raise
        allow = ()
    return open_store(here(), environment, allow=allow, lenient=lenient)


def here() -> Path:
    """:raises HarnessError: ``bad_directory``: the current folder was removed, or may not be read."""
    try:
        return Path.cwd()
    except OSError as error:
        raise HarnessError(
            f"cannot work in the current folder: {error.strerror}",
            id="bad_directory",
            hint="it is gone, or may not be read: go to a folder that is there, or name one with -C",
        ) from error


def store_at(root: Path, environment: Environment) -> HarnessStore:
    """The harness of the repository that has its work tree at ``root``.

    :raises NotFoundError: the folder is gone.
    """
    from harnessctl.layers.l3_durable.store import open_store

    if not root.is_dir():
        raise NotFoundError(
            f"the session's work tree {root} is gone",
            id="work_tree_gone",
            hint="harnessctl sessions export still reads what it did; harnessctl run starts anew",
        )
    return open_store(root, environment, allow=allowed_by_user(environment))


def allowed_by_user(environment: Environment) -> tuple[str, ...]:
    """Digests of strings that the user's own configuration declares to be no secrets."""
    return one_setting("secrets.allow", user=user_config(environment)) or ()


def settings(
    environment: Environment,
    harness: HarnessStore,
    snapshot: Snapshot,
    flags: Mapping[str, Any] | None = None,
) -> Settings:
    """Settings for work on ``snapshot``: flags, environment, user, git, the snapshot's policy."""
    return load_settings(flags=flags, **_sources(environment, harness, snapshot))


def prompt_tokens(environment: Environment, harness: HarnessStore, snapshot: Snapshot) -> int:
    """As of :func:`settings`, for verbs that look at entries: nothing else needs to be right for them."""
    found: int | None = one_setting("prompt.tokens", **_sources(environment, harness, snapshot))
    return PROMPT_TOKENS if found is None else found


def _sources(environment: Environment, harness: HarnessStore, snapshot: Snapshot) -> dict[str, Any]:
    return {
        "env": environment.variables,
        "user": user_config(environment),
        "git": _in_git(harness),
        "harness": parse_toml(snapshot.policy, "harness.toml"),
    }


def _in_git(harness: HarnessStore) -> dict[str, str]:
    """What git configuration sets, by full key."""
    return {key: value for key in GIT_KEYS if (value := harness.repository.config(key)) is not None}


def wrong_settings(environment: Environment, harness: HarnessStore) -> tuple[HarnessError, ...]:
    """One error for each value that the user has set and that a run would refuse."""
    found: list[HarnessError] = []
    user: Mapping[str, Any] = {}
    try:
        user = user_config(environment)
    except UsageError as error:
        found.append(error)
    found += config.wrong_settings(env=environment.variables, user=user, git=_in_git(harness))
    return tuple(found)


def unread_settings(
    environment: Environment, harness: HarnessStore, commit: str | None = None
) -> tuple[str, ...]:
    """A sentence for each setting that nothing reads: the user's, git's, the policy's at ``commit``.

    :param commit: "" for no policy; by default what unpinned runs follow.
    """
    from harnessctl.layers.l3_durable.content import POLICY

    policy, user = {}, {}
    with suppress(HarnessError):  # said elsewhere, with what to do
        user = user_config(environment)
    with suppress(HarnessError):
        commit = harness.place.tip() if commit is None else commit
        policy = parse_toml((harness.content(commit).read(POLICY) if commit else b"") or b"", POLICY)
    names = harness.repository.config_names("harness.")
    return unread_keys(user=user, git=names, harness=policy, env=environment.variables)


def mask() -> Callable[[str], str]:
    """Hides what looks like a secret in text that is about to be shown."""
    from harnessctl.layers.l3_durable.rules import secrets

    return secrets.mask
