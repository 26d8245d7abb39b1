"""Text that a repository or an agent wrote, framed as data: it can neither end its frame nor hide in it."""

from __future__ import annotations

import re

from harnessctl.domain.entry import Entry, Origin, Status
from harnessctl.domain.safe_text import hidden_characters, visible

#: What could be read as the start or the end of one of our frames, in whatever way it is written.
_FRAME = re.compile(r"[<\uff1c\ufe64\u2039](?=[\s/\\]*(?:entry|repository-file)\b)", re.IGNORECASE)

#: Anything else would be free text inside of a tag.
_DAY = re.compile(r"[0-9]{4}-[0-9]{2}-[0-9]{2}")


def contained(text: str) -> str:
    r"""``text`` with hidden characters made visible, and ``<\/entry`` where it has ``</entry``."""
    return _FRAME.sub(lambda found: found[0] + "\\", visible(text.replace("\r\n", "\n")))


def one_line(text: str) -> str:
    """``text`` on one line, contained."""
    return contained(" ".join(text.split()))


def flags_of(entry: Entry) -> tuple[str, ...]:
    """What a reader should know of an entry before believing it, in words; nothing for most.

    ``hypothesis``, ``untrusted`` (its text came from outside), ``N hidden characters``.
    """
    found = []
    if entry.status is Status.HYPOTHESIS:
        found.append("hypothesis")
    if entry.origin is Origin.UNTRUSTED:
        found.append("untrusted")
    hidden = sum(1 for text in (entry.description, entry.body) for _ in hidden_characters(text))
    if hidden:
        found.append(f"{hidden} hidden character{'s' if hidden > 1 else ''}")
    return tuple(found)


def framed(entry: Entry) -> str:
    """The whole text of ``entry`` between ``<entry …>`` and ``</entry>``, with origin, status and flags."""
    head = f'<entry id="{entry.id}"{_attributes(entry)}>\n{one_line(entry.description)}'
    body = contained(entry.body).strip()
    return f"{head}\n\n{body}\n</entry>" if body else f"{head}\n</entry>"


def _attributes(entry: Entry) -> str:
    status = f' status="{entry.status}"' if entry.status else ""
    expires = entry.own("expires")
    until = f' expires="{expires}"' if _DAY.fullmatch(expires) else ""
    hidden = [flag for flag in flags_of(entry) if "hidden" in flag]
    flagged = f' flagged="{hidden[0]}, written out here"' if hidden else ""
    return f' origin="{entry.origin or "unstated"}"{status}{until}{flagged}'
