"""ME-1 and MS-1: metrics equal scikit-learn's and scipy's on generated cases; a degenerate value is null."""

from __future__ import annotations

from dataclasses import replace
from typing import Any

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy import stats
from sklearn import metrics as sk

from fitter.errors import SettingsError
from fitter.labels import LabelKind
from fitter.scoring.bootstrap import compress
from fitter.scoring.card import card_of
from fitter.scoring.frame import Fixed
from fitter.scoring.metrics import Metric
from fitter.scoring.statistic import measure
from fitter.scoring.table import tabulate
from fitter.scoring.values import Value
from tests.scoring.build import frame, judged

NAMES = ["a", "b", "c", "d"]
PAIRS = st.lists(st.tuples(st.sampled_from(NAMES), st.sampled_from(NAMES)), min_size=1, max_size=40)
NUMBERS = st.lists(
    st.tuples(st.integers(0, 6).map(float), st.integers(0, 6).map(lambda k: k / 2)), min_size=1, max_size=40
)
SETS = st.sets(st.sampled_from(NAMES[:3]), min_size=1).map(frozenset)


def headline(labels: list[Any], answers: list[Any], metric: str, kind: LabelKind = "categorical", **more: Any) -> Value:
    """The metric over one pass a row, as a card computes it, without its bootstraps."""
    fixed = frame(labels, metric, kind=kind, **more)
    return over(fixed, labels, answers)


def over(fixed: Fixed, labels: list[Any], answers: list[Any]) -> Value:
    table = tabulate(fixed, judged(labels, answers))
    patterns = compress([table.truth, table.votes])
    return measure(fixed, table.values, patterns.keys[:, 0], patterns.keys[:, 1]).at(patterns.counts)


def several(
    labels: list[Any], answers: list[Any], written: dict[str, dict[str, Any]], kind: LabelKind, classes: list[Any]
) -> dict[str, Value]:
    """Many metrics over one table."""
    first = frame(labels, next(iter(written)), kind=kind, classes=classes, options=written[next(iter(written))])
    table = tabulate(first, judged(labels, answers))
    patterns = compress([table.truth, table.votes])
    out = {}
    for name, options in written.items():
        metric = Metric.parse(name, kind=kind, classes=classes, **options)
        fixed = replace(first, metric=metric)
        out[name] = measure(fixed, table.values, patterns.keys[:, 0], patterns.keys[:, 1]).at(patterns.counts)
    return out


def check_classes(pairs: list[tuple[str, str]]) -> None:
    """Accuracy, balanced accuracy, the F family and kappa of one generated case against scikit-learn."""
    truth, said = [t for t, _ in pairs], [s for _, s in pairs]
    present = sorted(set(truth))
    written: dict[str, dict[str, Any]] = {n: {} for n in ("accuracy", "balanced_accuracy", "macro_f1", "weighted_f1")}
    written |= {"cohens_kappa": {}} | {f"f1:{c}": {} for c in present} | {f"fbeta:{c}": {"beta": 2.5} for c in present}
    found = several(truth, said, written, "categorical", NAMES)
    same = {"labels": present, "average": None, "zero_division": 0}
    _, recall, f1, support = sk.precision_recall_fscore_support(truth, said, **same)
    f25 = sk.fbeta_score(truth, said, beta=2.5, **same)
    expected = {
        "accuracy": sk.accuracy_score(truth, said),
        "balanced_accuracy": recall.mean(),
        "macro_f1": f1.mean(),
        "weighted_f1": np.average(f1, weights=support),
    }
    expected |= {f"f1:{c}": x for c, x in zip(present, f1, strict=True)}
    expected |= {f"fbeta:{c}": x for c, x in zip(present, f25, strict=True)}
    if set(truth) == set(said) and len(present) == 1:
        assert found["cohens_kappa"].value is None
        assert "0/0" in (found["cohens_kappa"].why or "")
    else:
        expected["cohens_kappa"] = sk.cohen_kappa_score(truth, said)
    for name, value in expected.items():
        assert found[name].value == pytest.approx(value, abs=1e-12), name


