"""The ledger and the budget: pure."""

from __future__ import annotations

import random
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fitter.calls.budget import Amount, Budget
from fitter.calls.ledger import Cost, Prices, cost_of, latencies, ledger_rows
from fitter.calls.record import CallRecord
from fitter.errors import BudgetReached, SettingsError
from fitter.jsonio import canonical
from fitter.report.spend import cost_text, spend


def a_call(**more: Any) -> CallRecord:
    values: dict[str, Any] = {
        "key": "k", "run_id": "fit-1", "phase": "v0", "role": "judge", "row": "r1", "spec": "openai:m",
        "instrument": "i", "request_hash": "h", "outcome": "ok", "model": "m-2026-01-01", "latency_s": 1.5, "at": 3e9,
        "input_tokens": 1000, "cached_tokens": 400, "output_tokens": 200, "reasoning_tokens": 50,
    }  # fmt: skip
    return CallRecord(**{**values, **more})


FULL = Prices(input=2.0, cached=0.5, output=8.0, reasoning=10.0)


@pytest.mark.parametrize(
    ("call", "prices", "cost"),
    [
        (a_call(), FULL, Cost(amount=(600 * 2 + 400 * 0.5 + 150 * 8 + 50 * 10) / 1e6)),
        (a_call(), Prices(input=2.0, output=8.0), Cost(amount=(1000 * 2 + 200 * 8) / 1e6, upper_bound=True)),
        (a_call(cached_tokens=None, reasoning_tokens=None), FULL, Cost(amount=(1000 * 2 + 200 * 8) / 1e6)),
        (a_call(input_tokens=None), FULL, Cost(amount=None)),
        (a_call(output_tokens=None), FULL, Cost(amount=None)),
        (a_call(), Prices(input=2.0), Cost(amount=None)),
        (a_call(), None, Cost(amount=None)),
        (a_call(), Prices(input=0.0, output=0.0, cached=0.0), Cost(amount=0.0)),
        (a_call(spec="local:smollm2"), None, Cost(amount=0.0)),  # nobody sends a bill for this machine's tokens
        (a_call(spec="lexicon", input_tokens=None, output_tokens=None), None, Cost(amount=0.0)),
        (a_call(spec="local:smollm2"), FULL, Cost(amount=0.0031)),  # unless the user says what they cost
        (a_call(spec="openai:local@http://127.0.0.1:8080/v1"), None, Cost(amount=None)),
        (a_call(cached_tokens=5000), FULL, Cost(amount=(1000 * 0.5 + 150 * 8 + 50 * 10) / 1e6)),
    ],
)
def test_sc1_cost_of_a_call_known_or_unknown(call: CallRecord, prices: Prices | None, cost: Cost) -> None:
    got = cost_of(call, prices)
    assert got.upper_bound == cost.upper_bound
    assert got.amount == (None if cost.amount is None else pytest.approx(cost.amount, abs=1e-15))


def test_sc1_a_timeout_is_not_free() -> None:
    down = a_call(
        outcome="unavailable", fault="unavailable", model=None, input_tokens=None, cached_tokens=None,
        output_tokens=None, reasoning_tokens=None,
    )  # fmt: skip
    (row,) = ledger_rows([a_call(), down], prices={"judge": FULL})
    assert row["calls"] == 2
    assert row["unusable"] == {"unavailable": 1}
    assert row["cost"] == {"known": pytest.approx(0.0031), "calls_unknown": 1, "upper_bound": False}
    assert row["tokens"]["input"] == {"known": 1000, "calls_unknown": 1}
    (row,) = ledger_rows([down], prices={"judge": FULL})
    assert row["cost"]["known"] is None


