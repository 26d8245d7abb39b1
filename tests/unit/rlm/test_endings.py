"""The table of endings is the code's, and the document's."""

from __future__ import annotations

import ast
import json
import re
from importlib.resources import files
from pathlib import Path

import pytest

import harnessctl
from harnessctl.domain.errors import ExitCode
from harnessctl.domain.outcome import RunStatus
from harnessctl.rlm.ending import ENDINGS, MOVED, exit_code

ROOT = Path(__file__).parents[3]


def test_the_document_lists_exactly_these_endings() -> None:
    text = (ROOT / "docs/design/endings.md").read_text()
    rows = re.findall(r"^\| `(\w+)` \| (?:`(\w+)`)? ?\| (\d+) \| (.+) \|$", text, re.MULTILINE)
    code = [(str(s), r, str(int(exit_code(s))), when) for (s, r), when in ENDINGS.items()]
    assert rows == code
    assert f"`{MOVED}`" in text


def test_every_status_is_reached_and_in_the_schema() -> None:
    assert {status for status, _ in ENDINGS} == set(RunStatus)
    schema = json.loads(files("harnessctl.rlm").joinpath("result.schema.json").read_text())
    assert set(schema["properties"]["status"]["enum"]) == set(RunStatus)


def reasons_in(source: str) -> set[str]:
    """Every text that the code uses as an ending's reason."""
    found = set()
    for node in ast.walk(ast.parse(source)):
        if not isinstance(node, ast.Call):
            continue
        name = node.func.id if isinstance(node.func, ast.Name) else ""
        places = (
            [k.value for k in node.keywords if k.arg == "reason"] if name in ("Ending", "replace") else []
        )
        places += node.args[1:2] if name == "Ending" else []
        found |= {p.value for p in places if isinstance(p, ast.Constant) and isinstance(p.value, str)}
    return found


def test_the_code_uses_no_reason_that_the_table_lacks() -> None:
    folder = Path(harnessctl.__path__[0])
    known = {reason for _, reason in ENDINGS} | {MOVED}
    used = set().union(*(reasons_in(path.read_text()) for path in folder.rglob("*.py")))
    assert used <= known
    assert {"provider_error", "tokens", "wall", "pin_revoked", "tree_changed", "no_gates"} <= used


@pytest.mark.parametrize(
    ("status", "refused", "code"),
    [
        (RunStatus.SUCCESS, False, ExitCode.DONE),
        (RunStatus.SUCCESS, True, ExitCode.REFUSED),
        (RunStatus.INTERRUPTED, True, ExitCode.REFUSED),
        (RunStatus.INTERRUPTED, False, ExitCode.INTERRUPTED),
        (RunStatus.BUDGET_EXHAUSTED, False, ExitCode.BUDGET_EXHAUSTED),
        (RunStatus.GATE_FAILED, False, ExitCode.GATE_FAILED),
        (RunStatus.GATE_FAILED, True, ExitCode.REFUSED),
        (RunStatus.INCOMPLETE, False, ExitCode.FAILED),
        (RunStatus.FAILED, False, ExitCode.FAILED),
    ],
)
def test_which_exit_code_counts(status: RunStatus, refused: bool, code: ExitCode) -> None:
    assert exit_code(status, refused=refused) is code
