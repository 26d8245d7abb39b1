"""Names: entry kinds and ids, ULIDs for updates and sessions, event addresses.

The grammar of names is frozen with schema version 1: ASCII, lower case, so that no two file
systems can disagree about whether two names are the same.
"""

from __future__ import annotations

import re
from collections.abc import Iterable
from dataclasses import dataclass
from difflib import get_close_matches
from enum import StrEnum

from harnessctl.domain.errors import UsageError

SEGMENT = re.compile(r"[a-z0-9][a-z0-9._-]{0,63}\Z")
ULID_TEXT = re.compile(r"[0-7][0-9A-HJKMNP-TV-Z]{25}\Z")

HARNESS_DIR = ".harness"
UPDATES_DIR = "updates"
SKILL_FILE = "SKILL.md"


class Kind(StrEnum):
    """The four kinds of entry. The value is the singular used in JSON and commit subjects."""

    MEMORY = "memory"
    PROMPT = "prompt"
    SKILL = "skill"
    SUBAGENT = "subagent"

    @property
    def directory(self) -> str:
        """Directory under ``.harness/`` that holds entries of this kind."""
        return _DIRECTORY[self]

    @classmethod
    def of_directory(cls, name: str) -> Kind | None:
        """The kind kept in directory ``name``, or None."""
        return _KIND_OF_DIRECTORY.get(name)

    @classmethod
    def parse(cls, text: str) -> Kind:
        """A kind as users write it: the directory's name or the singular.

        :raises UsageError: ``bad_kind``; names them all.
        """
        wanted = text.strip().lower()
        found = cls.of_directory(wanted) or next((kind for kind in cls if kind.value == wanted), None)
        if found is None:
            names = [kind.directory for kind in cls]
            raise UsageError(
                f"'{text}' is no kind of entry",
                id="bad_kind",
                hint=f"{suggestion(wanted, names)}one of {', '.join(names)}",
            )
        return found


_DIRECTORY = {
    Kind.MEMORY: "memory",
    Kind.PROMPT: "prompts",
    Kind.SKILL: "skills",
    Kind.SUBAGENT: "subagents",
}
_KIND_OF_DIRECTORY = {directory: kind for kind, directory in _DIRECTORY.items()}


def suggestion(wanted: str, known: Iterable[str]) -> str:
    """``did you mean 'x'? `` for the beginning of a hint; "" when nothing known is near."""
    near = get_close_matches(wanted, list(known), n=1)
    return f"did you mean '{near[0]}'? " if near else ""


@dataclass(frozen=True, slots=True, order=True)
class EntryId:
    """``kind/name`` as users write it, with the directory's name: ``skills/release-audit``."""

    kind: Kind
    name: str

    def __str__(self) -> str:
        return f"{self.kind.directory}/{self.name}"

    @classmethod
    def parse(cls, text: str) -> EntryId:
        """Read ``memory/build-commands``; the singular (``skill/x``) is accepted too.

        :raises UsageError: unknown kind, or a name outside the grammar.
        """
        head, slash, name = text.strip().removeprefix(f"{HARNESS_DIR}/").partition("/")
        kind = Kind.of_directory(head) or next((k for k in Kind if k.value == head), None)
        if kind is None or not slash:
            raise UsageError(
                f"'{text}' is not an entry id",
                id="bad_entry_id",
                hint="write kind/name with kind one of memory, prompts, skills, subagents",
            )
        if kind is not Kind.SKILL:
            name = name.removesuffix(".md")
        segments = name.split("/")
        if not all(SEGMENT.match(part) for part in segments) or (
            len(segments) > 1 and kind is not Kind.MEMORY
        ):
            raise UsageError(
                f"'{name}' is not a name for an entry of kind {kind}",
                id="bad_entry_id",
                hint="lower-case ASCII letters, digits, '.', '_' and '-', at most 64 characters, "
                "first a letter or digit; only memory may nest with '/'",
            )
        return cls(kind, name)

    @property
    def path(self) -> str:
        """Path below ``.harness/`` of the entry's main file (for a skill its ``SKILL.md``)."""
        if self.kind is Kind.SKILL:
            return f"{self.kind.directory}/{self.name}/{SKILL_FILE}"
        return f"{self.kind.directory}/{self.name}.md"


def new_ulid() -> str:
    """A new ULID (26 characters of Crockford base 32, time first), for updates and sessions."""
    from ulid import ULID

    return str(ULID())


def is_ulid(text: str) -> bool:
    """Whether ``text`` is a ULID in its canonical upper-case form."""
    return ULID_TEXT.match(text) is not None


def ulid_month(text: str) -> str:
    """``yyyy-mm`` (UTC) of a ULID: the folder its record lives in.

    :raises ValueError: not a ULID.
    """
    from ulid import ULID

    return ULID.from_str(text).datetime.strftime("%Y-%m")


def record_path(update: str) -> str:
    """Path below ``.harness/`` of the record of ``update``: ``updates/2026-11/01J….json``."""
    return f"{UPDATES_DIR}/{ulid_month(update)}/{update}.json"


@dataclass(frozen=True, slots=True)
class EventAddress:
    """``<session-id>#<n>``: one event of one session, as it is written everywhere."""

    session: str
    n: int

    def __str__(self) -> str:
        return f"{self.session}#{self.n}"

    @classmethod
    def parse(cls, text: str) -> EventAddress:
        """:raises UsageError: not of the form ``<session-id>#<n>``."""
        session, mark, n = text.partition("#")
        if not mark or not n.isascii() or not n.isdigit() or not is_ulid(session):
            raise UsageError(
                f"'{text}' is not an event address", id="bad_address", hint="write <session-id>#<n>"
            )
        return cls(session, int(n))
