"""From a lock or a revision to the commit that a run reads (CONTRACT 4)."""

from __future__ import annotations

from dataclasses import replace

from harnessctl.domain.errors import ConflictError, HarnessError, NotFoundError, RefusedError, UsageError
from harnessctl.domain.pin import Lock, Mode, Pin, PinSource
from harnessctl.domain.snapshot import SCHEMA_VERSION, Snapshot
from harnessctl.domain.update import Record, RecordType
from harnessctl.layers.l3_durable.content import Content
from harnessctl.layers.l3_durable.files.lock import (
    LOCK_NAME,
    conflicting_commits,
    has_markers,
    raw_lock,
    read_lock,
)
from harnessctl.layers.l3_durable.git.history import reaches, walk
from harnessctl.layers.l3_durable.history.history_cache import HistoryCache
from harnessctl.layers.l3_durable.history.records import records_since
from harnessctl.layers.l3_durable.history.revisions import resolve
from harnessctl.layers.l3_durable.history.since import unread_since
from harnessctl.layers.l3_durable.history.states import in_force
from harnessctl.layers.l3_durable.places.mode import Place


def resolve_pin(place: Place, at: str | None = None, *, allow_revoked: bool = False) -> Pin:
    """What a run started now would read.

    :param at: a revision that overrules the lock.
    :raises NotFoundError: ``pin_missing``: the pinned object is not here; names what to fetch.
    :raises HarnessError: ``pin_not_landed``, ``pin_not_shared``.
    :raises RefusedError: ``pin_revoked``: a later landed record takes back what the pin holds.
    """
    if at is not None:
        pin = _pin(place, PinSource.FLAG, resolve(place, at))
    else:
        lock = read_lock(place.lock_path) if place.lock_path else None
        pin = from_lock(place, lock) if lock else _unpinned(place)
    refuse_revoked(place, pin.commit, allow=allow_revoked)
    return pin


#: What else helps against a revoked pin; true for verbs without the option too.
_READ_ANYWAY = "harnessctl run and sessions resume read it all the same with --allow-revoked"


def refuse_revoked(place: Place, commit: str, *, allow: bool = False, otherwise: str = _READ_ANYWAY) -> None:
    """Refuse a revision that holds what was taken back since.

    :param otherwise: ends the hint: how to have it all the same.
    :raises RefusedError: ``pin_revoked``, unless ``allow``.
    """
    revoked = () if allow else revoked_updates(place, commit)
    if revoked:
        first = f"{place.sharing}, then " if tip_waits(place) else ""
        raise RefusedError(
            f"revision {commit[:12]} holds {', '.join(revoked)}, which was taken back since",
            id="pin_revoked",
            hint=f"{first}harnessctl pin moves the lock to the landed tip; {otherwise}",
        )


def refuse_absent(place: Place, pin: Pin) -> None:
    """:raises NotFoundError: ``pin_missing``: the commit that a session read is not in this clone."""
    if pin.commit and not place.repository.has(pin.commit):
        raise NotFoundError(
            f"the session reads {pin.commit} of branch '{pin.branch}', which is not in this clone",
            id="pin_missing",
            hint=f"git fetch {place.remote or 'REMOTE'} {pin.commit}",
        )


def from_lock(place: Place, lock: Lock) -> Pin:
    """The landed commit that a lock means: itself, else one with its tree, else one with its entries."""
    tips = place.readable_tips()
    if reaches(place.repository, tips, lock.commit):
        pin = _pin(place, PinSource.LOCK, lock.commit)
        if pin.tree == lock.tree and pin.entries == lock.entries:
            return pin
        return replace(
            pin, note=f"{LOCK_NAME} contradicts itself; its commit counts (harnessctl pin mends it)"
        )
    lacking = "shared" if reaches(place.repository, place.landed_tips(), lock.commit) else "landed"
    same_entries = None
    for commit in walk(place.repository, tips):
        if commit.tree == lock.tree:
            note = f"same tree as {lock.commit[:12]}, which is not {lacking}"
            return _pin(place, PinSource.LOCK, commit.id, note)
        if same_entries is None and Content(place.repository, commit.id).digest == lock.entries:
            same_entries = commit.id
    if same_entries:
        note = f"same entries as {lock.commit[:12]}, which is not {lacking}"
        return _pin(place, PinSource.LOCK, same_entries, note)
    if lacking == "shared":
        raise _not_shared(place, f"{LOCK_NAME} pins {lock.commit[:12]}")
    if not place.landed_tips():
        raise _branch_gone(place, lock)
    if place.repository.has(lock.commit):
        raise HarnessError(
            f"{LOCK_NAME} pins {lock.commit}, which is not landed on '{lock.branch}', nor are equal entries",
            id="pin_not_landed",
            hint=f"{_way_forward(place, lock)}harnessctl pin REV moves the lock to a landed revision",
        )
    raise NotFoundError(
        f"{LOCK_NAME} pins {lock.commit} of branch '{lock.branch}', which is not in this clone",
        id="pin_missing",
        hint=f"git fetch {place.remote or 'REMOTE'} refs/heads/{lock.branch}",
    )


