"""Where a session stands in its tree."""

from __future__ import annotations

from dataclasses import dataclass

ROOT = "root"


@dataclass(frozen=True, slots=True)
class Seat:
    """A session's place.

    :ivar name: what its parent calls it; also who it is to a scripted model.
    :ivar node: the names from the root down, ``root/alice/bob``: what its usage is booked on.
    :ivar depth: levels below the root.
    :ivar parent: id of the session that started it, None for the root.
    """

    session: str
    name: str = ROOT
    node: str = ROOT
    depth: int = 0
    parent: str | None = None

    def below(self, session: str, name: str) -> Seat:
        """The place of a child."""
        return Seat(session, name, f"{self.node}/{name}", self.depth + 1, self.session)
