"""Every secret here is made up; each is put together at run time so that no scanner trips over this file."""

from __future__ import annotations

import base64
import subprocess
import sys
from dataclasses import fields

import pytest
from hypothesis import given
from hypothesis import strategies as st

from harnessctl.domain.canonical import sha256_hex
from harnessctl.layers.l3_durable.rules.secret_kinds import KINDS, SecretKind
from harnessctl.layers.l3_durable.rules.secrets import SecretHit, mask, scan

ALNUM = "Ab1" * 40
LOWER = "a1b2c3d4" * 8
PEM = (
    "-----BEGIN RSA "
    + "PRIVATE KEY-----\nMIIEow"
    + ALNUM
    + "\n"
    + ALNUM
    + "==\n-----END RSA PRIVATE KEY-----"
)

SECRETS = {
    "aws id": "AKIA" + "ABCDEFGH23456789",
    "aws secret": 'aws_secret_access_key = "' + ALNUM[:40] + '"',
    "github": "ghp_" + "a" * 36,
    "github, longer than usual": "gho_" + ALNUM[:50],
    "github, fine grained": "github_pat_" + ALNUM[:82],
    "gitlab": "glpat-" + ALNUM[:20],
    "openai, old": "sk-" + ALNUM[:20] + "T3BlbkFJ" + ALNUM[:20],
    "openai, project": "sk-proj-" + ALNUM[:74] + "-" + ALNUM[:20],
    "anthropic": "sk-ant-api03-" + ALNUM[:90] + "AA",
    "letters only": "sk-" + "abcdefghij" * 4,
    "slack": "xoxb-" + "123456789012-123456789012-" + ALNUM[:24],
    "slack webhook": "https://hooks.slack.com/services/" + "T00000000/B00000000/" + ALNUM[:24],
    "slack app": "xapp-1-" + "A0123456789-1234567890123-" + LOWER,
    "stripe": "sk_live_" + ALNUM[:24],
    "jwt": "eyJhbGciOiJIUzI1NiJ9." + "eyJzdWIiOiIxMjM0NTY3ODkwIn0." + ALNUM[:43],
    "npmrc": "//registry.npmjs.org/:_authToken=npm_" + ALNUM[:36],
    "npm": "npm_" + ALNUM[:36],
    "pypi": "pypi-AgEIcHlwaS5vcmc" + ALNUM[:80],
    "twilio": "SK" + LOWER[:32],
    "sendgrid": "SG." + ALNUM[:22] + "." + ALNUM[:43],
    "telegram": "1234567890:" + ALNUM[:35],
    "azure": "AccountKey=" + ALNUM[:86] + "==",
    "google": "AIza" + ALNUM[:35],
    "hugging face": "hf_" + ALNUM[:34],
    "pem": PEM,
    "pem, cut off": PEM[:120],
    "pem in json": PEM.replace("\n", "\\n"),
    "pgp": PEM.replace("RSA PRIVATE KEY-", "PGP PRIVATE KEY BLOCK-"),
}

#: Text around a secret, the secret itself.
IN_CONTEXT = {
    "basic auth": ("postgres://app:", "hunter2ab", "@db.example.com/x"),
    "assigned": ("export DEPLOY_TOKEN=", ALNUM[:30], "\n"),
    "assigned hex": ('{"api_key": "', LOWER[:40], '"}'),
    "header": ("Authorization: Bearer ", ALNUM[:40], "\r\n"),
}

ORDINARY = [
    "The quick brown fox tokenizes secrets, passwords and api keys.",
    "commit 3f786850e387550fdab836ed7e6dc881de23001b fixed it",
    "sha256:9f86d081884c7d659a2feaa0c55ad015a3bf4f1b2b0b822cd15d6c15b0f00a08",
    'aws_revision = "3f786850e387550fdab836ed7e6dc881de23001b"',
    "tokens: CohereV2ChatResponseUsageTokens",
    "sk-learn-estimator-doc-link and sk-toggleable-label-arrow",
    "https://user:${PASSWORD}@example.com and https://user:<password>@example.com",
    "https://example.com/a:b/c@d and http://[::1]:8080/",
    "token = os.environ['GITHUB_TOKEN']; secret = get_secret_value_from_the_store()",
    "password: correct-horse-battery-staple-correct-horse",
    "01ARZ3NDEKTSV4RRFFQ69G5FAV 550e8400-e29b-41d4-a716-446655440000",
    "token_path: /home/user/.config/tokens/github_token_file_name",
    "max_tokens=4096 prompt_tokens=123456",
    "never commit a file that says BEGIN RSA PRIVATE KEY",
]


@pytest.mark.parametrize("secret", SECRETS.values(), ids=SECRETS.keys())
def test_the_whole_secret_is_found_and_nothing_of_it_is_left(secret: str) -> None:
    text = f"line one\nvalue {secret}\nafter"
    assert scan(text), "not found"
    masked = mask(text)
    assert masked.startswith("line one\nvalue [secret: ") or "[secret: " in masked
    assert masked.endswith("after")
    for part in secret.replace("\\n", "\n").split():
        if len(part) > 20:
            assert part not in masked
            assert part[-20:] not in masked