def _way_forward(place: Place, lock: Lock) -> str:
    """How a branch that was moved back gets to the pinned commit again, "" where it never was there.

    A lock can be made to name a proposal too, which is ahead of the branch and not for this.
    """
    refs, tip = place.repository.refs, place.local_tip()
    ahead = tip is not None and reaches(place.repository, (lock.commit,), tip)
    if place.mode is not Mode.BRANCH or not ahead or lock.commit not in refs.were(place.ref):
        return ""
    return f"the branch was there and was moved back: git update-ref {place.ref} {lock.commit}; or "


def _branch_gone(place: Place, lock: Lock) -> HarnessError:
    """There is nothing that the pin could be landed on: no branch here, and none known of the remote."""
    here = place.repository.has(lock.commit)
    pins = f"{LOCK_NAME} pins {lock.commit} of branch '{lock.branch}', and there is no such branch here"
    if not here:
        bring = "harnessctl sync brings it" if place.remote else f"git fetch REMOTE refs/heads/{lock.branch}"
        return NotFoundError(
            f"{pins}, nor that commit",
            id="pin_missing",
            hint=f"{bring}; harnessctl doctor says what else there is",
        )
    return HarnessError(
        pins,
        id="pin_not_landed",
        hint=f"git branch {lock.branch} {lock.commit} makes it again as far as the pin; "
        "harnessctl doctor says whether a later state is here",
    )


def locked_commit(place: Place) -> str | None:
    """The commit that the lock makes the next run read, None without a lock.

    Quicker than :func:`resolve_pin`, which also computes the entries digest; errors as there.
    """
    lock = read_lock(place.lock_path) if place.lock_path else None
    if lock is None or reaches(place.repository, place.readable_tips(), lock.commit):
        return lock.commit if lock else None
    return from_lock(place, lock).commit


def _unpinned(place: Place) -> Pin:
    tip = place.tip()
    if tip is None or place.mode is None:
        return Pin(PinSource.EMPTY, place.branch, "", "", Snapshot().digest, place.mode)
    if place.mode is Mode.IN_TREE:
        return _pin(place, PinSource.HEAD, tip)
    readable = place.readable_tips()
    if reaches(place.repository, readable, tip):
        return _pin(place, PinSource.TIP, tip)
    if not readable:
        raise _not_shared(place, f"runs follow '{place.branch}', now {tip[:12]}")
    return _pin(place, PinSource.TIP, readable[0], f"what is shared; the tip {tip[:12]} is not")


def pinnable_tip(place: Place) -> str:
    """The newest revision that the lock may name; errors as :meth:`Place.landing_tip`."""
    tip = place.landing_tip()
    return place.readable_tips()[0] if tip_waits(place) else tip


def tip_waits(place: Place) -> bool:
    """Whether runs may read what is shared, and the landed tip is not."""
    tip, readable = place.local_tip(), place.readable_tips()
    return tip is not None and bool(readable) and not reaches(place.repository, readable, tip)


