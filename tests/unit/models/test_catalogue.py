"""From a name to a model."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from harnessctl.config import Settings, read_environment
from harnessctl.domain.errors import MissingExtraError, UsageError
from harnessctl.layers.l0_weights import Price
from harnessctl.models import catalogue, local
from harnessctl.models.catalogue import ModelSource, resolve
from harnessctl.models.scripted import ScriptedClient


def find(name: str | None, settings: Settings | None = None) -> ModelSource:
    return resolve(name, settings or Settings(), read_environment())


@pytest.fixture
def script(tmp_path: Path) -> Path:
    path = tmp_path / "demo.jsonl"
    path.write_text('{"model": {"window": 8000}}\n{"content": "hi"}\n')
    return path


def test_scripted(script: Path) -> None:
    """`scripted:FILE` reads the file at once, so that a bad line is said at once."""
    source = find(f"scripted:{script}")
    assert (str(source.identity), source.identity.window) == ("scripted/demo.jsonl", 8000)
    assert isinstance(source.build(), ScriptedClient)


def test_a_script_of_a_user_that_is_not_there() -> None:
    with pytest.raises(UsageError, match="cannot read the script ~nobody-here/x"):
        find("scripted:~nobody-here/x")


def test_the_users_protocol_and_window_win(script: Path) -> None:
    """For every kind of model."""
    source = find(f"scripted:{script}", Settings(protocol="fence", window=500))
    assert (source.identity.tools, source.identity.window) == (False, 500)
    assert source.build().identity == source.identity


def test_a_litellm_name() -> None:
    """Provider, window, price and tools as the shipped table says."""
    identity = find("gpt-4o").identity
    assert (str(identity), identity.window, identity.tools) == ("openai/gpt-4o", 128000, True)
    assert identity.price == Price(2.5, 10.0, 1.25)


def test_a_provider_that_the_table_does_not_know() -> None:
    """Taken as it is; window and price unknown, tools assumed."""
    identity = find("hosted_vllm/my-own").identity
    assert (str(identity), identity.window, identity.price, identity.tools) == (
        "hosted_vllm/my-own",
        None,
        None,
        True,
    )


def test_a_bare_name_at_the_users_own_endpoint() -> None:
    """It speaks OpenAI's protocol."""
    assert str(find("my-own", Settings(api_base="http://127.0.0.1:9/v1")).identity) == "openai/my-own"


def test_a_bare_name_that_nobody_knows() -> None:
    """The error says how names look."""
    with pytest.raises(UsageError, match="no model is known as 'my-own'"):
        find("my-own")


def test_a_provider_that_nobody_knows() -> None:
    """litellm is asked last: it knows some that its files do not name, and whom an endpoint belongs to."""
    with pytest.raises(UsageError, match="no provider is known as 'opnai'") as caught:
        find("opnai/gpt-4o")
    assert (caught.value.id, "did you mean 'openai'?" in caught.value.hint) == ("unknown_model", True)
    assert str(find("aiohttp_openai/x").identity) == "aiohttp_openai/x"
    at_groq = Settings(api_base="https://api.groq.com/openai/v1")
    assert str(find("meta-llama/x", at_groq).identity) == "meta-llama/x"


def test_a_provider_of_litellms_files_is_taken_without_litellm() -> None:
    code = (
        "import sys\nfrom harnessctl.config import Settings, read_environment\n"
        "from harnessctl.models.catalogue import resolve\n"
        "for name in ('anthropic/x', 'hosted_vllm/x', 'openrouter/a/b'):\n"
        "    resolve(name, Settings(), read_environment())\n"
        "sys.exit('litellm' in sys.modules)\n"
    )
    subprocess.run([sys.executable, "-c", code], check=True)


def test_a_name_with_an_address_is_refused() -> None:
    """A repository may name a model; litellm would send a key to an address inside the name."""
    with pytest.raises(UsageError, match="holds no address"):
        find("huggingface/https://evil.example/v1")


def test_nothing_configured_is_four_lines() -> None:
    """Flag, environment, the user's file, the local extra."""
    with pytest.raises(UsageError) as caught:
        find(None)
    assert caught.value.message == "no model is configured"
    lines = caught.value.hint.splitlines()
    assert len(lines) == 4
    for line, part in zip(
        lines,
        ("--model", "HARNESSCTL_MODEL=", "/config/harnessctl/config.toml", ".[local]"),
        strict=True,
    ):
        assert part in line


def test_the_configured_model_is_taken(script: Path) -> None:
    """No name given: the settings'."""
    assert str(find(None, Settings(model=f"scripted:{script}")).identity) == "scripted/demo.jsonl"


def test_a_key_variable_that_is_not_set() -> None:
    """Named before the first call."""
    with pytest.raises(UsageError, match="MY_KEY"):
        find("gpt-4o", Settings(api_key_env="MY_KEY"))


def test_without_the_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """The command that adds it."""
    monkeypatch.setattr(catalogue, "run_extra_installed", lambda: False)
    monkeypatch.setattr(local, "run_extra_installed", lambda: False)
    with pytest.raises(MissingExtraError, match=r"'run' extra"):
        find("gpt-4o")
    with pytest.raises(MissingExtraError, match=r"'local' extra"):
        find("local")


@pytest.fixture
def local_extra(monkeypatch: pytest.MonkeyPatch) -> None:
    """Only the library's presence is looked at."""
    monkeypatch.syspath_prepend(str(Path(__file__).parents[2] / "fakes" / "llama"))


@pytest.mark.usefixtures("local_extra")
def test_local_file(tmp_path: Path) -> None:
    """A GGUF file by path; free, without tools."""
    weights = tmp_path / "x.gguf"
    weights.write_bytes(b"GGUF\x03")
    identity = find(f"local:{weights}").identity
    assert (str(identity), identity.tools, identity.price) == ("local/x", False, Price(0.0, 0.0))
    assert str(find("local").identity) == "local/qwen2.5-coder-1.5b-instruct-q4_k_m"


@pytest.mark.usefixtures("local_extra")
def test_local_files_that_are_none(tmp_path: Path) -> None:
    """Absent, or something else."""
    with pytest.raises(UsageError, match="No such file"):
        find(f"local:{tmp_path / 'gone.gguf'}")
    (tmp_path / "text").write_text("hello")
    with pytest.raises(UsageError, match="not a GGUF file"):
        find(f"local:{tmp_path / 'text'}")


def test_an_unsupported_system(monkeypatch: pytest.MonkeyPatch) -> None:
    """Said by name."""
    monkeypatch.setattr(local.sys, "platform", "win32")
    with pytest.raises(UsageError, match="does not run on"):
        find("local")
