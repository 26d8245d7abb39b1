from __future__ import annotations

import pytest
import yaml
from hypothesis import example, given, settings
from hypothesis import strategies as st

from harnessctl.layers.l3_durable.files import yaml_text
from harnessctl.layers.l3_durable.files.frontmatter import FrontmatterError, parse, set_key


def refusal(text: str | bytes) -> tuple[str, int, int, str]:
    data = text.encode() if isinstance(text, str) else text
    with pytest.raises(FrontmatterError) as caught:
        parse(data, ".harness/memory/x.md")
    found = caught.value.finding
    assert found.path == ".harness/memory/x.md"
    assert f":{found.line}:{found.column}: " in caught.value.message
    return found.rule, found.line, found.column, found.hint


def test_scalars_stay_text() -> None:
    read = parse(b"---\na: 1.0\nb: 2026-03-05\nc: yes\nd: ~\ne:\nf: 0o7\ng: [1, {h: null}]\n---\n", "x")
    assert read.meta == {
        "a": "1.0",
        "b": "2026-03-05",
        "c": "yes",
        "d": "~",
        "e": "",
        "f": "0o7",
        "g": ["1", {"h": "null"}],
    }


def test_crlf_reads_the_same_as_lf_and_values_hold_no_cr() -> None:
    lf = "---\nname: crlf-skill\ndescription: d\nlong: |\n  one\n  two\n---\nBody\n"
    read, plain = parse(lf.replace("\n", "\r\n").encode(), "x"), parse(lf.encode(), "x")
    assert read.meta == plain.meta
    assert read.lines == plain.lines
    assert (read.crlf, plain.crlf) == (True, False)
    assert read.body == "Body\r\n", "the body is kept as it is"


def test_a_byte_order_mark_is_read_past_and_kept_by_edits() -> None:
    data = "\ufeff---\nname: bom-skill\ndescription: d\n---\nB\ufeff\n".encode()
    read = parse(data, "x")
    assert read.bom
    assert read.meta == {"name": "bom-skill", "description": "d"}
    assert read.body == "B\ufeff\n", "further in it is left alone"
    assert set_key(data, "name", "other").startswith(b"\xef\xbb\xbf---")
    assert parse("---\na: x\ufeffy\n---\n".encode(), "x").meta == {"a": "x\ufeffy"}


def test_lines_of_keys() -> None:
    read = parse(b"---\na: 1\n\n# c\nmetadata:\n  harnessctl-tags: x\n---\nb\n", "x")
    assert read.lines == {"a": 2, "metadata": 5, "metadata.harnessctl-tags": 6}
    assert read.body_line == 8


def test_an_unquoted_colon_says_where_and_to_quote_the_value() -> None:
    text = "---\nname: repro\ndescription: This is a description with a colon: in the middle.\n---"
    assert refusal(text) == ("HRN103", 3, 48, 'quote the value: description: "…"')


