"""Votes: OUT-4, OUT-5, NU-1, MS-1."""

from __future__ import annotations

import numpy as np
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fitter.errors import BadInput, SettingsError
from fitter.records import Pass
from fitter.scoring.frame import fix
from fitter.scoring.metrics import Metric
from fitter.scoring.table import CardInput, tabulate
from fitter.scoring.votes import NO_VOTE, medians, quorum, tally, vote, votes_by_row
from tests.scoring.build import frame, judged, passes_of


def one_row(*answers: object, kind: str = "categorical", runs: int | None = None, reason: str = "not_json") -> object:
    passes = passes_of([list(answers)], reason=reason)  # type: ignore[list-item]
    return vote(passes, runs or len(answers), kind)  # type: ignore[arg-type]


def test_out4_majority_of_usable_passes_stands() -> None:
    found = one_row("a", "b", "a")
    assert (found.value, found.reason, found.usable) == ("a", None, 3)


def test_out4_quorum_is_half_plus_one_of_the_runs_asked_for() -> None:
    assert [quorum(r) for r in (1, 3, 5, 7)] == [1, 2, 3, 4]
    assert one_row("a", None, None).reason == "no_quorum"
    assert one_row("a", "a", None).value == "a"
    assert one_row("a", "a", None, None, None).reason == "no_quorum"


def test_out4_even_survivors_that_split_are_a_tie_never_a_default_class() -> None:
    found = one_row("a", "b", None)
    assert (found.value, found.reason) == (None, "tie")
    assert one_row("a", "a", "b", "b", "c").reason == "tie"
    assert one_row("a", "b", "c").reason == "tie"
    assert one_row("a", "a", "b", "c", None).value == "a"


@pytest.mark.parametrize("runs", [0, 2, 4, 6, 9, -1])
def test_out4_runs_are_odd_and_at_most_seven(runs: int) -> None:
    with pytest.raises(SettingsError, match="odd"):
        quorum(runs)


def test_out5_confidence_weighs_no_vote_and_breaks_no_tie() -> None:
    sure = [
        Pass(row="r", run=0, label="a", confidence=1),
        Pass(row="r", run=1, label="a", confidence=1),
        Pass(row="r", run=2, label="b", confidence=100),
    ]
    found = vote(sure, 3, "categorical")
    assert found.value == "a"
    assert found.confidence == pytest.approx(34.0)
    tied = [Pass(row="r", run=0, label="a", confidence=1), Pass(row="r", run=1, label="b", confidence=100)]
    assert vote(tied, 3, "categorical").reason == "tie"


def test_out3_a_row_left_short_by_an_outage_is_unavailable_not_no_quorum() -> None:
    assert one_row("a", None, None, reason="unavailable").reason == "unavailable"
    assert one_row("a", "b", None, reason="unavailable").reason == "unavailable"
    passes = [
        Pass(row="r", run=0, unusable="not_json"),
        Pass(row="r", run=1, unusable="not_json"),
        Pass(row="r", run=2, unusable="unavailable"),
    ]
    assert vote(passes, 3, "categorical").reason == "no_quorum"  # the lost call could not have made a quorum


def test_nu1_numeric_vote_is_the_median_of_usable_passes() -> None:
    assert one_row(1.0, 5.0, 2.0, kind="numeric").value == 2.0
    assert one_row(1.0, None, 2.0, kind="numeric").value == 1.5
    assert one_row(1.0, None, None, kind="numeric").reason == "no_quorum"


def test_ms1_sets_vote_as_wholes_and_compare_as_sets() -> None:
    ab, a, b = frozenset({"a", "b"}), frozenset({"a"}), frozenset({"b"})
    assert one_row(ab, frozenset(["b", "a"]), a, kind="multiselect").value == ab
    assert one_row(ab, a, b, kind="multiselect").reason == "tie"


def test_true_is_not_one() -> None:
    assert one_row(True, True, False, kind="boolean").value is True


def test_a_run_twice_or_outside_is_named_with_its_row() -> None:
    with pytest.raises(BadInput, match=r"row r: run 0 is there twice"):
        vote([Pass(row="r", run=0, label="a"), Pass(row="r", run=0, label="b")], 3, "categorical")
    with pytest.raises(BadInput, match=r"run 3 is outside 0\.\.2"):
        vote([Pass(row="r", run=3, label="a")], 3, "categorical")
    with pytest.raises(BadInput, match="several rows"):
        vote([Pass(row="r", run=0, label="a"), Pass(row="s", run=1, label="a")], 3, "categorical")


