"""The card: ME-2, ME-4, OUT-4 to OUT-6, GT-7, GT-9, NU-1, MS-1."""

from __future__ import annotations

import json
from dataclasses import replace
from itertools import combinations

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from fitter.errors import RunError
from fitter.records import Pass
from fitter.scoring.card import Card, card_of, score_card
from fitter.scoring.intervals import wilson_ends
from fitter.scoring.table import CardInput
from fitter.scoring.votes import vote
from tests.scoring.build import frame, judged, labels_of, passes_of, row_id

FAST = {"resamples": 100}


def card(
    labels: list, answers: list, metric: str = "accuracy", *, runs: int = 1, given_more: dict | None = None, **more
) -> Card:  # type: ignore[no-untyped-def, type-arg]
    return card_of(frame(labels, metric, runs=runs, **{**FAST, **more}), judged(labels, answers, **(given_more or {})))


def test_me2_everything_the_law_lists_stands_beside_the_headline() -> None:
    found = card(["a", "a", "a", "b", "b"], ["a", "b", "a", "b", None]).to_json()
    assert found["headline"]["value"] == 0.75
    assert found["headline"]["ci95"]["method"] == "wilson"
    assert found["accuracy"]["wilson95"]["low"] == pytest.approx(wilson_ends(3, 4)[0])
    assert found["confusion"] == {"classes": ["a", "b"], "columns": ["a", "b"], "counts": [[2, 1], [0, 1]]}
    assert found["per_class"]["a"]["recall"] == pytest.approx(2 / 3)
    assert found["per_class"]["a"]["wilson95"]["low"] == pytest.approx(wilson_ends(2, 3)[0])
    assert found["per_class"]["b"]["precision"] == 0.5
    assert found["constant_judge"]["label"] == "a"
    assert found["constant_judge"]["value"] == 0.75
    assert not found["constant_judge"]["beaten"]  # equal is not above
    assert found["rows"] == {
        "labelled": 5,
        "scored": 4,
        "excluded": {"no_quorum": ["r00004"]},
        "counted_wrong": {},
        "groups": None,
    }
    assert found["policy"]["failures"] == "exclude"
    assert set(found) >= {"deployable", "flip_rate", "confidence", "quorum", "small_classes"}
    json.dumps(found, allow_nan=False)


def test_me2_balanced_accuracy_has_movers_interval_and_others_the_bootstrap() -> None:
    labels, said = ["a"] * 12 + ["b"] * 10, ["a"] * 10 + ["b"] * 12
    assert card(labels, said, "balanced_accuracy").interval.method == "mover_wilson"
    assert card(labels, said, "macro_f1").interval.method == "bootstrap_rows"
    assert card(labels, said, "mean_credit:exact").interval.method == "wilson"


def test_with_groups_wilson_is_marked_and_a_bootstrap_over_groups_stands_beside_it() -> None:
    labels = ["a", "b"] * 10
    groups = {row_id(k): f"g{k // 2}" for k in range(20)}
    found = card(labels, ["a"] * 20, given_more={"groups": groups})
    assert found.interval.assumes_independent_rows
    assert found.group_interval is not None
    assert found.group_interval.method == "bootstrap_groups"
    assert found.group_interval.n == 10
    assert found.rows.groups == 10
    assert any("assume independent rows" in w for w in found.warnings)
    alone = card(labels, ["a"] * 20, given_more={"groups": {row_id(k): f"g{k}" for k in range(20)}})
    assert (alone.group_interval, alone.rows.groups) == (None, None)


