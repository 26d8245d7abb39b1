"""Hand-written parts for refining: a harness in memory, a model that answers from a list, replies."""

from __future__ import annotations

import json
import re
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

from harnessctl.domain.canonical import sha256_hex
from harnessctl.domain.entry import Entry, EntryFile
from harnessctl.domain.ids import EntryId
from harnessctl.domain.limits import Usage
from harnessctl.domain.message import Message
from harnessctl.domain.snapshot import Snapshot
from harnessctl.domain.update import Actor, EntryEdit, Record, RecordType, UpdateState
from harnessctl.layers.l0_weights import ModelIdentity
from harnessctl.layers.l3_durable.files.frontmatter import parse
from harnessctl.layers.l3_durable.git.repository import Person
from harnessctl.layers.l3_durable.landing.proposals import Draft, Proposal
from harnessctl.models.port import ModelReply, ModelRequest, OnText, OnWait
from tests.fakes.trajectories import OUTPUT


def entry(name: str, text: str, **files: str) -> Entry:
    """An entry from its main file's text; ``files`` by path below a skill, ``__`` for ``/``."""
    entry_id = EntryId.parse(name)
    front = parse(text.encode(), entry_id.path)
    folder = entry_id.path.removesuffix("SKILL.md")
    items = [EntryFile(entry_id.path, 0o100644, text.encode())]
    items += [EntryFile(folder + p.replace("__", "/"), 0o100644, t.encode()) for p, t in files.items()]
    return Entry(entry_id, tuple(sorted(items, key=lambda f: f.path)), front.meta, front.body)


def snapshot(*entries: Entry) -> Snapshot:
    """A snapshot that holds ``entries``."""
    return Snapshot(
        commit="c" * 40,
        tree="d" * 40,
        entries={str(e.id): e for e in entries},
        files=tuple((f.path, f.mode, f.sha256) for e in entries for f in e.files),
    )


@dataclass(frozen=True)
class Past:
    """An earlier update."""

    id: str
    state: UpdateState | None
    record: Record | None


class MemoryHarness:
    """A harness that keeps what was proposed; ``refusals`` are raised by the first proposals."""

    def __init__(
        self, *entries: Entry, past: Sequence[Past] = (), refusals: Sequence[Exception] = ()
    ) -> None:
        self._snapshot = snapshot(*entries)
        self._past = past
        self._refusals = list(refusals)
        self.proposals: list[tuple[tuple[EntryEdit, ...], Draft]] = []

    def check_identity(self) -> None:
        pass

    def landed_snapshot(self) -> Snapshot:
        return self._snapshot

    def updates(self) -> Sequence[Past]:
        return self._past

    def propose(self, edits: Sequence[EntryEdit], draft: Draft, base: str = "") -> Proposal:
        if self._refusals:
            raise self._refusals.pop(0)
        self.proposals.append((tuple(edits), draft))
        record = Record(
            type=RecordType.UPDATE,
            id="01JDXYZ0000000000000000001",
            actor=Actor("agent", "an agent"),
            base=base,
            summary=draft.summary,
            evidence=draft.evidence,
            risk=draft.risk,
        )
        return Proposal(record.id, "e" * 40, base, record, Person("an agent", "a@example.invalid", 0, 0))


class ListModel:
    """Answers with the given texts, one after the other, and keeps the requests."""

    def __init__(self, *replies: str, window: int | None = None) -> None:
        self._replies = replies
        self._window = window
        self.requests: list[ModelRequest] = []

    @property
    def identity(self) -> ModelIdentity:
        return ModelIdentity("list", "model", window=self._window)

    async def complete(
        self, request: ModelRequest, *, on_text: OnText | None = None, on_wait: OnWait | None = None
    ) -> ModelReply:
        self.requests.append(request)
        return ModelReply(self._replies[request.place], usage=Usage(prompt=10, completion=5, calls=1))

    def count_tokens(self, messages: tuple[Message, ...]) -> int:
        return sum(len(m.content) for m in messages) // 4

    async def aclose(self) -> None:
        pass


def edit(**changes: Any) -> dict[str, Any]:
    """A good edit of :func:`tests.fakes.trajectories.session`, with ``changes``; None removes a key."""
    value: dict[str, Any] = {
        "action": "create",
        "kind": "memory",
        "name": "count-files",
        "description": "git ls-files lists what is tracked",
        "content": "Use `git ls-files`.",
        "status": "hypothesis",
        "expected_outcome": "one cell instead of three",
        "how_to_see": "cells of the next run",
        "reason": "seen in the run",
        "evidence": [{"session": "s1", "event": OUTPUT, "quote": "tracked: app.py"}],
        **changes,
    }
    return {key: item for key, item in value.items() if item is not None}


def reply(*edits: dict[str, Any], summary: str = "remember how files are counted") -> str:
    """A reply with ``edits``, as a model writes it."""
    return json.dumps({"summary": summary, "rationale": "one call gave it", "edits": list(edits)})


@dataclass(frozen=True)
class PatternHit:
    kind: str
    line: int
    start: int
    end: int
    digest: str


def scan_tokens(data: str, *, allow: frozenset[str]) -> tuple[PatternHit, ...]:
    """Finds only ``ghp_`` and 36 letters or digits; the digest is ``sha256:`` of the value."""
    hits = []
    for found in re.finditer(r"ghp_[A-Za-z0-9]{36}", data):
        digest = f"sha256:{sha256_hex(found[0].encode())}"
        if digest not in allow:
            line = data.count("\n", 0, found.start()) + 1
            hits.append(PatternHit("GitHub token", line, found.start(), found.end(), digest))
    return tuple(hits)
