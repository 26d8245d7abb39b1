"""One registry of rules: every finding's id has a title, a reason, an example and a way out here.

Groups: *load* rules are frozen per schema version (what loaded yesterday loads today); *state* rules
judge a whole harness and hold for readers too; *lint* rules may grow and judge only what a change
touches; *authority* rules say what an agent's commit may not do; *commit* rules judge messages.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, replace
from typing import Literal

from harnessctl.domain.finding import Finding, Severity
from harnessctl.domain.ids import HARNESS_DIR

Group = Literal["load", "state", "lint", "authority", "commit"]


@dataclass(frozen=True, slots=True)
class Rule:
    """One rule.

    :ivar id: ``HRN`` and three digits; never used again for another rule.
    :ivar title: what is forbidden, in a few words.
    :ivar reason: why, in a sentence or two.
    :ivar example: what breaks it, as text of a file, a tree or a commit.
    :ivar fix: the next step; the hint of a finding that has no better one.
    """

    id: str
    group: Group
    severity: Severity
    title: str
    reason: str
    example: str
    fix: str


class Registry(Mapping[str, Rule]):
    """Rules by id, in the order of their ids.

    :raises ValueError: two rules with one id.
    """

    def __init__(self, rules: Iterable[Rule]) -> None:
        ordered = sorted(rules, key=lambda rule: rule.id)
        self._rules = {rule.id: rule for rule in ordered}
        if len(self._rules) != len(ordered):
            raise ValueError("two rules share an id")

    def __getitem__(self, rule: str) -> Rule:
        return self._rules[rule]

    def __iter__(self) -> Iterator[str]:
        return iter(self._rules)

    def __len__(self) -> int:
        return len(self._rules)


def below(path: str) -> str:
    """``path`` below ``.harness/`` as it stands in findings: relative to the repository."""
    return f"{HARNESS_DIR}/{path}"


def tidy(findings: Iterable[Finding]) -> tuple[Finding, ...]:
    """``findings`` sorted by place, with whatever looks like a secret in their words masked.

    Messages repeat names and keys that a repository chose; those may be anything.
    """
    ordered = sorted(set(findings), key=lambda f: (f.path, f.line, f.column, f.rule, f.message))
    if not ordered:
        return ()
    from harnessctl.layers.l3_durable.rules.secrets import (
        mask,
    )  # compiles thirty expressions; most checks find nothing

    return tuple(replace(f, message=mask(f.message), hint=f.hint and mask(f.hint)) for f in ordered)


def found(
    rule: Rule, path: str, message: str, *, line: int = 0, column: int = 0, hint: str | None = None
) -> Finding:
    """A finding of ``rule``; the hint is the rule's own way out unless a better one is known.

    :param path: relative to ``.harness/``.
    """
    return Finding(
        rule=rule.id,
        severity=rule.severity,
        path=below(path),
        message=message,
        hint=rule.fix if hint is None else hint,
        line=line,
        column=column,
    )
