"""A model and a kernel for long sessions: replies and outputs of many sizes, the same in every run."""

from __future__ import annotations

import json
import random
import re
from collections.abc import Callable, Sequence

from harnessctl.domain.cell import CellRun
from harnessctl.domain.event import Event
from harnessctl.domain.limits import Usage
from harnessctl.domain.message import Message, ToolCall
from harnessctl.layers.l0_weights import ModelIdentity
from harnessctl.layers.l1_context.blocks import PartKind
from harnessctl.layers.l1_context.view import View
from harnessctl.models.port import ModelReply, ModelRequest, OnText, OnWait, ProviderError
from harnessctl.models.tokens import estimate_messages
from tests.fakes.kernels import FakeKernel, ran

FACT = "the staging database listens on port 54713, not on 5432"
FACT_TURN = 3
SUMMARY = (
    "## Task\nmany steps\n## State\nstep by step\n## Constraints\n## Decisions\ngo on\n## Open work\nthe rest"
)
#: Words of a made-up log, so that texts are unlike each other.
WORDS = (
    *("alpha", "beta", "gamma", "delta", "request", "timeout", "retry"),
    *("user", "order", "index", "cache", "build", "failed", "passed"),
)


class LongModel:
    """Runs one cell a turn, several now and then, and answers after ``turns``.

    :ivar summary: what it answers a request for a summary; None fails it.
    :ivar provider_scale: how many tokens it reports for each that we count; None reports none.
    """

    def __init__(
        self,
        turns: int,
        window: int | None,
        *,
        tools: bool = True,
        summary: str | None = SUMMARY,
        provider_scale: float | None = None,
    ) -> None:
        self.identity = ModelIdentity("fake", "long", window=window, tools=tools)
        self.turns, self.summary, self.scale = turns, summary, provider_scale
        self.requests: list[ModelRequest] = []
        self.summaries: list[ModelRequest] = []

    async def complete(
        self, request: ModelRequest, *, on_text: OnText | None = None, on_wait: OnWait | None = None
    ) -> ModelReply:
        if request.consumer == "summary":
            self.summaries.append(request)
            if self.summary is None:
                raise ProviderError("no summary today", kind="unavailable")
            return ModelReply(self.summary, usage=self._usage(request))
        self.requests.append(request)
        number = request.place + 1
        if number > self.turns:
            return ModelReply("Done.", usage=self._usage(request))
        codes = [f"step({number}, {part})" for part in range(12 if number % 97 == 0 else 1)]
        if number % 31 == 0:
            codes[0] += "\n# " + "a long remark " * 400
        said = f"Step {number}: {WORDS[number % len(WORDS)]}."
        if not self.identity.tools:
            return ModelReply(f"{said}\n```python\n{codes[0]}\n```", usage=self._usage(request))
        calls = [ToolCall(f"c{at}", "ipython", json.dumps({"code": code})) for at, code in enumerate(codes)]
        return ModelReply(said, tuple(calls), "tool_calls", self._usage(request))

    def _usage(self, request: ModelRequest) -> Usage:
        count = self.count_tokens(request.messages)
        scale = self.scale or 1.0
        return Usage(int(count * scale), 10, calls=1, estimated=self.scale is None)

    def count_tokens(self, messages: tuple[Message, ...]) -> int:
        return estimate_messages(messages)

    async def aclose(self) -> None:
        return None


def long_kernel(turns: int) -> FakeKernel:
    """A kernel whose outputs go from nothing to far more than a window; one holds :data:`FACT`."""
    chance = random.Random(7)

    def one(code: str) -> CellRun:
        if code.startswith(f"step({FACT_TURN},"):
            return ran(f"checked the configuration\n{FACT}\n")
        size = chance.choice([0, 3, 20, 20, 200, 200, 3000, 60_000])
        return ran(" ".join(chance.choices(WORDS, k=size)) + f"\nend of {code[:20]}\n" if size else "")

    return FakeKernel(*[one] * (turns * 2))


def check_compactions(events: Sequence[Event], system: str, protocol: str) -> int:
    """Compare every landmark with what left the view by it; how many compactions there were."""
    view, count = View(system, protocol), 0  # type: ignore[arg-type]
    for event in events:
        if event.type != "compaction":
            view.add(event)
            continue
        count += 1
        pinned, newest = view.pinned, _numbers(view, lambda v: v.blocks[v.newest :])
        before = _numbers(view, lambda v: v.blocks[1:])
        view.add(event)
        after = _numbers(view, lambda v: v.blocks[1:])
        gone = {n for first, last in view.evicted for n in range(first, last + 1)}
        assert before - after <= gone, "something left without an address"
        assert not gone & after, "an address names what is still there"
        assert all(0 < first <= last < event.n for first, last in view.evicted)
        assert pinned | newest <= after, "the active request was evicted"
        for n, text in zip(event.data["folded"], event.data["stands"], strict=True):
            number = int(str(n).split("/")[0])
            assert f"#{number} " in text
            assert number in after
        if event.data["what"] == "evict":
            assert _named(event.data["landmark"]) == [tuple(span) for span in event.data["evicted"]]
            assert any(event.data["landmark"] in message.content for message in view.messages)
    return count


def _named(landmark: str) -> list[tuple[int, int]]:
    """The spans of events that a landmark's first line names."""
    listed = re.search(r"events? (#\d+(?:-\d+)?(?:, #\d+(?:-\d+)?)*) of this session", landmark)
    assert listed, landmark[:200]
    spans = [re.fullmatch(r"#(\d+)(?:-(\d+))?", one) for one in listed[1].split(", ")]
    return [(int(span[1]), int(span[2] or span[1])) for span in spans if span]


def _numbers(view: View, of: Callable[[View], list[object]]) -> set[int]:
    blocks = of(view)
    return {
        part.n
        for block in blocks
        for part in block.parts  # type: ignore[attr-defined]
        if part.kind is not PartKind.LANDMARK
    } | {block.n for block in blocks if block.role != "user"}  # type: ignore[attr-defined]
