"""Why a ref did not move. Not shown to users as such: the writer tries again, or says it in its own words."""

from __future__ import annotations

from pathlib import Path


class LostRaceError(Exception):
    """The ref was not, or no longer, at the expected value, or somebody holds its lock; nothing moved."""


class HeldError(LostRaceError):
    """A lock file of another program stands in the way.

    :ivar lock: the file.
    """

    def __init__(self, lock: Path) -> None:
        super().__init__(f"{lock} is in the way")
        self.lock = lock
