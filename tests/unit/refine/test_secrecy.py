from __future__ import annotations

from dataclasses import replace

import pytest

from harnessctl.domain.errors import ExitCode, RefusedError
from harnessctl.refine.secrecy import Secrecy
from tests.fakes.refining import PatternHit, scan_tokens

TOKEN = "ghp_" + "q" * 36


def test_masking_leaves_nothing_of_the_value() -> None:
    masked = Secrecy(scan_tokens).mask(f"a {TOKEN} b {TOKEN}")
    assert masked == "a [secret: GitHub token] b [secret: GitHub token]"


def test_a_learned_value_is_masked_where_the_scanner_is_blind() -> None:
    blind = Secrecy(lambda data, *, allow: ())
    knowing = replace(Secrecy(scan_tokens).learn([f"x {TOKEN}"]), scan=blind.scan)
    assert knowing.mask(f"a {TOKEN} b") == "a [secret] b"
    with pytest.raises(RefusedError, match="line 2"):
        knowing.refuse(f"first\n{TOKEN}", "here")
    assert blind.mask(f"a {TOKEN} b") == f"a {TOKEN} b"


def test_lines_of_a_block_are_masked_one_by_one() -> None:
    block = "-----BEGIN KEY-----\nMIIEvQIBADANBg\nkqhkiG9w0BAQEF\n-----END KEY-----"

    def scan(data: str, *, allow: frozenset[str]) -> tuple[PatternHit, ...]:
        at = data.find(block)
        return (PatternHit("private key", 1, at, at + len(block), "sha256:x"),) if at >= 0 else ()

    assert Secrecy(scan).learn([block]).mask("torn: kqhkiG9w0BAQEF") == "torn: [secret]"


def test_refusal_names_place_kind_and_line_and_no_value() -> None:
    with pytest.raises(RefusedError) as caught:
        Secrecy(scan_tokens).refuse(f"one\ntwo {TOKEN}", "01X#5")
    assert caught.value.exit_code is ExitCode.REFUSED
    said = f"{caught.value.message} {caught.value.hint} {caught.value!r}"
    assert "01X#5" in said
    assert "GitHub token" in said
    assert "line 2" in said
    assert "sha256:" in said
    assert TOKEN not in said


def test_an_allowed_value_is_no_secret() -> None:
    digest = scan_tokens(TOKEN, allow=frozenset())[0].digest
    Secrecy(scan_tokens, frozenset({digest})).refuse(TOKEN, "here")


def test_values_do_not_show_in_repr() -> None:
    assert TOKEN not in repr(Secrecy(scan_tokens).learn([TOKEN]))


def test_a_word_that_is_somewhere_a_password_is_not_hunted_for() -> None:
    def scan(data: str, *, allow: frozenset[str]) -> tuple[PatternHit, ...]:
        at = data.find("PASS=") + 5
        return (PatternHit("password", 1, at, at + 8, "sha256:x"),) if at > 4 else ()

    secrecy = Secrecy(scan).learn(["PASS=postgres"])
    assert secrecy.mask("PASS=postgres") == "PASS=[secret: password]"
    assert secrecy.mask("the postgres server") == "the postgres server"
