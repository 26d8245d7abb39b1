"""Settings: precedence, what a repository may not set, errors that name source and key."""

from __future__ import annotations

import subprocess
import sys
import time
from collections.abc import Callable
from dataclasses import fields
from pathlib import Path
from typing import Any

import pytest

from harnessctl.bootstrap.opening import allowed_by_user
from harnessctl.config import (
    GIT_KEYS,
    Settings,
    describe_keys,
    load_settings,
    one_setting,
    parse_toml,
    read_environment,
    unread_keys,
    user_config,
    wrong_settings,
)
from harnessctl.domain.errors import UsageError
from harnessctl.domain.limits import MOST


def test_nothing_set_gives_the_defaults() -> None:
    assert load_settings() == Settings()


def test_precedence_highest_first() -> None:
    layers = {
        "flags": {"run.model": "flag"},
        "env": {"HARNESSCTL_MODEL": "env"},
        "user": {"run": {"model": "user"}},
        "git": {"harness.model": "git"},
        "harness": {"run": {"model": "repo"}},
    }
    for source, expected in zip(list(layers), ["flag", "env", "user", "git", "repo"], strict=True):
        assert load_settings(**layers).model == expected  # type: ignore[arg-type]
        del layers[source]
    assert load_settings(**layers).model is None  # type: ignore[arg-type]


@pytest.mark.parametrize("key", ["api_base", "api_key_env", "temperature"])
def test_a_repository_sets_no_endpoint_and_no_key(key: str) -> None:
    value = 1.0 if key == "temperature" else "http://elsewhere"
    assert load_settings(harness={"model": {key: value}}) == Settings()
    assert load_settings(git={"harness.api_base": "http://elsewhere", "harness.apiBase": "x"}) == Settings()
    assert load_settings(user={"model": {key: value}}) != Settings()


def test_git_keys_in_any_letter_case() -> None:
    assert load_settings(git={"harness.costusd": "1.5"}).limits.cost_usd == 1.5


def test_budgets_and_gates_from_the_pin() -> None:
    settings = load_settings(
        harness=parse_toml(
            b"[budgets]\nturns = 3\ncost_usd = 1.5\n"
            b'[[gates]]\nname = "t"\ncommand = "pytest"\ninputs = ["tests/**"]\n',
            "harness.toml",
        )
    )
    assert (settings.limits.turns, settings.limits.cost_usd) == (3, 1.5)
    assert settings.gates[0].inputs == ("tests/**",)
    assert settings.sources["budgets.turns"] == "harness.toml"


