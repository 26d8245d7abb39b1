"""Estimated tokens, against the tokenizer of current models (the vocabulary that litellm ships)."""

from __future__ import annotations

import base64
import hashlib
import importlib.util
import json
import random
import re
import time
import uuid
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harnessctl.models.tokens import _PIECE, LOOKED_AT, estimate_text

CHANCE = random.Random(1)
TEXTS = {
    "code": Path(__file__).read_text(),
    "prose": Path(__file__).parents[3].joinpath("docs", "onboarding.md").read_text(),
    "hex": CHANCE.randbytes(4_000).hex(),
    "base64": base64.b64encode(CHANCE.randbytes(4_000)).decode(),
    "digests": "\n".join(f"{hashlib.sha1(str(n).encode()).hexdigest()}  file{n}.txt" for n in range(200)),
    "uuids": "\n".join(str(uuid.UUID(int=CHANCE.getrandbits(128))) for _ in range(200)),
    "table": "\n".join("  ".join(f"{CHANCE.random():10.4f}" for _ in range(8)) for _ in range(100)),
    "json": json.dumps([{"id": n, "size": CHANCE.random(), "ok": True} for n in range(200)]),
    "bytes": repr(CHANCE.randbytes(2_000)),
    "chinese": "今天我们需要检查数据库连接是否超时，并且确认所有的测试都已经通过。" * 20,
    "japanese": "このリポジトリのテストを実行して、失敗した理由を説明してください。" * 20,
    "emoji": "".join(chr(CHANCE.randrange(0x1F300, 0x1F600)) for _ in range(1_000)),
}


@pytest.fixture(scope="module")
def count(tmp_path_factory: pytest.TempPathFactory) -> Callable[[str], int]:
    spec = importlib.util.find_spec("litellm")
    assert spec is not None
    assert spec.submodule_search_locations
    vocabulary = Path(spec.submodule_search_locations[0]) / "litellm_core_utils" / "tokenizers"
    patch = pytest.MonkeyPatch()
    patch.setenv("TIKTOKEN_CACHE_DIR", str(vocabulary))
    import tiktoken

    encoding = tiktoken.get_encoding("o200k_base")
    patch.undo()
    return lambda text: len(encoding.encode(text, disallowed_special=()))


@pytest.mark.parametrize("name", TEXTS)
def test_it_is_near_and_rather_too_large(name: str, count: Callable[[str], int]) -> None:
    """A window would be exceeded by what is counted too low: hex by bytes alone has half of its tokens."""
    ratio = estimate_text(TEXTS[name]) / count(TEXTS[name])
    assert 0.75 < ratio < 1.75, ratio


def test_of_a_long_text_a_part_speaks_for_the_rest() -> None:
    text = TEXTS["digests"] * 60
    assert len(text) > 2 * LOOKED_AT
    assert estimate_text(text) == pytest.approx(60 * estimate_text(TEXTS["digests"]), rel=0.02)


def test_odd_texts() -> None:
    assert estimate_text("") == 0
    assert estimate_text("\ud800") > 0
    assert estimate_text(" ") == 1


#: As it was first written: simple, and quadratic in white space that ends in no line.
SIMPLE = re.compile(
    r"[A-Z]?[a-z]{1,9}|[A-Z]{1,3}|[0-9]{1,3}|[!-/:-@\[-`{-~]{1,2}|[ \t]{2,}|\s*\n\s*|[^\x00-\x7f]"
)


@given(st.lists(st.sampled_from(["ab", "B", "12", "{", " ", "   ", "\t", "\n", "\r\n", "\n\u3000", "甲"])))
def test_ordinary_white_space_counts_as_it_did(parts: list[str]) -> None:
    text = "".join(parts)
    assert len(_PIECE.findall(text)) == len(SIMPLE.findall(text))


@pytest.mark.parametrize("blank", ["\r", "\u3000", "\x0b", "\xa0", " ", "\r ", "\u3000\r"])
def test_no_run_of_white_space_takes_long(blank: str) -> None:
    begun = time.process_time()
    estimate_text(blank * 50_000 + "x")
    assert time.process_time() - begun < 1
