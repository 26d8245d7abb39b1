"""Records: what an update, a rollback or a decision says about itself (CONTRACT 2).

A record is a file under ``.harness/updates/``; squash merges, forge edits and ``git revert`` destroy
commit trailers, files survive. Values here are frozen; the JSON form is fixed to the byte (sorted
keys, two spaces, LF) so that two writers of the same record write the same blob.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from enum import StrEnum
from typing import Any, Literal

from harnessctl.domain.entry import EntryFile, Origin
from harnessctl.domain.ids import EntryId

RECORD_SCHEMA = 1


class RecordType(StrEnum):
    """What kind of record this is."""

    UPDATE = "update"
    ROLLBACK = "rollback"
    DECISION = "decision"


class UpdateState(StrEnum):
    """State of an update, derived from refs and records together."""

    OPEN = "open"
    CONFLICT = "conflict"
    LANDED = "landed"
    REJECTED = "rejected"
    TAKEN_BACK = "taken_back"


class Verdict(StrEnum):
    """What a decision record decided."""

    REJECTED = "rejected"
    TAKEN_BACK = "taken_back"


@dataclass(frozen=True, slots=True)
class Actor:
    """Who acts: a person or an agent, with the name that stands in the commit."""

    kind: Literal["human", "agent"]
    name: str


@dataclass(frozen=True, slots=True)
class EntryChange:
    """One entry's part of an update; digests as in CONTRACT 2."""

    id: str
    action: Literal["create", "update", "delete"]
    before: str | None
    after: str | None


@dataclass(frozen=True, slots=True)
class EntryEdit:
    """What an update wants one entry to be.

    :ivar files: all files of the entry afterwards, paths relative to ``.harness/``; empty for a
        deletion.
    """

    id: EntryId
    action: Literal["create", "update", "delete"]
    files: tuple[EntryFile, ...] = ()


@dataclass(frozen=True, slots=True)
class ExcerptEvent:
    """One cited event's text, redacted; ``cut`` when it was shortened."""

    n: int
    text: str
    cut: bool


@dataclass(frozen=True, slots=True)
class Evidence:
    """What an update stands on in one session.

    :ivar head_n: number of the last event of the log when the evidence was taken.
    :ivar head_hash: that event's hash: the head of the chain.
    :ivar events: numbers of the cited events.
    :ivar quotes: text that stands in the cited events.
    :ivar excerpt: what a reviewer can read without the log; 16 KB at most over the record.
    """

    session: str
    head_n: int
    head_hash: str
    events: tuple[int, ...]
    quotes: tuple[str, ...] = ()
    excerpt: tuple[ExcerptEvent, ...] = ()


@dataclass(frozen=True, slots=True)
class Risk:
    """How closely a reviewer should look; ``reasons`` are rule ids."""

    level: Literal["low", "review", "high"] = "low"
    reasons: tuple[str, ...] = ()


@dataclass(frozen=True, slots=True)
class Record:
    """One record. Fields that a type does not use are empty and absent from its JSON."""

    type: RecordType
    id: str
    actor: Actor
    base: str
    summary: str
    why: str = ""
    expected_outcome: str = ""
    how_to_see: str = ""
    model: str | None = None
    entries: tuple[EntryChange, ...] = ()
    evidence: tuple[Evidence, ...] = ()
    origin: Origin = Origin.HUMAN
    risk: Risk = Risk()
    takes_back: tuple[str, ...] = ()
    of: str | None = None
    verdict: Verdict | None = None
    schema: int = RECORD_SCHEMA

    def to_json(self) -> dict[str, Any]:
        """The record as a JSON object."""
        data: dict[str, Any] = {
            "schema": self.schema,
            "type": self.type.value,
            "id": self.id,
            "actor": {"kind": self.actor.kind, "name": self.actor.name},
            "base": self.base,
            "model": self.model,
            "summary": self.summary,
            "why": self.why,
            "expected_outcome": self.expected_outcome,
            "how_to_see": self.how_to_see,
            "entries": [
                {"id": c.id, "action": c.action, "before": c.before, "after": c.after} for c in self.entries
            ],
            "evidence": [
                {
                    "session": e.session,
                    "head": {"n": e.head_n, "hash": e.head_hash},
                    "events": list(e.events),
                    "quotes": list(e.quotes),
                    "excerpt": [{"n": x.n, "text": x.text, "cut": x.cut} for x in e.excerpt],
                }
                for e in self.evidence
            ],
            "origin": self.origin.value,
            "risk": {"level": self.risk.level, "reasons": list(self.risk.reasons)},
        }
        if self.type is RecordType.ROLLBACK:
            data["takes_back"] = list(self.takes_back)
        if self.type is RecordType.DECISION:
            data["of"] = self.of
            data["verdict"] = self.verdict.value if self.verdict else None
        return data

    def to_bytes(self) -> bytes:
        """The record file's bytes: sorted keys, two spaces, LF, UTF-8."""
        return (json.dumps(self.to_json(), sort_keys=True, indent=2, ensure_ascii=False) + "\n").encode(
            "utf-8", "backslashreplace"
        )

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Record:
        """Read a record object that has passed the record schema.

        :raises KeyError, TypeError, ValueError: not such an object.
        """
        return cls(
            schema=int(data["schema"]),
            type=RecordType(data["type"]),
            id=str(data["id"]),
            actor=Actor(data["actor"]["kind"], str(data["actor"]["name"])),
            base=str(data["base"]),
            model=data.get("model"),
            summary=str(data["summary"]),
            why=str(data.get("why", "")),
            expected_outcome=str(data.get("expected_outcome", "")),
            how_to_see=str(data.get("how_to_see", "")),
            entries=tuple(
                EntryChange(str(c["id"]), c["action"], c.get("before"), c.get("after"))
                for c in data.get("entries", ())
            ),
            evidence=tuple(
                Evidence(
                    session=str(e["session"]),
                    head_n=int(e["head"]["n"]),
                    head_hash=str(e["head"]["hash"]),
                    events=tuple(int(n) for n in e["events"]),
                    quotes=tuple(str(q) for q in e.get("quotes", ())),
                    excerpt=tuple(
                        ExcerptEvent(int(x["n"]), str(x["text"]), bool(x["cut"]))
                        for x in e.get("excerpt", ())
                    ),
                )
                for e in data.get("evidence", ())
            ),
            origin=Origin(data.get("origin", "human")),
            risk=Risk(data["risk"]["level"], tuple(data["risk"]["reasons"])) if "risk" in data else Risk(),
            takes_back=tuple(str(update) for update in data.get("takes_back", ())),
            of=data.get("of"),
            verdict=Verdict(data["verdict"]) if data.get("verdict") else None,
        )