def check_minority(pairs: list[tuple[bool, bool]]) -> None:
    truth, said = [t for t, _ in pairs], [s for _, s in pairs]
    if len(set(truth)) < 2:
        return
    minority = sum(truth) < len(truth) - sum(truth)  # a tie goes to the first by canonical text: false
    written = {"f1_minority": {}, "fbeta_minority": {"beta": 0.5}}
    found = several(truth, said, written, "boolean", [False, True])
    assert found["f1_minority"].value == pytest.approx(sk.f1_score(truth, said, pos_label=minority), abs=1e-12)
    expected = sk.fbeta_score(truth, said, beta=0.5, pos_label=minority)
    assert found["fbeta_minority"].value == pytest.approx(expected, abs=1e-12)


def check_numbers(pairs: list[tuple[float, float]]) -> None:
    truth, said = [t for t, _ in pairs], [s for _, s in pairs]
    found = several(truth, said, {"mae": {}, "spearman": {}}, "numeric", [])
    assert found["mae"].value == pytest.approx(sk.mean_absolute_error(truth, said), abs=1e-12)
    if len(set(truth)) == 1 or len(set(said)) == 1:
        assert found["spearman"].value is None
        assert found["spearman"].why == "labels or answers are all equal: there is no rank correlation"
    else:
        assert found["spearman"].value == pytest.approx(float(stats.spearmanr(truth, said).statistic), abs=1e-9)


def check_sets(pairs: list[tuple[frozenset[str], frozenset[str]]]) -> None:
    truth, said = [t for t, _ in pairs], [s for _, s in pairs]
    names = NAMES[:3]
    y, z = (np.array([[n in v for n in names] for v in vs]) for vs in (truth, said))
    present = [k for k, n in enumerate(names) if any(n in t for t in truth)]
    written: dict[str, dict[str, Any]] = {"accuracy": {}, "macro_f1": {}, "weighted_f1": {}, "mean_credit:jaccard": {}}
    found = several(truth, said, written | {"mean_credit": {"match": "exact"}}, "multiselect", names)
    _, _, f1, support = sk.precision_recall_fscore_support(y, z, labels=present, average=None, zero_division=0)
    expected = {
        "accuracy": sk.accuracy_score(y, z),
        "mean_credit": sk.accuracy_score(y, z),
        "macro_f1": f1.mean(),
        "weighted_f1": np.average(f1, weights=support),
        "mean_credit:jaccard": sk.jaccard_score(y, z, average="samples"),
    }
    for name, value in expected.items():
        assert found[name].value == pytest.approx(value, abs=1e-12), name


BOOLEANS = st.lists(st.tuples(st.booleans(), st.booleans()), min_size=2, max_size=30)
SET_PAIRS = st.lists(st.tuples(SETS, SETS), min_size=1, max_size=30)
pytestmark = pytest.mark.filterwarnings("ignore::sklearn.exceptions.UndefinedMetricWarning")


@settings(max_examples=150)
@given(PAIRS)
def test_me1_class_metrics_equal_scikit_learn(pairs: list[tuple[str, str]]) -> None:
    check_classes(pairs)


@settings(max_examples=80)
@given(BOOLEANS)
def test_me1_minority_f1_follows_the_class_with_fewest_rows(pairs: list[tuple[bool, bool]]) -> None:
    check_minority(pairs)


@settings(max_examples=150)
@given(NUMBERS)
def test_nu1_mae_and_spearman_equal_scikit_learn_and_scipy(pairs: list[tuple[float, float]]) -> None:
    check_numbers(pairs)


@settings(max_examples=80)
@given(SET_PAIRS)
def test_ms1_multi_select_metrics_equal_scikit_learn(
    pairs: list[tuple[frozenset[str], frozenset[str]]],
) -> None:
    check_sets(pairs)


