"""A metric as a function of pattern counts.

Every metric here depends on a row only through its pattern: the human's value and the judge's answer. So a metric is a
function from counts of patterns to a figure, and a bootstrap resample is a vector of counts. Functions take a (B, P)
array, one resample a line, and return (B,) figures, NaN where the figure does not exist.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TypeAlias

import numpy as np

from fitter.labels import LabelValue
from fitter.scoring.frame import Fixed
from fitter.scoring.values import BoolArray, FloatArray, IntArray, Value

# Codes of an answer beside the values' own.
WRONG = -1  # no verdict, and the policy counts that as wrong
SKIP = -2  # no verdict, and the row is not part of this figure

Statistic: TypeAlias = Callable[[FloatArray], FloatArray]


@dataclass(frozen=True, kw_only=True)
class Tally:
    """Counts per class, one line a resample: right answers, rows, answers. Shapes (B, K)."""

    hits: FloatArray
    support: FloatArray
    predicted: FloatArray
    total: FloatArray


@dataclass(frozen=True, kw_only=True)
class Measure:
    """One metric on one column of answers over P patterns.

    Attributes:
        compute: (B, P) counts → (B,) figures.
        why: counts (P,) → why the figure does not exist there, for people.
    """

    compute: Statistic
    why: Callable[[FloatArray], str]

    def at(self, counts: IntArray | FloatArray) -> Value:
        """The figure at one vector of counts."""
        weights = np.asarray(counts, dtype=float)
        found = float(self.compute(weights[None, :])[0])
        return Value.none(self.why(weights)) if np.isnan(found) else Value.of(found)


def measure(
    fixed: Fixed,
    values: Sequence[LabelValue],
    truth: IntArray,
    answer: IntArray,
    *,
    without: frozenset[LabelValue] = frozenset(),
) -> Measure:
    """The fixed metric over patterns.

    Args:
        fixed: what is fixed at intake.
        values: code → value.
        truth: (P,) codes of the human's value.
        answer: (P,) codes of the judge's answer, :data:`WRONG` or :data:`SKIP`.
        without: classes left out of the class list (GT-7's headline without small classes); their rows must be gone
            from the patterns already.

    Returns:
        The measure; its counts keep the P columns, patterns with :data:`SKIP` weigh nothing.
    """
    keep = np.flatnonzero(answer != SKIP)
    t, a = truth[keep], answer[keep]
    name = fixed.metric.name
    if name == "spearman":
        inner, why = _spearman(values, t, a)
    elif name == "mae":
        inner, why = _mean(absolute_errors(fixed, values, t, a)), _no_rows
    elif name in ("accuracy", "mean_credit"):
        inner, why = _mean(credits(fixed, values, t, a)), _no_rows
    else:
        inner, why = _by_class(fixed, values, t, a, without)
    whole = len(keep) == len(answer)
    return Measure(
        compute=inner if whole else lambda w: inner(w[:, keep]),
        why=why if whole else lambda w: why(w[keep]),
    )


def _no_rows(_: FloatArray) -> str:
    return "no rows"


def _mean(per_pattern: FloatArray) -> Statistic:
    def compute(weights: FloatArray) -> FloatArray:
        total = weights.sum(axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            return np.asarray(np.where(total > 0, (weights @ per_pattern) / total, np.nan))

    return compute


def correct(truth: IntArray, answer: IntArray) -> BoolArray:
    """(P,) the answer is the human's value, as a whole."""
    return np.asarray(truth == answer)


def absolute_errors(fixed: Fixed, values: Sequence[LabelValue], truth: IntArray, answer: IntArray) -> FloatArray:
    """(P,) absolute errors of numeric answers; a :data:`WRONG` one costs the whole scale."""
    numbers = np.array([float(v) for v in values], dtype=np.float64)  # type: ignore[arg-type]
    out = np.abs(numbers[truth] - numbers[np.maximum(answer, 0)])
    return np.where(answer == WRONG, fixed.scale or 0.0, out)


def credits(fixed: Fixed, values: Sequence[LabelValue], truth: IntArray, answer: IntArray) -> FloatArray:
    """(P,) credit of each answer, 0 to 1: exact match, or ``mean_credit``'s match mode; :data:`WRONG` earns 0."""
    match = fixed.metric.match if fixed.metric.name == "mean_credit" else "exact"
    if match == "exact":
        return correct(truth, answer).astype(float)
    home = dict(fixed.metric.groups) if match == "similarity_group" else {}
    sets = [_as_set(v, home) for v in values]
    return np.array([0.0 if a < 0 else _jaccard(sets[t], sets[a]) for t, a in zip(truth, answer, strict=True)])


def _as_set(value: LabelValue, home: dict[str, str]) -> frozenset[tuple[bool, object]]:
    """The value's members, each by its group where the taxonomy has one; group and value names never mix."""
    members = value if isinstance(value, frozenset) else (value,)
    return frozenset((m in home, home.get(m, m)) if isinstance(m, str) else (False, m) for m in members)


def _jaccard(a: frozenset[tuple[bool, object]], b: frozenset[tuple[bool, object]]) -> float:
    return len(a & b) / len(a | b)


def holds(classes: Sequence[LabelValue], values: Sequence[LabelValue], codes: IntArray) -> BoolArray:
    """(P, K) does the value of this code hold this class; nothing holds for negative codes."""
    held = np.zeros((len(values) + 1, len(classes)), dtype=bool)  # the last line serves negative codes
    for j, value in enumerate(values):
        for k, c in enumerate(classes):
            held[j, k] = c in value if isinstance(value, frozenset) else value == c
    return np.asarray(held[np.where(codes < 0, len(values), codes)])


def smallest_class(fixed: Fixed, values: Sequence[LabelValue], truth: IntArray) -> int:
    """Rows of the smallest class among those that have a row here; 0 without classes."""
    held = holds(fixed.classes, values, truth).sum(axis=0)
    return int(min(held[held > 0], default=0))


def class_tally(
    classes: Sequence[LabelValue], values: Sequence[LabelValue], truth: IntArray, answer: IntArray
) -> Callable[[FloatArray], Tally]:
    """Per-class counts from pattern counts, one-vs-rest (for multi-select: per value)."""
    k = len(classes)
    true, said = holds(classes, values, truth), holds(classes, values, answer)
    block = np.concatenate([true & said, true, said, np.ones((len(truth), 1))], axis=1).astype(float)

    def compute(weights: FloatArray) -> Tally:
        sums = weights @ block
        return Tally(
            hits=sums[:, :k], support=sums[:, k : 2 * k], predicted=sums[:, 2 * k : 3 * k], total=sums[:, 3 * k]
        )

    return compute


def f_scores(tally: Tally, beta: float) -> FloatArray:
    """(B, K) F-beta per class, ``(1+b²)·tp / (b²·support + predicted)``; NaN with neither rows nor answers."""
    weight = beta * beta
    below = weight * tally.support + tally.predicted
    with np.errstate(invalid="ignore", divide="ignore"):
        return np.asarray(np.where(below > 0, (1 + weight) * tally.hits / below, np.nan))


def _by_class(
    fixed: Fixed,
    values: Sequence[LabelValue],
    truth: IntArray,
    answer: IntArray,
    without: frozenset[LabelValue],
) -> tuple[Statistic, Callable[[FloatArray], str]]:
    """Balanced accuracy, the F family and kappa, over the classes that the rows' labels hold."""
    metric = fixed.metric
    held = holds(fixed.classes, values, truth)
    classes = [c for k, c in enumerate(fixed.classes) if held[:, k].any() and c not in without]
    counts = class_tally(classes, values, truth, answer)
    one = metric.target if metric.name in ("f1", "fbeta") else fixed.minority
    column = next((k for k, c in enumerate(classes) if c == one), -1)
    beta = metric.beta or 1.0
    about_one = metric.name in ("f1", "fbeta", "f1_minority", "fbeta_minority")

    def compute(weights: FloatArray) -> FloatArray:
        if not classes or (about_one and column < 0):
            return np.full(len(weights), np.nan)
        tally = counts(weights)
        with np.errstate(invalid="ignore", divide="ignore"):
            if metric.name == "balanced_accuracy":
                out = (tally.hits / tally.support).mean(axis=1)
            elif metric.name == "cohens_kappa":
                n = tally.total
                chance = (tally.support * tally.predicted).sum(axis=1) / (n * n)
                # chance is exactly 1 when both sides gave one and the same class: no kappa exists
                out = np.where(chance < 1, (tally.hits.sum(axis=1) / n - chance) / (1 - chance), np.nan)
            elif about_one:
                out = f_scores(tally, beta)[:, column]
            elif metric.name == "macro_f1":
                out = f_scores(tally, 1.0).mean(axis=1)
            else:
                out = (f_scores(tally, 1.0) * tally.support).sum(axis=1) / tally.support.sum(axis=1)
        return np.where((tally.support > 0).all(axis=1), out, np.nan)

    def why(weights: FloatArray) -> str:
        if not classes or weights.sum() == 0:
            return "no rows"
        if about_one and column < 0:
            return "no scored row is labelled with the metric's class"
        if metric.name == "cohens_kappa":
            return "human and judge gave one and the same class throughout: kappa is 0/0"
        return "a class has no scored rows"

    return compute, why


def _spearman(
    values: Sequence[LabelValue], truth: IntArray, answer: IntArray
) -> tuple[Statistic, Callable[[FloatArray], str]]:
    """Spearman's rho: Pearson's correlation of mid-ranks, from counts (ties share their mean rank)."""
    truth_steps, t = np.unique(truth, return_inverse=True)
    answer_steps, a = np.unique(answer, return_inverse=True)
    place_t = np.eye(len(truth_steps))[t]
    place_a = np.eye(len(answer_steps))[a]
    unranked = bool((answer == WRONG).any())

    def ranks(weights: FloatArray, place: FloatArray, index: IntArray) -> FloatArray:
        mass = weights @ place
        below = np.cumsum(mass, axis=1) - mass
        return np.asarray((below + (mass + 1) / 2)[:, index])

    def compute(weights: FloatArray) -> FloatArray:
        if unranked or len(truth) == 0:
            return np.full(len(weights), np.nan)
        n = weights.sum(axis=1, keepdims=True)
        centre = (n + 1) / 2
        x = ranks(weights, place_t, t) - centre
        y = ranks(weights, place_a, a) - centre
        xx, yy, xy = (weights * x * x).sum(axis=1), (weights * y * y).sum(axis=1), (weights * x * y).sum(axis=1)
        with np.errstate(invalid="ignore", divide="ignore"):
            out = xy / np.sqrt(xx * yy)
        # the sums of squares of a constant's centred ranks are exact halves squared or 0: no tolerance is needed
        return np.asarray(np.where((xx > 0) & (yy > 0), np.clip(out, -1.0, 1.0), np.nan))

    def why(weights: FloatArray) -> str:
        if weights.sum() == 0:
            return "no rows"
        if unranked:
            return "a row without an answer has no rank"
        return "labels or answers are all equal: there is no rank correlation"

    del values
    return compute, why