def test_me4_deployable_is_over_usable_passes_vote_or_not() -> None:
    # the third row has no quorum and the fourth a tie: both count for the passes that are usable
    labels = ["a", "a", "b", "b"]
    answers = [["a", "a", "b"], ["a", "a", "a"], ["b", None, None], ["b", "a", None]]
    found = card(labels, answers, runs=3)
    assert found.headline.value == 1.0
    assert found.rows.scored == 2
    runs = found.deployable.per_run
    assert [r.rows for r in runs] == [4, 3, 2]
    assert [r.value.value for r in runs] == [1.0, pytest.approx(2 / 3), 0.5]
    assert found.deployable.mean.value == pytest.approx((1 + 2 / 3 + 0.5) / 3)
    assert found.deployable.stdev.value == pytest.approx(np.std([1, 2 / 3, 0.5], ddof=1))
    assert found.deployable.coverage == pytest.approx(9 / 12)
    assert [r.coverage for r in runs] == [1.0, 0.75, 0.5]
    assert found.deployable.unusable_wrong.value == pytest.approx((4 / 4 + 2 / 4 + 1 / 4) / 3)


@settings(max_examples=30)
@given(
    st.lists(
        st.tuples(st.sampled_from("ab"), st.lists(st.sampled_from(["a", "b", None]), min_size=3, max_size=3)),
        min_size=2,
        max_size=15,
    )
)
def test_me4_deployable_accuracy_by_plain_counting(rows: list[tuple[str, list[str | None]]]) -> None:
    labels, answers = [label for label, _ in rows], [said for _, said in rows]
    found = card(labels, answers, runs=3, classes=["a", "b"]).deployable
    for r, run in enumerate(found.per_run):
        usable = [(label, said[r]) for label, said in rows if said[r] is not None]
        expected = sum(a == b for a, b in usable) / len(usable) if usable else None
        assert run.value.value == (None if expected is None else pytest.approx(expected))


def test_me4_passes_rescued_by_the_retry_are_counted_and_the_score_without_them_shown() -> None:
    labels = labels_of(["a", "b", "b", "a"])
    passes = passes_of([["a"], ["b"], ["b"], ["b"]])
    passes[1] = replace(passes[1], attempts=2)
    passes[3] = Pass(row=row_id(3), run=0, unusable="not_json", attempts=2)
    found = card_of(frame(list(labels.values()), **FAST), CardInput(labels=labels, passes=passes)).deployable
    assert found.rescued == 1
    assert found.mean.value == 1.0
    assert found.without_rescued.value == 1.0
    passes[0] = replace(passes[0], label="b")
    found = card_of(frame(list(labels.values()), **FAST), CardInput(labels=labels, passes=passes)).deployable
    assert found.mean.value == pytest.approx(2 / 3)
    assert found.without_rescued.value == pytest.approx(1 / 2)


def test_me4_the_interval_draws_a_row_with_its_passes_together() -> None:
    # three identical passes a row: as much evidence as one pass, not three
    labels = ["a", "b"] * 30
    said = [["a"] if k % 3 else ["b"] for k in range(60)]
    one = card(labels, said, resamples=4000).deployable.interval
    three = card(labels, [s * 3 for s in said], runs=3, resamples=4000).deployable.interval
    assert three.high - three.low == pytest.approx(one.high - one.low, rel=0.08)  # type: ignore[operator]


def test_gt9_usable_is_scored_plus_exclusions_by_reason() -> None:
    labels = labels_of(["a", "b", "a", "b", "a", "b"])
    passes = passes_of([["a", "a", "a"], ["b", None, None], ["a", "b", None]])
    passes += [Pass(row=row_id(3), run=r, unusable="unavailable") for r in range(3)]
    excluded = {row_id(4): "unrenderable", row_id(5): "oversized"}
    fixed = frame(list(labels.values()), runs=3, **FAST)
    found = score_card(fixed, labels, None, passes, excluded)  # type: ignore[arg-type]
    assert found.rows.labelled == 6 == found.rows.scored + sum(len(v) for v in found.rows.excluded.values())
    assert found.rows.excluded == {
        "no_quorum": (row_id(1),),
        "oversized": (row_id(5),),
        "tie": (row_id(2),),
        "unavailable": (row_id(3),),
        "unrenderable": (row_id(4),),
    }
    assert found.outage == (row_id(3),)
    wrong = card_of(
        replace(fixed, failures="wrong"),
        CardInput(labels=labels, passes=passes, excluded=excluded),  # type: ignore[arg-type]
    )
    assert wrong.rows.scored == 4
    assert wrong.headline.value == 0.25
    assert set(wrong.rows.excluded) == {"oversized", "unrenderable"}  # EV-6: never scored wrong
    assert set(wrong.rows.counted_wrong) == {"no_quorum", "tie", "unavailable"}


