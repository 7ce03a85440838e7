"""Agreement against scikit-learn, statsmodels, the krippendorff package and a published worked example."""

from __future__ import annotations

import random

import krippendorff
import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from sklearn.metrics import cohen_kappa_score
from statsmodels.stats import inter_rater

from fitter.scoring.agreement import agreement, cohen_kappa, fleiss_kappa, krippendorff_alpha

# Krippendorff, "Computing Krippendorff's Alpha-Reliability" (2011), example C: four observers, twelve units, values
# 1 to 5 with gaps; the text gives alpha nominal 0.743 and interval 0.849.
WORKED = [
    [1, 2, 3, 3, 2, 1, 4, 1, 2, None, None, None],
    [1, 2, 3, 3, 2, 2, 4, 1, 2, 5, None, 3],
    [None, 3, 3, 3, 2, 3, 4, 2, 2, 5, 1, None],
    [1, 2, 3, 3, 2, 4, 4, 1, 2, 5, 1, None],
]


def test_krippendorffs_published_worked_example() -> None:
    units = [[float(r[k]) for r in WORKED if r[k] is not None] for k in range(12)]
    assert round(krippendorff_alpha(units).value or 0, 3) == 0.743
    assert round(krippendorff_alpha(units, level="interval").value or 0, 3) == 0.849


RATINGS = st.lists(
    st.lists(st.one_of(st.none(), st.integers(0, 4).map(float)), min_size=4, max_size=4), min_size=2, max_size=12
)


@settings(max_examples=150)
@given(RATINGS)
def test_alpha_equals_the_krippendorff_package(rows: list[list[float | None]]) -> None:
    units = [[v for v in row if v is not None] for row in rows]
    pairable = [v for u in units if len(u) >= 2 for v in u]
    for level in ("nominal", "interval"):
        found = krippendorff_alpha(units, level=level)  # type: ignore[arg-type]
        if len(set(pairable)) < 2:
            assert found.value is None
            continue
        matrix = np.array([[np.nan if v is None else v for v in row] for row in rows]).T
        expected = krippendorff.alpha(reliability_data=matrix, level_of_measurement=level)
        assert found.value == pytest.approx(expected, abs=1e-9)


@settings(max_examples=150)
@given(st.lists(st.lists(st.sampled_from("abc"), min_size=3, max_size=3), min_size=1, max_size=20))
def test_fleiss_equals_statsmodels_and_cohen_equals_scikit_learn(rows: list[list[str]]) -> None:
    found = fleiss_kappa(rows)
    if len({v for r in rows for v in r}) == 1:
        assert found.value is None
    else:
        counts = [[r.count(c) for c in "abc"] for r in rows]
        assert found.value == pytest.approx(inter_rater.fleiss_kappa(np.array(counts)), abs=1e-9)
    a, b = [r[0] for r in rows], [r[1] for r in rows]
    found = cohen_kappa(a, b)
    if len(set(a) | set(b)) == 1:
        assert found.value is None
    else:
        assert found.value == pytest.approx(cohen_kappa_score(a, b), abs=1e-9)


def test_alpha_does_not_lose_digits_around_a_large_mean() -> None:
    rng = random.Random(1)
    units = [[1e8 + rng.random() for _ in range(3)] for _ in range(20)]
    small = [[x - 1e8 for x in u] for u in units]
    assert krippendorff_alpha(units, level="interval").value == pytest.approx(
        krippendorff_alpha(small, level="interval").value, abs=1e-6
    )


def test_agreement_of_several_annotators_with_gaps() -> None:
    notes = {
        "r1": {"ann": "a", "bob": "a", "cyd": "b"},
        "r2": {"ann": "b", "bob": "b"},
        "r3": {"ann": "a"},
        "r4": {"bob": "a", "cyd": "a"},
    }
    found = agreement(notes, "categorical")
    assert (found.rows, found.annotators) == (3, ("ann", "bob", "cyd"))
    assert [(p["a"], p["b"], p["rows"], p["equal"]) for p in found.pairwise] == [
        ("ann", "bob", 2, 1.0),
        ("ann", "cyd", 1, 0.0),
        ("bob", "cyd", 2, 0.5),
    ]
    assert found.percent.value == pytest.approx((1 / 3 + 1 + 1) / 3)
    assert found.fleiss.value is None  # not the same number of annotators on every row
    assert found.alpha.value is not None
    none = agreement({"r": {"ann": "a"}}, "categorical")
    assert (none.rows, none.percent.value) == (0, None)


def test_gt8_sets_agree_as_sets_and_numbers_use_the_interval_level() -> None:
    sets = {"r": {"ann": frozenset("ab"), "bob": frozenset("ba")}, "s": {"ann": frozenset("a"), "bob": frozenset("ab")}}
    assert agreement(sets, "multiselect").percent.value == 0.5
    numbers = agreement({"r": {"ann": 1.0, "bob": 3.0}, "s": {"ann": 5.0, "bob": 5.0}}, "numeric")
    assert numbers.level == "interval"
    assert numbers.mean_difference is not None
    assert numbers.mean_difference.value == 1.0
    assert numbers.to_json()["pairwise"][0]["cohens_kappa"] is None
