"""The log as the running session uses it: what is written is also seen, and enters the view."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from typing import Any

from harnessctl.domain.event import Event, EventType
from harnessctl.layers.l1_context.view import View
from harnessctl.rlm.ports import Watcher
from harnessctl.rlm.recorder import Recorder


class Journal:
    """Writes events through the recorder and hands each to the view and the watcher."""

    def __init__(self, recorder: Recorder, view: View, watcher: Watcher) -> None:
        self.view = view
        self._recorder = recorder
        self._watcher = watcher
        for event in recorder.events:
            view.add(event)

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
        self._watcher.event(event)
        return event

    def blob(self, chunks: Iterable[bytes]) -> str:
        """Keep a payload beside the log."""
        return self._recorder.blob(chunks)

    def sync(self) -> None:
        """Bring everything onto the disk."""
        self._recorder.sync()