@pytest.mark.parametrize(("before", "secret", "after"), IN_CONTEXT.values(), ids=IN_CONTEXT.keys())
def test_only_the_secret_is_taken_from_its_context(before: str, secret: str, after: str) -> None:
    (hit,) = scan(before + secret + after)
    assert (hit.start, hit.end) == (len(before), len(before + secret))
    masked = mask(before + secret + after)
    assert masked == f"{before}[secret: {hit.kind}]{after}"


@pytest.mark.parametrize("text", ORDINARY)
def test_ordinary_text_is_left_alone(text: str) -> None:
    assert scan(text) == ()


def test_a_hit_says_where_and_keeps_no_value() -> None:
    token = SECRETS["github"]
    (hit,) = scan(f"é\n  x {token}\n".encode())
    assert (hit.line, hit.column, hit.kind) == (2, 5, "GitHub token")
    assert hit.digest == "sha256:" + sha256_hex(token.encode())
    assert {f.name for f in fields(SecretHit)} == {"kind", "line", "column", "start", "end", "digest"}
    assert token not in repr(hit)


def test_the_allow_list_takes_digests() -> None:
    token, other = SECRETS["github"], SECRETS["npm"]
    (hit,) = scan(token)
    assert [h.kind for h in scan(f"{token} {other}", allow=frozenset({hit.digest}))] == ["npm token"]
    assert mask(token, allow=frozenset({hit.digest})) == token


def test_bytes_that_are_no_utf8_are_scanned_too() -> None:
    (hit,) = scan(b"\xff\xfe " + SECRETS["github"].encode())
    assert hit.column == 4


@pytest.mark.parametrize("kind", [k for k in KINDS if k.plugin], ids=lambda k: k.name)
def test_chosen_plugins_are_still_there(kind: SecretKind) -> None:
    """A new release of detect-secrets that renames one must be seen here, not in the field."""
    assert kind.patterns


@given(st.text())
def test_masking_twice_changes_nothing(text: str) -> None:
    once = mask(text)
    assert mask(once) == once


LONG = 1_000_000


@pytest.mark.timeout(120)
@pytest.mark.parametrize(
    "unit",
    [
        *("token", "a", "://", "://a:", "eyJ", "eyJ.", "//", "sk-", "A1", "xoxb-1-", "token=", "token: a"),
        *("glpat-", "glagent-", "-----BEGIN PRIVATE KEY-----", "aws'", "1:", "M.", '"', "AC", "npm_"),
        *("authorization: bearer ", "ghp_" + "a" * 36 + "\n", "0123456789abcdef-us", "_authToken=", "\\n"),
    ],
)
def test_long_text_does_not_hang(unit: str) -> None:
    """A megabyte of any piece of a secret, with what makes every kind look."""
    scan(unit * (LONG // len(unit)) + " T3BlbkFJ _authToken aws key")


@pytest.mark.parametrize("before", ["\\n", "\\t", '"', "=", " ", "(", "\n"])
@pytest.mark.parametrize("name", ["openai, project", "npm", "hugging face", "github", "jwt"])
def test_a_secret_in_escaped_text_is_found(before: str, name: str) -> None:
    """Records and logs are JSON: the letter before a token may be that of an escape."""
    assert scan(f"x{before}{SECRETS[name]} y")


def test_text_without_a_secret_imports_no_plugin() -> None:
    """detect-secrets imports requests: 180 ms that a hook on ordinary text must not pay."""
    code = (
        "import sys; from harnessctl.layers.l3_durable.rules.secrets import scan\n"
        "scan('# how to build\\n\\nrun make; see https://example.com/docs, tokens, secrets, aws\\n')\n"
        "sys.exit(any(m.split('.')[0] in ('requests', 'detect_secrets', 'urllib3') for m in sys.modules))"
    )
    assert subprocess.run([sys.executable, "-c", code], check=False).returncode == 0


def test_an_updates_id_that_holds_a3t_is_no_key_and_a_key_beside_it_is_one() -> None:
    """The time part of a ULID runs through ``A3T`` again and again; refusing it lost landings."""
    ulid = "01M8M6A3TAT321RH9XY3EJC1C2"
    assert scan(f'{{"id": "{ulid}"}}') == ()
    assert [hit.kind for hit in scan(f"{ulid} A3TAT321RH9XY3EJC1C2")] == ["AWS key"]


def test_what_is_not_found_as_the_documents_say() -> None:
    """Should one of these be found one day, docs/rules.md and docs/design/history.md say too little."""
    token = SECRETS["github"]
    assert scan(token)
    assert not scan(base64.b64encode(token.encode()).decode())
    assert not scan(f"{token[:10]}\n{token[10:20]}\n{token[20:]}")
    assert not scan(f"'{token[:8]}' + '{token[8:]}'")
