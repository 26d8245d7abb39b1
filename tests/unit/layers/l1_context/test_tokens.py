"""Token estimates, held against a real tokenizer."""

from __future__ import annotations

import json
import os
import subprocess
import sys
from pathlib import Path

import pytest

from harnessctl.layers.l1_context.tokens import careful_tokens, rough_tokens

ROOT = Path(__file__).parents[4]
IDS = "".join(f"- memory/m{n:03}: Knows about memory/m{n:03}\n" for n in range(150))
HEX = "".join(f"- memory/x{n}-7f3a9c: sha256:7f3a9c{n:04x}81bc {{}}[]();;!=\n" for n in range(100))
COUNT = """
import os, sys, json
os.environ.update(LITELLM_MODE="PRODUCTION", LITELLM_LOCAL_MODEL_COST_MAP="True")
import litellm
print("COUNTS" + json.dumps([litellm.token_counter(model="gpt-4o", text=t) for t in json.load(sys.stdin)]))
"""


def test_budgets_are_kept_by_a_real_count() -> None:
    files = ("README.md", "docs/rules.md", "harnessctl/rlm/loop.py", "harnessctl/rlm/result.schema.json")
    texts = [IDS, HEX, "Запускайте тесты с флагом. " * 40, "缓存过期时该怎么办，如何构建。" * 40]
    texts += [(ROOT / name).read_text(encoding="utf-8") for name in files]
    done = subprocess.run(
        [sys.executable, "-c", COUNT],
        input=json.dumps(texts),
        env=os.environ,
        capture_output=True,
        text=True,
        check=True,
    )
    counts = json.loads(done.stdout.split("COUNTS")[-1])
    for text, count in zip(texts, counts, strict=True):
        # docs/design/prompt.md says so.
        assert 0.99 <= careful_tokens(text) / count <= 1.15, text[:40]
    assert rough_tokens(IDS) < 0.9 * counts[0], "length alone would overrun a budget"


@pytest.mark.parametrize(
    ("text", "tokens"),
    [("", 0), ("word", 1), ("one two", 2), ("12345", 2), ("x\n\n  y", 3), ("🎉🚀", 4), ("a" * 100, 50)],
)
def test_pieces(text: str, tokens: int) -> None:
    assert careful_tokens(text) == tokens


def test_a_lone_surrogate_counts() -> None:
    assert careful_tokens("\ud800") == 1
    assert rough_tokens("\ud800") == 1
