from __future__ import annotations

import copy
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from jsonschema import Draft202012Validator

from harnessctl.config import describe_keys
from harnessctl.domain.ids import new_ulid
from harnessctl.domain.update import Actor, EntryChange, Evidence, ExcerptEvent, Record, RecordType, Verdict
from harnessctl.layers.l3_durable.files import schema
from harnessctl.layers.l3_durable.files.schema_fast import compile_schema

NAMES = ["memory", "prompt", "skill", "subagent", "record", "refiner_reply", "harness_toml"]

RECORD = Record(
    type=RecordType.UPDATE,
    id=new_ulid(),
    actor=Actor("agent", "a"),
    base="0" * 40,
    summary="s",
    entries=(EntryChange("memory/a/b", "create", None, "sha256:" + "0" * 64),),
    evidence=(Evidence(new_ulid(), 3, "0" * 64, (1, 2), ("q",), (ExcerptEvent(1, "t", False),)),),
)
ROLLBACK = Record(RecordType.ROLLBACK, new_ulid(), Actor("human", "a"), "", "s", takes_back=(new_ulid(),))
DECISION = Record(
    RecordType.DECISION, new_ulid(), Actor("human", "a"), "", "s", of=new_ulid(), verdict=Verdict.REJECTED
)

GOOD: dict[str, list[dict[str, Any]]] = {
    "memory": [
        {"description": "d"},
        {"description": "d", "tags": ["a", "b"], "depends_on": "memory/x/y, skills/z", "other": {"x": ["1"]}},
        {"description": "d", "tags": "a b", "expires": "2026-12-31", "owner": "human", "origin": "untrusted"},
    ],
    "prompt": [{"description": "d", "title": "t", "status": "verified"}],
    "skill": [
        {"name": "a-b", "description": "many\nlines", "allowed-tools": "Bash(git:*) Read"},
        {"name": "a", "description": "d", "metadata": {"harnessctl-owner": "agent", "author": "x"}},
    ],
    "subagent": [
        {"description": "d", "name": "Any Name", "tools": "Read, Write"},
        {"description": "d", "tools": ["Read"], "disallowedTools": "Write", "model": "inherit"},
    ],
    "record": [RECORD.to_json(), ROLLBACK.to_json(), DECISION.to_json()],
    "refiner_reply": [
        {"edits": []},
        {
            "summary": "s",
            "edits": [
                {"action": "delete", "kind": "memory", "name": "a/b", "events": [1]},
                {
                    "action": "create",
                    "kind": "skill",
                    "name": "x",
                    "description": "d",
                    "content": "c",
                    "files": {"scripts/x.py": "pass"},
                    "evidence": [{"session": "s1", "event": 41, "quote": "q"}],
                },
            ],
        },
    ],
    "harness_toml": [
        {},
        {
            "schema": 1,
            "run": {"model": "m"},
            "budgets": {"turns": 3, "cost_usd": 0.5},
            "gates": [{"name": "tests", "command": "pytest", "timeout_s": 1.5}],
            "secrets": {"allow": ["sha256:" + "0" * 64]},
        },
    ],
}

WORD = st.sampled_from(
    [
        "",
        "a",
        "x y",
        "memory/a",
        "memory/a\n",
        "verified",
        "human",
        "update",
        "delete",
        "create",
        "2026-01-01",
    ]
)
LEAF = st.one_of(
    st.none(), st.booleans(), st.integers(-2, 2), st.floats(allow_nan=False, allow_infinity=False), WORD
)
JSON = st.recursive(
    LEAF, lambda inner: st.lists(inner, max_size=3) | st.dictionaries(WORD, inner, max_size=3), max_leaves=5
)


def _paths(value: Any, path: tuple[Any, ...] = ()) -> list[tuple[Any, ...]]:
    found = [path]
    pairs = value.items() if isinstance(value, dict) else enumerate(value) if isinstance(value, list) else ()
    for key, inner in pairs:
        found += _paths(inner, (*path, key))
    return found


@st.composite
def near_misses(draw: st.DrawFn, name: str) -> Any:
    """A valid value with one place replaced, removed or added: where a fast check would slip."""
    value = copy.deepcopy(draw(st.sampled_from(GOOD[name])))
    path = draw(st.sampled_from(_paths(value)))
    replacement = draw(JSON)
    if not path:
        return replacement if draw(st.booleans()) else {**value, draw(WORD): replacement}
    target = value
    for key in path[:-1]:
        target = target[key]
    if isinstance(target, dict) and draw(st.booleans()):
        del target[path[-1]]
    else:
        target[path[-1]] = replacement
    return value


@pytest.mark.parametrize("name", NAMES)
def test_schemas_are_schemas(name: str) -> None:
    Draft202012Validator.check_schema(schema.load(name))


def test_every_schema_file_of_a_kind_is_named_here() -> None:
    shipped = {path.stem for path in (Path(schema.__file__).parents[1] / "schemas").glob("*.json")}
    assert set(NAMES) <= shipped


@pytest.mark.parametrize("name", NAMES)
def test_good_values_pass_both_ways(name: str) -> None:
    validator = Draft202012Validator(schema.load(name))
    for value in GOOD[name]:
        assert not list(validator.iter_errors(value))
        assert compile_schema(schema.load(name))(value), "the fast way must know every keyword we use"


@pytest.mark.parametrize("name", NAMES)
@given(data=st.data())
@settings(max_examples=150)
def test_fast_and_slow_agree(name: str, data: st.DataObject) -> None:
    value = data.draw(near_misses(name))
    assert compile_schema(schema.load(name))(value) == Draft202012Validator(schema.load(name)).is_valid(value)


def test_an_unknown_keyword_is_never_a_yes() -> None:
    assert not compile_schema({"type": "string", "format": "date"})("x")
    assert not compile_schema({"not": {"type": "null"}})("x")


def test_problems_name_the_place_and_never_the_value() -> None:
    reply = {"edits": [{"action": "create", "kind": "memory", "name": "Very Secret Value"}]}
    problems = schema.validate("refiner_reply", reply)
    assert [p.path for p in problems] == ["edits[0]", "edits[0].name"]
    assert "needs the keys 'description', 'content'" in problems[0].message
    assert "Secret" not in str(problems)


def test_every_setting_that_a_repository_may_set_is_a_key_of_harness_toml() -> None:
    tables = schema.load("harness_toml")["properties"]
    keys = {f"{table}.{key}" for table, inner in tables.items() for key in inner.get("properties", ())}
    rows = [row.split("`")[1] for row in describe_keys() if row.endswith("| yes |")]
    assert keys == set(rows)


def test_settings_that_belong_to_the_user_are_no_keys_of_the_repository() -> None:
    (problem,) = schema.validate("harness_toml", {"run": {"api_base": "http://elsewhere"}})
    assert problem.path == "run"
    assert "api_base" in problem.message


LONG = 64 * 1024


@pytest.mark.timeout(20)
@pytest.mark.parametrize(
    "text",
    [" " * LONG + "x" * 65, "a " * LONG, "memory/a," * (LONG // 9) + "!", "x" * LONG + "\ny", "a/" * LONG],
    ids=range(5),
)
def test_no_pattern_takes_longer_than_the_text(text: str) -> None:
    """A frontmatter may have 64 Ki characters; a pattern that backtracks over them would hang the hook."""
    value = {"description": text, "tags": text, "depends_on": text, "title": text, "expires": text}
    value |= {"name": text, "metadata": {"harnessctl-tags": text, "harnessctl-depends-on": text}}
    for name in ("memory", "skill", "subagent"):
        assert schema.validate(name, value)