def test_gt9_a_card_whose_rows_do_not_add_up_is_an_error() -> None:
    found = card(["a", "b"], ["a", "b"])
    with pytest.raises(RunError, match="do not add up"):
        replace(found.rows, scored=1)
    with pytest.raises(RunError, match="do not add up"):
        replace(found.rows, labelled=4, excluded={"tie": ("x",), "no_quorum": ("x",)})


def test_gt9_rows_without_any_pass_are_counted_as_short_of_the_quorum() -> None:
    found = card_of(frame(["a", "b"], **FAST), CardInput(labels=labels_of(["a", "b"]), passes=passes_of([["a"]])))
    assert found.rows.excluded == {"no_quorum": (row_id(1),)}


def test_gt7_small_classes_are_named_and_the_headline_stands_without_them() -> None:
    labels = ["a"] * 10 + ["b"] * 8 + ["c"] * 5
    said = ["a"] * 9 + ["c"] + ["b"] * 8 + ["a"] * 5
    found = card(labels, said)
    assert found.small_classes == ("c",)
    assert found.headline.value == pytest.approx(17 / 23)
    assert found.headline_without_small is not None
    assert found.headline_without_small.value == pytest.approx(17 / 18)
    assert "not separately measurable, under 6 rows: c" in found.warnings
    assert any("swallow most improvements" in w for w in found.warnings)
    macro = card(labels, said, "macro_f1").headline_without_small
    assert macro is not None
    assert macro.value == pytest.approx((2 * 9 / (10 + 9) + 1.0) / 2)  # "c" for an a-row is a miss
    assert card(["a"] * 8 + ["b"] * 8, ["a"] * 16).small_classes == ()
    assert card(["a"] * 8 + ["b"] * 8, ["a"] * 16).headline_without_small is None


def test_out4_the_quorums_cost_is_printed() -> None:
    labels = ["a", "b", "b", "a"]
    answers = [["a", "a", "a"], ["a", None, None], ["b", "a", None], [None, None, None]]
    found = card(labels, answers, runs=3).quorum
    assert found.lost == (row_id(1),)  # the tie and the empty row are lost for other reasons
    assert found.headline_without.value == pytest.approx(1 / 2)
    assert found.headline_unusable_wrong.value == pytest.approx(1 / 4)


def test_out5_confidence_is_reported_by_pass_and_its_interval_by_row() -> None:
    labels = labels_of(["a"] * 10 + ["b"] * 10)
    passes = []
    for k, (row, label) in enumerate(labels.items()):
        right = k % 2 == 0
        said = label if right else ("b" if label == "a" else "a")
        passes += [Pass(row=row, run=r, label=said, confidence=(90 if right else 60) + r) for r in range(3)]
    passes[0] = replace(passes[0], confidence=None, confidence_fault="missing")
    passes[1] = replace(passes[1], confidence=None, confidence_fault="invalid")
    fixed = frame(list(labels.values()), runs=3, **FAST)
    found = card_of(fixed, CardInput(labels=labels, passes=passes)).confidence
    assert (found.missing, found.invalid) == (1, 1)
    assert found.when_wrong.value == pytest.approx(61)
    assert found.when_right.value == pytest.approx((9 * 273 + 92) / 28)
    assert found.separates
    assert found.advice is None
    assert found.interval.n == 20
    assert sum(b["passes"] for b in found.bands) == 58
    flat = [replace(p, confidence=80) for p in passes]
    found = card_of(fixed, CardInput(labels=labels, passes=flat)).confidence
    assert not found.separates
    assert found.advice == "confidence does not separate hits from errors; route nothing on it"


