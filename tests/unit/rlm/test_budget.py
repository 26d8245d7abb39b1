"""Reserved before, booked after."""

from __future__ import annotations

from dataclasses import replace

import pytest

from harnessctl.domain.limits import Limits, Usage
from harnessctl.layers.l0_weights import ModelIdentity, Price
from harnessctl.rlm.budget import USUAL_OUTPUT, Budget
from harnessctl.rlm.ending import EndSession

MODEL = ModelIdentity("openai", "m")


def test_without_limits_nothing_is_bounded() -> None:
    reservation = Budget(Limits()).reserve("root", 100, MODEL, None)
    assert (reservation.tokens, reservation.bounded) == (100 + USUAL_OUTPUT, False)


def test_the_users_limit_for_a_reply_is_sent() -> None:
    reservation = Budget(Limits()).reserve("root", 100, MODEL, 500)
    assert (reservation.output, reservation.bounded) == (500, True)
    assert Budget(Limits()).reserve("root", 1, MODEL, 50_000).output == 50_000


def test_a_reply_may_take_what_is_left_and_no_more() -> None:
    budget = Budget(Limits(tokens=1000))
    assert budget.reserve("root", 400, MODEL, None).output == 600


def test_a_call_that_does_not_fit_is_not_made() -> None:
    budget = Budget(Limits(tokens=1000))
    with pytest.raises(EndSession) as caught:
        budget.reserve("root", 950, MODEL, None)
    assert (caught.value.ending.status, caught.value.ending.reason) == ("budget_exhausted", "tokens")


def test_open_reservations_count() -> None:
    budget = Budget(Limits(tokens=1000))
    first = budget.reserve("a", 100, MODEL, 700)
    assert budget.reserve("b", 100, MODEL, None).output == 100
    budget.book(first, Usage(prompt=100, completion=10))
    assert budget.reserve("c", 100, MODEL, None).output == 590
    assert budget.total.tokens == 110


def test_usage_is_kept_by_node_and_summed() -> None:
    budget = Budget(Limits())
    for node, tokens in (("root", 5), ("child", 7), ("root", 1)):
        budget.book(budget.reserve(node, 1, MODEL, None), Usage(prompt=tokens, calls=1, cost_usd=0.25))
    assert {name: u.prompt for name, u in budget.used.items()} == {"root": 6, "child": 7}
    assert (budget.total.prompt, budget.total.calls, budget.total.cost_usd) == (13, 3, 0.75)


def test_cost_is_reserved_from_the_price() -> None:
    priced = replace(MODEL, price=Price(prompt=10.0, completion=100.0))
    budget = Budget(Limits(cost_usd=0.1))
    reservation = budget.reserve("root", 1000, priced, 500)
    assert reservation.cost_usd == pytest.approx(0.06)
    with pytest.raises(EndSession) as caught:
        budget.reserve("root", 1000, priced, 500)
    assert caught.value.ending.reason == "cost"


def test_a_reply_fits_into_the_window() -> None:
    small = replace(MODEL, window=8000)
    assert Budget(Limits()).reserve("root", 7000, small, None).output == 1000
    # An estimate beyond the window is tried all the same: the provider knows better.
    assert Budget(Limits()).reserve("root", 9000, small, None).output == 64
