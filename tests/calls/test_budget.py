"""The budget in calls, tokens and money (SC-1, SC-2)."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fitter.calls.budget import (
    ASSUMED_INPUT,
    ASSUMED_OUTPUT,
    Amount,
    Budget,
    charge,
    check_budget,
    open_budget,
    prices_by_role,
)
from fitter.calls.journal import Journal
from fitter.calls.ledger import Prices
from fitter.clients.base import Message, ModelRequest, ModelSettings
from fitter.errors import BudgetReached, SettingsError
from fitter.settings import make
from tests.calls.test_ledger import a_call

PRICES = Prices(input=2.0, cached=0.5, output=8.0, reasoning=10.0)


def request(text: str = "hello", cap: int | None = 100) -> ModelRequest:
    return ModelRequest(
        messages=(Message(role="system", text="Grade."), Message(role="user", text=text)),
        schema={"type": "object"},
        schema_name="verdict",
        settings=ModelSettings(max_output_tokens=cap),
    )


def settings(**more: Any) -> Any:
    return make(**{"queue": "practice", "judge": "openai:m", "proposer": "anthropic:c", **more})


def test_sc1_the_worst_case_bounds_text_cap_and_the_retry() -> None:
    budget = Budget(tokens=10**9, usd=1000.0, prices=PRICES)
    once, both = budget.worst(request(), last=1), budget.worst(request())
    assert once.calls == 1
    assert both.calls == 2
    assert once.tokens >= len("Grade.hello") + 100
    assert both.tokens >= 2 * once.tokens + 100  # the retry quotes the answer, and its cap may be doubled
    assert budget.worst(request(cap=10_100)).tokens - both.tokens == 3 * 10_000
    assert once.nano >= once.tokens * 2.0 * 1e3  # every token at least at the price of input
    assert budget.worst(request("é" * 1000), last=1).tokens - once.tokens == 2000 - 5  # bytes, not characters
    assert budget.worst(request(cap=None), last=1).tokens - once.tokens == ASSUMED_OUTPUT - 100
    assert Budget(calls=5).worst(request()) == Amount(calls=2)  # nothing to reckon where only calls are limited


def test_sc1_what_a_call_used_is_known_or_assumed_never_nothing() -> None:
    assert charge(a_call(), PRICES) == Amount(calls=1, tokens=1200, nano=3_100_000)
    assert charge(a_call(), None) == Amount(calls=1, tokens=1200)
    silent = a_call(outcome="unavailable", input_tokens=None, output_tokens=None)
    made = charge(silent, PRICES)
    assert made.tokens == ASSUMED_INPUT + ASSUMED_OUTPUT
    assert made.nano > 0
    assert charge(a_call(spec="lexicon", input_tokens=None, output_tokens=None), PRICES) == Amount(calls=1)


@pytest.mark.parametrize(
    ("limit", "spent", "says"),
    [
        ({"tokens": 1500}, Amount(calls=1, tokens=1200), "the budget of 1500 tokens is reached: 1200 spent, and"),
        ({"usd": 0.004}, Amount(calls=1, nano=3_100_000), "the budget of 0.0040 USD is reached: 0.0031 USD spent, and"),
        ({"calls": 2}, Amount(calls=1), "the budget of 2 calls is reached: 1 made, and the next step may need 2"),
    ],
)
def test_sc1_a_call_whose_worst_case_does_not_fit_is_not_made(limit: Any, spent: Amount, says: str) -> None:
    budget = Budget(**limit, spent=spent, prices=PRICES)
    with pytest.raises(BudgetReached, match=says) as stop:
        budget.reserve(budget.worst(request()))
    assert stop.value.exit_code == 4
    assert budget.reserved == Amount()


def test_sc1_an_overrun_is_booked_said_and_stops_admissions() -> None:
    budget = Budget(tokens=100_000, prices=PRICES)
    worst = budget.worst(request())
    budget.reserve(worst)
    budget.settle(reserved=worst, made=Amount(calls=1, tokens=150_000))
    assert budget.overrun == ("tokens",)
    assert budget.reserved == Amount()
    with pytest.raises(BudgetReached, match="150000 spent, more than was set aside for it"):
        budget.reserve(Amount(calls=1, tokens=1))
    assert not budget.fits(Amount(calls=1))  # not even a call that would cost nothing


@given(
    limit=st.integers(0, 5000),
    wants=st.lists(st.tuples(st.integers(0, 900), st.integers(0, 900)), max_size=30),
)
def test_sc1_no_budget_is_overrun_while_worst_cases_hold(limit: int, wants: list[tuple[int, int]]) -> None:
    budget = Budget(tokens=limit, usd=limit / 1e9)
    for worst, used in wants:
        need = Amount(calls=1, tokens=worst, nano=worst)
        if budget.fits(need):
            budget.reserve(need)
            budget.settle(reserved=need, made=Amount(calls=1, tokens=min(used, worst), nano=min(used, worst)))
        assert budget.overrun == ()
        assert budget.spent.tokens + budget.reserved.tokens <= limit


def test_sc2_prices_are_named_for_a_role_or_a_spec() -> None:
    table = {"input": 1.0, "output": 2.0}
    assert set(prices_by_role(settings(prices={"judge": table}))) == {"judge"}
    assert set(prices_by_role(settings(prices={"anthropic:c": table}))) == {"drafter", "describer", "proposer"}
    assert len(prices_by_role(settings(prices={"openai:m": table}, proposer=None))) == 4
    with pytest.raises(SettingsError, match="prices are given for openai:other"):
        prices_by_role(settings(prices={"openai:other": table}))
    for wrong in ({"judge": {"inputs": 1.0}}, {"judge": {"input": -1.0}}, {"judge": {"input": float("nan")}}):
        with pytest.raises(SettingsError):
            settings(prices=wrong)


def test_sc1_a_budget_in_money_needs_prices_for_what_costs_money() -> None:
    table = {"input": 1.0, "output": 2.0}
    for prices in ({}, {"judge": table}, {"judge": table, "proposer": {"input": 1.0}}):
        with pytest.raises(SettingsError, match="needs the prices"):
            check_budget(settings(budget_usd=1.0, prices=prices))
    check_budget(settings(budget_usd=1.0, prices={"judge": table, "proposer": table}))
    check_budget(settings(budget_usd=1.0, prices={"judge": table}, proposer="lexicon"))
    check_budget(settings())


def test_a_resumed_budget_starts_from_what_the_journal_holds(tmp_path: Path) -> None:
    with Journal(tmp_path / "calls.sqlite") as journal:
        assert open_budget(settings(), journal, "fit-1", "judge") is None
        journal.append_now(a_call(key="a" * 64))
        journal.append_now(a_call(key="b" * 64, role="drafter", row="", spec="anthropic:c"))
        table = {"judge": {"input": 2.0, "output": 8.0}, "proposer": {"input": 20.0, "output": 80.0}}
        given_ = settings(budget_usd=1.0, budget_tokens=10_000, prices=table)
        budget = open_budget(given_, journal, "fit-1", "judge")
        assert budget is not None
        assert budget.spent == Amount(calls=2, tokens=2400, nano=3_600_000 + 36_000_000)
        other = open_budget(given_, journal, "another", "judge")
        assert other is not None
        assert other.spent == Amount()


def test_settings_of_spending_are_no_part_of_what_is_measured() -> None:
    table = {"judge": {"input": 1.0, "output": 2.0}}
    assert settings().hashed() == settings(budget_tokens=5, budget_usd=1.0, budget_calls=3, prices=table).hashed()