def test_out5_confidence_changes_no_score() -> None:
    labels = ["a", "b", "b"]
    bare = card(labels, [["a"], ["a"], ["b"]]).to_json()
    sure = card(labels, [["a"], ["a"], ["b"]], given_more={"confidence": 3}).to_json()
    assert {k: v for k, v in bare.items() if k not in ("confidence", "warnings")} == {
        k: v for k, v in sure.items() if k not in ("confidence", "warnings")
    }


@settings(max_examples=60)
@given(st.lists(st.lists(st.sampled_from(["a", "b", "c", None]), min_size=5, max_size=5), min_size=1, max_size=12))
def test_out6_flip_rate_and_pairwise_by_plain_counting(answers: list[list[str | None]]) -> None:
    labels = ["a", "b", "c"] * len(answers)
    found = card_of(
        frame(labels, runs=5, resamples=2), CardInput(labels=labels_of(labels), passes=passes_of(answers))
    ).flips
    rows = [[a for a in row if a is not None] for row in answers]
    rows = [row for row in rows if len(row) >= 2]
    assert found.rows == len(rows)
    if not rows:
        assert found.value.value is None
        return
    assert found.value.value == pytest.approx(sum(len(set(row)) > 1 for row in rows) / len(rows))
    pairs = [[x != y for x, y in combinations(row, 2)] for row in rows]
    assert found.pairwise.value == pytest.approx(sum(sum(p) / len(p) for p in pairs) / len(pairs))


def test_out6_one_run_shows_no_flips() -> None:
    found = card(["a", "b"], ["a", "b"]).flips
    assert (found.value.value, found.pairwise.value) == (None, None)


def test_me2_constant_judges() -> None:
    labels = ["a"] * 6 + ["b"] * 4
    said = ["a"] * 10
    assert card(labels, said).constant.label == "a"
    macro = card(labels, said, "macro_f1").constant
    assert (macro.label, macro.value.value) == ("a", pytest.approx((2 * 6 / 16) / 2))
    f1 = card(labels, said, "f1:b").constant
    assert (f1.label, f1.value.value) == ("b", pytest.approx(8 / 14))
    kappa = card(labels, said, "cohens_kappa").constant
    assert kappa.bar == 0.0
    balanced = card(labels, said, "balanced_accuracy").constant
    assert (balanced.label, balanced.value.value) == ("a", 0.5)  # equal ones: the first by canonical text
    numbers = [1.0, 2.0, 2.0, 9.0]
    mae = card(numbers, numbers, "mae", kind="numeric").constant
    assert (mae.label, mae.value.value) == (2.0, 2.0)
    rho = card(numbers, numbers, "spearman", kind="numeric").constant
    assert (rho.value.value, rho.bar) == (None, 0.0)
    sets = [frozenset("ab"), frozenset("ab"), frozenset("a"), frozenset("c")]
    assert card(sets, sets, kind="multiselect").constant.label == frozenset("ab")
    jaccard = card(sets, sets, "mean_credit:jaccard", kind="multiselect").constant
    best = max(
        (sum(len(s & set(c)) / len(s | set(c)) for s in sets) / 4, c) for n in (1, 2, 3) for c in combinations("abc", n)
    )
    assert jaccard.value.value == pytest.approx(best[0])


def test_pu2_a_headline_beats_the_constant_judge_only_strictly_and_in_its_direction() -> None:
    numbers = [1.0, 2.0, 3.0, 4.0]
    assert card(numbers, numbers, "mae", kind="numeric").beats_constant
    assert not card(numbers, [2.5] * 4, "mae", kind="numeric").beats_constant
    assert not card(numbers, [4.0, 3.0, 2.0, 1.0], "spearman", kind="numeric").beats_constant
    assert not card(["a", "b"], [None, None]).beats_constant