@pytest.mark.slow
@settings(max_examples=2000)
@given(PAIRS)
def test_me1_class_metrics_equal_scikit_learn_on_thousands(pairs: list[tuple[str, str]]) -> None:
    check_classes(pairs)


@pytest.mark.slow
@settings(max_examples=1000)
@given(
    st.one_of(
        BOOLEANS.map(lambda x: (check_minority, x)),
        NUMBERS.map(lambda x: (check_numbers, x)),
        SET_PAIRS.map(lambda x: (check_sets, x)),
    )
)  # type: ignore[arg-type, return-value]
def test_me1_nu1_ms1_other_metrics_equal_scikit_learn_on_a_thousand(case: tuple[Any, list[Any]]) -> None:
    check, pairs = case
    check(pairs)


def test_me1_similarity_group_credits_answers_of_the_same_group() -> None:
    options = {"match": "similarity_group", "groups": {"warm": ["red", "orange"], "cold": ["blue", "green"]}}
    classes = ["blue", "grey", "green", "orange", "red"]
    labels = ["red", "blue", "grey", "grey"]
    found = headline(labels, ["orange", "red", "grey", "blue"], "mean_credit", classes=classes, options=options)
    assert found.value == pytest.approx(0.5)
    sets = [frozenset({"red", "grey"}), frozenset({"blue"})]
    said = [frozenset({"orange"}), frozenset({"green", "blue"})]
    found = headline(sets, said, "mean_credit", "multiselect", classes=classes, options=options)
    assert found.value == pytest.approx((0.5 + 1.0) / 2)


def test_me1_a_group_named_like_a_value_is_not_that_value() -> None:
    options = {"match": "similarity_group", "groups": {"grey": ["red"]}}
    found = headline(["red"], ["grey"], "mean_credit", classes=["grey", "red"], options=options)
    assert found.value == 0.0


def test_off_vocabulary_answers_are_wrong_in_every_class_metric() -> None:
    labels = ["a", "a", "b", "b"]
    fixed = frame(labels, "macro_f1")
    open_frame = frame(labels, "macro_f1")
    object.__setattr__(open_frame, "open_vocabulary", True)
    said = ["a", "zzz", "b", "yyy"]
    expected = sk.f1_score(labels, said, labels=["a", "b"], average="macro")
    assert over(open_frame, labels, said).value == pytest.approx(expected)
    card = card_of(open_frame, judged(labels, said))
    assert card.off_vocabulary == 2
    assert card.confusion == {
        "classes": ["a", "b"],
        "columns": ["a", "b", "off_vocabulary"],
        "counts": [[1, 0, 1], [0, 1, 1]],
    }
    assert not fixed.open_vocabulary


def test_me1_degenerate_values_are_null_with_a_reason_never_0() -> None:
    labels = ["a", "a", "b"]
    assert (
        headline(["a"] * 3, ["a"] * 3, "f1:b", classes=["a", "b"]).why
        == "no scored row is labelled with the metric's class"
    )
    card = card_of(frame(labels), judged(labels, [None, None, None]))
    assert (card.headline.value, card.headline.why) == (None, "no rows")
    assert (card.accuracy.value, card.accuracy_interval.low) == (None, None)
    assert card.constant.value.value is None
    with pytest.raises(ValueError, match="never both and never neither"):
        Value(value=None)


KINDS: dict[LabelKind, int] = {"boolean": 2, "categorical": 3, "multiselect": 3, "numeric": 0}


