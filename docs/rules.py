"""Prints docs/rules.md from the rules themselves: ``python docs/rules.py > docs/rules.md``."""

from __future__ import annotations

from harnessctl.layers.l3_durable.rules.catalogue import RISKS, RULES
from harnessctl.layers.l3_durable.rules.registry import Group, Rule

HEAD = """# Rules

Generated from the code by `python docs/rules.py`; a test compares. `harnessctl check` prints the id with
file, line, column and a hint. An *error* refuses, a *warning* is said and lets pass, *info* tells a reviewer
where to look. Ids are never given to another rule.
"""

LOAD = """## Load rules

Frozen with schema version 1: what loads today loads with every later release. They judge the whole
harness, wherever it is read or written. An entry that breaks one is not read: `run` refuses the revision
and names it, `run --skip-broken` leaves it out and says so.
"""

STATE = """## Rules over the whole harness

Two valid branches can merge into a state that breaks these, so they hold at the merge, in CI and for
every reader.
"""

LINT = """## Lint rules

They judge only files that a change touches, and may grow from release to release.
"""

AUTHORITY = """## What an agent's commit may not do

A commit is an agent's when its author is the agent (`harness.agentEmail`) or the process that makes it runs
in a kernel. Where a forge squashed commits, the entries that an agent's record names are still the agent's.
Ownership is the base's.
"""

GROUPS: dict[Group, str] = {
    "load": LOAD,
    "state": STATE,
    "lint": LINT,
    "authority": AUTHORITY,
    "commit": "## Commits and pushes\n",
}

RISK = """## Risk of a proposal

Reasons that a record gives a reviewer to look closer. They never refuse.

| id | level | reason |
|---|---|---|
"""


def _rule(rule: Rule) -> str:
    example = "\n".join(f"    {line}".rstrip() for line in rule.example.split("\n"))
    head = f"### {rule.id}: {rule.title}\n\n*{rule.severity.value}* — {rule.reason}"
    return f"{head}\n\n{example}\n\nFix: {rule.fix}.\n"


def document() -> str:
    """The whole of docs/rules.md."""
    parts = [HEAD]
    for group, text in GROUPS.items():
        parts.append(text)
        parts += [_rule(rule) for rule in RULES.values() if rule.group == group]
    risks = "".join(f"| {rule.id} | {rule.level} | {rule.text} |\n" for rule in RISKS.values())
    return "\n".join([*parts, RISK + risks])


if __name__ == "__main__":
    print(document(), end="")