def test_nu1_scale_thirds_and_exact_agreement() -> None:
    labels = [0.0, 1.0, 2.0, 3.0, 6.0]
    found = card(labels, [0.0, 2.0, 2.0, 3.0, 3.0], "mae", kind="numeric")
    assert found.fixed.scale == 6.0
    assert found.headline.value == pytest.approx(4 / 5)
    assert found.accuracy.value == pytest.approx(3 / 5)
    assert [(t.rows, t.mae.value) for t in found.thirds] == [(2, 0.5), (2, 0.0), (1, 3.0)]
    assert found.confusion is None
    assert frame(labels, "mae", kind="numeric", minimum=0.0, maximum=10.0).scale == 10.0
    assert frame(labels, "mae", kind="numeric", minimum=0.0).scale == 6.0


def test_nu1_failures_counted_wrong_cost_the_whole_scale() -> None:
    found = card([0.0, 4.0], [0.0, None], "mae", kind="numeric", failures="wrong")
    assert found.headline.value == pytest.approx(4 / 2)
    rho = card([0.0, 4.0, 2.0], [0.0, 1.0, None], "spearman", kind="numeric", failures="wrong")
    assert (rho.headline.value, rho.headline.why) == (None, "a row without an answer has no rank")


def test_ms1_confusion_and_recall_are_one_vs_rest() -> None:
    labels = [frozenset("ab"), frozenset("a"), frozenset("c")]
    found = card(labels, [frozenset("a"), frozenset("ac"), frozenset("c")], kind="multiselect")
    assert found.headline.value == pytest.approx(1 / 3)
    assert found.confusion == {
        "one_vs_rest": [
            {"label": "a", "tp": 2, "fn": 0, "fp": 0, "tn": 1},
            {"label": "b", "tp": 0, "fn": 1, "fp": 0, "tn": 2},
            {"label": "c", "tp": 1, "fn": 0, "fp": 1, "tn": 1},
        ]
    }
    assert [c.recall.value for c in found.classes] == [1.0, 0.0, 1.0]


def test_minority_and_largest_class_never_coincide_and_a_tie_is_named() -> None:
    fixed = frame(["x", "y"] * 5, **FAST)
    assert (fixed.minority, fixed.largest, fixed.minority_ties) == ("x", "y", ("x", "y"))
    assert any("equally few rows; x is taken" in w for w in card(["x", "y"] * 5, ["x"] * 10).warnings)
    assert frame(["b", "a", "a"], classes=["a", "b", "unused"]).minority == "b"


def test_a_slice_is_a_card_on_a_subset() -> None:
    labels = ["a", "b", "a", "b"]
    given_all = judged(labels, ["a", "b", "b", "b"])
    fixed = frame(labels, **FAST)
    part = card_of(fixed, given_all.subset({row_id(2), row_id(3)}))
    assert (part.rows.labelled, part.headline.value) == (2, 0.5)


def test_cards_do_not_depend_on_the_order_of_passes_or_labels() -> None:
    labels = ["a", "b", "c"] * 8
    answers = [["a", "b", "c"], ["b", "b", "a"], ["c", None, "c"]] * 8
    whole = judged(labels, answers, confidence=70)
    turned = CardInput(labels=dict(reversed(whole.labels.items())), passes=list(reversed(whole.passes)))
    fixed = frame(labels, "macro_f1", runs=3, **FAST)
    assert card_of(fixed, whole).to_json() == card_of(fixed, turned).to_json()
    assert whole.digest() == turned.digest()


def test_votes_of_a_card_are_the_votes_of_the_rule() -> None:
    labels = ["a", "b", "a"]
    answers = [["a", "b", "a"], ["b", None, None], ["a", "b", None]]
    found = card(labels, answers, runs=3, given_more={"confidence": 50})
    passes = passes_of(answers, confidence=50)
    expected = [vote([p for p in passes if p.row == row_id(k)], 3, "categorical") for k in range(3)]
    assert list(found.votes) == expected


def test_a_labelled_class_without_a_scored_row_is_named_not_averaged_as_0() -> None:
    labels = ["a"] * 6 + ["b"] * 6 + ["c"] * 6
    found = card(labels, [*labels[:12], *[None] * 6], "macro_f1")
    assert found.headline.value == 1.0
    assert "labelled, but no row of it is scored, so class figures leave it out: c" in found.warnings