@pytest.mark.parametrize(
    ("metric", "fits"),
    [
        ("accuracy", "boolean categorical multiselect"),
        ("balanced_accuracy", "boolean categorical"),
        ("cohens_kappa", "boolean categorical"),
        ("macro_f1", "boolean categorical multiselect"),
        ("weighted_f1", "boolean categorical multiselect"),
        ("f1_minority", "boolean"),
        ("mean_credit:exact", "boolean categorical multiselect"),
        ("mae", "numeric"),
        ("spearman", "numeric"),
    ],
)
def test_me1_a_metric_refuses_labels_it_does_not_fit(metric: str, fits: str) -> None:
    for kind, size in KINDS.items():
        classes: list[Any] = [False, True] if kind == "boolean" else NAMES[:size]
        if kind in fits.split():
            assert Metric.parse(metric, kind=kind, classes=classes).text.startswith(metric)
        else:
            with pytest.raises(SettingsError, match="does not fit") as caught:
                Metric.parse(metric, kind=kind, classes=classes)
            offered = (caught.value.hint or "").split("one of: ")[1].split(";")[0].split(", ")
            assert metric not in offered  # what was just refused is not recommended
            assert offered
            for form in offered:
                name = form.replace("CLASS", "x").split("|")[0]
                assert Metric(name=name.split(":")[0]).refuses(kind, len(classes)) is None


def test_me1_binary_only_metrics_refuse_more_than_two_classes_and_say_what_to_write() -> None:
    with pytest.raises(SettingsError, match="name the class instead, as f1:CLASS"):
        Metric.parse("f1_minority", kind="categorical", classes=NAMES)


@pytest.mark.parametrize(
    ("written", "options", "message"),
    [
        ("f2", {}, "unknown metric"),
        ("f1", {}, "unknown metric"),
        ("accuracy:a", {}, "nothing after a colon"),
        ("f1:z", {}, "not a class of this label"),
        ("fbeta:a", {}, "needs --beta"),
        ("accuracy", {"beta": 2.0}, "takes no beta"),
        ("fbeta:a", {"beta": 0.0}, "beta is 0"),
        ("fbeta:a", {"beta": float("nan")}, "beta is nan"),
        ("mean_credit", {}, "needs a match mode"),
        ("mean_credit:jaccard", {"match": "exact"}, "contradict"),
        ("accuracy", {"match": "exact"}, "takes no match mode"),
        ("mean_credit:similarity_group", {}, "needs a taxonomy"),
        ("mean_credit:similarity_group", {"groups": {"g": ["a"], "h": ["a"]}}, "belongs to one group"),
        ("mean_credit:exact", {"groups": {"g": ["a"]}}, "similarity_group only"),
        ("accuracy", {"floor": "a"}, "not a precision floor"),
        ("accuracy", {"floor": "a=1.5"}, "not a precision floor"),
        ("accuracy", {"floor": "z=0.5"}, "not a class"),
    ],
)
def test_me1_what_a_metric_lacks_or_has_too_much_is_an_error(
    written: str, options: dict[str, Any], message: str
) -> None:
    with pytest.raises(SettingsError) as caught:
        Metric.parse(written, kind="categorical", classes=NAMES, **options)
    assert message in str(caught.value)
    assert caught.value.hint


def test_me1_each_metric_knows_its_direction() -> None:
    assert Metric.parse("mae", kind="numeric").direction == "lower"
    assert Metric.parse("spearman", kind="numeric").direction == "higher"
    assert Metric.parse("macro_f1", kind="categorical", classes=NAMES).sign == 1


@pytest.mark.parametrize("kind", ["boolean", "categorical", "multiselect", "numeric"])
def test_a_frame_reads_its_own_json_back(kind: LabelKind) -> None:
    labels: dict[str, list[Any]] = {
        "boolean": [True, False, True],
        "categorical": ["a", "b", "b"],
        "multiselect": [frozenset({"a", "b"}), frozenset({"b"})],
        "numeric": [1.0, 4.0, 2.5],
    }
    options: dict[str, Any] = {}
    written = {"numeric": "mae", "boolean": "fbeta:true"}.get(kind, "mean_credit:similarity_group")
    if kind == "boolean":
        options = {"beta": 2.0, "floor": "true=0.8"}
    elif kind != "numeric":
        options = {"groups": {"g": ["a", "b"]}}
    fixed = frame(labels[kind], written, kind=kind, options=options)
    assert Fixed.from_json(fixed.to_json()) == fixed
