"""A loopback HTTP server that speaks the OpenAI chat protocol, scripted, with failures on demand.

``with FakeOpenAI([Say("hi"), Fail(429, headers={"Retry-After": "3"}), Say(code="print(1)")]) as server``
answers the requests in turn and keeps each of them in ``server.requests``. Instead of a list it takes a
function from a :class:`Seen` request to an answer.
"""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any


@dataclass(frozen=True)
class Say:
    """A reply: text, code for the ``ipython`` tool, or raw calls as (name, argument text).

    :ivar usage: (prompt, completion, cached) tokens; None sends no usage at all.
    :ivar cut_after: end the stream after so many chunks, as ``cut_how`` says: ``drop`` breaks the HTTP
        body, ``end`` closes it in order but too early, ``error`` sends an error event (``cut_message``).
    :ivar delay_s: silence before the first byte; ``chunk_delay_s``: before every chunk.
    """

    content: str | None = None
    code: str | None = None
    calls: tuple[tuple[str, str], ...] = ()
    finish: str | None = None
    usage: tuple[int, int, int] | None = (100, 20, 0)
    cut_after: int | None = None
    cut_how: str = "drop"
    cut_message: str = "overloaded"
    delay_s: float = 0.0
    chunk_delay_s: float = 0.0

    def all_calls(self) -> tuple[tuple[str, str], ...]:
        """``code`` and ``calls`` as (name, argument text)."""
        first = () if self.code is None else (("ipython", json.dumps({"code": self.code})),)
        return first + self.calls

    def finish_reason(self) -> str:
        """As given, or what fits."""
        return self.finish or ("tool_calls" if self.all_calls() else "stop")


@dataclass(frozen=True)
class Fail:
    """An HTTP error. A ``message`` becomes OpenAI's error object; ``body`` is sent as it is."""

    status: int
    message: str = "the fake server refuses"
    code: str | None = None
    param: str | None = None
    headers: Mapping[str, str] = field(default_factory=dict)
    body: str | None = None

    def payload(self) -> bytes:
        """The body."""
        if self.body is not None:
            return self.body.encode()
        error = {"message": self.message, "type": "error", "code": self.code, "param": self.param}
        return json.dumps({"error": error}).encode()


@dataclass(frozen=True)
class Hang:
    """Silence until the server closes, after the head of a stream when ``head``."""

    head: bool = False


Answer = Say | Fail | Hang


@dataclass(frozen=True)
class Seen:
    """A request as it arrived."""

    method: str
    path: str
    headers: Mapping[str, str]
    body: Any
    at: float

    @property
    def messages(self) -> list[dict[str, Any]]:
        """The request's messages."""
        return list(self.body["messages"])

    def text(self) -> str:
        """The whole body as text, to look for a token in."""
        return json.dumps(self.body, ensure_ascii=False)


class FakeOpenAI:
    """The server; a context manager. ``base_url`` ends in ``/v1``."""

    def __init__(self, answers: Iterable[Answer] | Callable[[Seen], Answer]) -> None:
        self._choose = answers if callable(answers) else _in_turn(list(answers))
        self._lock = threading.Lock()
        self.closing = threading.Event()
        self.asked = threading.Event()  # set with the first request
        self.requests: list[Seen] = []
        self._server = _Server(("127.0.0.1", 0), _Handler)
        self._server.fake = self
        self._thread = threading.Thread(target=self._server.serve_forever, args=(0.02,), daemon=True)

    @property
    def port(self) -> int:
        """The port it listens on."""
        return int(self._server.server_address[1])

    @property
    def base_url(self) -> str:
        """What a client takes as its endpoint."""
        return f"http://127.0.0.1:{self.port}/v1"

    @property
    def environment(self) -> dict[str, str]:
        """Variables with which the command finds it: ``openai/...`` with a key that is none."""
        return {"OPENAI_API_KEY": "sk-test", "HARNESSCTL_API_BASE": self.base_url}

    def __enter__(self) -> FakeOpenAI:
        self._thread.start()
        return self

    def __exit__(self, *exc: object) -> None:
        self.closing.set()
        self._server.shutdown()
        self._thread.join()
        self._server.server_close()

    def answer(self, seen: Seen) -> Answer:
        """Record a request and choose its answer."""
        with self._lock:
            self.requests.append(seen)
            self.asked.set()
            return self._choose(seen)


def _in_turn(answers: list[Answer]) -> Callable[[Seen], Answer]:
    rest = iter(answers)

    def choose(_: Seen) -> Answer:
        out = Fail(400, f"the fake server has no answer left, it had {len(answers)}")
        return next(rest, out)

    return choose


class _Server(ThreadingHTTPServer):
    daemon_threads = True
    block_on_close = False
    fake: FakeOpenAI

    def handle_error(self, request: Any, client_address: Any) -> None:
        """A client that went away is what several tests want."""


