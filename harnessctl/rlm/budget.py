"""Tokens and cost of a tree of sessions: reserved before a call, booked after it, on failure too."""

from __future__ import annotations

from dataclasses import dataclass, field

from harnessctl.domain.limits import Limits, Usage
from harnessctl.domain.outcome import RunStatus
from harnessctl.layers.l0_weights import ModelIdentity, Price
from harnessctl.rlm.ending import Ending, EndSession

#: Output tokens reserved for a call when neither the user nor the model's limit says less.
USUAL_OUTPUT = 8_192
#: A reply in fewer tokens is not worth a call.
LEAST_OUTPUT = 64


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
    cost_usd: float
    bounded: bool

    @property
    def tokens(self) -> int:
        """Tokens set aside."""
        return self.prompt + self.output


@dataclass
class Budget:
    """The purse of a whole tree.

    :ivar used: usage by node (the root's name is ``root``).
    """

    limits: Limits
    used: dict[str, Usage] = field(default_factory=dict)
    _reserved: list[Reservation] = field(default_factory=list)

    @property
    def total(self) -> Usage:
        """Summed over the tree."""
        return sum(self.used.values(), Usage())

    def reserve(self, node: str, prompt: int, model: ModelIdentity, max_output: int | None) -> Reservation:
        """Set aside what one call may use.

        :param prompt: estimated prompt tokens.
        :param max_output: the user's limit for one reply.
        :raises EndSession: the limit of tokens or cost does not allow the call.
        """
        output = min(o for o in (max_output, model.max_output, USUAL_OUTPUT) if o is not None)
        output = max_output or output
        bounded = max_output is not None
        room = self._room(prompt, model)
        if room is not None:
            bounded, output = True, min(output, room)
        reservation = Reservation(node, prompt, output, _cost(model.price, prompt, output), bounded)
        self._check_cost(reservation)
        self._reserved.append(reservation)
        return reservation

    def book(self, reservation: Reservation, usage: Usage) -> None:
        """Replace a reservation by what was really used."""
        self._reserved.remove(reservation)
        self.used[reservation.node] = self.used.get(reservation.node, Usage()) + usage

    def _room(self, prompt: int, model: ModelIdentity) -> int | None:
        """Output tokens that window and token limit leave; None when neither is known."""
        rooms = []
        if self.limits.tokens is not None:
            left = self.limits.tokens - self.total.tokens - sum(r.tokens for r in self._reserved) - prompt
            if left < LEAST_OUTPUT:
                detail = f"the next call needs about {prompt + LEAST_OUTPUT:,} tokens"
                raise EndSession(Ending(RunStatus.BUDGET_EXHAUSTED, "tokens", detail=detail))
            rooms.append(left)
        if model.window is not None:
            # The estimate may be off: a provider that counts otherwise says so itself.
            rooms.append(max(LEAST_OUTPUT, model.window - prompt))
        return min(rooms) if rooms else None

    def _check_cost(self, reservation: Reservation) -> None:
        limit = self.limits.cost_usd
        if limit is None:
            return
        held = (self.total.cost_usd or 0.0) + sum(r.cost_usd for r in self._reserved)
        if held + reservation.cost_usd > limit:
            detail = f"the next call may cost {reservation.cost_usd:.4f} US dollars"
            raise EndSession(Ending(RunStatus.BUDGET_EXHAUSTED, "cost", detail=detail))


def _cost(price: Price | None, prompt: int, output: int) -> float:
    return 0.0 if price is None else (prompt * price.prompt + output * price.completion) / 1_000_000
