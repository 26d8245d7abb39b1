from __future__ import annotations

import runpy
from pathlib import Path

from harnessctl.layers.l3_durable.rules.catalogue import RULES
from harnessctl.layers.l3_durable.rules.load_rules import LOAD_RULES, STATE_RULES
from harnessctl.layers.l3_durable.rules.risk_rules import RISK_RULES

DOCS = Path(__file__).parents[3] / "docs"


def test_the_document_is_what_the_rules_say() -> None:
    generated = runpy.run_path(str(DOCS / "rules.py"))["document"]()
    assert (DOCS / "rules.md").read_text() == generated, "run: python docs/rules.py > docs/rules.md"


def test_every_rule_says_why_how_and_what_to_do() -> None:
    for rule in RULES.values():
        assert rule.title
        assert rule.reason.endswith(".")
        assert rule.example
        assert rule.fix


def test_ids_are_not_shared() -> None:
    ids = [*RULES, *(rule.id for rule in RISK_RULES)]
    assert len(ids) == len(set(ids))


def test_load_and_state_rules_of_schema_version_1_are_frozen() -> None:
    """Ids may not come or go here: another rule is a lint rule, or waits for schema version 2."""
    assert [r.id for r in LOAD_RULES] == [f"HRN{n}" for n in range(101, 116)]
    assert [r.id for r in STATE_RULES] == ["HRN120", "HRN121"]
