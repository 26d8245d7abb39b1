"""Facts of known models, read without importing litellm."""

from __future__ import annotations

import subprocess
import sys

from harnessctl.layers.l0_weights import Price
from harnessctl.models.prices import lookup


def test_a_known_model() -> None:
    """Window, price and capability come from the table; the provider is named."""
    facts = lookup("gpt-4o")
    assert facts is not None
    assert (facts.provider, facts.window, facts.max_output, facts.tools) == ("openai", 128000, 16384, True)
    assert facts.price == Price(2.5, 10.0, 1.25)


def test_provider_and_name() -> None:
    """`provider/name` finds the bare row, but only under the same provider."""
    assert lookup("anthropic/claude-sonnet-4-5") == lookup("claude-sonnet-4-5")
    assert lookup("groq/gpt-4o") is None


def test_unknown_models_are_unknown() -> None:
    """No guess."""
    assert lookup("nobody/nothing") is None


def test_no_function_calling_is_said() -> None:
    """A chat model that the table lists without it gets the fence protocol."""
    facts = lookup("ollama/llama3")
    assert facts is not None
    assert not facts.tools


def test_litellm_is_not_imported() -> None:
    """Seconds of start-up are not paid for a table."""
    code = (
        "import sys; from harnessctl.models.prices import lookup; assert lookup('gpt-4o'); "
        "bad = {'litellm', 'openai', 'httpx'} & set(sys.modules); assert not bad, bad"
    )
    subprocess.run([sys.executable, "-c", code], check=True)
