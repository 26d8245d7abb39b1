"""Stands in for the library of that name: the same few names, and the fake chat server behind them.

The weights file chooses what happens: ``GGUF fail`` raises on loading, ``GGUF gomp`` as where
a system library is missing, ``GGUF slow`` never finishes.
"""

from __future__ import annotations

import sys
import time
from pathlib import Path
from types import SimpleNamespace

sys.path.insert(0, str(Path(__file__).parents[3]))

from tests.fakes.openai_server import Answer, Fail, FakeOpenAI, Say, Seen


class CommonParams(SimpleNamespace):
    """Any attribute, like the real one's."""

    def __init__(self) -> None:
        super().__init__(
            model=SimpleNamespace(),
            cpuparams=SimpleNamespace(),
            cpuparams_batch=SimpleNamespace(),
            sampling=SimpleNamespace(),
        )


class Server:
    """Answers every chat with the parameters it was given."""

    def __init__(self, params: CommonParams) -> None:
        print("llama.cpp talks a lot")
        weights = Path(params.model.path).read_bytes()
        if weights == b"GGUF fail":
            raise RuntimeError("failed to load the weights")
        if weights == b"GGUF gomp":
            raise ImportError("libgomp.so.1: cannot open shared object file: No such file or directory")
        if weights == b"GGUF slow":
            time.sleep(600)
        self._server = FakeOpenAI(self._answer)
        self._params = params
        self._server.__enter__()
        self.listening_address = self._server.base_url.removesuffix("/v1")

    def _answer(self, seen: Seen) -> Answer:
        p = self._params
        if seen.headers.get("authorization") != f"Bearer {p.api_keys[0]}":
            return Fail(401, "Invalid API Key")
        return Say(f"window {p.n_ctx}, output {p.n_predict}, temperature {p.sampling.temp}, port {p.port}")
