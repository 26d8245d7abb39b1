"""Tokens and cost of a tree of sessions: reserved before a call, booked after it, on failure too."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from dataclasses import dataclass, field, replace

from harnessctl.domain.limits import Limits, Usage
from harnessctl.domain.outcome import RunStatus
from harnessctl.layers.l0_weights import ModelIdentity, Price
from harnessctl.rlm.ending import Ending, EndSession
from harnessctl.rlm.seat import ROOT

#: Output tokens reserved for a call when neither the user nor the model's limit says less.
USUAL_OUTPUT = 8_192
#: A reply in fewer tokens is not worth a call.
LEAST_OUTPUT = 64
#: How far off the estimates of calls that run side by side may be without a limit being passed twice.
MARGIN = 2


@dataclass(frozen=True, slots=True)
class Reservation:
    """What one call may use.

    :ivar prompt: estimated prompt tokens.
    :ivar output: tokens its reply may take.
    :ivar bounded: whether the call must be sent with ``output`` as its limit.
    """

    node: str
    prompt: int
    output: int
    price: Price | None
    bounded: bool

    @property
    def tokens(self) -> int:
        """Tokens set aside."""
        return self.prompt + self.output

    @property
    def cost_usd(self) -> float:
        """US dollars set aside; 0.0 where the price is not known."""
        return _cost(self.price, self.prompt, self.output)

    @property
    def estimate(self) -> Usage:
        """What a call that was cut off is booked as: its prompt was read, its reply is not known."""
        cost = None if self.price is None else _cost(self.price, self.prompt, 0)
        return Usage(prompt=self.prompt, calls=1, cost_usd=cost, estimated=True)


def _cost(price: Price | None, prompt: int, output: int) -> float:
    return 0.0 if price is None else (prompt * price.prompt + output * price.completion) / 1_000_000


@dataclass
class Budget:
    """The purse of a whole tree.

    Near a limit calls go one at a time: beside others a call is made only where twice everything that is
    set aside would fit. So one call at most passes a limit, however far off its estimate was.

    :ivar used: usage by node: the names of a session and of those above it, ``root/alice/bob``.
    :ivar caps: limits of tokens that nodes have beside the tree's, for themselves and all below them.
    """

    limits: Limits
    used: dict[str, Usage] = field(default_factory=dict)
    caps: dict[str, int] = field(default_factory=dict)
    _reserved: list[Reservation] = field(default_factory=list)
    _turn: asyncio.Lock = field(default_factory=asyncio.Lock)
    _freed: asyncio.Event = field(default_factory=asyncio.Event)

    @property
    def total(self) -> Usage:
        """Summed over the tree."""
        return sum(self.used.values(), Usage())

    def of(self, node: str) -> Usage:
        """Summed over ``node`` and all below it; over the whole tree for its root."""
        if node == ROOT:
            return self.total
        return sum((usage for name, usage in self.used.items() if _within(name, node)), Usage())

    async def reserve(
        self, node: str, prompt: int, model: ModelIdentity, max_output: int | None
    ) -> Reservation:
        """Set aside what one call may use; near a limit only when the calls before it have ended.

        :param prompt: estimated prompt tokens.
        :param max_output: the user's limit for one reply.
        :raises EndSession: the limit of tokens or cost does not allow the call.
        """
        output = max_output or min(model.max_output or USUAL_OUTPUT, USUAL_OUTPUT)
        bounded = max_output is not None
        if model.window is not None:
            # The estimate may be off: a provider that counts otherwise says so itself.
            output, bounded = min(output, max(LEAST_OUTPUT, model.window - prompt)), True
        wanted = Reservation(node, prompt, output, model.price, bounded)
        # In the order in which they came, so that none waits for ever.
        async with self._turn:
            while (found := self._fitted(wanted)) is None:
                self._freed.clear()
                await self._freed.wait()
            self._reserved.append(found)
        return found

    def book(self, reservation: Reservation, usage: Usage) -> None:
        """Replace a reservation by what was really used."""
        self.release(reservation)
        self.used[reservation.node] = self.used.get(reservation.node, Usage()) + usage

    def release(self, reservation: Reservation) -> None:
        """Give back what was set aside for a call that was never made."""
        self._reserved.remove(reservation)
        self._freed.set()

    def _fitted(self, wanted: Reservation) -> Reservation | None:
        """What ``wanted`` may be now; None while other calls must end first."""
        alone = True
        for node, limit in self._token_limits(wanted.node):
            left = limit - self.of(node).tokens - wanted.prompt
            if left < LEAST_OUTPUT:
                detail = f"the next call needs about {wanted.prompt + LEAST_OUTPUT:,} tokens"
                raise EndSession(Ending(RunStatus.BUDGET_EXHAUSTED, "tokens", detail=detail))
            held = sum(r.tokens for r in self._reserved if _within(r.node, node))
            wanted = replace(wanted, output=min(wanted.output, left), bounded=True)
            if held and self.of(node).tokens + MARGIN * (held + wanted.tokens) > limit:
                alone = False
        return wanted if self._affordable(wanted) and alone else None

    def _token_limits(self, node: str) -> Iterator[tuple[str, int]]:
        if self.limits.tokens is not None:
            yield "", self.limits.tokens
        yield from ((name, cap) for name, cap in self.caps.items() if _within(node, name))

    def _affordable(self, wanted: Reservation) -> bool:
        """Whether the cost fits now; False while other calls must end first."""
        limit = self.limits.cost_usd
        if limit is None:
            return True
        spent, held = self.total.cost_usd or 0.0, sum(r.cost_usd for r in self._reserved)
        if spent + wanted.cost_usd > limit:
            detail = f"the next call may cost {wanted.cost_usd:.4f} US dollars"
            raise EndSession(Ending(RunStatus.BUDGET_EXHAUSTED, "cost", detail=detail))
        return not held or spent + MARGIN * (held + wanted.cost_usd) <= limit


def _within(name: str, node: str) -> bool:
    """Whether ``name`` is ``node`` or stands below it; everything stands below ""."""
    return not node or name == node or name.startswith(f"{node}/")
