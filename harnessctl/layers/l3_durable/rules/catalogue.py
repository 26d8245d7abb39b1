"""All rules by id."""

from __future__ import annotations

from harnessctl.layers.l3_durable.rules.commit_rules import AUTHORITY_RULES, COMMIT_RULES
from harnessctl.layers.l3_durable.rules.lint_rules import LINT_RULES
from harnessctl.layers.l3_durable.rules.load_rules import LOAD_RULES, STATE_RULES
from harnessctl.layers.l3_durable.rules.registry import Registry

RULES = Registry((*LOAD_RULES, *STATE_RULES, *LINT_RULES, *AUTHORITY_RULES, *COMMIT_RULES))
