"""``sync``: the harness branch to and from its remote; nothing is ever forced."""

from __future__ import annotations

from contextlib import suppress
from dataclasses import dataclass

from harnessctl.domain.errors import ConflictError, HarnessError, UsageError
from harnessctl.domain.pin import Mode
from harnessctl.layers.l3_durable.git import network
from harnessctl.layers.l3_durable.git.graph import nodes
from harnessctl.layers.l3_durable.git.history import merge_base, reaches
from harnessctl.layers.l3_durable.git.lost_race import LostRaceError
from harnessctl.layers.l3_durable.landing.writer import Writer, refuse_occupied
from harnessctl.layers.l3_durable.places.mode import Place


@dataclass(frozen=True)
class Synced:
    """What moved.

    :ivar tip: commit of the branch here afterwards.
    :ivar taken: commits that came from the remote.
    :ivar given: commits that went to it.
    :ivar waiting: in-tree: commits that the user's own git push and pull have yet to move (there, here).
    """

    remote: str
    branch: str
    tip: str
    taken: int = 0
    given: int = 0
    waiting: tuple[int, int] | None = None

    def to_json(self) -> dict[str, object]:
        """As ``sync --json`` prints it."""
        waiting = {"to_pull": self.waiting[0], "to_push": self.waiting[1]} if self.waiting else None
        return {
            "remote": self.remote,
            "branch": self.branch,
            "commit": self.tip,
            "taken": self.taken,
            "given": self.given,
            "waiting": waiting,
        }


def sync(writer: Writer) -> Synced:
    """Fetch the harness branch, then fast-forward or push it.

    In-tree the branch holds the user's code: it is fetched and compared, and the user pulls and pushes.

    :raises ConflictError: ``diverged``: both sides have commits of their own; nothing moved.
    :raises HarnessError: ``detached_head``, ``rewritten``, ``push_refused``,
        ``git_failed``, ``branch_in_use``.
    :raises UsageError: ``no_remote``.
    """
    place = writer.place
    if place.mode is None and not place.remote:
        raise place.absent()
    if not place.remote:
        raise UsageError(
            "this repository has no remote to sync with",
            id="no_remote",
            hint="git remote add origin URL; of several, git config branch.BRANCH.remote names the one",
        )
    if place.mode is Mode.IN_TREE and place.repository.head_ref is None:
        raise HarnessError(
            "detached HEAD: in-tree, what is committed here is on no branch that could be synced",
            id="detached_head",
            hint="git switch to a branch first",
        )
    there = _fetch(place)
    here = place.local_tip()
    if here is None and there is None:
        raise place.absent()
    if place.mode is Mode.IN_TREE:
        waiting = (_count(place, there, here), _count(place, here, there))
        return Synced(place.remote, place.branch, here or there or "", waiting=waiting)
    return _settle(writer, here, there)


def _fetch(place: Place) -> str | None:
    """The remote's tip, fetched to the remote-tracking branch; None when the remote has no such branch."""
    variables = place.environment.variables
    there = network.remote_branch(place.repository, variables, place.remote, place.ref)
    known = place.remote_tip()
    if there is None or there == known:
        return there
    try:
        network.fetch(place.repository, variables, place.remote, f"{place.ref}:{place.remote_ref}")
    except HarnessError as error:
        if known is not None and "non-fast-forward" in error.message:
            raise HarnessError(
                f"'{place.branch}' on {place.remote} was rewritten: {there[:12]} does not go on from "
                f"{known[:12]}, which was there before; nothing was taken over",
                id="rewritten",
                hint=f"look before you take it: git fetch {place.remote} {place.ref}; git log FETCH_HEAD",
            ) from error
        raise
    return place.remote_tip()


def _settle(writer: Writer, here: str | None, there: str | None) -> Synced:
    place = writer.place
    if there == here and here is not None:
        return Synced(place.remote, place.branch, here)
    if there is not None and (here is None or reaches(place.repository, (there,), here)):
        return _take(writer, here, there)
    assert here is not None
    if there is None or reaches(place.repository, (here,), there):
        return _give(writer, here, there)
    mine, theirs = _count(place, here, there), _count(place, there, here)
    apart = "went apart" if merge_base(place.repository, here, there) else "have no commit in common"
    many = "s" if mine != 1 else ""
    raise ConflictError(
        f"'{place.branch}' here and on {place.remote} {apart}: {mine} commit{many} here, {theirs} there; "
        "not a fast-forward, so nothing was moved or pushed",
        id="diverged",
        hint=f"merge them in a work tree of '{place.branch}' (git worktree add PATH {place.branch}; there "
        f"git merge {place.remote}/{place.branch}), then sync again",
    )


def _take(writer: Writer, here: str | None, there: str) -> Synced:
    place = writer.place
    refuse_occupied(place)
    try:
        writer.settle(place.ref, here, there, "sync")
    except LostRaceError as error:
        raise ConflictError(
            f"'{place.branch}' moved while it was being synced", id="moved_ref", hint="sync again"
        ) from error
    return Synced(place.remote, place.branch, there, taken=_count(place, there, here))


def _give(writer: Writer, here: str, there: str | None) -> Synced:
    place = writer.place
    try:
        network.push(place.repository, place.environment.variables, place.remote, f"{here}:{place.ref}")
    except HarnessError as error:
        raise HarnessError(
            f"{place.remote} did not take '{place.branch}': {error.message}",
            id="push_refused",
            hint="where the branch is protected, open proposals go there as pull requests: "
            "harnessctl review pr ID; after somebody else's push: sync again",
        ) from error
    with suppress(LostRaceError, ConflictError):  # git moves it too, where a fetch refspec covers it
        writer.settle(str(place.remote_ref), there, here, "sync")
    return Synced(place.remote, place.branch, here, given=_count(place, here, there))


def _count(place: Place, tip: str | None, without: str | None) -> int:
    if tip is None:
        return 0
    return sum(1 for _ in nodes(place.repository, (tip,), (without,) if without else ()))