class _Handler(BaseHTTPRequestHandler):
    server: _Server

    def log_message(self, format: str, *args: object) -> None:  # noqa: A002 - the base class's name
        """Silent."""

    def do_GET(self) -> None:
        self._serve(None)

    def do_POST(self) -> None:
        raw = self.rfile.read(int(self.headers.get("Content-Length") or 0))
        self._serve(json.loads(raw) if raw else None)

    def _serve(self, body: Any) -> None:
        fake = self.server.fake
        seen = Seen(self.command, self.path, dict(self.headers.items()), body, time.monotonic())
        answer = fake.answer(seen)
        stream = bool(body and body.get("stream"))
        if isinstance(answer, Fail):
            self._send(answer.status, answer.payload(), answer.headers)
        elif isinstance(answer, Hang):
            if answer.head:
                self._head(200, {"Content-Type": "text/event-stream"})
            fake.closing.wait()
        elif stream:
            self._stream(answer, body)
        else:
            fake.closing.wait(answer.delay_s)
            self._send(200, json.dumps(whole(answer, body)).encode(), {})

    def _head(self, status: int, headers: Mapping[str, str]) -> None:
        self.send_response(status)
        for name, value in headers.items():
            self.send_header(name, value)
        self.send_header("Connection", "close")
        self.end_headers()
        self.wfile.flush()

    def _send(self, status: int, payload: bytes, headers: Mapping[str, str]) -> None:
        size = {"Content-Length": str(len(payload))}
        self._head(status, {"Content-Type": "application/json", **size, **headers})
        self.wfile.write(payload)

    def _stream(self, say: Say, body: Any) -> None:
        closing = self.server.fake.closing
        closing.wait(say.delay_s)
        self._head(200, {"Content-Type": "text/event-stream", "Transfer-Encoding": "chunked"})
        chunks = [f"data: {json.dumps(c)}\n\n" for c in stream_chunks(say, body)] + ["data: [DONE]\n\n"]
        for number, chunk in enumerate(chunks):
            if number == say.cut_after:
                if say.cut_how == "drop":
                    return  # without the last, empty HTTP chunk: the client sees a broken body
                if say.cut_how == "error":
                    self._chunk(f"data: {json.dumps({'error': {'message': say.cut_message}})}\n\n")
                break
            closing.wait(say.chunk_delay_s)
            self._chunk(chunk)
        self.wfile.write(b"0\r\n\r\n")

    def _chunk(self, text: str) -> None:
        data = text.encode()
        self.wfile.write(b"%x\r\n%s\r\n" % (len(data), data))
        self.wfile.flush()

    protocol_version = "HTTP/1.1"


def _usage(usage: tuple[int, int, int]) -> dict[str, Any]:
    prompt, completion, cached = usage
    return {
        "prompt_tokens": prompt,
        "completion_tokens": completion,
        "total_tokens": prompt + completion,
        "prompt_tokens_details": {"cached_tokens": cached},
    }


def _call(index: int, name: str, arguments: str) -> dict[str, Any]:
    return {"id": f"call_{index}", "type": "function", "function": {"name": name, "arguments": arguments}}


def whole(say: Say, body: Any) -> dict[str, Any]:
    """The reply as one object, for a request without ``stream``."""
    message: dict[str, Any] = {"role": "assistant", "content": say.content}
    calls = [_call(i, name, arguments) for i, (name, arguments) in enumerate(say.all_calls())]
    if calls:
        message["tool_calls"] = calls
    return {
        "id": "chatcmpl-fake",
        "object": "chat.completion",
        "created": 1,
        "model": body["model"],
        "choices": [{"index": 0, "message": message, "finish_reason": say.finish_reason()}],
        **({} if say.usage is None else {"usage": _usage(say.usage)}),
    }


def stream_chunks(say: Say, body: Any) -> list[dict[str, Any]]:
    """The reply as the chunks of a stream: text in pieces of 8, arguments in pieces of 10 characters."""
    base = {"id": "chatcmpl-fake", "object": "chat.completion.chunk", "created": 1, "model": body["model"]}

    def chunk(delta: dict[str, Any], finish: str | None = None) -> dict[str, Any]:
        return {**base, "choices": [{"index": 0, "delta": delta, "finish_reason": finish}]}

    chunks = [chunk({"role": "assistant", "content": None if say.content is None else ""})]
    text = say.content or ""
    chunks += [chunk({"content": text[i : i + 8]}) for i in range(0, len(text), 8)]
    for index, (name, arguments) in enumerate(say.all_calls()):
        chunks.append(chunk({"tool_calls": [{"index": index, **_call(index, name, "")}]}))
        for i in range(0, len(arguments), 10):
            piece = {"index": index, "function": {"arguments": arguments[i : i + 10]}}
            chunks.append(chunk({"tool_calls": [piece]}))
    chunks.append(chunk({}, say.finish_reason()))
    if say.usage is not None and (body.get("stream_options") or {}).get("include_usage"):
        chunks.append({**base, "choices": [], "usage": _usage(say.usage)})
    return chunks
