"""Verdicts kept by blob id: what makes checking 10,000 entries cost what one costs. Speed only.

A line counts only sealed (:mod:`harnessctl.layers.l3_durable.places.sealed`), and only for the schema version
and the very rules that wrote it; a lost, torn or forged line is as if it were not there, and the blob
is judged anew. What else an entry says (owner, origin, text) is never kept: whoever needs it reads
the blob. One line is canonical JSON
``{"oid", "kind", "rules", "problems": [...], "depends_on": [...], "line"}``.
"""

from __future__ import annotations

from collections.abc import Mapping
from functools import cache
from pathlib import Path
from typing import Any

import yaml

from harnessctl.domain.canonical import canonical_json, sha256_hex
from harnessctl.domain.finding import Finding, Severity
from harnessctl.domain.snapshot import SCHEMA_VERSION
from harnessctl.layers.l3_durable.files import frontmatter, yaml_text
from harnessctl.layers.l3_durable.places.sealed import SealedLines, read_key
from harnessctl.layers.l3_durable.rules import load_rules, verdict
from harnessctl.layers.l3_durable.rules.verdict import Verdict


@cache
def rules_digest() -> str:
    """Digest over schema version, YAML version and the source of everything a verdict depends on."""
    sources = [Path(module.__file__ or "").read_bytes() for module in _DECIDING]
    return sha256_hex(canonical_json([SCHEMA_VERSION, yaml.__version__, [sha256_hex(s) for s in sources]]))


_DECIDING = (yaml_text, frontmatter, load_rules, verdict)


class VerdictCache:
    """Verdicts in a file of the state directory, or, with no path, for the life of this object.

    :param path: the file, made when it is first saved; None keeps nothing on disk.
    :param key: the HMAC key; see :func:`harnessctl.layers.l3_durable.places.sealed.read_key`.
    """

    def __init__(self, path: Path | None, key: bytes) -> None:
        self._lines = SealedLines(path, key)
        self._kept: dict[tuple[str, str], Verdict] = {}
        self._new: list[bytes] = []
        for row in self._lines.read():
            self._take(row)

    def get(self, oid: str, kind: str) -> Verdict | None:
        """The verdict kept for a blob as a file of ``kind``, None when there is none to be trusted."""
        return self._kept.get((oid, kind))

    def put(self, oid: str, kind: str, verdict: Verdict) -> None:
        """Keep a verdict; it reaches the disk with :meth:`save`."""
        self._kept[oid, kind] = verdict
        if self._lines.path is not None:
            self._new.append(_body(oid, kind, verdict))

    def save(self) -> None:
        """Append what is new. A failure costs time at the next call, nothing else."""
        if self._new:
            self._lines.append(self._new)
        self._new.clear()

    def _take(self, row: Mapping[str, Any]) -> None:
        if row["rules"] == rules_digest():
            problems = tuple(_problem(problem) for problem in row["problems"])
            kept = Verdict(problems, tuple(row["depends_on"]), int(row["line"]))
            self._kept[row["oid"], row["kind"]] = kept


def _body(oid: str, kind: str, verdict: Verdict) -> bytes:
    return canonical_json(
        {
            "oid": oid,
            "kind": kind,
            "rules": rules_digest(),
            "problems": [problem.to_json() for problem in verdict.problems],
            "depends_on": list(verdict.depends_on),
            "line": verdict.depends_line,
        }
    )


def _problem(data: Mapping[str, Any]) -> Finding:
    return Finding(**{**data, "severity": Severity(data["severity"])})


def open_cache(state_dir: Path) -> VerdictCache:
    """The cache of one repository's state directory."""
    return VerdictCache(state_dir / "verdicts", read_key(state_dir / "verdicts.key"))
