"""``log``: every update with its state, newest first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from harnessctl.domain.ids import EntryId
from harnessctl.layers.l3_durable.store import HarnessStore
from harnessctl.layers.l3_durable.updates import Update


@dataclass(frozen=True)
class History:
    """Updates, open proposals first."""

    updates: tuple[Update, ...]

    def to_json(self) -> list[dict[str, object]]:
        """One array of updates (CONTRACT 10)."""
        return [update.to_json() for update in self.updates]


def log(
    store: HarnessStore, *, entry: str | None = None, session: str | None = None, states: Iterable[str] = ()
) -> History:
    """Updates, narrowed to one entry, one session (an id or the beginning of one) or some states.

    ``unrecorded`` is a state here: commits made by hand without a record.

    :raises UsageError: ``bad_entry_id``.
    """
    wanted = str(EntryId.parse(entry)) if entry else None
    kept = frozenset(states)

    def fits(update: Update) -> bool:
        evidence = update.record.evidence if update.record else ()
        state = update.state.value if update.state else "unrecorded"
        return (
            (wanted is None or wanted in update.entries)
            and (session is None or any(e.session.startswith(session) for e in evidence))
            and (not kept or state in kept)
        )

    return History(tuple(u for u in store.updates() if fits(u)))