def test_sc2_roles_are_kept_apart() -> None:
    calls = [
        a_call(),
        a_call(run=1),
        a_call(run=1, attempt=2, fault="fenced"),
        a_call(phase="cand:001", row="r2"),
        a_call(phase="draft", role="drafter", row="", model=None),
        a_call(phase="propose:001", role="proposer", row="", spec="anthropic:c"),
    ]
    rows = ledger_rows(calls)
    assert [(r["phase"], r["role"], r["calls"], r["passes"], r["retries"]) for r in rows] == [
        ("cand:001", "judge", 1, 1, 0),
        ("draft", "drafter", 1, 1, 0),
        ("propose:001", "proposer", 1, 1, 0),
        ("v0", "judge", 3, 2, 1),
    ]
    assert rows[3]["unusable"] == {"fenced": 1}
    assert rows[1]["models"] == {"(not named)": 1}
    by_role = ledger_rows(calls, prices={"judge": FULL}, by_phase=False)
    assert [(r["role"], r["calls"]) for r in by_role] == [("judge", 4), ("drafter", 1), ("proposer", 1)]
    assert all("phase" not in r for r in by_role)
    assert [r["cost"]["known"] is None for r in by_role] == [False, True, True]


def test_ke5_the_ledger_knows_no_clock_and_no_order() -> None:
    calls = [
        a_call(row=f"r{n}", latency_s=n / 7, at=1e9 - n, input_tokens=n * 37, output_tokens=n * 3) for n in range(200)
    ]
    shuffled = calls[:]
    random.Random(5).shuffle(shuffled)
    rows = [ledger_rows(order, prices={"judge": Prices(input=0.1, output=0.7)}) for order in (calls, shuffled)]
    assert canonical(rows[0]) == canonical(rows[1])
    assert "latency" not in canonical(rows[0])
    assert '"at"' not in canonical(rows[0])


def test_no_calls_no_rows() -> None:
    assert ledger_rows([]) == []
    assert latencies([]) == {"calls": 0, "p50": None, "p90": None, "p99": None, "max": None}


def test_latencies_are_measured_values() -> None:
    calls = [a_call(latency_s=float(n)) for n in range(1, 101)]
    assert latencies(reversed(calls)) == {"calls": 100, "p50": 50.0, "p90": 90.0, "p99": 99.0, "max": 100.0}
    assert latencies(calls[:1])["p99"] == 1.0


@pytest.mark.parametrize("price", [-1.0, float("nan"), float("inf")])
def test_prices_are_prices(price: float) -> None:
    with pytest.raises(SettingsError, match="per million tokens"):
        Prices(output=price)


def test_sc1_a_budget_reserves_the_worst_case() -> None:
    budget = Budget(calls=10, spent=2)
    budget.reserve(6)
    assert not budget.fits(3)
    with pytest.raises(BudgetReached, match="budget of 10 calls is reached: 2 made") as stop:
        budget.reserve(3)
    assert stop.value.exit_code == 4
    budget.settle(reserved=6, made=3)
    assert (budget.spent, budget.reserved) == (Amount(calls=5), Amount())
    budget.reserve(5)
    assert budget.fits(0)
    assert not budget.fits(1)


def test_a_budget_cannot_be_settled_twice_or_beyond_its_reservation() -> None:
    budget = Budget(calls=None)
    budget.reserve(2)
    with pytest.raises(ValueError, match="cannot settle"):
        budget.settle(reserved=2, made=3)
    budget.settle(reserved=2, made=1)
    with pytest.raises(ValueError, match="cannot settle"):
        budget.settle(reserved=2, made=1)
    with pytest.raises(SettingsError):
        Budget(calls=-1)


@given(limit=st.integers(0, 40), wants=st.lists(st.tuples(st.integers(0, 9), st.integers(0, 9)), max_size=30))
def test_sc1_a_budget_is_never_overrun(limit: int, wants: list[tuple[int, int]]) -> None:
    budget = Budget(calls=limit)
    for worst, used in wants:
        if budget.fits(worst):
            budget.reserve(worst)
            budget.settle(reserved=worst, made=min(worst, used))
        assert (budget.spent + budget.reserved).calls <= limit


@pytest.mark.parametrize(
    ("calls", "said"),
    [
        ([a_call(spec="local:smollm2"), a_call(spec="lexicon", input_tokens=None)], "cost nothing"),
        ([a_call(spec="local:smollm2"), a_call()], "cost unknown"),  # a free part says nothing about the other
        ([a_call()], "cost unknown"),
    ],
)
def test_sc1_only_what_ran_on_this_machine_cost_nothing(calls: list[CallRecord], said: str) -> None:
    assert cost_text(spend(ledger_rows(calls))) == said
