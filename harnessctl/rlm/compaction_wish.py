"""``history.compact()`` in a cell: a wish that the loop meets before its next request."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from harnessctl.rlm.door import Handler


class CompactionWish:
    """Remembered until the loop comes by. Used on the event loop only."""

    def __init__(self) -> None:
        self._asked = False

    def handlers(self) -> Mapping[str, Handler]:
        """For the door."""
        return {"context.compact": self._compact}

    async def _compact(self, _: Mapping[str, Any]) -> str:
        self._asked = True
        return (
            "Before your next reply, everything leaves the view but the task, the last message and this turn,"
            " unless it is too little to be worth that."
        )

    def take(self) -> bool:
        """Whether a compaction was asked for; it is not asked for any more then."""
        asked, self._asked = self._asked, False
        return asked
