"""The worked example of the documentation: it runs, and what its page claims holds."""

from __future__ import annotations

import re
import runpy
import sys
from pathlib import Path

import pytest

DOCS = Path(__file__).parents[2] / "docs"

pytestmark = [pytest.mark.kernel, pytest.mark.slow]


def test_a_file_of_sixteen_windows_is_answered_rightly(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(sys, "path", [*sys.path])
    example = runpy.run_path(str(DOCS / "recursion.py"))
    shown = example["run"](tmp_path)
    assert shown.result["answer"] == example["expected"]()
    assert shown.file_tokens > 15 * example["WINDOW"]
    assert shown.largest < example["WINDOW"]
    # What is booked on the nodes is what the server counted.
    usage = shown.result["usage"]
    assert usage["total"]["tokens"] == shown.tokens
    assert usage["total"]["calls"] == len(shown.asked)
    nodes = {name: node["tokens"] for name, node in usage["nodes"].items()}
    assert sum(nodes.values()) == shown.tokens
    assert len(nodes) == 1 + example["CHILDREN"]
    for name, tokens in nodes.items():
        assert f"{tokens:,} tokens" in shown.session, name
    stored = (DOCS / "recursion.md").read_text()
    assert masked(example["document"](shown)) == masked(stored), "make it anew: see docs/recursion.py"


def masked(page: str) -> list[str]:
    """The page's lines without what differs from run to run: ids, times, which child ends when."""
    page = re.sub(r"\b[0-9A-HJKMNP-TV-Z]{26}\b", "ID", page)
    lines = re.sub(r"\b\d+\.\d s\]", "TIME]", page).splitlines()
    told = [at for at, line in enumerate(lines) if re.match(r"#\d+ child r-\d (started|done): ID$", line)]
    said = sorted((lines[at].partition(" ")[2] for at in told), key=lambda words: words.split()[::-1])
    for at, words in zip(told, said, strict=True):
        lines[at] = f"{lines[at].partition(' ')[0]} {words}"
    return lines
