"""REV: a revision of the harness as users write it.

A full or short commit, the branch's name, ``~N`` (N commits before the tip, or behind any of the
others), an update id or a unique prefix of one: the state right after it. Only commits of harness
history count; a commit of the code is not one.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from harnessctl.domain.errors import NotFoundError, UsageError
from harnessctl.domain.pin import Mode
from harnessctl.layers.l3_durable.content import Content
from harnessctl.layers.l3_durable.git.graph import shallow_commits
from harnessctl.layers.l3_durable.git.history import reaches
from harnessctl.layers.l3_durable.history.records import steps
from harnessctl.layers.l3_durable.places.mode import Place
from harnessctl.layers.l3_durable.places.names import PROPOSALS

_BACK = re.compile(r"(?P<base>.*?)~(?P<count>\d{0,9})\Z")
_HEX = re.compile(r"[0-9a-f]{4,40}\Z")
_ULID_PREFIX = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{3,25}\Z", re.IGNORECASE)


def resolve(place: Place, rev: str) -> str:
    """Full commit id of ``rev``.

    :raises NotFoundError: ``unknown_revision``, ``not_initialised`` or ``not_committed``.
    :raises UsageError: ``ambiguous_revision``.
    """
    match = _BACK.match(rev.strip())
    if match:
        return _back(place, _base(place, match["base"]), int(match["count"] or 1), rev)
    return _base(place, rev.strip())


def _base(place: Place, text: str) -> str:
    tip = place.tip()
    if tip is None:
        raise place.absent()
    if text in ("", "@"):
        return tip
    named = _named(place, text)
    found = {named} if named else {c for c in (_commit(place, text), update_commit(place, text)) if c}
    if len(found) > 1:
        raise UsageError(
            f"'{text}' names a commit and an update", id="ambiguous_revision", hint="write more characters"
        )
    if not found:
        raise NotFoundError(
            f"there is no revision '{text}' of this harness",
            id="unknown_revision",
            hint="harnessctl log lists commits and update ids",
        )
    return found.pop()


def _named(place: Place, text: str) -> str | None:
    names = {place.branch: place.local_tip, place.ref: place.local_tip}
    if place.remote_ref:
        names |= {place.remote_ref: place.remote_tip, f"{place.remote}/{place.branch}": place.remote_tip}
    if place.mode is Mode.IN_TREE:
        names["HEAD"] = place.tip
    return names[text]() if text in names else None


def _commit(place: Place, text: str) -> str | None:
    if not _HEX.match(text):
        return None
    found = place.repository.expand(text)
    return found if found and reaches(place.repository, _roots(place), found) else None


def _roots(place: Place) -> list[str]:
    """Where harness history starts from: landed tips, what unpinned runs follow, open proposals."""
    tip = place.tip()
    return [*place.landed_tips(), *([tip] if tip else []), *place.repository.refs.list(PROPOSALS).values()]


def update_commit(place: Place, prefix: str) -> str | None:
    """The commit that brought the update whose id starts with ``prefix``, None when there is none.

    :raises UsageError: ``ambiguous_revision``.
    """
    if not _ULID_PREFIX.match(prefix):
        return None
    wanted = prefix.upper()
    proposals = place.repository.refs.list(PROPOSALS)
    opened = {name.removeprefix(PROPOSALS): commit for name, commit in proposals.items()}
    roots = [*place.landed_tips(), *filter(None, [place.tip()])]
    present = {u for root in roots for u in Content(place.repository, root).records()}
    update = one_of(prefix, (u for u in present | opened.keys() if u.startswith(wanted)))
    if update in opened and update not in present:
        return opened[update]
    for step in steps(place.repository, roots):
        brought = [u for u in step.updates if u.startswith(wanted)]
        if update in brought or (update is None and brought):
            return step.commit
    return None


def one_of(prefix: str, found: Iterable[str]) -> str | None:
    """The one id in ``found``, None for none.

    :raises UsageError: ``ambiguous_revision``: several, which are named.
    """
    ids = sorted(set(found))
    if len(ids) > 1:
        first = f"{', '.join(ids[:5])}{', …' if ids[5:] else ''}"
        raise UsageError(
            f"'{prefix}' is the beginning of {len(ids)} updates: {first}",
            id="ambiguous_revision",
            hint="write more characters",
        )
    return ids[0] if ids else None


def _back(place: Place, commit: str, count: int, rev: str) -> str:
    for _ in range(count):
        parents = place.repository.commit(commit).parents
        if not parents and commit in shallow_commits(place.repository):
            raise NotFoundError(
                f"'{rev}' goes back past {commit[:12]}, where the history of this shallow clone ends",
                id="unknown_revision",
                hint="git fetch --unshallow brings what is before it",
            )
        if not parents:
            raise NotFoundError(
                f"'{rev}' goes back past the first commit",
                id="unknown_revision",
                hint="harnessctl log lists what there is to go back to",
            )
        commit = parents[0]
    return commit
