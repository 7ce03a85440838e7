"""Planning, the corrected pass rate and selection optimism."""

from __future__ import annotations

import json
from itertools import product

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats

from fitter.errors import BadInput, SettingsError
from fitter.scoring.estimate import Proportion, pass_rate
from fitter.scoring.intervals import wilson_ends
from fitter.scoring.optimism import _vote_distribution, selection_optimism
from fitter.scoring.paired import exact_p
from fitter.scoring.plan import (
    accuracy_width,
    balanced_width,
    planned_calls,
    power,
    rows_for_bound,
    rows_to_label,
    smallest_significant_gain,
)
from fitter.scoring.table import tabulate
from fitter.scoring.votes import tally
from tests.scoring.build import frame, judged


def test_exact_mcnemar_needs_six_one_way_rows() -> None:
    assert smallest_significant_gain() == 6
    for lost in range(12):
        need = smallest_significant_gain(lost)
        assert exact_p(need, lost) < 0.05 <= exact_p(need - 1, lost)


@settings(max_examples=40)
@given(st.integers(0, 5), st.sampled_from([0.01, 0.03, 0.05, 0.1, 0.3]))
def test_qu2_rows_for_a_bound_are_the_fewest(errors: int, bound: float) -> None:
    n = rows_for_bound(bound, errors=errors)
    # 0.95 = P(more than `errors` errors) at the bound, by the binomial distribution itself
    assert stats.binom.cdf(errors, n, bound) <= 0.05 + 1e-12
    assert stats.binom.cdf(errors, n - 1, bound) > 0.05 - 1e-12


def test_widths_are_those_of_the_intervals() -> None:
    low, high = wilson_ends(40, 50)
    assert accuracy_width(50, 0.8) == pytest.approx(high - low)
    narrow, wide = balanced_width({"a": 400, "b": 400}, 0.8), balanced_width({"a": 40, "b": 6}, 0.8)
    assert narrow is not None
    assert wide is not None
    assert narrow < 0.07 < wide
    assert balanced_width({"a": 4, "b": 0}, 0.8) is None


def test_power_equals_the_exact_sum_over_outcomes() -> None:
    rows, gain, churn = 30, 0.25, 0.05
    expected = 0.0
    for gained, lost in product(range(rows + 1), repeat=2):
        if gained + lost <= rows and gained > lost and exact_p(gained, lost) < 0.05:
            counts = [gained, lost, rows - gained - lost]
            expected += stats.multinomial.pmf(counts, rows, [gain + churn, churn, 1 - gain - 2 * churn])
    found = power(rows=rows, gain=gain, churn=churn, seed=3)
    assert found.significant == pytest.approx(float(expected), abs=4 * found.standard_error)
    assert found == power(rows=rows, gain=gain, churn=churn, seed=3)
    null = power(rows=200, gain=0.0, churn=0.1, seed=3)
    assert null.significant < 0.03  # one side of a conservative 5% test
    assert power(rows=5, gain=0.5, churn=0.0, seed=3).significant == 0.0  # five rows can never be significant
    with pytest.raises(SettingsError, match="cannot be"):
        power(rows=10, gain=0.9, churn=0.2, seed=1)


def test_rows_to_label_next_and_calls() -> None:
    assert rows_to_label({"bad": 4, "good": 70}) == {
        "bad": {"measurable": 2, "reliable_interval": 6, "clean_bound": 55},
        "good": {"measurable": 0, "reliable_interval": 0, "clean_bound": 0},
    }
    assert planned_calls(train=35, holdout=15, runs=3, max_iterations=10) == {
        "least": 35 * 3,
        "most": 2 * (35 * 3 * 12 + 2 * 15 * 3),
    }


def test_rogan_gladen_by_hand_and_clipped() -> None:
    found = pass_rate(
        sensitivity=Proportion(hits=90, rows=100),
        specificity=Proportion(hits=80, rows=100),
        apparent=Proportion(hits=500, rows=1000),
    )
    assert found.value.value == pytest.approx((0.5 + 0.8 - 1) / (0.9 + 0.8 - 1))
    assert found.interval.low is not None
    assert found.interval.high is not None
    assert found.interval.low < found.value.value < found.interval.high
    none = pass_rate(
        sensitivity=Proportion(hits=90, rows=100),
        specificity=Proportion(hits=80, rows=100),
        apparent=Proportion(hits=10, rows=100),
    )
    assert none.value.value == 0.0
    assert none.unclipped is not None
    assert none.unclipped < 0
    json.dumps(found.to_json(), allow_nan=False)