@pytest.mark.parametrize(
    ("text", "rule", "line", "column", "hint"),
    [
        ("---\nä: *bold* x\n---\n", "HRN103", 2, 9, "quote the value: ä"),
        ("---\ndescription: [foo] bar\n---\n", "HRN103", 2, 20, "quote the value: description"),
        ('---\ndescription: "foo" bar\n---\n', "HRN103", 2, 20, "quote the value: description"),
        ("---\ndescription: `x`\n---\n", "HRN103", 2, 14, "quote the value: description"),
        ("---\na: 'x\nb: 1\n---\n", "HRN103", 4, 1, "opened in line 2"),
        ("---\na: ok\n\tb: 2\n---\n", "HRN103", 3, 1, "spaces"),
        ("---\n😀a: x: y\n---\n", "HRN103", 2, 6, "quote the value: 😀a"),
        ("---\na: \x1bx\n---\n", "HRN103", 2, 4, "escape"),
        ("---\nä: 1\nö: 2\nä: 3\n---\n", "HRN104", 4, 1, "keep one"),
        ("---\na: {b: 1, 'b': 2}\n---\n", "HRN104", 2, 11, "keep one"),
        ("---\na: !!str 3\n---\n", "HRN105", 2, 4, "quote"),
        ("---\na: &x 3\n---\n", "HRN105", 2, 4, "quote"),
        ("---\na: *x\n---\n", "HRN105", 2, 4, "quote"),
        ("---\n&x a: b\n---\n", "HRN105", 2, 1, "quote"),
        ("---\n<<: {a: 1}\n---\n", "HRN105", 2, 1, "write the keys out"),
        ("---\n? [a]\n: b\n---\n", "HRN103", 2, 3, "key: value"),
        ("---\n%YAML 1.1\n---\n", "HRN103", 3, 1, ""),
        ("x", "HRN102", 1, 1, "begin"),
        ("--- x\n---\n", "HRN102", 1, 1, "begin"),
        ("---\na: 1\n --- \n", "HRN102", 1, 1, "end"),
        ("\ufeff---\na: x: y\n---\n", "HRN103", 2, 5, "quote the value: a"),
    ],
)
@pytest.mark.parametrize("loader", ["CSafeLoader", "SafeLoader"])
def test_refusals_have_a_place_and_a_way_out(
    text: str, rule: str, line: int, column: int, hint: str, loader: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The same with libyaml and without it: a machine without it must not load another harness."""
    monkeypatch.setattr(yaml_text, "_C_LOADER", getattr(yaml, loader))
    found = refusal(text)
    assert found[:3] == (rule, line, column)
    assert hint in found[3]


def test_a_byte_that_is_not_utf8_is_named_with_its_offset() -> None:
    with pytest.raises(FrontmatterError, match="byte 0xe9 at byte offset 16") as caught:
        parse(b"User prefers caf\xe9 mode", "x.md")
    assert (caught.value.finding.line, caught.value.finding.column) == (1, 17)
    assert refusal("---\né".encode() + b"\xff")[:3] == ("HRN101", 2, 2)
    assert refusal(b"\xef\xbb\xbfa\xff")[:3] == ("HRN101", 1, 2)


def test_a_key_that_looks_like_a_token_is_not_repeated() -> None:
    token = "ghp_" + "a" * 36
    with pytest.raises(FrontmatterError) as caught:
        parse(f"---\n{token}: 1\n{token}: 2\n---\n".encode(), "x")
    assert token not in caught.value.message
    assert token not in refusal(f"---\n{token}: a: b\n---\n")[3]


@pytest.mark.timeout(30)
@pytest.mark.parametrize("loader", ["CSafeLoader", "SafeLoader"])
@pytest.mark.parametrize(
    "unit",
    [
        "{ [",
        "? ",
        "- ",
        "a: ",
        "a\n",
        "'",
        "[a,",
        "{a: ",
        "#",
        "? a\n",
        "a: |\n",
        "!",
        "&a ",
        "\t",
        "[",
        "- - ",
    ],
)
def test_nothing_makes_it_hang(unit: str, loader: str, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(yaml_text, "_C_LOADER", getattr(yaml, loader))
    text = unit * (65_000 // len(unit))
    _outcome(f"---\n{text}\n---\n".encode())


YAMLISH = st.lists(
    st.sampled_from(
        [*"ab:-?#&*!|>'\"%@`{}[],\n\r\t ~<é", "---", ": ", "- ", "\n  ", "\ufeff", "\u2028", "\x85"]
    ),
    max_size=30,
).map("".join)


def _outcome(data: bytes) -> object:
    try:
        read = parse(data, "x")
    except FrontmatterError:
        return "refused"
    return read.meta, read.lines


@given(YAMLISH)
@settings(max_examples=600)
def test_no_loader_reads_another_text(text: str) -> None:
    """However PyYAML was built, a file reads as the same text or is refused: never as another text."""
    data = f"---\n{text}\n---\n".encode()
    with_c = _outcome(data)
    kept, yaml_text._C_LOADER = yaml_text._C_LOADER, yaml.SafeLoader
    try:
        without = _outcome(data)
    finally:
        yaml_text._C_LOADER = kept
    assert with_c == without or "refused" in (with_c, without)


@given(st.binary(max_size=200) | YAMLISH.map(str.encode) | YAMLISH.map(lambda t: f"---\n{t}\n---\n".encode()))
@example(b"---\n\xed\xa0\x80\n---\n")
def test_any_bytes_are_read_or_refused(data: bytes) -> None:
    _outcome(data)