@pytest.mark.parametrize(
    ("where", "source"),
    [
        ({"flags": {"budgets.turns": "many"}}, "flags"),
        ({"env": {"HARNESSCTL_TURNS": "-1"}}, "HARNESSCTL_TURNS"),
        ({"user": {"budgets": {"turns": True}}}, "config.toml"),
        ({"harness": {"budgets": {"turns": 1.5}}}, "harness.toml"),
        ({"harness": {"gates": [{"name": "x"}]}}, "harness.toml"),
        ({"harness": {"gates": [{"name": "x", "command": " \n# y"}]}}, "harness.toml"),
        ({"flags": {"budgets.cost_usd": "nan"}}, "--max-cost"),
        ({"env": {"HARNESSCTL_TURNS": "3.0"}}, "HARNESSCTL_TURNS"),
        ({"git": {"harness.costUsd": "1" + "0" * 400}}, "git config"),
        ({"harness": {"budgets": {"cost_usd": 10**400}}}, "harness.toml"),
        ({"harness": {"budgets": {"turns": "3"}}}, "harness.toml: budgets.turns: a whole number"),
        ({"harness": {"budgets": {"cost_usd": "1.5"}}}, "harness.toml: budgets.cost_usd: a number"),
        ({"harness": {"run": {"python": "a\0b"}}}, "harness.toml: run.python: a text without NUL"),
        ({"user": {"prompt": {"tokens": 2e3}}}, "config.toml: prompt.tokens: a whole number"),
        ({"user": {"run": {"protocol": ["tool"]}}}, "config.toml: run.protocol"),
        ({"harness": {"review": {"require_shared": "yes"}}}, "require_shared: true or false"),
        ({"user": {"review": {"require_shared": 1}}}, "require_shared: true or false"),
        ({"user": {"secrets": {"allow": "sha256:x"}}}, "secrets.allow: a list of texts"),
        ({"harness": {"gates": [{"name": "x", "command": "y", "timeout_s": "9"}]}}, "gate 1: a number"),
        ({"harness": {"gates": [{"name": "x", "command": "y", "attempts": True}]}}, "gate 1: a whole"),
        ({"harness": {"gates": [{"name": "x", "command": "y", "timeout_s": 0}]}}, "gate 1: more than 0"),
        ({"env": {"HARNESSCTL_WALL_S": "0"}}, "HARNESSCTL_WALL_S=0: more than 0 seconds"),
        ({"user": {"budgets": {"cell_s": 0.0}}}, "budgets.cell_s: more than 0 seconds"),
        ({"git": {"harness.window": "0"}}, "run.window: a number of at least 1"),
        ({"harness": {"budgets": [{"turns": 3}]}}, r"harness.toml: budgets: one table \[budgets\]"),
        ({"user": {"model": "openai/gpt-4o"}}, r"config.toml: model: one table \[model\]"),
    ],
)
def test_bad_values_name_their_source(where: dict[str, Any], source: str) -> None:
    with pytest.raises(UsageError, match=source) as caught:
        load_settings(**where)
    if "flags" not in where:
        assert [str(error) for error in wrong_settings(**where)] == [str(caught.value)]


def test_where_every_value_is_a_text_numbers_and_flags_are_read_from_it() -> None:
    env = {"HARNESSCTL_TURNS": "3", "HARNESSCTL_COST_USD": "1", "HARNESSCTL_MODEL": "7"}
    settings = load_settings(env=env, git={"harness.cellS": "2.5"})
    assert (settings.limits.turns, settings.limits.cost_usd, settings.limits.cell_s) == (3, 1.0, 2.5)
    assert settings.model == "7"
    for text, means in (
        ("true", True),
        ("Yes", True),
        ("on", True),
        ("1", True),
        ("no", False),
        ("0", False),
    ):
        assert one_setting("review.require_shared", git={"harness.requireShared": text}) is means


@pytest.mark.parametrize("data", [b"[run\n", b"\xff", b"x = " + b"9" * 5000])
def test_bad_toml_names_the_file(data: bytes) -> None:
    with pytest.raises(UsageError, match=r"x/harness\.toml"):
        parse_toml(data, "x/harness.toml")


DOTS = "." * 80


@pytest.mark.parametrize(
    "text",
    [
        f"# {DOTS}\n[run]\nmodel = 'x'",
        f"[run] # {DOTS} = 1\nmodel = 'x'",
        f'notes = """\n{DOTS}\n\\"""{DOTS}\n"""\n[run]\nmodel = \'x\'',
        f"notes = '''\n# {DOTS} \"\"\"\n'''\n[run]\nmodel = 'x'",
        f"notes = ['{DOTS}',\n'{DOTS} =',\n\"\\\"{DOTS}\"]\n[run]\nmodel = 'x'",
        f"'{DOTS}' = 1\n\"a{DOTS}#\" = 2\n[run]\nmodel = 'x'",
    ],
    ids=["comment", "after a key", "text", "literal text", "list", "quoted key"],
)
def test_dots_in_texts_and_comments_are_no_nesting(text: str) -> None:
    assert parse_toml(text.encode(), "config.toml")["run"] == {"model": "x"}


