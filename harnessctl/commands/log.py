"""``log``: every update with its state, newest first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from harnessctl.domain.errors import UsageError
from harnessctl.domain.ids import EntryId, suggestion
from harnessctl.domain.update import UpdateState
from harnessctl.layers.l3_durable.history.updates import UNRECORDED, Row, Update
from harnessctl.layers.l3_durable.store import HarnessStore

STATES = (*UpdateState, UNRECORDED)


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

    :raises UsageError: ``bad_entry_id``; ``bad_state``, which names them all.
    """
    wanted = str(EntryId.parse(entry)) if entry else None
    kept = frozenset(map(_state, states))
    beginning = session.upper() if session else ""

    def fits(row: Row) -> bool:
        return (
            (wanted is None or wanted in row.entries)
            and (not beginning or any(s.startswith(beginning) for s in row.sessions))
            and (not kept or row.state_name in kept)
        )

    return History(store.updates(fits))


def _state(text: str) -> str:
    wanted = text.strip().lower().replace("-", "_")
    if wanted not in STATES:
        hint = f"{suggestion(wanted, STATES)}one of {', '.join(STATES)}"
        raise UsageError(f"'{text}' is no state of an update", id="bad_state", hint=hint)
    return wanted
