"""``review pr``: a proposal goes to the remote as a branch, for review where the team reviews."""

from __future__ import annotations

from dataclasses import dataclass

from harnessctl.domain.errors import HarnessError, UsageError
from harnessctl.layers.l3_durable.git import network
from harnessctl.layers.l3_durable.places.mode import HEADS, Place

#: Branch that a proposal is pushed as; outside ``refs/heads/harness`` so that both can exist.
PR_BRANCH = "harness-proposals/"


@dataclass(frozen=True)
class Offered:
    """A proposal on the remote, ready for a pull request.

    :ivar url: where to open it, "" where the remote is no forge whose addresses are known.
    """

    remote: str
    branch: str
    into: str
    commit: str
    url: str

    def to_json(self) -> dict[str, object]:
        """As ``review pr --json`` prints it."""
        return {
            "remote": self.remote,
            "branch": self.branch,
            "into": self.into,
            "commit": self.commit,
            "url": self.url or None,
        }


def offer(place: Place, update: str, commit: str) -> Offered:
    """Push the proposal ``update`` (at ``commit``) as a branch for a pull request.

    :raises UsageError: ``no_remote``.
    :raises HarnessError: ``push_refused``: also when the branch is there with other commits.
    """
    if not place.remote:
        raise UsageError("there is no remote to push to", id="no_remote", hint="git remote add origin URL")
    branch = PR_BRANCH + update
    try:
        network.push(place.repository, place.environment.variables, place.remote, f"{commit}:{HEADS}{branch}")
    except HarnessError as error:
        raise HarnessError(
            f"{place.remote} did not take {branch}: {error.message}",
            id="push_refused",
            hint="a branch of that name with other commits is never overwritten: after review rebase or "
            "edit, delete it on the forge first",
        ) from error
    url = forge_url(network.remote_url(place.repository, place.remote), place.branch, branch)
    return Offered(place.remote, branch, place.branch, commit, url)


def forge_url(remote: str, into: str, branch: str) -> str:
    """Page of github.com or gitlab.com that opens a pull request, "" for any other remote."""
    for host in ("github.com", "gitlab.com"):
        for start in (f"https://{host}/", f"git@{host}:", f"ssh://git@{host}/"):
            if remote.startswith(start):
                path = remote.removeprefix(start).removesuffix("/").removesuffix(".git")
                if host == "github.com":
                    return f"https://{host}/{path}/compare/{into}...{branch}"
                source = f"merge_request[source_branch]={branch}&merge_request[target_branch]={into}"
                return f"https://{host}/{path}/-/merge_requests/new?{source}"
    return ""
