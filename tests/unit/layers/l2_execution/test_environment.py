"""What a kernel inherits."""

from __future__ import annotations

from pathlib import Path

import pytest

from harnessctl.config import KERNEL_MARK
from harnessctl.layers.l2_execution.environment import holds_secret, kernel_environment


@pytest.mark.parametrize(
    "name",
    [
        "OPENAI_API_KEY",
        "ANTHROPIC_API_KEY",
        "AWS_SECRET_ACCESS_KEY",
        "AWS_ACCESS_KEY_ID",
        "AWS_SESSION_TOKEN",
        "GITHUB_TOKEN",
        "GH_TOKEN",
        "HF_TOKEN",
        "NPM_TOKEN",
        "CLIENT_SECRET",
        "DB_PASSWORD",
        "PGPASSWORD",
        "GOOGLE_APPLICATION_CREDENTIALS",
        "AZURE_OPENAI_KEY",
        "MISTRALAPIKEY",
        "openai_api_key",
        "GITLAB_PAT",
    ],
)
def test_credentials_are_left_out(name: str) -> None:
    assert holds_secret(name, "x")
    assert name not in kernel_environment({name: "x"}, "S")


@pytest.mark.parametrize(
    "name",
    [
        "PATH",
        "HOME",
        "LANG",
        "SSH_AUTH_SOCK",
        "MONKEY",
        "KEYBOARD",
        "TOKENIZERS_PARALLELISM",
        "PATHS",
        "LS_COLORS",
    ],
)
def test_the_rest_of_a_shell_stays(name: str) -> None:
    assert kernel_environment({name: "x"}, "S")[name] == "x"


def test_a_password_in_a_url_is_a_credential() -> None:
    assert holds_secret("DATABASE_URL", "postgres://me:secret@db/x")
    assert not holds_secret("HTTP_PROXY", "http://proxy:3128")


def test_the_key_of_the_model_in_use_is_left_out_whatever_its_name() -> None:
    assert "MYMODEL" not in kernel_environment({"MYMODEL": "sk"}, "S", keys=["MYMODEL"])


def test_the_mark_names_the_session() -> None:
    assert kernel_environment({KERNEL_MARK: "old"}, "NEW")[KERNEL_MARK] == "NEW"


def test_git_of_a_surrounding_hook_and_colours_do_not_reach_it() -> None:
    env = kernel_environment(
        {
            "GIT_DIR": "/x",
            "GIT_INDEX_FILE": "i",
            "GIT_AUTHOR_NAME": "me",
            "FORCE_COLOR": "1",
            "TERM": "xterm",
        },
        "S",
    )
    assert "GIT_DIR" not in env
    assert "GIT_INDEX_FILE" not in env
    assert "FORCE_COLOR" not in env
    assert (env["GIT_AUTHOR_NAME"], env["TERM"], env["PAGER"]) == ("me", "dumb", "cat")


def test_a_virtual_environment_comes_first_on_the_path(tmp_path: Path) -> None:
    env = kernel_environment({"PATH": "/usr/bin"}, "S", python=tmp_path / "bin" / "python")
    assert env["PATH"] == f"{tmp_path / 'bin'}:/usr/bin"
    assert env["VIRTUAL_ENV"] == str(tmp_path)


def test_a_value_that_looks_like_a_key_is_left_out_whatever_its_name() -> None:
    env = kernel_environment({"MINE": "sk-planted", "OTHER": "x"}, "S", secret=lambda v: v.startswith("sk-"))
    assert "MINE" not in env
    assert env["OTHER"] == "x"
