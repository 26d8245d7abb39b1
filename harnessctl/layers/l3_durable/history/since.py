"""What records a later state holds that an earlier one lacks, told from their gists."""

from __future__ import annotations

from harnessctl.domain.update import RecordType, Verdict
from harnessctl.layers.l3_durable.content import Content
from harnessctl.layers.l3_durable.history.history_cache import Gist, HistoryCache
from harnessctl.layers.l3_durable.history.records import new_records
from harnessctl.layers.l3_durable.history.states import in_force


def gists_since(old: Content | None, new: Content, cache: HistoryCache) -> dict[str, Gist]:
    """Gist of each readable record that ``new`` has and ``old`` (None: nothing) lacks, by update id."""
    found = {update: cache.gist(new.repository, oid) for update, oid in new_records(old, new).items()}
    return {update: gist for update, gist in found.items() if gist is not None}


def unread_since(old: Content, new: Content, cache: HistoryCache) -> int:
    """How many updates in force at ``new`` a run that reads ``old`` does not read."""
    later = gists_since(old, new, cache)
    standing = in_force(later, later.keys())
    return sum(later[update].type is RecordType.UPDATE for update in standing)


def rejected_since(old: Content | None, new: Content, cache: HistoryCache) -> frozenset[str]:
    """Updates that a decision rejects which ``new`` holds and ``old`` does not."""
    return frozenset(g.of for g in gists_since(old, new, cache).values() if rejects(g) and g.of)


def rejects(gist: Gist) -> bool:
    """Whether it is a decision against a proposal."""
    return gist.type is RecordType.DECISION and gist.verdict is Verdict.REJECTED