def refuse_unreadable(place: Place, commit: str) -> None:
    """Refuse to pin what no run would read.

    :raises HarnessError: ``pin_not_landed``; ``pin_not_shared``: landed here, and policy wants more.
    """
    if reaches(place.repository, place.readable_tips(), commit):
        return
    if reaches(place.repository, place.landed_tips(), commit):
        raise _not_shared(place, f"{commit[:12]} would be pinned")
    raise HarnessError(
        f"{commit[:12]} is not landed, so it cannot be pinned",
        id="pin_not_landed",
        hint="harnessctl log lists what is landed; review accept lands a proposal, sync brings what others "
        "landed",
    )


def refuse_pin_of_landing(place: Place) -> None:
    """:raises HarnessError: ``pin_not_shared``: what lands now is not on the remote, as policy wants."""
    if place.require_shared():
        raise HarnessError(
            "what lands now is not on the remote, and [review] require_shared lets runs read only what is",
            id="pin_not_shared",
            hint=f"land it without --pin; then {place.sharing}, and harnessctl pin",
        )


def _not_shared(place: Place, what: str) -> HarnessError:
    where = f"on {place.remote_ref}" if place.remote_ref else "on a remote: there is none"
    return HarnessError(
        f"{what}, which is landed here and not {where}; [review] require_shared lets runs read only what is",
        id="pin_not_shared",
        hint=f"{place.sharing} shares it; harnessctl pin REV moves the lock to what is shared",
    )


def _pin(place: Place, source: PinSource, commit: str, note: str = "") -> Pin:
    content = Content(place.repository, commit)
    return Pin(source, place.branch, commit, content.tree, content.digest, place.mode, note)


def lock_for(place: Place, commit: str) -> Lock:
    """The lock that pins ``commit``."""
    content = Content(place.repository, commit)
    return Lock(SCHEMA_VERSION, place.branch, commit, content.tree, content.digest)


def revoked_updates(place: Place, commit: str) -> tuple[str, ...]:
    """Updates in force at ``commit`` that a landed state which contains ``commit`` has taken back."""
    if not commit:
        return ()
    pinned = Content(place.repository, commit)
    found: set[str] = set()
    for tip in place.landed_tips():
        if tip != commit and reaches(place.repository, (tip,), commit):
            found |= _revoked(pinned, Content(place.repository, tip))
    return tuple(sorted(found))


def _revoked(pinned: Content, tip: Content) -> set[str]:
    held, there = pinned.records(), tip.records()
    later = records_since(pinned, tip)
    if held.keys() <= there.keys() and not any(r.type is not RecordType.UPDATE for r in later.values()):
        return set()
    before = records_since(None, pinned)
    after: dict[str, Record] = {u: r for u, r in before.items() if u in there} | later
    return set(in_force(before, before.keys()) - in_force(after, after.keys()))


def unread_updates(place: Place, commit: str, cache: HistoryCache) -> int:
    """How many updates in force at the landed tip a run that reads ``commit`` does not read."""
    tip = place.local_tip() or place.remote_tip()
    if tip is None or not commit or tip == commit:
        return 0
    return unread_since(Content(place.repository, commit), Content(place.repository, tip), cache)


def resolve_conflict(place: Place) -> str:
    """The one of the conflicting commits from which all others can be reached.

    The markers count, not whether git is in the middle of a merge: they may have been committed.

    :raises ConflictError: ``lock_conflict``: none does, or none is landed.
    :raises UsageError: ``bad_lock``: there are markers, and no commit can be read between them.
    :raises NotFoundError: ``no_conflict``.
    """
    path = place.lock_path
    data = (raw_lock(path) if path else None) or b""
    commits = conflicting_commits(data)
    if not has_markers(data):
        raise NotFoundError(
            f"{LOCK_NAME} holds no merge conflict",
            id="no_conflict",
            hint="harnessctl status says what it pins",
        )
    if not commits:
        raise UsageError(
            f"{LOCK_NAME} holds conflict markers and names no commit that could be chosen",
            id="bad_lock",
            hint="harnessctl pin REV writes it anew",
        )
    for candidate in commits:
        landed = reaches(place.repository, place.readable_tips(), candidate)
        if landed and all(reaches(place.repository, (candidate,), other) for other in commits):
            return candidate
    raise ConflictError(
        f"none of {', '.join(c[:12] for c in commits)} holds the others and is landed",
        id="lock_conflict",
        hint="choose one: harnessctl pin REV",
    )
