"""Fetching and pushing with the user's git and the user's credentials, never with the repository's.

A repository's own configuration may name programs for the network: an ssh command, a credential
helper, ``uploadpack`` and ``receivepack``, a proxy command, a ``vcs`` helper, an ``ext::`` address. None
of them runs. What the *user's* configuration (global, XDG, system) and environment say about ssh and
credentials holds.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

import pygit2

from harnessctl.layers.l3_durable.git.cli import SAFE, run_checked, safe_environment
from harnessctl.layers.l3_durable.git.repository import Repository

#: Transports that git itself speaks; ``ext`` and foreign helpers run programs.
PROTOCOLS = "file:git:http:https:ssh"
#: Seconds that one exchange may take.
PATIENCE_S = 600.0

_ENVIRONMENT = (
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_SSH_VARIANT",
    "GIT_ASKPASS",
    "GIT_SSL_CAINFO",
    "GIT_SSL_CAPATH",
    "GIT_SSL_CERT",
    "GIT_SSL_KEY",
    "GIT_SSL_NO_VERIFY",
)


def remote_branch(repository: Repository, variables: Mapping[str, str], remote: str, ref: str) -> str | None:
    """Commit of the branch ``ref`` (full name) on ``remote``, None when it has none.

    Errors as :func:`run_git`, as for everything here.
    """
    args = ["ls-remote", "--upload-pack=git-upload-pack", "--", remote, ref]
    for line in _run(repository, variables, args).decode("utf-8", "replace").splitlines():
        oid, _, name = line.partition("\t")
        if name == ref:
            return oid
    return None


def fetch(repository: Repository, variables: Mapping[str, str], remote: str, refspec: str) -> None:
    """Fetch one refspec; without a leading ``+`` what does not grow is refused."""
    _run(
        repository,
        variables,
        [
            "fetch",
            "--upload-pack=git-upload-pack",
            "--no-tags",
            "--no-recurse-submodules",
            "--no-write-fetch-head",
            "--",
            remote,
            refspec,
        ],
    )


def push(repository: Repository, variables: Mapping[str, str], remote: str, refspec: str) -> None:
    """Push one refspec; hooks of this repository do not run, those of the remote do."""
    _run(
        repository,
        variables,
        [
            "push",
            "--receive-pack=git-receive-pack",
            "--no-verify",
            "--no-signed",
            "--no-follow-tags",
            "--no-recurse-submodules",
            "--",
            remote,
            refspec,
        ],
    )


def remote_url(repository: Repository, remote: str) -> str:
    """Address of ``remote`` as configured, "" when there is none."""
    return repository.config(f"remote.{remote}.url") or ""


def _run(repository: Repository, variables: Mapping[str, str], args: Sequence[str]) -> bytes:
    stated = [*SAFE, "core.sshCommand=ssh", *_users_own()]
    command = ["git", "--no-pager", *(part for key in stated for part in ("-c", key)), *args]
    cwd = repository.root or repository.git_dir
    return run_checked(command, cwd, _environment(variables), PATIENCE_S, args[0])


def _environment(variables: Mapping[str, str]) -> dict[str, str]:
    own = {name: variables[name] for name in _ENVIRONMENT if name in variables}
    return safe_environment(variables) | {
        **own,
        "GIT_ALLOW_PROTOCOL": PROTOCOLS,
        "GIT_TERMINAL_PROMPT": variables.get("GIT_TERMINAL_PROMPT", "1"),
        # Configuration lists several proxy commands and the first wins; the variable overrules them all.
        "GIT_PROXY_COMMAND": variables.get("GIT_PROXY_COMMAND", ""),
    }


def _users_own() -> Iterator[str]:
    """``key=value`` for ssh and credentials from the user's configuration, in git's order."""
    for read in (
        pygit2.Config.get_system_config,
        pygit2.Config.get_xdg_config,
        pygit2.Config.get_global_config,
    ):
        try:
            entries = list(read())
        except (OSError, KeyError, ValueError, pygit2.GitError):
            continue
        for entry in entries:
            name, value = entry.name, entry.value
            credential = name.startswith("credential.") and "=" not in name
            if credential or name in ("core.sshcommand", "core.askpass"):
                yield f"{name}={value}"
