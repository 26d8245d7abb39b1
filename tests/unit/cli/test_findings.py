"""Reports whose text a repository chose: nothing of it may act on a terminal or a CI system."""

from __future__ import annotations

import json

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError
from pydantic_sarif.model import StaticAnalysisResultsFormatSarifVersion210JsonSchema as SarifLog

from harnessctl.cli import findings as render
from harnessctl.domain.finding import Finding, Severity
from harnessctl.domain.safe_text import hidden_characters

TEXT = st.text(st.characters(codec=None) | st.sampled_from("%:,\r\n\x1b\u202e\udcff;]\x07"), max_size=30)
FINDING = st.builds(
    Finding,
    rule=st.sampled_from(["HRN103", "HRN206"]),
    severity=st.sampled_from(list(Severity)),
    path=TEXT,
    message=TEXT,
    hint=TEXT,
    line=st.integers(0, 9),
    column=st.integers(0, 9),
)
EVIL = Finding(
    "HRN103",
    Severity.ERROR,
    ".harness/skills/x/a,line=1::\n::warning file=b::c%0A",
    "text\r\n::stop-commands::x\n::add-mask::y \x1b[2J",
    "hint\n::error::z",
    3,
    4,
)


def test_text_has_place_rule_and_hint_and_one_line_each() -> None:
    finding = Finding("HRN103", Severity.ERROR, ".harness/memory/x.md", "not YAML", "quote it", 3, 48)
    assert render.as_text([finding]) == (
        ".harness/memory/x.md:3:48: error HRN103: not YAML\n    hint: quote it\n"
    )
    assert len(render.as_text([EVIL]).splitlines()) == 2


def test_a_finding_about_no_file_names_the_commit() -> None:
    finding = Finding("HRN401", Severity.ERROR, "", "forged", "", 3)
    assert render.as_text([finding]) == "commit:3: error HRN401: forged\n"


def test_github_commands_cannot_be_injected() -> None:
    (line,) = render.as_github([EVIL]).splitlines()
    head, _, text = line.removeprefix("::error ").partition("::")
    properties = dict(part.split("=", 1) for part in head.split(","))
    assert set(properties) == {"file", "line", "col", "title"}
    assert properties["line"] == "3"
    assert properties["file"].count("%3A") == 6
    assert "\x1b" not in text
    assert text.count("%0A") == 4


@given(st.lists(FINDING, max_size=4))
def test_no_form_is_broken_by_its_text(findings: list[Finding]) -> None:
    text = render.as_text(findings)
    assert not list(hidden_characters(text))
    assert text.count("\n") == len(findings) + sum(bool(f.hint) for f in findings)
    github = render.as_github(findings)
    assert github.count("\n") == len(findings)
    assert all(line.startswith(("::error ", "::warning ", "::notice ")) for line in github.splitlines())
    github.encode()
    sarif = json.loads(render.as_sarif(findings, {"HRN103": ("t", "f")}, "1"))
    # Classes generated from the standard's own schema; unknown keys are refused.
    SarifLog.model_validate(sarif)
    assert [r["ruleId"] for r in sarif["runs"][0]["results"]] == [f.rule for f in findings]
    for result in sarif["runs"][0]["results"]:
        assert sarif["runs"][0]["tool"]["driver"]["rules"][result["ruleIndex"]]["id"] == result["ruleId"]
    assert len(json.loads(render.as_json(findings))) == len(findings)
    for row in json.loads(render.as_gitlab(findings)):
        assert row["location"]["lines"]["begin"] >= 1
        assert row["severity"] in ("info", "minor", "major", "critical", "blocker")


def test_fingerprints_do_not_move_with_the_line() -> None:
    def fingerprint(line: int) -> str:
        finding = Finding("HRN103", Severity.ERROR, "a", "m", "", line)
        (result,) = json.loads(render.as_sarif([finding], {}, "1"))["runs"][0]["results"]
        return str(result["partialFingerprints"]["primaryLocationLineHash"])

    assert fingerprint(1) == fingerprint(9)


def test_sarif_paths_are_relative_uris() -> None:
    finding = Finding("HRN103", Severity.ERROR, ".harness/skills/x/é #?%\udcff\n.md", "m", "", 1)
    (result,) = json.loads(render.as_sarif([finding], {}, "1"))["runs"][0]["results"]
    uri = result["locations"][0]["physicalLocation"]["artifactLocation"]["uri"]
    assert uri == ".harness/skills/x/%C3%A9%20%23%3F%25%FF%0A.md"


def test_summary() -> None:
    error = Finding("HRN103", Severity.ERROR, "a", "m")
    warning = Finding("HRN202", Severity.WARNING, "a", "m")
    assert render.summary([error, error, warning], "staged files") == "2 errors, 1 warning in staged files"
    assert render.summary([], "staged files") == "no findings in staged files"


def test_the_sarif_standard_can_say_no() -> None:
    sarif = json.loads(
        render.as_sarif([Finding("HRN103", Severity.ERROR, "p", "m")], {"HRN103": ("t", "f")}, "1")
    )
    sarif["runs"][0]["results"][0]["locations"][0]["physicalLocation"]["region"] = {"startLine": 0}
    with pytest.raises(ValidationError):
        SarifLog.model_validate(sarif)
