"""The log as the running session uses it: what is written is also seen, and enters the view."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from harnessctl.domain.event import Event, EventType, is_aside
from harnessctl.layers.l1_context.view import View
from harnessctl.rlm.log import no_collection
from harnessctl.rlm.ports import Watcher
from harnessctl.rlm.recorder import Recorder
from harnessctl.rlm.tally import Tally


class Journal:
    """Writes events through the recorder and hands each to the view, the tally and the watcher.

    :ivar tally: what the log adds up to.
    """

    def __init__(self, recorder: Recorder, view: View, watcher: Watcher) -> None:
        self.view = view
        self.tally = Tally()
        self._recorder = recorder
        self._watcher = watcher
        asked = (e.n for e in reversed(recorder.events) if e.type is EventType.REQUEST and not is_aside(e))
        last = next(asked, None)
        with no_collection():
            for event in recorder.events:
                view.add(event)
                self.tally.add(event)
                if event.n == last:
                    view.check_last_request()

    @property
    def events(self) -> Sequence[Event]:
        """Every event so far."""
        return self._recorder.events

    def record(self, type: EventType, data: Mapping[str, Any], *, turn: int = 0) -> Event:  # noqa: A002 - the record's key
        """Write one event.

        :raises StorageError: it could not be written.
        """
        event = self._recorder.append(type, data, turn=turn)
        self.view.add(event)
        self.tally.add(event)
        self._watcher.event(event)
        return event

    def blob(self, chunks: Iterable[bytes]) -> str:
        """Keep a payload beside the log."""
        return self._recorder.blob(chunks)

    def sync(self) -> None:
        """Bring everything onto the disk."""
        self._recorder.sync()

    def relieve(self) -> None:
        """Make way for the end where nothing more could be written."""
        self._recorder.relieve()
