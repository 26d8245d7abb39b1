"""``result.json``: what a run says about itself. Its JSON Schema is ``result.schema.json`` beside this."""

from __future__ import annotations

import json
import os
from collections.abc import Mapping
from dataclasses import dataclass, field
from hashlib import file_digest
from importlib.resources import files
from pathlib import Path
from typing import Any

from harnessctl.domain.change import FileChange
from harnessctl.domain.event import ASIDES
from harnessctl.domain.limits import Usage
from harnessctl.domain.pin import Pin
from harnessctl.domain.plain_files import make, opened
from harnessctl.layers.l0_weights import ModelIdentity
from harnessctl.rlm.ending import Ending
from harnessctl.rlm.seat import ROOT

RESULT_NAME = "result.json"
RESULT_SCHEMA = 1


@dataclass(frozen=True, slots=True)
class Artifact:
    """A file that a run left behind, beside its log.

    :ivar path: relative to the session's folder.
    """

    path: str
    sha256: str
    bytes: int

    def to_json(self) -> dict[str, object]:
        """The artifact as it stands in the result."""
        return {"path": self.path, "sha256": self.sha256, "bytes": self.bytes}


@dataclass(frozen=True, slots=True)
class Moved:
    """A harness ref or the lock, with its value at the start and at the end; None where there was none.

    :ivar before_commit: where a ref was, None for what is no ref, or where that is not known.
    """

    name: str
    before: str | None
    after: str | None
    before_commit: str | None = None
    after_commit: str | None = None

    def to_json(self) -> dict[str, object]:
        """The move as it stands in the result."""
        return {
            "name": self.name,
            "before": self.before,
            "after": self.after,
            "before_commit": self.before_commit,
            "after_commit": self.after_commit,
        }


@dataclass(frozen=True)
class RunResult:
    """One run's result.

    :ivar root: the work tree that it ran in.
    :ivar usage: by node of the tree of sessions; the root is ``root``.
    :ivar tree_before: hash of the work tree's content at the start.
    :ivar gates: each gate's last run.
    :ivar allowed_inputs: gate inputs that were allowed to change, and those that did.
    :ivar sandbox: None without one.
    :ivar skipped: ids of entries left out with ``--skip-broken``.
    :ivar moved: harness state that moved during the run for no known reason.
    :ivar proposals: what became of what the session's cells wished to be remembered.
    :ivar changed_skills: copies of skills that cells changed: {"entry", "files"}.
    """

    session: str
    root: str
    ending: Ending
    verified: bool
    model: ModelIdentity
    pin: Pin
    python: str
    usage: Mapping[str, Usage]
    tree_before: str
    tree_after: str
    changes: tuple[FileChange, ...] = ()
    artifacts: tuple[Artifact, ...] = ()
    skipped: tuple[str, ...] = ()
    cells: int = 0
    turns: int = 0
    gates: tuple[Mapping[str, Any], ...] = ()
    allowed_inputs: Mapping[str, list[str]] = field(default_factory=lambda: {"globs": [], "changed": []})
    sandbox: Mapping[str, bool] | None = None
    moved: tuple[Moved, ...] = ()
    proposals: tuple[Mapping[str, Any], ...] = ()
    changed_skills: tuple[Mapping[str, Any], ...] = ()

    @property
    def children(self) -> int:
        """Sessions below this one that asked their model at least once."""
        nodes = (name for name in self.usage if name.startswith(f"{ROOT}/"))
        return sum(name.rpartition("/")[2] not in ASIDES for name in nodes)

    @property
    def total(self) -> Usage:
        """Usage summed over the tree."""
        return sum(self.usage.values(), Usage())

    def to_json(self) -> dict[str, Any]:
        """The object that ``run --json`` prints and ``result.json`` holds."""
        return {
            "schema": RESULT_SCHEMA,
            "session": self.session,
            "root": self.root,
            "status": str(self.ending.status),
            "reason": self.ending.reason,
            "detail": self.ending.detail,
            "verified": self.verified,
            "answer": self.ending.answer,
            "model": self.model.to_json(),
            "pin": self.pin.to_json(),
            "python": self.python,
            "turns": self.turns,
            "cells": self.cells,
            "usage": {
                "total": self.total.to_json(),
                "nodes": {name: usage.to_json() for name, usage in self.usage.items()},
            },
            "gates": [dict(gate) for gate in self.gates],
            "allowed_gate_inputs": dict(self.allowed_inputs),
            "sandbox": dict(self.sandbox) if self.sandbox is not None else None,
            "changes": {
                "tree_before": self.tree_before,
                "tree_after": self.tree_after,
                "added": sum(c.added for c in self.changes),
                "removed": sum(c.removed for c in self.changes),
                "files": [c.to_json() for c in self.changes],
            },
            "artifacts": [a.to_json() for a in self.artifacts],
            "skipped": list(self.skipped),
            "moved": [m.to_json() for m in self.moved],
            "proposals": [dict(p) for p in self.proposals],
            "changed_skills": [dict(s) for s in self.changed_skills],
        }

    def write(self, folder: Path) -> Path:
        """Write ``result.json`` into the session's folder, whole or not at all; its path."""
        path = folder / RESULT_NAME
        text = json.dumps(self.to_json(), indent=2, sort_keys=True, ensure_ascii=True) + "\n"
        write_whole(path, text.encode("ascii"))
        return path


def artifact(folder: Path, name: str) -> Artifact:
    """The file ``name`` of the session's folder as an artifact."""
    with open(opened(folder / name), "rb") as file:
        return Artifact(name, file_digest(file, "sha256").hexdigest(), file.tell())


def write_whole(path: Path, data: bytes) -> None:
    """Write a file so that a reader finds the old content or the new one, never a part."""
    partial = path.with_name(f".{path.name}.{os.getpid()}")
    with make(partial) as file:
        file.write(data)
        file.flush()
        os.fsync(file.fileno())
    partial.replace(path)


def result_schema() -> dict[str, Any]:
    """The JSON Schema (2020-12) of :meth:`RunResult.to_json`."""
    text = files("harnessctl.rlm").joinpath("result.schema.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema
