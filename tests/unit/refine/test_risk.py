from __future__ import annotations

from pathlib import Path

import pytest

from harnessctl.domain.update import EntryEdit, Risk
from harnessctl.layers.l3_durable.rules.risk_rules import CODE, PROMPT, RISK_RULES, SKILL, TOOLS
from harnessctl.refine.risk import as_risk, rules_of
from tests.fakes.refining import entry

HELPER = entry("subagents/reviewer", "---\ndescription: reviews\ntools: Read, Grep\n---\nReview.\n")
FREE = entry("subagents/free", "---\ndescription: does all\n---\nGo.\n")


def test_no_reason_is_low() -> None:
    assert as_risk([]) == Risk("low", ())


def test_the_highest_level_counts_and_reasons_are_sorted() -> None:
    assert as_risk([CODE, SKILL, PROMPT, SKILL]) == Risk("high", ("HRN701", "HRN704", "HRN705"))
    assert as_risk([PROMPT]).level == "review"


@pytest.mark.parametrize(
    ("before", "after", "wider"),
    [
        (HELPER, ("Read",), False),
        (HELPER, ("Grep", "Read"), False),
        (HELPER, ("Read", "Bash"), True),
        (HELPER, (), True),
        (FREE, ("Read",), False),
        (FREE, (), False),
    ],
)
def test_wider_tools_are_a_high_risk(before: object, after: tuple[str, ...], wider: bool) -> None:
    edit = EntryEdit(before.id, "update", before.files)  # type: ignore[attr-defined]
    assert (TOOLS in rules_of(edit, before, after)) is wider  # type: ignore[arg-type]


def test_ids_are_unique() -> None:
    assert len({rule.id for rule in RISK_RULES}) == len(RISK_RULES)


def test_the_documented_table_is_the_rules() -> None:
    document = Path(__file__).parents[3] / "docs/design/refinement.md"
    rows = [line for line in document.read_text().splitlines() if line.startswith("| HRN")]
    assert rows == [f"| {rule.id} | {rule.level} | {rule.text} |" for rule in RISK_RULES]
