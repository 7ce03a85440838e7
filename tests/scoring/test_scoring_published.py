"""Published tables reproduced from recorded verdicts that nobody here made (../shared/data).

tabfact_ten_judges: the arm table and all 45 paired comparisons. llmbar_natural: 65 evaluators. pandalm: annotators.
"""

from __future__ import annotations

import json
from collections import Counter
from functools import cache
from typing import Any

import pytest

from fitter.loop.decide import Decision, decide, redecide
from fitter.records import Pass
from fitter.scoring.agreement import agreement, cohen_kappa
from fitter.scoring.bootstrap import compress, figures, percentile_interval
from fitter.scoring.card import card_of
from fitter.scoring.frame import Failures, Fixed, fix
from fitter.scoring.metrics import Metric
from fitter.scoring.paired import compare, min_delta
from fitter.scoring.statistic import measure
from fitter.scoring.table import CardInput, tabulate, together
from tests.suites import shared_data_path

pytestmark = pytest.mark.shared

ONE_ROW = 1 / 120 + 1e-9


@cache
def rows(name: str) -> list[dict[str, Any]]:
    text = (shared_data_path() / name / "rows.jsonl").read_text(encoding="utf-8")
    return [json.loads(line) for line in text.splitlines()]


@cache
def published(name: str) -> dict[str, Any]:
    found: dict[str, Any] = json.loads((shared_data_path() / name / "published.json").read_text(encoding="utf-8"))
    return found


def frame_of(name: str, failures: Failures) -> Fixed:
    labels = {r["id"]: r["label"] for r in rows(name)}
    classes = sorted(set(labels.values()))
    metric = Metric.parse("accuracy", kind="categorical", classes=classes)
    return fix(
        kind="categorical", labels=labels, metric=metric, runs=1, seed=20261130, classes=classes, failures=failures
    )


def recorded(name: str, judge: str) -> CardInput:
    """A judge's recorded verdicts as one pass a row; an empty one is a failed call."""
    labels = {r["id"]: r["label"] for r in rows(name)}
    passes = []
    for r in rows(name):
        said = r["recorded_judges"].get(judge) or None
        passes.append(Pass(row=r["id"], run=0, label=said, unusable=None if said else "bad_envelope"))
    return CardInput(labels=labels, passes=passes)


def test_tabfact_ten_arms() -> None:
    fixed = frame_of("tabfact_ten_judges", "wrong")
    for judge, (right, valid, low, high) in published("tabfact_ten_judges")["arms"].items():
        card = card_of(fixed, recorded("tabfact_ten_judges", judge))
        assert card.headline.value == pytest.approx(right / 120, abs=1e-12), judge
        failed = sum(len(ids) for ids in card.rows.counted_wrong.values())
        assert (card.rows.scored, 120 - failed) == (120, valid), judge
        # the published intervals are row bootstraps of accuracy in which a failed call is wrong
        table = tabulate(fixed, recorded("tabfact_ten_judges", judge))
        patterns = compress([table.truth, table.votes])
        compute = measure(fixed, table.values, patterns.keys[:, 0], patterns.keys[:, 1]).compute
        found = figures(patterns, compute, resamples=10_000, seed=fixed.seed, purpose="arm")
        ends = percentile_interval(found, patterns)
        assert ends.low == pytest.approx(low, abs=ONE_ROW), judge
        assert ends.high == pytest.approx(high, abs=ONE_ROW), judge


def test_tabfact_all_45_pairs_and_six_printed_p_values() -> None:
    fixed = frame_of("tabfact_ten_judges", "wrong")
    printed = 0
    pairs = published("tabfact_ten_judges")["pairs"]
    assert len(pairs) == 45
    for a, b, delta, low, high, b_wins, a_wins, p in pairs:
        tables = [tabulate(fixed, recorded("tabfact_ten_judges", j)) for j in (a, b)]
        found = compare(fixed, *together(fixed, tables))
        assert (len(found.gained), len(found.lost)) == (b_wins, a_wins), (a, b)
        assert found.delta.value == pytest.approx(delta, abs=1e-12), (a, b)
        assert found.interval.low == pytest.approx(low, abs=ONE_ROW), (a, b)
        assert found.interval.high == pytest.approx(high, abs=ONE_ROW), (a, b)
        if p is not None:
            printed += 1
            assert round(found.p, 4) == p, (a, b)
    assert printed == 6


def golden(judge: str, failures: Failures) -> Decision:
    fixed = frame_of("tabfact_ten_judges", failures)
    best = recorded("tabfact_ten_judges", f"{judge}/direct_guided")
    candidate = recorded("tabfact_ten_judges", f"{judge}/sgr")
    card = card_of(fixed, best)
    noise = min_delta(fixed, card.deployable, card.rows.scored)
    found = decide(fixed, best=best, candidate=candidate, v0=best, min_delta=noise)
    assert redecide(found.to_json(), best=best, candidate=candidate, v0=best) == []
    return found


