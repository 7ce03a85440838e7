"""ME-3 and QU-2: closed-form intervals against independent implementations; MOVER's coverage on generated judges."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from statsmodels.stats.proportion import proportion_confint

from fitter.scoring.intervals import clopper_pearson, mover_mean, upper_bound, wilson, wilson_ends
from fitter.scoring.paired import exact_p
from fitter.scoring.plan import rows_for_bound
from fitter.scoring.values import Interval

DOC = Path(__file__).parents[2] / "docs" / "statistics.md"

PROPORTIONS = st.integers(1, 500).flatmap(lambda n: st.tuples(st.integers(0, n), st.just(n)))


@settings(max_examples=200)
@given(PROPORTIONS)
def test_me3_wilson_and_exact_equal_statsmodels(counts: tuple[int, int]) -> None:
    hits, n = counts
    assert wilson_ends(hits, n) == pytest.approx(proportion_confint(hits, n, method="wilson"), abs=1e-12)
    low, high = proportion_confint(hits, n, method="beta")
    assert clopper_pearson(hits, n) == pytest.approx((low, high), abs=1e-9)
    # the one-sided 95% bound is the upper end of a two-sided 90% interval
    assert upper_bound(hits, n) == pytest.approx(proportion_confint(hits, n, alpha=0.10, method="beta")[1], abs=1e-9)
    low, high = wilson_ends(hits, n)
    assert 0.0 <= low <= hits / n <= high <= 1.0


def test_qu2_upper_bounds_of_the_law() -> None:
    assert round(100 * upper_bound(0, 30), 2) == 9.50
    assert round(100 * upper_bound(0, 100), 2) == 2.95
    assert rows_for_bound(0.05) == 59
    assert upper_bound(0, 59) <= 0.05 < upper_bound(0, 58)
    assert upper_bound(4, 4) == 1.0


def test_no_rows_give_a_null_interval_not_an_error() -> None:
    assert wilson(0, 0).low is None
    assert mover_mean([]).low is None
    assert mover_mean([(1, 2), (0, 0)]).low is None
    with pytest.raises(ValueError, match="not a proportion"):
        wilson_ends(3, 2)


def test_me3_mover_of_one_class_is_its_wilson_interval() -> None:
    found = mover_mean([(7, 9)])
    assert (found.low, found.high) == pytest.approx(wilson_ends(7, 9))


def test_me3_mover_by_hand() -> None:
    (a_low, a_high), (b_low, b_high) = wilson_ends(6, 8), wilson_ends(5, 7)
    a, b = 6 / 8, 5 / 7
    low = (a + b) / 2 - ((a - a_low) ** 2 + (b - b_low) ** 2) ** 0.5 / 2
    high = (a + b) / 2 + ((a_high - a) ** 2 + (b_high - b) ** 2) ** 0.5 / 2
    found = mover_mean([(6, 8), (5, 7)])
    assert (found.low, found.high) == pytest.approx((low, high))


def coverage(sizes: tuple[int, int]) -> tuple[np.ndarray, np.ndarray]:
    """Exact coverage of the true balanced accuracy over a grid of generated judges: (MOVER, percentile bootstrap).

    A judge is a pair of true recalls; every outcome's interval is computed once and weighed by its probability. The
    bootstrap resamples rows, so class sizes vary; resamples without one of the classes are dropped, as in a card.
    """
    rng = np.random.default_rng(5)
    m, k = sizes
    mover, boot = {}, {}
    for a in range(m + 1):
        for b in range(k + 1):
            found = mover_mean([(a, m), (b, k)])
            mover[a, b] = (found.low, found.high)
            drawn = rng.multinomial(m + k, np.array([a, m - a, b, k - b]) / (m + k), size=1000)
            first, second = drawn[:, 0] + drawn[:, 1], drawn[:, 2] + drawn[:, 3]
            kept = (first > 0) & (second > 0)
            figure = (drawn[kept, 0] / first[kept] + drawn[kept, 2] / second[kept]) / 2
            boot[a, b] = tuple(np.percentile(figure, [2.5, 97.5]))
    out: tuple[list[float], list[float]] = ([], [])
    grid = np.arange(0.5, 0.99, 0.06)
    for p in grid:
        for q in grid:
            truth = (p + q) / 2
            first_p, second_p = stats.binom.pmf(range(m + 1), m, p), stats.binom.pmf(range(k + 1), k, q)
            for intervals, shares in zip((mover, boot), out, strict=True):
                inside = [(a, b) for (a, b), (low, high) in intervals.items() if low <= truth <= high]
                shares.append(float(sum(first_p[a] * second_p[b] for a, b in inside)))
    return np.array(out[0]), np.array(out[1])


@pytest.mark.parametrize("sizes", [(8, 7), (9, 6), (20, 6)])
def test_me3_mover_covers_where_the_percentile_bootstrap_does_not(
    sizes: tuple[int, int], capsys: pytest.CaptureFixture[str]
) -> None:
    mover, boot = coverage(sizes)
    with capsys.disabled():
        print(
            f"\ncoverage of 95% intervals of balanced accuracy, {sizes[0]}/{sizes[1]} rows, {len(mover)} judges: "
            f"MOVER mean {mover.mean():.3f} worst {mover.min():.3f}; "
            f"percentile bootstrap mean {boot.mean():.3f} worst {boot.min():.3f}"
        )
    quoted = (
        f"| {sizes[0]} / {sizes[1]} | {mover.mean():.3f} ({mover.min():.3f}) | {boot.mean():.3f} ({boot.min():.3f}) |"
    )
    assert quoted in DOC.read_text(encoding="utf-8")
    assert 0.94 <= mover.mean() <= 0.97
    assert mover.min() >= 0.88
    assert boot.mean() < 0.91  # why balanced accuracy does not use the bootstrap
    assert boot.min() < 0.60


def test_excludes_is_strict_and_a_null_interval_excludes_nothing() -> None:
    assert not Interval(low=0.0, high=0.5, method="x", n=1).excludes(0.0)
    assert Interval(low=0.01, high=0.5, method="x", n=1).excludes(0.0)
    assert Interval(low=-0.5, high=-0.01, method="x", n=1).excludes(0.0)
    assert not Interval(low=None, high=None, method="x", n=1).excludes(0.0)


def test_the_documentations_example_runs() -> None:
    block = DOC.read_text(encoding="utf-8").split("```python\n")[1].split("```")[0]
    names: dict[str, object] = {}
    exec(compile(block, str(DOC), "exec"), names)
    assert "decision" in names


def test_every_closed_form_is_scipy_stats_own() -> None:
    """The product imports scipy.special only, for its start-up time; the figures are those of scipy.stats."""
    worst = 0.0
    for n in (*range(1, 61), 120, 879, 5000):
        for hits in range(0, n + 1, 1 if n <= 60 else max(1, n // 40)):
            test = stats.binomtest(hits, n)
            for method, ends in (("wilson", wilson_ends(hits, n)), ("exact", clopper_pearson(hits, n))):
                found = test.proportion_ci(confidence_level=0.95, method=method)
                worst = max(worst, abs(found.low - ends[0]), abs(found.high - ends[1]))
            worst = max(worst, abs(exact_p(hits, n - hits) - stats.binomtest(hits, n, 0.5).pvalue))
            if hits < n:
                worst = max(worst, abs(upper_bound(hits, n) - stats.beta.ppf(0.95, hits + 1, n - hits)))
    assert worst < 1e-12