def test_rogan_gladen_carries_both_sampling_errors() -> None:
    def width(labelled: int, traffic: int) -> float:
        found = pass_rate(
            sensitivity=Proportion(hits=round(0.9 * labelled), rows=labelled),
            specificity=Proportion(hits=round(0.8 * labelled), rows=labelled),
            apparent=Proportion(hits=traffic // 2, rows=traffic),
        ).interval
        assert found.low is not None
        assert found.high is not None
        return found.high - found.low

    assert width(40, 10_000_000) > 0.15  # endless traffic does not mend few labels
    assert width(10_000_000, 100) > 0.15  # nor the other way round
    assert width(10_000_000, 10_000_000) < 0.002


@pytest.mark.parametrize("rates", [(0.9, 0.85, 0.3), (0.8, 0.95, 0.6), (0.95, 0.7, 0.1)])
def test_rogan_gladen_interval_covers_on_generated_judges(rates: tuple[float, float, float]) -> None:
    se, sp, truth = rates
    rng = np.random.default_rng(2)
    inside = known = 0
    for _ in range(800):
        found = pass_rate(
            sensitivity=Proportion(hits=int(rng.binomial(60, se)), rows=60),
            specificity=Proportion(hits=int(rng.binomial(50, sp)), rows=50),
            apparent=Proportion(hits=int(rng.binomial(400, truth * se + (1 - truth) * (1 - sp))), rows=400),
        )
        if found.interval.low is not None and found.interval.high is not None:
            known += 1
            inside += found.interval.low <= truth <= found.interval.high
    assert known > 790
    assert 0.93 <= inside / known <= 0.985


def test_rogan_gladen_says_when_the_rate_is_not_identifiable() -> None:
    some = Proportion(hits=5, rows=10)
    chance = pass_rate(sensitivity=some, specificity=some, apparent=some)
    assert chance.value.value is None
    assert "not identifiable" in (chance.value.why or "")
    assert chance.interval.low is None
    empty = pass_rate(sensitivity=Proportion(hits=0, rows=0), specificity=some, apparent=some)
    assert "rows are missing" in (empty.value.why or "")
    with pytest.raises(BadInput, match="not a proportion"):
        Proportion(hits=3, rows=2)


@settings(max_examples=40)
@given(st.lists(st.integers(-1, 2), min_size=3, max_size=3))
def test_optimism_vote_distribution_by_enumerating_all_draws(passes: list[int]) -> None:
    votes, shares = _vote_distribution(np.array(passes), 3)
    chance: dict[int, float] = {}
    for drawn in product(passes, repeat=3):
        vote = int(tally(np.array([drawn], dtype=np.int64), 2)[0][0])
        chance[vote] = chance.get(vote, 0.0) + 1 / 27
    assert dict(zip(votes, shares.tolist(), strict=True)) == pytest.approx(chance)


def test_optimism_of_null_candidates() -> None:
    labels = ["a", "b"] * 20
    steady = [[v] * 3 for v in labels]
    shaky = [[v, v, "a" if v == "b" else "b"] for v in labels]
    fixed = frame(labels, runs=3)
    calm = selection_optimism(fixed, tabulate(fixed, judged(labels, steady)), candidates=10)
    assert calm.inflation.value == 0.0
    table = tabulate(fixed, judged(labels, shaky))
    found = selection_optimism(fixed, table, candidates=10)
    # a row's vote is right with probability 20/27; the best of 11 binomials of 40 rows, by their distribution
    p, n, k = 20 / 27, 40, 11
    cdf = stats.binom.cdf(np.arange(n + 1), n, p) ** k
    best = float((np.arange(n + 1) * np.diff(cdf, prepend=0)).sum() / n)
    assert found.single.value == pytest.approx(p, abs=0.005)
    assert found.inflation.value == pytest.approx(best - p, abs=0.006)
    assert selection_optimism(fixed, table, candidates=10).to_json() == found.to_json()
    assert selection_optimism(fixed, table, candidates=0).inflation.value == 0.0
    more = selection_optimism(fixed, table, candidates=30)
    assert (more.inflation.value or 0) > (found.inflation.value or 0)
    one = frame(labels)
    null = selection_optimism(one, tabulate(one, judged(labels, labels)), candidates=3)
    assert null.inflation.why == "with one run a row the judge's noise is not seen"


def test_optimism_for_numbers_points_down_for_mae() -> None:
    labels = [float(k % 5) for k in range(20)]
    said = [[v, v + 1.0, v - 1.0] for v in labels]
    fixed = frame(labels, "mae", kind="numeric", runs=3)
    found = selection_optimism(fixed, tabulate(fixed, judged(labels, said)), candidates=3, simulations=60)
    assert found.inflation.value is not None
    assert found.inflation.value > 0.05
    # the median of three draws from {-1, 0, 1} is 0 with probability 13/27
    assert found.single.value == pytest.approx(14 / 27, abs=0.04)
