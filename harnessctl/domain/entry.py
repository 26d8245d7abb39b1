"""One unit of durable state: a memory, a prompt note, a skill or a subagent spec."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from enum import StrEnum
from functools import cached_property
from typing import Any

from harnessctl.domain.canonical import files_digest, sha256_hex
from harnessctl.domain.ids import EntryId, Kind

#: Prefix of harnessctl's keys under a skill's ``metadata``, the one extension point of Agent Skills.
SKILL_METADATA_PREFIX = "harnessctl-"


class Status(StrEnum):
    """How sure we are of an entry. Absent means nothing was claimed."""

    VERIFIED = "verified"
    HYPOTHESIS = "hypothesis"


class Owner(StrEnum):
    """Who may change an entry: a human's entry is out of bounds for agents."""

    HUMAN = "human"
    AGENT = "agent"


class Origin(StrEnum):
    """Where an entry's text came from."""

    HUMAN = "human"
    AGENT = "agent"
    UNTRUSTED = "untrusted"


@dataclass(frozen=True)
class EntryFile:
    """One file of an entry, as it stands in git.

    :ivar path: relative to ``.harness/``.
    :ivar mode: git's mode, ``0o100644`` or ``0o100755``.
    :ivar data: the blob's bytes, untouched by any filter.
    """

    path: str
    mode: int
    data: bytes

    @cached_property
    def sha256(self) -> str:
        """SHA-256 of the content, hex."""
        return sha256_hex(self.data)


@dataclass(frozen=True)
class Entry:
    """An entry that passed the load rules.

    :ivar files: at least the main file; sorted by path.
    :ivar meta: the frontmatter as read; every scalar is text.
    :ivar body: Markdown after the frontmatter, line ends as read.
    """

    id: EntryId
    files: tuple[EntryFile, ...]
    meta: Mapping[str, Any] = field(default_factory=dict)
    body: str = ""

    @cached_property
    def digest(self) -> str:
        """Content digest of this entry (CONTRACT 2)."""
        return files_digest((f.path, f.mode, f.sha256) for f in self.files)

    def own(self, key: str) -> str:
        """The value of one of harnessctl's keys as text, "" when absent.

        In skills the key lives under ``metadata`` as ``harnessctl-<key with dashes>``.
        """
        value: Any
        if self.id.kind is Kind.SKILL and key not in ("description", "name"):
            metadata = self.meta.get("metadata")
            value = (
                metadata.get(SKILL_METADATA_PREFIX + key.replace("_", "-"))
                if isinstance(metadata, Mapping)
                else None
            )
        else:
            value = self.meta.get(key)
        return value if isinstance(value, str) else ""

    def own_list(self, key: str) -> tuple[str, ...]:
        """A list-valued key (``tags``, ``depends_on``): a YAML list, or words parted by spaces or commas."""
        value = self.meta.get(key) if self.id.kind is not Kind.SKILL else self.own(key)
        if isinstance(value, str):
            return tuple(part for part in value.replace(",", " ").split() if part)
        if isinstance(value, list | tuple):
            return tuple(str(part) for part in value)
        return ()

    @property
    def description(self) -> str:
        """One line: what the model sees first."""
        return self.own("description")

    @property
    def title(self) -> str:
        """The title, by default the name."""
        return self.own("title") or self.id.name

    @property
    def status(self) -> Status | None:
        """``verified``, ``hypothesis`` or nothing claimed."""
        value = self.own("status")
        return Status(value) if value in Status._value2member_map_ else None

    @property
    def owner(self) -> Owner | None:
        """The stated owner; whether it is true is the writer's business."""
        value = self.own("owner")
        return Owner(value) if value in Owner._value2member_map_ else None

    @property
    def origin(self) -> Origin | None:
        """The stated origin; whether it is true is the writer's business."""
        value = self.own("origin")
        return Origin(value) if value in Origin._value2member_map_ else None

    @property
    def tags(self) -> tuple[str, ...]:
        """Tags in the order written."""
        return self.own_list("tags")

    @property
    def depends_on(self) -> tuple[str, ...]:
        """Ids of entries this one needs."""
        return self.own_list("depends_on")

    @property
    def main(self) -> EntryFile:
        """The file with the frontmatter."""
        path = self.id.path
        return next((f for f in self.files if f.path == path), self.files[0])

    def to_json(self) -> dict[str, object]:
        """The entry as it appears in ``--json`` lists (CONTRACT 10)."""
        return {
            "id": str(self.id),
            "kind": self.id.kind.value,
            "title": self.title,
            "description": self.description,
            "status": self.status.value if self.status else None,
            "owner": self.owner.value if self.owner else None,
            "origin": self.origin.value if self.origin else None,
        }
