"""What happened in this session and is no longer in view, for code in cells."""

from __future__ import annotations

import base64
import builtins
import json
from typing import Any

from .host import Host


class Text(str):
    """A text that shows as it is, also as the last line of a cell; so do its slices."""

    __slots__ = ()

    def __getitem__(self, at: Any) -> Text:
        return Text(super().__getitem__(at))

    def __repr__(self) -> str:
        return str(self)


class Hits(builtins.list[dict[str, Any]]):
    """What a search found, best first; shows as lines."""

    def __repr__(self) -> str:
        return (
            "\n".join(f"{h['address']} turn {h['turn']}, {h['type']}: {h['text']}" for h in self) or "nothing"
        )


class History:
    """This session's log: ``search("words")``, ``expand("#12-40")``, ``outline()``."""

    def __init__(self, host: Host) -> None:
        self._host = host

    def search(self, words: str, k: int = 8) -> Hits:
        """The ``k`` events that hold the words, best first: dicts with address, turn, type and text."""
        return Hits(self._host.call("history.search", words=words, k=k))

    def expand(self, address: str | int, raw: bool = False) -> Any:
        """The whole text of an event, or of each in a range; with ``raw`` the records, as dicts.

        :param address: ``"#12"``, ``"#12-40"``, or with a child's session id before the ``#``.
        """
        text = "".join(self._slices("history.expand", "text", address=str(address), raw=raw))
        return [json.loads(line) for line in text.splitlines()] if raw else Text(text)

    def blob(self, address: str | int) -> bytes:
        """The raw bytes of an output that was too long for the log."""
        return b"".join(map(base64.b64decode, self._slices("history.blob", "bytes", address=str(address))))

    def outline(self, first: int | None = None, last: int | None = None, session: str = "") -> Text:
        """One line a turn, with its address; of the turns ``first`` to ``last``, or of all."""
        return Text(self._host.call("history.outline", first=first, last=last, session=session))

    def compact(self) -> Text:
        """Ask for a short view: before the next reply, earlier turns leave it, and a summary stands there."""
        return Text(self._host.call("context.compact"))

    def _slices(self, do: str, key: str, **what: Any) -> builtins.list[str]:
        found: builtins.list[str] = []
        at: int | None = 0
        while at is not None:
            part = self._host.call(do, at=at, **what)
            found.append(part[key])
            at = part["next"]
        return found

    def __repr__(self) -> str:
        return '<history: search("words"), expand("#12-40"), outline(), compact()>'
