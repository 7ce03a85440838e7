"""Figures about one judge's answers that stand beside the headline: constants, flips, confidence."""

from __future__ import annotations

from dataclasses import dataclass
from itertools import combinations
from typing import Any

import numpy as np
from scipy import special

from fitter.labels import LabelValue, text, to_json
from fitter.scoring.bootstrap import Patterns, compress
from fitter.scoring.frame import Fixed
from fitter.scoring.statistic import measure
from fitter.scoring.table import Table
from fitter.scoring.values import EPSILON, BoolArray, FloatArray, IntArray, Interval, Value
from fitter.scoring.votes import NO_VOTE

BANDS = ((0, 49), (50, 69), (70, 79), (80, 89), (90, 100))
SEPARATION = 5.0  # points of mean confidence, right minus wrong (OUT-5)
_ALL_SETS = 10  # up to this many values every set is tried as a constant


@dataclass(frozen=True, kw_only=True)
class Constant:
    """The best judge that gives one answer to every row, on the same rows (ME-2).

    Attributes:
        value: its headline; null where a constant has none.
        label: the answer.
        bar: what a headline must beat: ``value``, or 0 where a constant has no rank correlation.
    """

    value: Value
    label: LabelValue | None
    bar: float | None

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        label = None if self.label is None else to_json(self.label)
        return {**self.value.to_json(), "label": label, "bar": self.bar}


def best_constant(fixed: Fixed, table: Table, rows: BoolArray) -> Constant:
    """The best constant judge: class by class; for MAE the median; for kappa 0; for multi-select the best set.

    Up to ten values every set is tried, beyond that the sets that occur, their union and the single values. Equal
    ones: the first by canonical text.
    """
    patterns = compress([table.truth[rows]])
    name = fixed.metric.name
    if patterns.units == 0:
        return Constant(value=Value.none("no rows"), label=None, bar=None)
    if name == "spearman":
        return Constant(value=Value.none("a constant has no rank correlation; the bar is 0"), label=None, bar=0.0)
    best: tuple[float, LabelValue] | None = None
    for answer in _constants(fixed, table, patterns):
        values = (*table.values, answer)
        code = np.full(len(patterns.keys), len(table.values), dtype=np.int64)
        same = [k for k, v in enumerate(table.values) if v == answer]
        if same:
            code[:] = same[0]
        found = measure(fixed, values, patterns.keys[:, 0], code).at(patterns.counts).value
        if found is not None and (best is None or (found - best[0]) * fixed.metric.sign > EPSILON):
            best = (found, answer)
    if best is None:
        reason = measure(fixed, table.values, patterns.keys[:, 0], patterns.keys[:, 0]).at(patterns.counts).why
        bar = 0.0 if name == "cohens_kappa" else None
        return Constant(value=Value.none(reason or "no constant judge has this figure"), label=None, bar=bar)
    return Constant(value=Value.of(best[0]), label=best[1], bar=best[0])


def _constants(fixed: Fixed, table: Table, patterns: Patterns) -> list[LabelValue]:
    if fixed.kind == "numeric":
        numbers = np.repeat(patterns.keys[:, 0], patterns.counts)
        return [float(np.median([float(table.values[k]) for k in numbers]))]  # type: ignore[arg-type]
    if fixed.kind != "multiselect":
        return sorted(fixed.classes, key=text)
    names = sorted(c for c in fixed.classes if isinstance(c, str))
    if len(names) <= _ALL_SETS:
        sets = [frozenset(s) for size in range(1, len(names) + 1) for s in combinations(names, size)]
    else:
        seen = {v for v in (table.values[k] for k in patterns.keys[:, 0]) if isinstance(v, frozenset)}
        sets = list(seen | {frozenset({n}) for n in names} | {frozenset(names)})
    return sorted(sets, key=text)


@dataclass(frozen=True, kw_only=True)
class Flips:
    """How steady the judge is (OUT-6).

    Attributes:
        value: share of rows with two or more usable passes whose passes are not all the same answer.
        rows: such rows.
        pairwise: mean over those rows of the share of pass pairs that disagree; does not grow with runs.
    """

    value: Value
    rows: int
    pairwise: Value

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {**self.value.to_json(), "rows": self.rows, "pairwise": self.pairwise.value}


def flips(table: Table, runs: int, rows: BoolArray | None = None) -> Flips:
    """Flip rate and pairwise disagreement over the rows with two or more usable passes."""
    chosen = table.usable >= 2 if rows is None else rows & (table.usable >= 2)
    n = int(chosen.sum())
    if runs == 1 or n == 0:
        reason = Value.none("one run a row shows no flips" if runs == 1 else "no row has two usable passes")
        return Flips(value=reason, rows=n, pairwise=reason)
    codes = table.passes[chosen]
    there = codes != NO_VOTE
    apart = np.zeros(n)
    pairs = np.zeros(n)
    for i in range(runs):
        for j in range(i + 1, runs):
            both = there[:, i] & there[:, j]
            pairs += both
            apart += both & (codes[:, i] != codes[:, j])
    return Flips(value=Value.of(float((apart > 0).mean())), rows=n, pairwise=Value.of(float((apart / pairs).mean())))


