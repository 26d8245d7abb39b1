"""A harness of schema version 1 that loads today loads with every later release: kept for ever.

``tests/fixtures/schema-1`` holds an odd but valid entry for each load rule, ``expected.json`` what it read as
when it was written. Files may be added; none is changed, and the expectation only grows.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from harnessctl.domain.canonical import sha256_hex
from harnessctl.layers.l3_durable.checking.checker import Checker
from harnessctl.layers.l3_durable.files.work_files import read_folder
from harnessctl.layers.l3_durable.git.repository import Repository
from harnessctl.layers.l3_durable.rules.load import check_load

FIXTURE = Path(__file__).parents[3] / "fixtures" / "schema-1"
EXPECTED = json.loads((FIXTURE / "expected.json").read_text(encoding="utf-8"))


def _read(entries: Any) -> dict[str, dict[str, object]]:
    return {
        name: {"digest": entry.digest, "description": entry.description, "meta": _short(entry.meta)}
        for name, entry in entries.items()
    }


def _short(meta: Any) -> Any:
    """``meta`` with very long texts by their digests."""
    return {k: f"sha256:{sha256_hex(v.encode())}" if len(v) > 1000 else v for k, v in meta.items()}


def test_everything_loads_and_reads_as_it_did() -> None:
    report = check_load(read_folder(FIXTURE / ".harness"))
    assert report.findings == ()
    assert _read(report.entries) == EXPECTED


def test_the_same_from_a_commit(make_repo: Any) -> None:
    """git stores what the folder holds: no line end is converted, no mode lost."""
    git = make_repo("schema-1")
    for path in sorted((FIXTURE / ".harness").rglob("*")):
        if path.is_file():
            git.write(str(path.relative_to(FIXTURE)), path.read_bytes()).chmod(path.stat().st_mode)
    commit = git.commit("schema 1")
    checker = Checker(Repository.open(git.root))
    report = check_load(checker.items(commit))
    assert report.findings == ()
    assert _read(report.entries) == EXPECTED