@pytest.mark.parametrize(
    "line",
    [f"{'a.' * 80}a = 1", f"[{'a.' * 80}a]", f"x = {{{'a.' * 80}a = 1}}", f"{'a . ' * 80}'b' = 1"],
    ids=["key", "table", "inline", "spaced"],
)
def test_a_key_that_nests_too_deep_is_named_with_line_and_limit(line: str) -> None:
    with pytest.raises(UsageError) as caught:
        parse_toml(f'# one\nt = """\n"""\n{line}\n'.encode(), "config.toml")
    assert caught.value.message == "config.toml, line 4: a key nests too deep: 80 dots, and 64 are read"


@pytest.mark.parametrize(
    ("make", "why", "remedy"),
    [
        (
            lambda home: (home / ".config/harnessctl/config.toml").mkdir(parents=True),
            "Is a directory",
            "a file:",
        ),
        (lambda home: (home / ".config").write_text(""), "Not a directory", "must be a folder: set HOME"),
    ],
    ids=["a folder", "below a file"],
)
def test_settings_that_cannot_be_read_say_how_to_go_on(
    tmp_path: Path, make: Callable[[Path], object], why: str, remedy: str
) -> None:
    make(tmp_path)
    with pytest.raises(UsageError, match=why) as caught:
        user_config(read_environment({"HOME": str(tmp_path)}))
    assert remedy in caught.value.hint
    assert caught.value.hint.endswith("or set XDG_CONFIG_HOME to a folder that can be read")


def test_a_file_that_is_too_large_is_said_with_the_limit() -> None:
    with pytest.raises(UsageError, match="is too large: 300000 bytes, and 262144 are read"):
        parse_toml(b"#" * 300_000, "config.toml")


@pytest.mark.parametrize(
    "text", ['"""' * 80_000, '"""\\' * 60_000, "'''" * 80_001, '"\\' * 120_000, "''\n'" * 60_000]
)
def test_a_hostile_settings_file_takes_no_time(text: str) -> None:
    begun = time.process_time()
    with pytest.raises(UsageError):
        parse_toml(text.encode(), "config.toml")
    assert time.process_time() - begun < 2


def test_relative_xdg_paths_are_ignored() -> None:
    env = read_environment({"HOME": "/h", "XDG_STATE_HOME": "rel", "XDG_CACHE_HOME": "/c"})
    assert env.state_home == Path("/h/.local/state/harnessctl")
    assert env.cache_home == Path("/c/harnessctl")


def test_the_page_is_made_from_the_table() -> None:
    docs = Path(__file__).parents[2] / "docs"
    made = subprocess.run(
        [sys.executable, docs / "configuration.py"], capture_output=True, text=True, check=True
    )
    assert made.stdout == (docs / "configuration.md").read_text(), (
        "python docs/configuration.py > docs/configuration.md"
    )


ENDPOINT = "an address that begins with http:// or https:// and a host is wanted"


@pytest.mark.parametrize(
    ("where", "said"),
    [
        ({"flags": {"run.protocol": "tools"}}, "--protocol tools: one of auto, tool, fence is wanted"),
        (
            {"env": {"HARNESSCTL_MAX_OUTPUT": "0"}},
            "HARNESSCTL_MAX_OUTPUT=0: a number of at least 1 is wanted",
        ),
        ({"env": {"HARNESSCTL_TURNS": "abc"}}, "HARNESSCTL_TURNS=abc: a whole number is wanted"),
        # Not repeated: part of it may be a key.
        *(
            ({"env": {"HARNESSCTL_API_BASE": value}}, f"HARNESSCTL_API_BASE: {ENDPOINT}")
            for value in ("notaurl", "user:k3y@host", "http://:80", "http://[k3y", "http://host:k3y")
        ),
        ({"user": {"model": {"api_base": "ftp://host"}}}, f"config.toml: model.api_base: {ENDPOINT}"),
        ({"env": {"HARNESSCTL_WALL_S": "abc"}}, "HARNESSCTL_WALL_S=abc: a number is wanted"),
        ({"git": {"harness.turns": "x"}}, "git config: budgets.turns: a whole number is wanted"),
        # No event log holds such numbers: a run would write one that is damaged.
        *(
            ({"env": {key: value}}, f"{key}={value}: a number from 0 to {MOST} is wanted")
            for key in ("HARNESSCTL_TOKENS", "HARNESSCTL_WALL_S", "HARNESSCTL_WINDOW")
            for value in (str(MOST + 1), "1" + "0" * 20)
        ),
    ],
)
def test_a_bad_value_is_said_as_it_was_written(where: dict[str, object], said: str) -> None:
    with pytest.raises(UsageError) as caught:
        load_settings(**where)  # type: ignore[arg-type]
    assert caught.value.message == said


