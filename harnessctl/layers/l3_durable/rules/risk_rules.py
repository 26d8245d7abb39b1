"""Risk rules: reasons for a reviewer to look closer at a proposal. They never refuse."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Literal

Level = Literal["low", "review", "high"]


@dataclass(frozen=True, slots=True)
class RiskRule:
    """A reason to look: stable id, level, and what to look for."""

    id: str
    level: Level
    text: str


PROMPT = RiskRule("HRN701", "review", "a prompt note enters every request of every session")
SUBAGENT = RiskRule("HRN702", "review", "a subagent's instructions change")
TOOLS = RiskRule("HRN703", "high", "a subagent may use tools it could not use before")
SKILL = RiskRule("HRN704", "review", "a skill's instructions change")
CODE = RiskRule("HRN705", "high", "a skill's code changes; it runs with the user's rights")
DELETION = RiskRule("HRN706", "review", "an entry is deleted")
NO_QUOTE = RiskRule("HRN707", "review", "an edit names events as evidence and quotes none of them")

RISK_RULES = (PROMPT, SUBAGENT, TOOLS, SKILL, CODE, DELETION, NO_QUOTE)
