"""What is told of the variables that cells make."""

from __future__ import annotations

import collections
import contextlib
from typing import Any

from .signs import VARIABLES_MIME

#: Variables that are told by name; the rest is counted.
MOST_VARIABLES = 400
#: Characters of a name or a type that are told.
NAME_SHOWN = 80


class Variables:
    """Tells after each cell which names were set, changed type or size, or are gone.

    That is what a model is told when the kernel is lost. No code of the user's objects is run for it:
    sizes come from built-in containers, and from the shape that arrays and tables keep ready.
    """

    def __init__(self, ip: Any) -> None:
        self.names = ip.user_ns
        self.hidden = ip.user_ns_hidden
        self.told: dict[str, list[str]] = {}
        self.more = 0

    def tell(self) -> None:
        """After a cell: send what changed, nothing when nothing did."""
        from IPython.display import publish_display_data

        now, more = self.now()
        change: dict[str, Any] = {}
        changed = {name: value for name, value in now.items() if self.told.get(name) != value}
        gone = [name for name in self.told if name not in now]
        if changed or gone or more != self.more:
            change = {"set": changed, "gone": gone, "more": more}
            self.told, self.more = now, more
            publish_display_data({VARIABLES_MIME: change})  # type: ignore[no-untyped-call]

    def now(self) -> tuple[dict[str, list[str]], int]:
        """Names with type and size, and how many there are beyond the first :data:`MOST_VARIABLES`."""
        found: dict[str, list[str]] = {}
        more = 0
        for name, value in list(self.names.items()):
            if not isinstance(name, str) or name.startswith("_") or name in self.hidden:
                continue
            if len(found) == MOST_VARIABLES:
                more += 1
            else:
                shown = name.encode("utf-8", "backslashreplace").decode()[:NAME_SHOWN]
                found[shown] = [type(value).__name__[:NAME_SHOWN], size_of(value)]
        return found, more


def size_of(value: Any) -> str:
    """A size in words, "" where none is to be had without running somebody's code."""
    kind = type(value)
    if kind in (str, bytes, bytearray):
        return f"{len(value):,} {'characters' if kind is str else 'bytes'}"
    if kind in (list, tuple, dict, set, frozenset, collections.deque):
        return f"{len(value):,} items"
    if kind.__module__.partition(".")[0] in ("numpy", "pandas", "torch", "polars", "scipy", "xarray"):
        with contextlib.suppress(Exception):
            return "×".join(str(int(n)) for n in value.shape)[:NAME_SHOWN]
    return ""
