"""``log``: every update with its state, newest first."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass

from harnessctl.commands.sessions import find_session
from harnessctl.domain.errors import NotFoundError, UsageError
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
    :raises NotFoundError: ``no_entry``, ``no_session``: nothing was ever known of it.
    """
    wanted = str(EntryId.parse(entry)) if entry else None
    kept = frozenset(map(_state, states))
    beginning = session.upper() if session else ""
    entries: set[str] = set()
    sessions: set[str] = set()

    def fits(row: Row) -> bool:
        entries.update(row.entries)
        sessions.update(row.sessions)
        return (
            (wanted is None or wanted in row.entries)
            and (not beginning or any(s.startswith(beginning) for s in row.sessions))
            and (not kept or row.state_name in kept)
        )

    found = History(store.updates(fits))
    if wanted is not None and wanted not in entries:
        hint = f"{suggestion(wanted, entries)}harnessctl list"
        raise NotFoundError(f"there is no entry '{wanted}' in the history", id="no_entry", hint=hint)
    if beginning and not any(one.startswith(beginning) for one in sessions):
        _refuse_unknown(store, session or "", sessions)
    return found


def _refuse_unknown(store: HarnessStore, session: str, cited: Iterable[str]) -> None:
    """:raises NotFoundError: ``no_session``: none here begins so, from which nothing was drawn yet."""
    try:
        find_session(store.state_path, session)
    except NotFoundError as error:
        error.hint = f"{suggestion(session.upper(), cited)}{error.hint}"
        raise
    except UsageError:  # several do
        return


def _state(text: str) -> str:
    wanted = text.strip().lower().replace("-", "_")
    if wanted not in STATES:
        hint = f"{suggestion(wanted, STATES)}one of {', '.join(STATES)}"
        raise UsageError(f"'{text}' is no state of an update", id="bad_state", hint=hint)
    return wanted
