"""All rules by id: those that findings name, and those that a proposal's risk names."""

from __future__ import annotations

from harnessctl.layers.l3_durable.rules.commit_rules import AUTHORITY_RULES, COMMIT_RULES
from harnessctl.layers.l3_durable.rules.lint_rules import LINT_RULES
from harnessctl.layers.l3_durable.rules.load_rules import LOAD_RULES, STATE_RULES
from harnessctl.layers.l3_durable.rules.registry import Registry
from harnessctl.layers.l3_durable.rules.risk_rules import RISK_RULES

RULES = Registry((*LOAD_RULES, *STATE_RULES, *LINT_RULES, *AUTHORITY_RULES, *COMMIT_RULES))
RISKS = {rule.id: rule for rule in RISK_RULES}

if RISKS.keys() & RULES.keys() or len(RISKS) != len(RISK_RULES):
    raise ValueError("two rules share an id")
