"""From a model's name to a client: ``scripted:FILE``, ``local``, ``local:FILE``, or any litellm name."""

from __future__ import annotations

import os
from collections.abc import Callable
from dataclasses import dataclass, replace
from pathlib import Path

from harnessctl.config import Environment, Settings
from harnessctl.domain.errors import MissingExtraError, UsageError, install_hint
from harnessctl.domain.ids import suggestion
from harnessctl.layers.l0_weights import ModelIdentity
from harnessctl.models.litellm_client import LitellmClient, can_route, preload
from harnessctl.models.local import LocalClient, local_identity, require_local
from harnessctl.models.local_weights import OnProgress
from harnessctl.models.port import ModelClient
from harnessctl.models.prices import lookup, providers, run_extra_installed
from harnessctl.models.script import read_script
from harnessctl.models.scripted import ScriptedClient

#: Sent to the user's own endpoint when there is no key: most such servers want none, the protocol wants one.
NO_KEY = "no-key"


@dataclass(frozen=True, slots=True)
class ModelSource:
    """A model that was found: who it is, and how to get a client for it.

    :ivar name: what finds it again, from any folder.

    Nothing heavy is imported or started before the client's first call; ``warm`` may be called earlier
    to begin it in the background.
    """

    identity: ModelIdentity
    build: Callable[[], ModelClient]
    warm: Callable[[], None]
    name: str = ""


def _silent(what: str, done: int, total: int) -> None:
    """Progress that nobody asked for."""


def resolve(
    name: str | None, settings: Settings, environment: Environment, *, on_progress: OnProgress = _silent
) -> ModelSource:
    """The model called ``name``; None takes the configured one.

    :param on_progress: told how far joining and loading the local model are.
    :raises UsageError: no model is configured, or the name means nothing.
    :raises MissingExtraError: the extra that the model needs is not installed.
    """
    name = name or settings.model
    if not name:
        raise not_configured(environment)
    kind, _, rest = name.partition(":")
    if kind == "scripted" and rest:
        file = _path(rest)
        script = read_script(file)
        identity = _protocol(script.identity, settings)
        found = f"scripted:{file.absolute()}"
        return ModelSource(
            identity, lambda: ScriptedClient(replace(script, identity=identity)), _nothing, found
        )
    if name == "local" or (kind == "local" and rest):
        return _local(_path(rest) if rest else None, settings, environment, on_progress)
    return _litellm(name, settings, environment)


def not_configured(environment: Environment) -> UsageError:
    """Four lines that say what to set."""
    return UsageError(
        "no model is configured",
        id="no_model",
        hint="name one with --model, as in: --model anthropic/claude-sonnet-4-5\n"
        "or in the environment, beside the provider's key: export HARNESSCTL_MODEL=openai/gpt-4o\n"
        f'or for good, under [run] in {environment.config_home / "config.toml"}: model = "openai/gpt-4o"\n'
        f"or run one here, without a key: {install_hint('local')}, then --model local",
    )


def _path(text: str) -> Path:
    """``text`` as a path; ``~name`` of nobody stays as it is."""
    return Path(os.path.expanduser(text))


def _nothing() -> None:
    """A model that needs no warming."""


def _protocol(identity: ModelIdentity, settings: Settings) -> ModelIdentity:
    """``identity`` with the user's protocol and window in place of what is known of the model."""
    tools = identity.tools if settings.protocol == "auto" else settings.protocol == "tool"
    return replace(identity, tools=tools, window=settings.window or identity.window)


def _local(
    weights: Path | None, settings: Settings, environment: Environment, on_progress: OnProgress
) -> ModelSource:
    require_local(weights)
    identity = _protocol(local_identity(weights), settings)

    def build() -> ModelClient:
        return LocalClient(
            identity,
            cache=environment.cache_home,
            variables=environment.variables,
            weights=weights,
            on_progress=on_progress,
        )

    return ModelSource(identity, build, preload, f"local:{weights.absolute()}" if weights else "local")


def _litellm(name: str, settings: Settings, environment: Environment) -> ModelSource:
    if "://" in name:
        # litellm takes an address inside some names, and would send the provider's key there.
        raise UsageError(
            f"a model's name holds no address: {name}",
            id="bad_model",
            hint="set the endpoint with HARNESSCTL_API_BASE or in your own config.toml",
        )
    if not run_extra_installed():
        raise MissingExtraError(f"the model {name}", "run")
    identity, route = _identity(name, settings)
    key = environment.variables.get(settings.api_key_env) if settings.api_key_env else None
    if settings.api_key_env and not key:
        raise UsageError(
            f"the variable {settings.api_key_env}, which should hold the model's key, is not set",
            id="no_key",
            hint=f"export {settings.api_key_env}=…",
        )

    if key is None and settings.api_base and "OPENAI_API_KEY" not in environment.variables:
        key = NO_KEY if identity.provider == "openai" else None

    def build() -> ModelClient:
        return LitellmClient(identity, route, api_base=settings.api_base, api_key=key)

    return ModelSource(identity, build, preload, name)


def _identity(name: str, settings: Settings) -> tuple[ModelIdentity, str]:
    """Identity and litellm's name for the model, from the table that ships with litellm.

    A provider that is in none of its files may still be one: litellm is asked, which imports it.
    """
    facts = lookup(name)
    provider, slash, bare = name.partition("/")
    if slash and not (provider.strip() and bare.strip()):
        raise UsageError(
            f"{name!r} names no model", id="bad_model", hint="write provider/name, as in openai/gpt-4o"
        )
    if facts is None and slash and provider not in providers() and not can_route(name, settings.api_base):
        near = suggestion(provider, providers())
        raise UsageError(
            f"no provider is known as {provider!r}, which {name!r} begins with",
            id="unknown_model",
            hint=f"{near}write provider/name, as in openai/gpt-4o; at an endpoint of your own, openai/{name}",
        )
    if facts is None and not slash:
        if not settings.api_base:
            raise UsageError(
                f"no model is known as {name!r}",
                id="unknown_model",
                hint="write provider/name, as in openai/gpt-4o; or scripted:FILE, local, local:FILE.gguf",
            )
        # An endpoint of the user's own that speaks OpenAI's protocol.
        provider, bare, name = "openai", name, f"openai/{name}"
    if facts is not None and not slash:
        provider, bare = facts.provider, name
    identity = ModelIdentity(
        provider,
        bare,
        window=facts.window if facts else None,
        max_output=facts.max_output if facts else None,
        price=facts.price if facts else None,
        tools=facts.tools if facts else True,
    )
    return _protocol(identity, settings), name
