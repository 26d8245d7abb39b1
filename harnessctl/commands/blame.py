"""``blame``: where each line of an entry came from, down to the events of a session's log."""

from __future__ import annotations

from dataclasses import dataclass

from harnessctl.commands.show import landed_since
from harnessctl.domain.errors import NotFoundError
from harnessctl.domain.ids import EntryId, EventAddress
from harnessctl.layers.l3_durable.history.blaming import Line, Origin, blame_entry
from harnessctl.layers.l3_durable.store import HarnessStore


@dataclass(frozen=True)
class Blame:
    """The lines of one entry at one commit."""

    entry: str
    commit: str
    lines: tuple[Line, ...]

    def to_json(self) -> dict[str, object]:
        """As ``blame --json`` prints it."""
        return {
            "entry": self.entry,
            "commit": self.commit,
            "lines": [_line(line) for line in self.lines],
        }


def blame(store: HarnessStore, entry: str, *, at: str | None = None) -> Blame:
    """Lines of ``entry`` at ``at`` (a REV), by default at the pin.

    :raises NotFoundError: ``no_entry``, ``unknown_revision``.
    :raises UsageError: ``bad_entry_id``.
    """
    wanted = EntryId.parse(entry)
    commit = store.resolve(at) if at else store.pin(allow_revoked=True).commit
    if not commit:
        raise NotFoundError(
            f"there is no entry '{wanted}': no harness", id="no_entry", hint="harnessctl init"
        )
    try:
        return Blame(str(wanted), commit, blame_entry(store.place, wanted, commit))
    except NotFoundError as error:
        if error.id == "no_entry" and not at:
            error.hint = landed_since(store, str(wanted), "blame") or error.hint
        raise


def events_of(origin: Origin) -> tuple[str, ...]:
    """Addresses of the events that the line's updates stand on."""
    return tuple(
        str(EventAddress(evidence.session, n))
        for record in origin.records
        for evidence in record.evidence
        for n in evidence.events
    )


def _line(line: Line) -> dict[str, object]:
    restored = origin_json(line.restored) if line.restored else None
    head: dict[str, object] = {"path": line.path, "line": line.n, "text": line.text}
    return head | origin_json(line.origin) | {"restored": restored}


def origin_json(origin: Origin) -> dict[str, object]:
    """An origin as ``--json`` prints it; ``update`` is null for a commit by hand."""
    first = origin.records[0] if origin.records else None
    sessions = [evidence.session for record in origin.records for evidence in record.evidence]
    return {
        "commit": origin.commit.id,
        "update": first.id if first else None,
        "updates": [record.id for record in origin.records],
        "type": first.type.value if first else None,
        "session": sessions[0] if sessions else None,
        "events": list(events_of(origin)),
        "model": first.model if first else None,
        "author": origin.commit.author.name,
        "accepter": origin.accepter.name,
        "time": origin.commit.committer.time,
        "cut": origin.cut,
    }
