"""Windows, prices and capabilities of known models, and known providers, from what ships with litellm.

Read as files: importing litellm costs seconds, the table 40 ms. Nothing is looked up on a network.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from dataclasses import dataclass
from functools import lru_cache
from importlib.util import find_spec
from pathlib import Path
from typing import Any

from harnessctl.layers.l0_weights import Price

_TABLE = "model_prices_and_context_window_backup.json"
#: What each provider offers; names some of whom the table lists no model.
_PROVIDERS = "provider_endpoints_support_backup.json"


@dataclass(frozen=True, slots=True)
class ModelFacts:
    """What the table says of one model; None where it is silent.

    :ivar tools: False when the table knows the model and lists no function calling.
    """

    provider: str
    window: int | None = None
    max_output: int | None = None
    price: Price | None = None
    tools: bool = True


def run_extra_installed() -> bool:
    """Whether litellm is there, without importing it."""
    return find_spec("litellm") is not None


@lru_cache(maxsize=2)
def _shipped(file: str) -> Mapping[str, Any]:
    spec = find_spec("litellm")
    for folder in (spec.submodule_search_locations or ()) if spec else ():
        try:
            table: Mapping[str, Any] = json.loads((Path(folder) / file).read_bytes())
            return table
        except (OSError, ValueError):
            continue
    return {}


def providers() -> set[str]:
    """Names of providers that models' names may begin with; litellm itself knows a few more."""
    rows = _shipped(_TABLE).values()
    return {str(row.get("litellm_provider", "")) for row in rows} | {
        *_shipped(_PROVIDERS).get("providers", ())
    }


def lookup(name: str) -> ModelFacts | None:
    """Facts of ``name`` (``gpt-4o``, ``anthropic/claude-sonnet-4-5``, …), None when unknown.

    ``provider/name`` falls back to the bare name, if the table lists that under the same provider.
    """
    table = _shipped(_TABLE)
    provider, _, bare = name.partition("/")
    row = table.get(name)
    if row is None and bare:
        row = table.get(bare)
        if row is not None and row.get("litellm_provider") != provider:
            row = None
    return None if row is None else _facts(row)


def _facts(row: Mapping[str, Any]) -> ModelFacts:
    return ModelFacts(
        provider=str(row.get("litellm_provider", "")),
        window=_count(row.get("max_input_tokens")) or _count(row.get("max_tokens")),
        max_output=_count(row.get("max_output_tokens")),
        price=_price(row),
        tools=bool(row.get("supports_function_calling")),
    )


def _count(value: object) -> int | None:
    return int(value) if isinstance(value, int | float) and value > 0 else None


def _price(row: Mapping[str, Any]) -> Price | None:
    prompt, completion = row.get("input_cost_per_token"), row.get("output_cost_per_token")
    if not isinstance(prompt, int | float) or not isinstance(completion, int | float):
        return None
    cached = row.get("cache_read_input_token_cost")
    # Rounded: the table gives dollars a token, and 2.5e-06 * 1e6 is not quite 2.5.
    million = [
        round(v * 1e6, 6) if isinstance(v, int | float) else None for v in (prompt, completion, cached)
    ]
    return Price(million[0] or 0.0, million[1] or 0.0, million[2])
