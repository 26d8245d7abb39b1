"""Any provider, through litellm. The only module that imports it, and only when a model is called.

litellm would retry, print, read a ``.env`` file of the current folder and look up prices on the network;
all four are switched off, the last two by variables that it reads on import.
"""

from __future__ import annotations

import asyncio
import os
import threading
import time
import warnings
from collections.abc import Mapping
from dataclasses import dataclass, replace
from functools import cache
from types import ModuleType
from typing import Any
from urllib.parse import urlsplit

from harnessctl.domain.limits import Usage
from harnessctl.domain.message import Message
from harnessctl.layers.l0_weights import ModelIdentity
from harnessctl.models.failures import TryError
from harnessctl.models.litellm_errors import refused_parameter, translate
from harnessctl.models.port import ModelReply, ModelRequest, OnText, OnWait
from harnessctl.models.retry import RetryPolicy, Sleep, with_retries
from harnessctl.models.tokens import estimate_messages, estimate_text, priced
from harnessctl.models.wire import TOOL, Assembly, outgoing

#: Set before the import. PRODUCTION: no ``.env`` is read, so a clone cannot redirect keys.
IMPORT_SETTINGS = {
    "LITELLM_MODE": "PRODUCTION",
    "LITELLM_LOCAL_MODEL_COST_MAP": "True",
    "LITELLM_LOG": "CRITICAL",
    "LITELLM_TELEMETRY": "False",
}
_loading = threading.Lock()


def load_litellm() -> ModuleType:
    """litellm, quiet and off the network. The first call imports it: 3 to 7 seconds."""
    with _loading:
        return _import_litellm()


@cache
def _import_litellm() -> ModuleType:
    os.environ.update(IMPORT_SETTINGS)
    with warnings.catch_warnings():
        # Deprecations inside litellm and what it imports; nobody who runs harnessctl can mend them.
        warnings.simplefilter("ignore")
        import litellm
    litellm.suppress_debug_info = True
    litellm.telemetry = False
    litellm.drop_params = False
    litellm.num_retries = 0
    # It would load a vocabulary (40 MB) and count every prompt again for callbacks that nobody registered;
    # usage comes from the provider or is estimated here.
    litellm.disable_token_counter = True
    litellm.disable_streaming_logging = True
    # httpx's own transport: it is closed with the client, and cancelling a call closes its socket.
    litellm.disable_aiohttp_transport = True
    module: ModuleType = litellm
    return module


def ignore_library_warnings() -> None:
    """Keep pydantic's and litellm's remarks on litellm's own types off the user's terminal.

    litellm imports more modules with the first call, so this outlasts the import.
    """
    warnings.filterwarnings("ignore", module=r"(litellm|pydantic)(\.|$)")


def preload() -> None:
    """Begin the import in the background, so that it overlaps with the start of a kernel."""
    threading.Thread(target=load_litellm, name="load-litellm", daemon=True).start()


def can_route(name: str, api_base: str | None) -> bool:
    """Whether litellm can tell whom to ask for the model ``name``; imports it."""
    litellm = load_litellm()
    try:
        litellm.get_llm_provider(name, api_base=api_base)
    except litellm.BadRequestError:
        return False
    return True