def test_keys_that_nothing_reads_are_named_with_what_was_meant() -> None:
    said = unread_keys(
        user={"budgets": {"turn": 3, "tokens": 4}, "gates": [], "run": {}},
        git=["harness.mode", "harness.repositoryid", "harness.costusd", "harness.modle"],
        harness=parse_toml(
            b"schema = 1\n[budget]\nturns = 3\n[model]\napi_base = 'x'\n[review]\n"
            b"tool = 1\nrequire_share = true\n"
            b"[[gates]]\nname = 't'\ncommand = 'x'\ntimeout = 1\n[[gates]]\nname = 'u'\ncommand = 'x'\n",
            "harness.toml",
        ),
    )
    assert said == (
        "config.toml: 'budgets.turn' is read by nothing. did you mean 'budgets.turns'?",
        "config.toml: 'gates' is read by nothing.",
        "git config: 'harness.modle' is read by nothing. did you mean 'harness.mode'?",
        "harness.toml: 'budget.turns' is read by nothing. did you mean 'budgets.turns'?",
        "harness.toml: 'model.api_base' is not read from a repository: it is the user's own to set",
        "harness.toml: 'review.require_share' is read by nothing. did you mean 'review.require_shared'?",
        "harness.toml: 'gates.timeout' is read by nothing. did you mean 'gates.timeout_s'?",
    )


def test_every_setting_may_be_written_where_it_is_read() -> None:
    names = [row.split("`")[1].partition(".") for row in describe_keys()]
    assert unread_keys(user={"budgets": {"turns": 1}}, git=GIT_KEYS) == ()
    for table, _, key in names:
        if table != "harness":
            assert unread_keys(user={table: {key: 1}}) == ()


@pytest.mark.parametrize("key", ["branch", "agentName", "agentEmail"])
def test_what_git_alone_holds_is_said_where_it_stands_elsewhere(key: str) -> None:
    said = f"'harness.{key}' is read from git configuration alone: git config harness.{key} VALUE"
    assert unread_keys(user={"harness": {key: "x"}}) == (f"config.toml: {said}",)
    assert unread_keys(harness={"harness": {key: "x"}}) == (f"harness.toml: {said}",)
    assert load_settings(user={"harness": {key: "x"}}) == Settings()


def test_a_list_of_harmless_secrets_is_checked_for_every_verb(home: Path) -> None:
    file = home / "config/harnessctl/config.toml"
    file.parent.mkdir(parents=True)
    file.write_text("[secrets]\nallow = ['sha256:1']\n")
    assert allowed_by_user(read_environment()) == ("sha256:1",)
    file.write_text("[secrets]\nallow = 'sha256:1'\n")
    with pytest.raises(UsageError, match=r"secrets\.allow: a list of texts is wanted"):
        allowed_by_user(read_environment())


def test_every_setting_has_a_reader() -> None:
    """A field that nothing reads is a promise that nothing keeps."""
    root = Path(__file__).parents[2] / "harnessctl"
    code = "\n".join(path.read_text() for path in root.rglob("*.py") if path.name != "config.py")
    assert [field.name for field in fields(Settings) if f".{field.name}" not in code] == []
