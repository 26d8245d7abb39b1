"""``local`` and ``local:FILE``: a model on this machine, served on loopback by a process of its own."""

from __future__ import annotations

import asyncio
import os
import platform
import secrets
import sys
from collections.abc import Mapping
from importlib.util import find_spec
from pathlib import Path

from harnessctl.domain.errors import MissingExtraError, UsageError
from harnessctl.domain.message import Message
from harnessctl.domain.plain_files import opened
from harnessctl.layers.l0_weights import ModelIdentity, Price
from harnessctl.models.litellm_client import LitellmClient, preload
from harnessctl.models.local_process import LocalProcess
from harnessctl.models.local_server import Order
from harnessctl.models.local_weights import QWEN, OnProgress, cached_weights
from harnessctl.models.port import ModelReply, ModelRequest, OnText, OnWait
from harnessctl.models.prices import run_extra_installed
from harnessctl.models.retry import RetryPolicy
from harnessctl.models.tokens import estimate_messages

#: Tokens of context: 0.5 GB beside the weights, and at 45 tokens a second six minutes of reading.
WINDOW = 16_384
#: A small model that has not finished by then repeats itself.
MAX_OUTPUT = 1_024
#: Seconds of silence: a full window at 40 tokens a second, doubled.
SILENCE_S = 900.0


def local_identity(weights: Path | None = None, window: int | None = None) -> ModelIdentity:
    """The identity of the pinned model, or of the file ``weights``. Costs nothing, calls no tools."""
    name = QWEN.name if weights is None else weights.stem
    return ModelIdentity("local", name, window or WINDOW, MAX_OUTPUT, Price(0.0, 0.0), tools=False)


def require_local(weights: Path | None = None) -> None:
    """Check what can be checked before the first call.

    :raises MissingExtraError: xllamacpp, or litellm to talk to it, is not installed.
    :raises UsageError: no such file, not a GGUF file, or a system the extra has no wheels for.
    """
    if sys.platform not in ("linux", "darwin"):
        raise UsageError(
            f"the local model does not run on {platform.system()}",
            id="local_unsupported",
            hint="name a provider's model with --model",
        )
    if find_spec("xllamacpp") is None or not run_extra_installed():
        raise MissingExtraError("the local model", "local")
    if weights is not None:
        _require_gguf(weights)


def _require_gguf(path: Path) -> None:
    try:
        with open(opened(path), "rb") as source:
            magic = source.read(4)
    except OSError as error:
        raise UsageError(
            f"cannot read the weights {path}: {error.strerror}",
            id="no_weights",
            hint="local:FILE takes a path to a .gguf file",
        ) from error
    if magic != b"GGUF":
        raise UsageError(f"{path} is not a GGUF file", id="no_weights", hint="local:FILE takes a .gguf file")


class LocalClient:
    """A :class:`harnessctl.models.port.ModelClient` that starts its server with the first request."""

    def __init__(
        self,
        identity: ModelIdentity,
        *,
        cache: Path,
        variables: Mapping[str, str],
        weights: Path | None = None,
        on_progress: OnProgress,
    ) -> None:
        self._identity = identity
        self._cache = cache
        self._variables = variables
        self._weights = weights
        self._on_progress = on_progress
        self._starting = asyncio.Lock()
        self._server: LocalProcess | None = None
        self._client: LitellmClient | None = None

    @property
    def identity(self) -> ModelIdentity:
        """Who answers: ``local/<name of the weights>``."""
        return self._identity

    async def complete(
        self, request: ModelRequest, *, on_text: OnText | None = None, on_wait: OnWait | None = None
    ) -> ModelReply:
        """Answer ``request``; the first one joins and loads the weights.

        :raises HarnessError: the weights or the server are not to be had.
        :raises ProviderError: no reply.
        """
        return await (await self._ready()).complete(request, on_text=on_text, on_wait=on_wait)

    async def _ready(self) -> LitellmClient:
        async with self._starting:
            if self._client is None or self._server is None or not self._server.alive:
                await self.aclose()
                preload()
                self._client = await self._start()
            return self._client

    async def _start(self) -> LitellmClient:
        name = self._identity.name
        order = Order(
            weights=str(self._weights or await self._cached()),
            name=name,
            key=secrets.token_urlsafe(32),
            window=self._identity.window or WINDOW,
            max_output=self._identity.max_output or MAX_OUTPUT,
            threads=os.cpu_count() or 1,
        )
        self._server = await LocalProcess.start(
            order,
            self._cache / "logs" / "local-model.log",
            self._variables,
            lambda seconds: self._on_progress("loading the local model", seconds, 0),
        )
        return LitellmClient(
            self._identity,
            f"openai/{name}",
            api_base=f"{self._server.address}/v1",
            api_key=order.key,
            timeout_s=SILENCE_S,
            policy=RetryPolicy(tries=2),
        )

    async def _cached(self) -> Path:
        loop = asyncio.get_running_loop()

        def told(what: str, done: int, total: int) -> None:
            loop.call_soon_threadsafe(self._on_progress, what, done, total)

        return await asyncio.to_thread(cached_weights, self._cache, told)

    def count_tokens(self, messages: tuple[Message, ...]) -> int:
        """Estimated tokens of ``messages``."""
        return estimate_messages(messages)

    async def aclose(self) -> None:
        """End the server."""
        client, server = self._client, self._server
        self._client = self._server = None
        if client is not None:
            await client.aclose()
        if server is not None:
            await server.close()