GOLDEN = [
    # judge, failures, rows, gained, lost, p, decision, basis, label, would be significant
    ("deepseek-json", "wrong", 120, 16, 2, 0.0013, "keep", "improved", "significant", True),
    ("deepseek-json", "exclude", 118, 16, 2, 0.0013, "discard", "audit_failed", None, True),
    ("luna", "wrong", 120, 15, 6, 0.0784, "keep", "improved", "within_noise", False),
    ("luna", "exclude", 118, 15, 5, 0.0414, "discard", "audit_failed", None, True),
]


@pytest.mark.parametrize(("judge", "failures", "n", "gained", "lost", "p", "word", "basis", "label", "strong"), GOLDEN)
def test_golden_decisions(
    judge: str,
    failures: Failures,
    n: int,
    gained: int,
    lost: int,
    p: float,
    word: str,
    basis: str,
    label: str | None,
    strong: bool,
) -> None:
    """Excluding failures hides that sgr leaves two rows of the minority class (ENTAILED by the tie rule) unanswered;
    KE-3's usable-rows check sees it."""
    found = golden(judge, failures)
    assert (found.paired.rows, len(found.paired.gained), len(found.paired.lost)) == (n, gained, lost)
    assert round(found.paired.p, 4) == p
    assert (found.decision, found.basis, found.label) == (word, basis, label)
    assert all(found.significance.values()) is strong
    assert found.record["policy"]["failures"] == failures
    if basis == "audit_failed":
        assert [c.name for c in found.audit if not c.passed] == ["usable_rows"]


def count_of(text: str) -> int:
    """``"81 / 100 = 81.0%"`` → 81."""
    return int(text.split(" / ")[0])


def test_llmbar_65_evaluators() -> None:
    """Counts per order, positional agreement and kappas.

    The publishers' kappa against the label compares answers recoded so that "2" becomes 0 with labels that stay 1 and
    2: the two can never agree on "2". It is reproduced as it was computed; the real kappa, which is far higher, is what
    our card prints.
    """
    fixed = frame_of("llmbar_natural", "wrong")
    labels = [r["label"] for r in rows("llmbar_natural")]
    table = published("llmbar_natural")
    assert len(table) == 65
    for judge, row in table.items():
        said = {}
        for order, name in (("original", "False"), ("swapped", "True")):
            given = recorded("llmbar_natural", f"{judge}/{order}")
            card = card_of(fixed, given)
            right = count_of(row[f"correct_{name}"])
            assert card.headline.value == pytest.approx(right / 100), (judge, order)
            said[name] = [r["recorded_judges"].get(f"{judge}/{order}") or "" for r in rows("llmbar_natural")]
            coded = ["1" if v == "1" else "0" for v in said[name]]
            expected = row[f"kappa_{name}"]
            assert cohen_kappa(coded, labels).value == pytest.approx(expected, abs=1e-9), (judge, order)
            real = cohen_kappa(said[name], labels).value
            assert real is not None
            if right > 60:
                assert real > expected
        both = sum(a == b == c for a, b, c in zip(said["False"], said["True"], labels, strict=True))
        assert both == count_of(row["correct_both"]), judge
        same = sum(a == b for a, b in zip(said["False"], said["True"], strict=True))
        assert same == count_of(row["equal"]), judge
        coded = [["1" if v == "1" else "0" for v in said[k]] for k in ("False", "True")]
        assert cohen_kappa(*coded).value == pytest.approx(row["kappa_agreement"], abs=1e-9), judge


def test_pandalm_annotators_and_judges() -> None:
    data = rows("pandalm")
    names = ("annotator1", "annotator2", "annotator3")
    found = agreement({r["id"]: {n: r["annotators"][n] for n in names} for r in data}, "categorical")
    kappas = {(p["a"], p["b"]): p["cohens_kappa"] for p in found.pairwise}
    assert [round(kappas[k], 2) for k in kappas] == [0.85, 0.88, 0.86]
    assert found.rows == 999
    assert Counter(r["label"] for r in data) == {"2": 472, "1": 422, "0": 105}
    # Fleiss and Krippendorff tell the same story on complete data: alpha is Fleiss with a small-sample correction
    assert found.fleiss.value == pytest.approx(found.alpha.value, abs=1e-3)


def test_pandalm_tie_is_class_0_and_garbage_is_unusable() -> None:
    data = rows("pandalm")
    labels = {r["id"]: r["label"] for r in data}
    metric = Metric.parse("macro_f1", kind="categorical", classes=["0", "1", "2"])
    fixed = fix(
        kind="categorical",
        labels=labels,
        metric=metric,
        runs=1,
        seed=1,
        classes=["0", "1", "2"],
        resamples=200,
    )
    read = {"Tie": "0", "1": "1", "2": "2"}
    passes = [
        Pass(
            row=r["id"],
            run=0,
            label=read.get(r["recorded_judges"]["gpt-3.5-turbo"]),
            unusable=None if r["recorded_judges"]["gpt-3.5-turbo"] in read else "label_not_in_schema",
        )
        for r in data
    ]
    card = card_of(fixed, CardInput(labels=labels, passes=passes))
    assert len(card.rows.excluded["no_quorum"]) == 25
    assert card.rows.scored == 974
    assert {c.label: c.predicted for c in card.classes} == {"0": 38, "1": 460, "2": 476}
