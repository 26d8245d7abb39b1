"""How closely a reviewer should look at a proposal: rules over what an edit changes.

Risk never refuses; it sorts. The level of an update is the highest of its reasons; an update with
no reason is ``low``: a memory, read when a session looks for it, that quotes its evidence.
"""

from __future__ import annotations

from collections.abc import Iterable

from harnessctl.domain.entry import Entry, EntryFile
from harnessctl.domain.ids import Kind
from harnessctl.domain.update import EntryEdit, Risk
from harnessctl.layers.l3_durable.rules.risk_rules import (
    CODE,
    DELETION,
    PROMPT,
    SKILL,
    SUBAGENT,
    TOOLS,
    Level,
    RiskRule,
)

_ORDER: tuple[Level, ...] = ("low", "review", "high")


def as_risk(rules: Iterable[RiskRule]) -> Risk:
    """The risk of an update that these rules apply to."""
    found = sorted(set(rules), key=lambda rule: rule.id)
    levels: list[Level] = [rule.level for rule in found]
    return Risk(max(levels, key=_ORDER.index, default="low"), tuple(rule.id for rule in found))


def rules_of(edit: EntryEdit, before: Entry | None, tools_after: tuple[str, ...]) -> list[RiskRule]:
    """The rules that apply to one edit.

    :param tools_after: the subagent's tools after the edit; empty means all tools.
    """
    if edit.action == "delete":
        return [DELETION]
    if edit.id.kind is Kind.PROMPT:
        return [PROMPT]
    if edit.id.kind is Kind.SUBAGENT:
        return [SUBAGENT, TOOLS] if before and _wider(before.own_list("tools"), tools_after) else [SUBAGENT]
    if edit.id.kind is Kind.SKILL:
        old = {(f.path, f.mode, f.data) for f in before.files} if before else set()
        new = [f for f in edit.files if (f.path, f.mode, f.data) not in old]
        return [SKILL, CODE] if any(map(_is_code, new)) else [SKILL]
    return []


def _wider(before: tuple[str, ...], after: tuple[str, ...]) -> bool:
    return bool(before) and (not after or not set(after) <= set(before))


def _is_code(file: EntryFile) -> bool:
    """Anything but Markdown under ``references/`` or the skill's own text may be run."""
    return file.mode == 0o100755 or not file.path.endswith((".md", ".txt"))
