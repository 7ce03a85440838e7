"""Two judges on the rows where both have a standing vote: who gained, who lost, and could it be noise (KE-2)."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
from scipy import special

from fitter.scoring.bootstrap import compress, figures, percentile_interval
from fitter.scoring.deployable import Deployable
from fitter.scoring.frame import Fixed
from fitter.scoring.statistic import absolute_errors, correct, measure, smallest_class
from fitter.scoring.statistic import credits as credits_of
from fitter.scoring.table import Table
from fitter.scoring.values import EPSILON, BoolArray, FloatArray, IntArray, Interval, Value

ALPHA = 0.05
NUMERIC_STEP = 1e-9  # absolute errors closer than this are equal (NU-1)
MIN_DELTA = 0.02


def exact_p(gained: int, lost: int) -> float:
    """Exact two-sided McNemar test, which is the sign test on the discordant rows; 1 when there are none.

    The exact binomial test with probability 1/2 (McNemar 1947, exact form): twice the smaller tail, by scipy.
    """
    if gained + lost == 0:
        return 1.0
    return min(1.0, 2.0 * float(special.bdtr(min(gained, lost), gained + lost, 0.5)))


def bootstrap_p(deltas: FloatArray) -> float | None:
    """``min(1, 2·min(#(d≤0)+1, #(d≥0)+1)/(B+1))`` over the B resamples that measure the delta (KE-2)."""
    kept = deltas[~np.isnan(deltas)]
    if len(kept) == 0:
        return None
    tail = min(int((kept <= EPSILON).sum()), int((kept >= -EPSILON).sum())) + 1
    return min(1.0, 2.0 * tail / (len(kept) + 1))


@dataclass(frozen=True, kw_only=True)
class MinDelta:
    """The smallest gain that is called more than noise: derived once at v0, never again (KE-2).

    Attributes:
        value: in the metric's own units.
        winner: which term it is: ``floor``, ``half_run_stdev`` or ``user``.
        terms: all terms; ``half_run_stdev`` is None with one run.
        one_row: what one row is worth, ``1/rows``.
    """

    value: float
    winner: str
    terms: Mapping[str, float | None]
    one_row: float | None

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {"value": self.value, "winner": self.winner, "terms": dict(self.terms), "one_row": self.one_row}

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> MinDelta:
        """Reads :meth:`to_json`'s form back."""
        return cls(value=data["value"], winner=data["winner"], terms=dict(data["terms"]), one_row=data["one_row"])


def min_delta(fixed: Fixed, v0: Deployable, rows: int) -> MinDelta:
    """``max(0.02, 0.5·run_stdev)``, for MAE ``0.02·scale`` in place of 0.02; the user's own number wins.

    Args:
        fixed: what was fixed at intake.
        v0: the deployable score of the version that enters iteration 1.
        rows: rows scored at v0.
    """
    floor = MIN_DELTA * (fixed.scale or 0.0) if fixed.metric.name == "mae" else MIN_DELTA
    spread = v0.stdev.value
    half = None if spread is None else 0.5 * spread
    terms = {"floor": floor, "half_run_stdev": half, "user": fixed.min_delta}
    one_row = 1 / rows if rows else None
    if fixed.min_delta is not None:
        return MinDelta(value=fixed.min_delta, winner="user", terms=terms, one_row=one_row)
    if half is not None and half > floor:
        return MinDelta(value=half, winner="half_run_stdev", terms=terms, one_row=one_row)
    return MinDelta(value=floor, winner="floor", terms=terms, one_row=one_row)


@dataclass(frozen=True, kw_only=True)
class Paired:
    """Candidate against best on the paired rows.

    Attributes:
        rows: paired rows.
        gained, lost: row ids the candidate answers better, worse.
        p: exact p on the discordant rows.
        test: ``mcnemar`` or ``sign``.
        grouped: rows come in groups, which the exact test ignores.
        best, candidate: both headlines on these rows.
        delta: candidate minus best in the metric's own units.
        improved: delta moves strictly (over 1e-12) in the metric's direction.
        interval: paired bootstrap 95% interval of the delta.
        bootstrap_p: its p.
    """

    rows: int
    gained: tuple[str, ...]
    lost: tuple[str, ...]
    p: float
    test: str
    grouped: bool
    best: Value
    candidate: Value
    delta: Value
    improved: bool
    interval: Interval
    bootstrap_p: float | None

    @property
    def tests(self) -> str:
        """What the exact p tests, for people."""
        what = {
            "mcnemar": "exact two-sided McNemar test: are the rows where only one of the two is right evenly split?",
            "sign": "exact two-sided sign test: are the rows that got better and those that got worse evenly split?",
        }[self.test]
        return f"{what} (assumes independent rows)" if self.grouped else what

    def to_json(self) -> dict[str, Any]:
        """Plain JSON in the shape of ``fitter score --against``."""
        return {
            "rows": self.rows,
            "gained_ids": list(self.gained),
            "lost_ids": list(self.lost),
            "sign_p" if self.test == "sign" else "mcnemar_p": self.p,
            "tests": self.tests,
            "assumes_independent_rows": self.grouped,
            "best": self.best.to_json(),
            "candidate": self.candidate.to_json(),
            "headline_delta": {
                **self.delta.to_json(),
                "ci95": self.interval.to_json(),
                "p": self.bootstrap_p,
                "p_tests": "paired bootstrap: is the headline's delta 0?",
                "improved": self.improved,
            },
        }


def paired_mask(fixed: Fixed, best: Table, candidate: Table) -> BoolArray:
    """(n,) rows that count under both judges and the failures policy."""
    return np.asarray(best.counted(fixed) & candidate.counted(fixed))


def moves(fixed: Fixed, best: Table, candidate: Table, rows: BoolArray) -> tuple[BoolArray, BoolArray]:
    """(n,) gained and (n,) lost among the chosen rows; tables share one code book.

    Right or wrong for classes and whole sets; credit for ``mean_credit`` (MS-1); absolute error for numbers (NU-1).
    """
    truth = best.truth
    if fixed.kind == "numeric":
        before = -absolute_errors(fixed, best.values, truth, best.votes)
        after = -absolute_errors(fixed, best.values, truth, candidate.votes)
        step = NUMERIC_STEP
    elif fixed.metric.name == "mean_credit":
        before = credits_of(fixed, best.values, truth, best.votes)
        after = credits_of(fixed, best.values, truth, candidate.votes)
        step = EPSILON
    else:
        before = correct(truth, best.votes).astype(float)
        after = correct(truth, candidate.votes).astype(float)
        step = EPSILON
    return np.asarray(rows & (after - before > step)), np.asarray(rows & (before - after > step))


def compare(fixed: Fixed, best: Table, candidate: Table) -> Paired:
    """Compares two judges' votes on the paired rows.

    Args:
        fixed: what was fixed at intake.
        best, candidate: tables with one code book (:func:`fitter.scoring.frame.together`).
    """
    rows = paired_mask(fixed, best, candidate)
    gained, lost = moves(fixed, best, candidate, rows)
    truth, group = best.truth[rows], None if best.group is None else best.group[rows]
    patterns = compress([truth, best.votes[rows], candidate.votes[rows]], group)
    before = measure(fixed, best.values, patterns.keys[:, 0], patterns.keys[:, 1])
    after = measure(fixed, best.values, patterns.keys[:, 0], patterns.keys[:, 2])
    none = Value.none("no paired rows")
    at_best = before.at(patterns.counts) if patterns.units else none
    at_candidate = after.at(patterns.counts) if patterns.units else none
    delta = _delta(at_best, at_candidate)

    def difference(weights: FloatArray) -> FloatArray:
        return after.compute(weights) - before.compute(weights)

    deltas = figures(patterns, difference, resamples=fixed.resamples, seed=fixed.seed, purpose="paired")
    smallest = smallest_class(fixed, best.values, truth) if fixed.metric.by_class else None
    credit = fixed.metric.name == "mean_credit" and fixed.metric.match != "exact"
    return Paired(
        rows=int(rows.sum()),
        gained=_ids(best, gained),
        lost=_ids(best, lost),
        p=exact_p(int(gained.sum()), int(lost.sum())),
        test="sign" if fixed.kind == "numeric" or credit else "mcnemar",
        grouped=best.group is not None,
        best=at_best,
        candidate=at_candidate,
        delta=delta,
        improved=delta.value is not None and delta.value * fixed.metric.sign > EPSILON,
        interval=percentile_interval(deltas, patterns, small_class=smallest),
        bootstrap_p=bootstrap_p(deltas),
    )


def _delta(best: Value, candidate: Value) -> Value:
    if best.value is None:
        return Value.none(f"best has no headline on the paired rows: {best.why}")
    if candidate.value is None:
        return Value.none(f"the candidate has no headline on the paired rows: {candidate.why}")
    delta = candidate.value - best.value
    return Value.of(0.0 if abs(delta) <= EPSILON else delta)


def _ids(table: Table, chosen: BoolArray) -> tuple[str, ...]:
    at: IntArray = np.flatnonzero(chosen)
    return tuple(table.rows[i] for i in at)
