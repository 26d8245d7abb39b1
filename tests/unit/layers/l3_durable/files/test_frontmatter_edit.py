"""Writing: what we emit reads back the same, and an edit touches no byte it was not asked to touch."""

from __future__ import annotations

import pytest
import yaml
from hypothesis import given
from hypothesis import strategies as st

from harnessctl.layers.l3_durable.files.frontmatter import KeyNotEditableError, emit, parse, set_key

TEXT = st.text(st.characters(exclude_categories=["Cs"]), max_size=40)
KEY = st.one_of(st.sampled_from(["description", "yes", "null", "1", "a b", "é"]), TEXT)
VALUE = st.recursive(
    TEXT, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEY, inner, max_size=3), max_leaves=6
)
META = st.dictionaries(KEY, VALUE, max_size=4)


@given(META, TEXT)
def test_what_is_emitted_reads_back_the_same(meta: dict[str, object], body: str) -> None:
    read = parse(emit(meta, body), "x.md")
    assert read.meta == meta
    assert read.body == body


@given(META)
def test_a_yaml_tool_with_types_reads_the_text_we_wrote(meta: dict[str, object]) -> None:
    text = emit(meta, "").decode().split("---\n", 1)[1].rsplit("---\n", 1)[0]
    assert (yaml.safe_load(text) or {}) == meta


SHAPES = [
    "---\ndescription: d\n---\nbody\n",
    "---\r\ndescription: 'd' # why\r\nowner: human   # by hand\r\n---\r\nbody\r\n",
    "\ufeff---\nowner: |\n  many\n  lines\n\n# a comment\ntitle: x\n---\n",
    "---\nowner:\n  - a\n  - b\n# end\n---\nb",
    "---\nowner:\ntitle: 'it''s'\n---\nb",
    '---\n{description: "x", tags: [a, b]}\n---\nb',
    "---\n{}\n---\n",
    "---\n---\n",
    "---\n# only a comment\n---\n",
    "---\nmetadata:\n  author: me   # kept\n  harnessctl-tags: a b\nname: x\n---\n",
    "---\nmetadata: {author: me}\n---\n",
    "---\nmetadata:\nname: x\n---\n",
    "---\n  description: >-\n    folded\n    text\n  owner: human\n---\nbody --- \n",
    "---\nunknown: [1.0, {a: ~}]\nowner: 'x\n  y'\n---\n",
]


@pytest.mark.parametrize("text", SHAPES)
@pytest.mark.parametrize("path", [("owner",), ("title",), ("metadata", "harnessctl-owner")])
@pytest.mark.parametrize("value", ["agent", "no", "a: b", "two\nlines", ["a", "b"], []])
def test_only_the_asked_key_changes(text: str, path: tuple[str, ...], value: str | list[str]) -> None:
    before = parse(text.encode(), "x.md")
    data = set_key(text.encode(), path, value)
    after = parse(data, "x.md")
    expected = dict(before.meta)
    if len(path) == 1:
        expected[path[0]] = value
    else:
        inner = before.meta.get("metadata")
        expected["metadata"] = {**(inner if isinstance(inner, dict) else {}), path[1]: value}
    assert after.meta == expected
    assert after.body == before.body
    assert (after.bom, "\r\n" in data.decode()) == (before.bom, before.crlf)
    untouched = [line for line in text.splitlines() if "#" in line]
    for line in untouched:
        assert line.split("#", 1)[1] in data.decode()


def test_a_comment_behind_the_value_and_every_other_line_stay() -> None:
    data = b"---\r\n# top\r\ndescription:   'd'\r\nowner: human   # by hand\r\nx: [ 1.0,2 ]\r\n---\r\nB\r\n"
    assert set_key(data, "owner", "agent") == data.replace(b"owner: human ", b"owner: agent ")


def test_setting_the_same_value_is_the_identity_for_plain_text() -> None:
    data = b"---\nowner: agent\ntitle: t # c\n---\n"
    assert set_key(data, "owner", "agent") == data


def test_a_value_below_a_text_is_not_editable() -> None:
    with pytest.raises(KeyNotEditableError):
        set_key(b"---\nmetadata: text\n---\n", ("metadata", "harnessctl-owner"), "agent")


@given(st.sampled_from(SHAPES), TEXT, st.sampled_from(["owner", "title", "description", "new"]))
def test_any_text_can_be_set(text: str, value: str, key: str) -> None:
    before = parse(text.encode(), "x.md")
    after = parse(set_key(text.encode(), key, value), "x.md")
    assert after.meta == {**before.meta, key: value}
    assert after.body == before.body


#: Ways in which people write the value of one key, comments and blank lines included.
FORMS = [
    "{key}: plain text\n",
    "{key}:   'single ''quoted'' text'   # a comment\n",
    '{key}: "double \\"quoted\\" \\u00e9"\n',
    "{key}: >-\n  folded\n  over lines\n",
    "{key}: |+\n  kept\n\n\n",
    "{key}:\n  - 1.0\n  - {{a: b}}   # inside\n",
    "{key}: [a, 'b', \"c\"]\n",
    "{key}:\n    nested: yes\n    deeper:\n      - x\n",
    "# above {key}\n{key}:\n",
    "\n{key}: two\n  lines\n",
    '"{key}": quoted key\n',
    "{key} : a blank before the colon\n",
]


@st.composite
def documents(draw: st.DrawFn) -> tuple[list[str], str]:
    """Source of each key in turn, and the line end the file uses."""
    count = draw(st.integers(1, 6))
    pieces = [draw(st.sampled_from(FORMS)).format(key=f"key{n}") for n in range(count)]
    return pieces, draw(st.sampled_from(["\n", "\r\n"]))


@given(documents(), st.data(), TEXT, st.booleans())
def test_every_byte_outside_the_edited_key_stays(
    document: tuple[list[str], str], data: st.DataObject, value: str, bom: bool
) -> None:
    """Sources with unknown keys, comments, odd quoting, CRLF and byte order marks."""
    pieces, newline = document
    chosen = data.draw(st.integers(0, len(pieces)))
    body = data.draw(TEXT)
    text = ("---\n" + "".join(pieces) + "---\n").replace("\n", newline) + body
    source = (b"\xef\xbb\xbf" if bom else b"") + text.encode()
    before = parse(source, "x.md")
    edited = set_key(source, f"key{chosen}", value)
    after = parse(edited, "x.md")
    assert after.meta == {**before.meta, f"key{chosen}": value}
    assert parse(emit(after.meta, after.body), "x.md").meta == after.meta
    head = "".join(pieces[:chosen]).replace("\n", newline).encode()
    tail = ("".join(pieces[chosen + 1 :]) + "---\n").replace("\n", newline).encode() + body.encode()
    opening = (b"\xef\xbb\xbf" if bom else b"") + f"---{newline}".encode()
    assert edited.startswith(opening + head)
    assert edited.endswith(tail)