@dataclass(frozen=True, kw_only=True)
class Confidence:
    """What the judge says about its own certainty: reported, never used (OUT-5).

    Attributes:
        bands: per band of confidence: passes, rows and the share that is right.
        when_right, when_wrong: mean confidence of right and wrong passes.
        difference: right minus wrong, points.
        interval: of the difference, rows as clusters.
        separates: confidence tells hits from errors (at least 5 points, interval without 0).
        missing, invalid: usable passes whose confidence was missing or invalid.
    """

    bands: tuple[dict[str, Any], ...]
    when_right: Value
    when_wrong: Value
    difference: Value
    interval: Interval
    separates: bool
    missing: int
    invalid: int

    @property
    def advice(self) -> str | None:
        """The sentence the report must print, or None."""
        if self.separates or not any(b["passes"] for b in self.bands):
            return None
        return "confidence does not separate hits from errors; route nothing on it"

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            "bands": [dict(b) for b in self.bands],
            "when_right": self.when_right.value,
            "when_wrong": self.when_wrong.value,
            "difference": self.difference.to_json(),
            "interval": self.interval.to_json(),
            "separates": self.separates,
            "missing": self.missing,
            "invalid": self.invalid,
            "advice": self.advice,
        }


def confidence(table: Table) -> Confidence:
    """Confidence of single passes against whether they were right."""
    stated = ~np.isnan(table.confidence) & (table.passes != NO_VOTE)
    right = (table.passes == table.truth[:, None]) & stated
    wrong = stated & ~right
    points = np.nan_to_num(table.confidence)
    bands = []
    for low, high in BANDS:
        inside = stated & (points >= low) & (points <= high)
        passes = int(inside.sum())
        share = float((right & inside).sum() / passes) if passes else None
        bands.append(
            {"low": low, "high": high, "passes": passes, "rows": int(inside.any(axis=1).sum()), "right": share}
        )
    means = [_mean_of(points, which, name) for which, name in ((right, "right"), (wrong, "wrong"))]
    difference, interval = _difference(points, right, wrong, table.group)
    low_end = interval.low
    separates = difference.value is not None and difference.value >= SEPARATION and low_end is not None and low_end > 0
    return Confidence(
        bands=tuple(bands),
        when_right=means[0],
        when_wrong=means[1],
        difference=difference,
        interval=interval,
        separates=separates,
        missing=table.faults["missing"],
        invalid=table.faults["invalid"],
    )


def _mean_of(points: FloatArray, which: BoolArray, name: str) -> Value:
    n = int(which.sum())
    return Value.of(float(points[which].sum() / n)) if n else Value.none(f"no {name} pass states a confidence")


def _difference(
    points: FloatArray, right: BoolArray, wrong: BoolArray, group: IntArray | None
) -> tuple[Value, Interval]:
    """Mean confidence right minus wrong, with a t interval whose unit is the row (or group), never the pass.

    The standard error is the linearised one for a difference of two ratio means over clusters; degrees of freedom are
    those of the smaller side's clusters.
    """
    cluster = np.arange(len(points)) if group is None else group
    clusters = int(cluster.max()) + 1 if len(cluster) else 0
    score = np.zeros(len(points))
    sides, mean = [], []
    for which, sign in ((right, 1.0), (wrong, -1.0)):
        n = which.sum()
        if n == 0:
            reason = "confidence is stated on right and on wrong passes nowhere"
            null = Interval(low=None, high=None, method="t_clusters", n=clusters, reliable=False, why="one side only")
            return Value.none(reason), null
        mean.append(points[which].sum() / n)
        score += sign * np.where(which, points - mean[-1], 0.0).sum(axis=1) / n
        sides.append(len(np.unique(cluster[which.any(axis=1)])))
    per_cluster = np.bincount(cluster, weights=score, minlength=clusters)
    freedom = min(sides) - 1
    value = float(mean[0] - mean[1])
    if freedom < 1:
        null = Interval(low=None, high=None, method="t_clusters", n=clusters, reliable=False, why="one row on a side")
        return Value.of(value), null
    spread = float(np.sqrt((per_cluster**2).sum())) * float(special.stdtrit(freedom, 0.975))
    return Value.of(value), Interval(low=value - spread, high=value + spread, method="t_clusters", n=clusters)
