"""Where a judge is right and wrong: confusion, per-class figures, thirds of a numeric range."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np

from fitter.labels import LabelValue, text, to_json
from fitter.scoring.frame import Fixed
from fitter.scoring.intervals import wilson
from fitter.scoring.statistic import absolute_errors, class_tally, f_scores
from fitter.scoring.table import Table
from fitter.scoring.values import BoolArray, IntArray, Interval, Value

THIRDS = 3


@dataclass(frozen=True, kw_only=True)
class ClassFigures:
    """One class, one-vs-rest.

    Attributes:
        label: the class.
        support: its rows that enter the headline.
        predicted: votes for it.
        hits: both.
        recall, precision, f1: null where 0/0.
        interval: Wilson interval of the recall.
    """

    label: LabelValue
    support: int
    predicted: int
    hits: int
    recall: Value
    precision: Value
    f1: Value
    interval: Interval

    def to_json(self) -> dict[str, Any]:
        """Plain JSON in the shape of ``fitter score``."""
        return {
            "label": to_json(self.label),
            "support": self.support,
            "predicted": self.predicted,
            "hits": self.hits,
            "recall": self.recall.value,
            "precision": self.precision.value,
            "f1": self.f1.value,
            "wilson95": self.interval.to_json(),
        }


@dataclass(frozen=True, kw_only=True)
class Third:
    """A third of the numeric label range (NU-1)."""

    low: float
    high: float
    rows: int
    mae: Value

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {"low": self.low, "high": self.high, "rows": self.rows, "mae": self.mae.value}


def per_class(fixed: Fixed, table: Table, votes: IntArray, rows: BoolArray) -> tuple[ClassFigures, ...]:
    """Figures of every listed class over the chosen rows, in class order."""
    truth, answer = table.truth[rows], votes[rows]
    tally = class_tally(fixed.classes, table.values, truth, answer)(np.ones((1, len(truth))))
    scores = f_scores(tally, 1.0)[0]
    out = []
    for k, label in enumerate(fixed.classes):
        support, predicted = int(tally.support[0, k]), int(tally.predicted[0, k])
        hits = int(tally.hits[0, k])
        out.append(
            ClassFigures(
                label=label,
                support=support,
                predicted=predicted,
                hits=hits,
                recall=Value.of(hits / support) if support else Value.none("no rows"),
                precision=Value.of(hits / predicted) if predicted else Value.none("never predicted"),
                f1=Value.none("no rows") if np.isnan(scores[k]) else Value.of(scores[k]),
                interval=wilson(hits, support, grouped=table.group is not None),
            )
        )
    return tuple(out)


def confusion(fixed: Fixed, table: Table, votes: IntArray, rows: BoolArray) -> dict[str, Any] | None:
    """Confusion as JSON: human's class by judge's answer; for multi-select one 2x2 a value; None for numeric.

    The columns are the classes and, where they occur, ``off_vocabulary`` and ``no_vote`` (rows that the failures
    policy counts as wrong).
    """
    if fixed.kind == "numeric":
        return None
    truth, answer = table.truth[rows], votes[rows]
    if fixed.kind == "multiselect":
        tally = class_tally(fixed.classes, table.values, truth, answer)(np.ones((1, len(truth))))
        values = []
        for k, label in enumerate(fixed.classes):
            hits, support, said = (int(x[0, k]) for x in (tally.hits, tally.support, tally.predicted))
            rest = len(truth) - support - said + hits
            values.append({"label": to_json(label), "tp": hits, "fn": support - hits, "fp": said - hits, "tn": rest})
        return {"one_vs_rest": values}
    size = len(fixed.classes)
    at = {label: k for k, label in enumerate(fixed.classes)}
    place = np.array([*(at.get(v, size) for v in table.values), size + 1])  # the last entry serves code -1, no vote
    counts = np.zeros((size, size + 2), dtype=np.int64)
    np.add.at(counts, (place[truth], place[answer]), 1)
    names: list[str] = [text(c) for c in fixed.classes]
    extra = [(size, "off_vocabulary"), (size + 1, "no_vote")]
    shown = [(k, name) for k, name in extra if counts[:, k].any()]
    keep = [*range(size), *(k for k, _ in shown)]
    return {
        "classes": [to_json(c) for c in fixed.classes],
        "columns": [*names, *(name for _, name in shown)],
        "counts": counts[:, keep].tolist(),
    }


def third_of(fixed: Fixed, numbers: Sequence[float]) -> IntArray:
    """Index (0, 1, 2) of the third of the label range each number lies in; a bound belongs to the upper third."""
    low, scale = fixed.low or 0.0, fixed.scale or 0.0
    if scale <= 0:
        return np.zeros(len(numbers), dtype=np.int64)
    place = np.floor((np.asarray(numbers, dtype=np.float64) - low) / scale * THIRDS + 1e-9)
    return np.clip(place, 0, THIRDS - 1).astype(np.int64)


def thirds(fixed: Fixed, table: Table, votes: IntArray, rows: BoolArray) -> tuple[Third, ...]:
    """MAE per third of the label range, by the human's value."""
    if fixed.kind != "numeric" or fixed.low is None or fixed.scale is None:
        return ()
    truth = table.truth[rows]
    errors = absolute_errors(fixed, table.values, truth, votes[rows])
    place = third_of(fixed, [float(table.values[t]) for t in truth])
    out = []
    for k in range(THIRDS):
        inside = place == k
        n = int(inside.sum())
        out.append(
            Third(
                low=fixed.low + fixed.scale * k / THIRDS,
                high=fixed.low + fixed.scale * (k + 1) / THIRDS,
                rows=n,
                mae=Value.of(float(errors[inside].mean())) if n else Value.none("no rows"),
            )
        )
    return tuple(out)