CODES = st.integers(1, 4).flatmap(
    lambda half: st.lists(
        st.lists(st.sampled_from([-1, 0, 1, 2]), min_size=2 * half - 1, max_size=2 * half - 1), min_size=1, max_size=30
    )
)


@given(CODES)
def test_out4_many_rows_at_once_vote_like_one_row(codes: list[list[int]]) -> None:
    runs = len(codes[0])
    names = ["a", "b", "c"]
    nested = [[None if c < 0 else names[c] for c in row] for row in codes]
    votes, usable = tally(np.array(codes, dtype=np.int64), quorum(runs))
    slow = votes_by_row(passes_of(nested), runs, "categorical")
    assert [None if v == NO_VOTE else names[v] for v in votes] == [v.value for v in slow.values()]
    assert usable.tolist() == [v.usable for v in slow.values()]
    table = tabulate(frame(["a", "b", "c", *["a"] * len(codes)], runs=runs), judged(["a"] * len(codes), nested))
    assert list(table.reasons) == [v.reason for v in slow.values()]


@given(st.lists(st.lists(st.one_of(st.none(), st.integers(0, 9)), min_size=5, max_size=5), min_size=1, max_size=20))
def test_nu1_many_medians_are_like_one(rows: list[list[int | None]]) -> None:
    nested = [[None if v is None else float(v) for v in row] for row in rows]
    found, _ = medians(np.array(nested, dtype=float), 3)
    slow = [v.value for v in votes_by_row(passes_of(nested), 5, "numeric").values()]
    assert [None if np.isnan(x) else x for x in found] == slow


def test_passes_that_do_not_fit_name_the_row_and_what_to_do() -> None:
    fixed = frame(["a", "b"], runs=3)
    labels = {"x": "a", "y": "b"}
    bad = [
        (Pass(row="z", run=0, label="a"), "row z: a pass for an unknown row"),
        (Pass(row="x", run=5, label="a"), r"row x: run 5 is outside"),
        (Pass(row="x", run=-1, label="a"), r"row x: run -1 is outside"),
        (Pass(row="x", run=0, label="c"), "row x: the answer 'c' is not in the class list"),
        (Pass(row="x", run=0, label=True), "row x: the answer True is not a categorical value"),
    ]
    for one, message in bad:
        with pytest.raises(BadInput, match=message):
            tabulate(fixed, CardInput(labels=labels, passes=[one]))
    with pytest.raises(BadInput, match="run 1 is there twice"):
        tabulate(fixed, CardInput(labels=labels, passes=[Pass(row="x", run=1, label="a")] * 2))
    with pytest.raises(BadInput, match="excluded before judging"):
        tabulate(fixed, CardInput(labels=labels, passes=[Pass(row="x", run=0, label="a")], excluded={"x": "oversized"}))
    with pytest.raises(BadInput, match="not labelled"):
        tabulate(fixed, CardInput(labels=labels, passes=[], excluded={"z": "oversized"}))


def test_a_boolean_is_no_number_even_after_an_equal_number() -> None:
    fixed = frame([1.0, 0.0], "mae", kind="numeric", runs=3)
    passes = [Pass(row="x", run=0, label=1.0), Pass(row="x", run=1, label=True)]
    with pytest.raises(BadInput, match="True is not a numeric value"):
        tabulate(fixed, CardInput(labels={"x": 1.0}, passes=passes))


def test_mixed_label_types_and_unlisted_labels_are_refused() -> None:
    metric = Metric.parse("accuracy", kind="categorical", classes=["a"])
    with pytest.raises(BadInput, match="row y: True is not a categorical label"):
        fix(kind="categorical", labels={"x": "a", "y": True}, metric=metric, runs=1, seed=1)
    with pytest.raises(BadInput, match="row y: label 'b' is not in the class list"):
        fix(kind="categorical", labels={"x": "a", "y": "b"}, metric=metric, runs=1, seed=1, classes=["a"])
    with pytest.raises(BadInput, match="no labelled rows"):
        fix(kind="categorical", labels={}, metric=metric, runs=1, seed=1)
    numeric = Metric.parse("mae", kind="numeric")
    with pytest.raises(BadInput, match="nan is not a numeric label"):
        fix(kind="numeric", labels={"x": float("nan")}, metric=numeric, runs=1, seed=1)