class LitellmClient:
    """A :class:`harnessctl.models.port.ModelClient` for any name litellm knows.

    :param route: litellm's name for the model, ``openai/gpt-4o``.
    :param api_base: endpoint, None for the provider's own. From the user only.
    :param api_key: None to let litellm take the provider's variable from the user's environment.
    :param timeout_s: seconds of silence after which a call has failed.
    """

    def __init__(
        self,
        identity: ModelIdentity,
        route: str,
        *,
        api_base: str | None = None,
        api_key: str | None = None,
        timeout_s: float = 300.0,
        policy: RetryPolicy | None = None,
        sleep: Sleep = asyncio.sleep,
    ) -> None:
        self._identity = identity
        self._route = route
        self._endpoint = {k: v for k, v in (("api_base", api_base), ("api_key", api_key)) if v}
        self._address = api_base and _without_keys(api_base)
        self._timeout_s = timeout_s
        self._policy = policy or RetryPolicy()
        self._sleep = sleep
        self._refused: set[str] = set()
        self._connected = False

    @property
    def identity(self) -> ModelIdentity:
        """Who answers."""
        return self._identity

    async def complete(
        self, request: ModelRequest, *, on_text: OnText | None = None, on_wait: OnWait | None = None
    ) -> ModelReply:
        """Stream one reply; it exists only once its stream is whole.

        :raises ProviderError: no reply, and no further retry makes sense.
        """
        litellm = await self._connect()
        ignore_library_warnings()
        messages = outgoing(request.messages)

        async def attempt() -> ModelReply:
            return await self._try(litellm, request, messages, on_text)

        return await with_retries(attempt, policy=self._policy, on_wait=on_wait, sleep=self._sleep)

    async def _try(
        self,
        litellm: ModuleType,
        request: ModelRequest,
        messages: list[dict[str, Any]],
        on_text: OnText | None,
    ) -> ModelReply:
        notes: list[str] = []
        while True:
            optional = self._optional(request)
            parts = Assembly()
            try:
                arguments = {**self._always(request, messages), **optional}
                reply = await self._stream(litellm, request, arguments, parts, on_text)
                return replace(reply, notes=tuple(notes))
            except TryError:
                raise
            except Exception as error:
                failure = translate(error, streaming=bool(parts.received))
                if parts.received:
                    failure.usage = self._estimate(request, parts)
                elif failure.kind == "bad_request" and (name := refused_parameter(error, optional)):
                    self._refused.add(name)
                    notes.append(f"the provider takes no {name!r}, left out: {failure.message}")
                    continue
                elif failure.status is None and failure.kind in ("unavailable", "timeout") and self._address:
                    failure.message += f" (asked {self._address})"
                raise failure from error

    def _always(self, request: ModelRequest, messages: list[dict[str, Any]]) -> dict[str, Any]:
        return {
            "model": self._route,
            "messages": messages,
            "stream": True,
            "timeout": self._timeout_s,
            "num_retries": 0,
            "max_retries": 0,
            **self._endpoint,
            **({"tools": [TOOL]} if request.tool else {}),
        }

    def _optional(self, request: ModelRequest) -> dict[str, Any]:
        """What a request can do without: never sent unless set, left out once it was refused."""
        optional: dict[str, Any] = dict(request.params)
        optional["stream_options"] = {"include_usage": True}
        if request.max_output is not None:
            # Newer OpenAI models refuse the old name.
            name = "max_completion_tokens" if "max_tokens" in self._refused else "max_tokens"
            optional[name] = request.max_output
        return {name: value for name, value in optional.items() if name not in self._refused}

    async def _stream(
        self,
        litellm: ModuleType,
        request: ModelRequest,
        arguments: Mapping[str, Any],
        parts: Assembly,
        on_text: OnText | None,
    ) -> ModelReply:
        began = time.monotonic()
        usage = None
        stream = await litellm.acompletion(**arguments)
        try:
            async for chunk in stream:
                usage = getattr(chunk, "usage", None) or usage
                take(chunk, parts, on_text)
        finally:
            if hasattr(stream, "aclose"):
                await stream.aclose()
        if getattr(stream, "received_finish_reason", "unknown") is None:
            raise self._cut(request, parts, "the stream ended without a finish reason")
        return ModelReply(
            content=parts.content,
            calls=parts.calls(),
            finish=parts.finish or "stop",
            usage=self._usage(usage, request, parts, reported(stream)),
            model=str(self._identity),
            ms=round((time.monotonic() - began) * 1000),
        )

    def _cut(self, request: ModelRequest, parts: Assembly, reason: str) -> TryError:
        usage = self._estimate(request, parts)
        return TryError("cut", f"the reply was cut: {reason}", None, True, usage=usage)

    def _estimate(self, request: ModelRequest, parts: Assembly) -> Usage:
        prompt = estimate_messages(request.messages)
        return priced(self._identity.price, prompt, estimate_text(parts.received), estimated=True)

    def _usage(self, usage: Any, request: ModelRequest, parts: Assembly, from_provider: bool) -> Usage:
        if usage is None or not from_provider:
            return self._estimate(request, parts)
        details = getattr(usage, "prompt_tokens_details", None)
        return priced(
            self._identity.price,
            int(usage.prompt_tokens or 0),
            int(usage.completion_tokens or 0),
            cached=int(getattr(details, "cached_tokens", None) or 0),
        )

    def count_tokens(self, messages: tuple[Message, ...]) -> int:
        """Estimated tokens of ``messages``."""
        return estimate_messages(messages)

    async def aclose(self) -> None:
        """Close litellm's connections, which all clients of a process share, when the last one goes."""
        if self._connected:
            self._connected = False
            _connections.users -= 1
            if not _connections.users:
                litellm = load_litellm()
                await litellm.close_litellm_async_clients()
                litellm.in_memory_llm_clients_cache.flush_cache()

    async def _connect(self) -> ModuleType:
        if not self._connected:
            self._connected = True
            _connections.users += 1
        return await asyncio.to_thread(load_litellm)


@dataclass
class _Connections:
    users: int = 0


_connections = _Connections()


def _without_keys(address: str) -> str:
    """``address`` for a message: a user, a password or a query may be a key."""
    parts = urlsplit(address)
    return f"{parts.scheme}://{parts.netloc.rpartition('@')[2]}{parts.path}"


def take(chunk: Any, parts: Assembly, on_text: OnText | None) -> None:
    """Add one chunk of litellm's stream to ``parts``."""
    for choice in chunk.choices[:1]:
        parts.finish = choice.finish_reason or parts.finish
        text = choice.delta.content
        if text:
            parts.add_text(text)
            if on_text is not None:
                on_text(text)
        for call in choice.delta.tool_calls or ():
            parts.add_call(call.index or 0, call.id, call.function.name, call.function.arguments)


def reported(stream: Any) -> bool:
    """Whether the provider itself sent usage: litellm makes one up otherwise, and does not say so."""
    return any(getattr(chunk, "usage", None) is not None for chunk in getattr(stream, "chunks", ()))
