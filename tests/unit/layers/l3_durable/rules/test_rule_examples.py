"""Every rule has examples that break it and examples that only look so; drop a file in to add a test.

A file under ``tests/examples/rules/<id>/bad`` must be refused by that rule, one under ``good`` must
not. Its keys: ``[[before]]`` (absent: nothing to compare with, everything is new) and ``[[after]]`` list
files below ``.harness/`` with ``path``, ``mode``, ``text`` or ``hex``, ``then`` (parts to append, so that no
secret stands in the repository), ``fill`` (bytes to fill up to) and ``times``; ``agent`` says who commits,
``message`` what the commit says, ``push`` what happens to the branch.
"""

from __future__ import annotations

import hashlib
import tomllib
from collections.abc import Callable, Iterator, Mapping
from datetime import date
from pathlib import Path
from typing import Any

import pytest

from harnessctl.domain.finding import Finding
from harnessctl.layers.l3_durable.checking.check_history import check_pushes
from harnessctl.layers.l3_durable.checking.checker import Checker, allowed, brought
from harnessctl.layers.l3_durable.files.tree import TreeItem
from harnessctl.layers.l3_durable.git.ranges import RefUpdate
from harnessctl.layers.l3_durable.git.repository import Repository
from harnessctl.layers.l3_durable.rules.authority import CommitFacts, check_authority
from harnessctl.layers.l3_durable.rules.catalogue import RULES
from harnessctl.layers.l3_durable.rules.change import LintContext, compare
from harnessctl.layers.l3_durable.rules.lint import check_lint
from harnessctl.layers.l3_durable.rules.load import check_load
from harnessctl.layers.l3_durable.rules.trailers import check_message

EXAMPLES = Path(__file__).parents[4] / "examples" / "rules"
TODAY = date(2026, 3, 5)
AGENT = "agent@harnessctl.invalid"


def _files(rows: list[dict[str, Any]]) -> Iterator[TreeItem]:
    for row in rows:
        data = bytes.fromhex(row["hex"]) if "hex" in row else row.get("text", "").encode()
        data += "".join(row.get("then", [])).encode()
        data = data.ljust(row.get("fill", 0), b"x")
        for n in range(row.get("times", 1)):
            yield _item(row["path"].replace("{}", str(n)), int(row.get("mode", "100644"), 8), data)


def _item(path: str, mode: int, data: bytes) -> TreeItem:
    return TreeItem(path, mode, hashlib.sha1(data).hexdigest(), lambda: data)


def findings(example: Mapping[str, Any]) -> list[Finding]:
    """What the pipeline says about an example."""
    after = tuple(_files(example.get("after", [])))
    bases = [tuple(_files(example["before"]))] if "before" in example else []
    changes = compare(bases, after)
    now, old = {i.path: i for i in after}, {i.path: i for i in (bases[0] if bases else ())}
    context = LintContext(now, old, allowed(now.get("harness.toml")), TODAY)
    found = [*check_load(after).findings, *check_lint(changes, context)]
    if bases:
        facts = CommitFacts(bool(example.get("agent")), brought(changes))
        found += check_authority(changes, context, facts)
        found += check_message(example.get("message", ""), facts.records, [AGENT])
    return found


def _push(kind: str, make_repo: Callable[..., Any]) -> list[Finding]:
    git = make_repo("pushed", bare=False)
    first = git("rev-parse", "HEAD")
    second = git.commit("second")
    old, new = {"rewind": (second, first), "delete": (second, None), "grow": (first, second)}[kind]
    checker = Checker(Repository.open(git.root))
    update = RefUpdate("refs/heads/harness", old, new)
    return list(check_pushes(checker, [update], [], "refs/heads/harness").findings)


CASES = sorted(EXAMPLES.glob("*/*/*.toml"))


@pytest.mark.parametrize("path", CASES, ids=lambda p: "/".join(p.relative_to(EXAMPLES).with_suffix("").parts))
def test_example(path: Path, make_repo: Callable[..., Any]) -> None:
    rule, kind = path.relative_to(EXAMPLES).parts[:2]
    example = tomllib.loads(path.read_text())
    found = _push(example["push"], make_repo) if "push" in example else findings(example)
    assert (rule in {f.rule for f in found}) == (kind == "bad"), found
    for finding in found:
        if finding.rule == rule:
            assert finding.message
            assert finding.hint
            assert finding.severity is RULES[rule].severity
            assert "ghp_" not in finding.message + finding.hint


def test_every_rule_has_both_kinds_of_examples() -> None:
    by_rule = {rule: {p.parent.name for p in CASES if p.parents[1].name == rule} for rule in RULES}
    assert {rule for rule, kinds in by_rule.items() if kinds != {"bad", "good"}} == set()
    assert {p.name for p in EXAMPLES.iterdir()} == set(RULES)
