"""The deployable score: the metric over single passes, as a published evaluator will answer (ME-4)."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from fitter.scoring.bootstrap import Patterns, compress, figures, percentile_interval
from fitter.scoring.frame import Fixed
from fitter.scoring.statistic import SKIP, WRONG, Statistic, measure, smallest_class
from fitter.scoring.table import Table
from fitter.scoring.values import FloatArray, IntArray, Interval, Value
from fitter.scoring.votes import NO_VOTE


@dataclass(frozen=True, kw_only=True)
class RunScore:
    """The metric over all rows whose pass of this run is usable, vote or not."""

    run: int
    value: Value
    rows: int
    coverage: float

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {"run": self.run, **self.value.to_json(), "rows": self.rows, "coverage": self.coverage}


@dataclass(frozen=True, kw_only=True)
class Deployable:
    """The report's first figure.

    Attributes:
        mean: mean of the runs' figures; null when one of them is.
        stdev: sample standard deviation of the runs' figures; null with one run.
        least, most: smallest and largest run.
        per_run: each run.
        interval: percentile bootstrap; a row is drawn with its passes together.
        coverage: usable passes over passes asked for.
        rescued: passes that stand only thanks to the retry, which a deployed evaluator does not have.
        without_rescued: the mean without them.
        unusable_wrong: the mean when every unusable pass counts as wrong.
    """

    mean: Value
    stdev: Value
    least: Value
    most: Value
    per_run: tuple[RunScore, ...]
    interval: Interval
    coverage: float
    rescued: int
    without_rescued: Value
    unusable_wrong: Value

    def to_json(self) -> dict[str, Any]:
        """Plain JSON in the shape of ``fitter score``."""
        return {
            "mean": self.mean.value,
            **({} if self.mean.why is None else {"why": self.mean.why}),
            "stdev": self.stdev.value,
            "min": self.least.value,
            "max": self.most.value,
            "per_run": [r.to_json() for r in self.per_run],
            "ci95": self.interval.to_json(),
            "coverage": self.coverage,
            "rescued": self.rescued,
            "without_rescued": self.without_rescued.to_json(),
            "unusable_wrong": self.unusable_wrong.to_json(),
        }


def deployable(fixed: Fixed, table: Table) -> Deployable:
    """Scores single passes of the judged rows."""
    judged = table.judged
    truth, passes = table.truth[judged], table.passes[judged]
    labelled = len(table.rows)
    group = None if table.group is None else table.group[judged]
    answers = np.where(passes == NO_VOTE, SKIP, passes)
    if fixed.metric.name == "accuracy":
        # only right or wrong matters: far fewer patterns, the same figures
        answers = np.where(answers == SKIP, SKIP, np.where(answers == truth[:, None], 0, WRONG))
        truth = np.zeros_like(truth)
    patterns = compress([truth, *answers.T], group)
    runs = tuple(_run_score(fixed, table, patterns, r, answers[:, r], labelled) for r in range(fixed.runs))
    values = [r.value.value for r in runs if r.value.value is not None]
    usable_runs = [r.run for r in runs if r.rows]
    smallest = smallest_class(fixed, table.values, truth)
    found = figures(
        patterns,
        _mean_over_runs(fixed, table, patterns, usable_runs),
        resamples=fixed.resamples,
        seed=fixed.seed,
        purpose="deployable",
    )
    rescued = table.rescued[judged]
    return Deployable(
        mean=_mean(runs),
        stdev=_stdev(values, fixed.runs),
        least=Value.of(min(values)) if values else Value.none("no run has a figure"),
        most=Value.of(max(values)) if values else Value.none("no run has a figure"),
        per_run=runs,
        interval=percentile_interval(found, patterns, small_class=smallest if fixed.metric.by_class else None),
        coverage=float((answers != SKIP).sum() / max(1, labelled * fixed.runs)),
        rescued=int(rescued.sum()),
        without_rescued=_variant(fixed, table, truth, np.where(rescued, SKIP, answers)),
        unusable_wrong=_variant(fixed, table, truth, np.where(answers == SKIP, WRONG, answers)),
    )


def run_stdev(score: Deployable) -> float | None:
    """Sample standard deviation of single-pass headlines, for ``min_delta``; None with one run (KE-2)."""
    return score.stdev.value


def _run_score(fixed: Fixed, table: Table, patterns: Patterns, run: int, answers: IntArray, labelled: int) -> RunScore:
    rows = int((answers != SKIP).sum())
    value = measure(fixed, table.values, patterns.keys[:, 0], patterns.keys[:, run + 1]).at(patterns.counts)
    return RunScore(run=run, value=value, rows=rows, coverage=rows / labelled if labelled else 0.0)


def _mean(runs: tuple[RunScore, ...]) -> Value:
    """Mean over the runs that have a usable pass; null when one of those has no figure."""
    there = [r for r in runs if r.rows]
    if not there:
        return Value.none("no usable pass")
    missing = next((r for r in there if r.value.value is None), None)
    if missing is not None:
        return Value.none(f"run {missing.run}: {missing.value.why}")
    return Value.of(sum(r.value.value for r in there if r.value.value is not None) / len(there))


def _stdev(values: list[float], runs: int) -> Value:
    if runs == 1:
        return Value.none("one run has no spread")
    if len(values) < 2:
        return Value.none("fewer than two runs have a figure")
    return Value.of(float(np.std(values, ddof=1)))


def _mean_over_runs(fixed: Fixed, table: Table, patterns: Patterns, runs: list[int]) -> Statistic:
    parts = [measure(fixed, table.values, patterns.keys[:, 0], patterns.keys[:, r + 1]).compute for r in runs]

    def compute(weights: FloatArray) -> FloatArray:
        if not parts:
            return np.full(len(weights), np.nan)
        return np.asarray(sum(part(weights) for part in parts) / len(parts))

    return compute


def _variant(fixed: Fixed, table: Table, truth: IntArray, answers: IntArray) -> Value:
    """The mean over runs with other answers in place."""
    patterns = compress([truth, *answers.T])
    runs = tuple(
        _run_score(fixed, table, patterns, r, answers[:, r], max(1, len(truth))) for r in range(answers.shape[1])
    )
    return _mean(runs)
