"""Agreement between reviewers: the ceiling that any judge can reach stands beside its score.

Cohen's kappa (1960) for two annotators, Fleiss' kappa (1971) for a fixed number a row, Krippendorff's alpha (nominal or
interval) for any number with gaps. None says who is right; all say how far the labels themselves are settled.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from itertools import combinations
from typing import Any, Literal

from fitter.labels import LabelKind, LabelValue, text
from fitter.scoring.values import Value

Level = Literal["nominal", "interval"]


def cohen_kappa(a: Sequence[LabelValue], b: Sequence[LabelValue]) -> Value:
    """Cohen's kappa of two annotators on the same rows, unweighted.

    Raises:
        ValueError: different numbers of rows.
    """
    if len(a) != len(b):
        raise ValueError("two annotators are compared on the same rows")
    n = len(a)
    if n == 0:
        return Value.none("no common rows")
    left, right = Counter(map(text, a)), Counter(map(text, b))
    together = sum(text(x) == text(y) for x, y in zip(a, b, strict=True))
    chance = sum(left[c] * right[c] for c in left)  # in units of 1/n²
    if chance == n * n:
        return Value.none("both gave one and the same value throughout: kappa is 0/0")
    return Value.of((together * n - chance) / (n * n - chance))


def fleiss_kappa(rows: Sequence[Sequence[LabelValue]]) -> Value:
    """Fleiss' kappa; every row has the same number of annotations, at least two.

    Returns:
        Null where the number differs between rows or kappa is 0/0.
    """
    if not rows:
        return Value.none("no rows")
    each = len(rows[0])
    if each < 2 or any(len(r) != each for r in rows):
        return Value.none("Fleiss' kappa needs the same number of annotators, two or more, on every row")
    total: Counter[str] = Counter()
    agreeing = 0  # ordered pairs
    for row in rows:
        counts = Counter(map(text, row))
        total.update(counts)
        agreeing += sum(c * (c - 1) for c in counts.values())
    observed = agreeing / (len(rows) * each * (each - 1))
    answers = len(rows) * each
    squares = sum(c * c for c in total.values())
    if squares == answers * answers:
        return Value.none("all annotations are one and the same value: kappa is 0/0")
    chance = squares / (answers * answers)
    return Value.of((observed - chance) / (1 - chance))


def krippendorff_alpha(rows: Sequence[Sequence[LabelValue]], *, level: Level = "nominal") -> Value:
    """Krippendorff's alpha: 1 minus observed over expected disagreement among pairable annotations.

    Args:
        rows: the annotations of each row; rows with fewer than two are not pairable and left out.
        level: ``nominal`` (equal or not) or ``interval`` (squared difference; numbers only).
    """
    pairable = [list(r) for r in rows if len(r) >= 2]
    answers = [v for r in pairable for v in r]
    n = len(answers)
    if n == 0:
        return Value.none("no row has two annotations")
    observed = sum(_disagreement(r, level) / (len(r) - 1) for r in pairable) / n
    expected = _disagreement(answers, level) / (n * (n - 1))
    if expected == 0:
        return Value.none("all annotations are one and the same value: alpha is 0/0")
    return Value.of(1 - observed / expected)


def _disagreement(answers: Sequence[LabelValue], level: Level) -> float:
    """Sum of the difference over all ordered pairs."""
    n = len(answers)
    if level == "nominal":
        return float(n * n - sum(c * c for c in Counter(map(text, answers)).values()))
    # values are centred first: the shortcut n·Σx² − (Σx)² cancels badly around a large mean
    numbers = [float(a) for a in answers]  # type: ignore[arg-type]
    if min(numbers) == max(numbers):
        return 0.0
    middle = sum(numbers) / n
    centred = [x - middle for x in numbers]
    return 2 * (n * sum(x * x for x in centred) - sum(centred) ** 2)


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """How far reviewers agree.

    Attributes:
        rows: rows with two or more annotations.
        annotators: names seen on those rows.
        pairwise: per pair of annotators with common rows: rows, share of equal values, Cohen's kappa.
        percent: mean over rows of the share of annotator pairs that agree: what one reviewer scores against another.
        fleiss, alpha: see the functions.
        level: Krippendorff's level of measurement.
        mean_difference: numeric: mean absolute difference of annotator pairs: one reviewer's MAE against another.
    """

    rows: int
    annotators: tuple[str, ...]
    pairwise: tuple[dict[str, Any], ...]
    percent: Value
    fleiss: Value
    alpha: Value
    level: Level
    mean_difference: Value | None

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            "rows": self.rows,
            "annotators": list(self.annotators),
            "pairwise": [dict(p) for p in self.pairwise],
            "percent": self.percent.to_json(),
            "fleiss_kappa": self.fleiss.to_json(),
            "krippendorff_alpha": {**self.alpha.to_json(), "level": self.level},
            "mean_difference": None if self.mean_difference is None else self.mean_difference.to_json(),
        }


def agreement(annotations: Mapping[str, Mapping[str, LabelValue]], kind: LabelKind) -> Agreement:
    """Agreement over all rows with two or more annotators.

    Args:
        annotations: row id → annotator → value.
        kind: the label's kind: numeric uses Krippendorff's interval level, sets are compared whole.
    """
    rows = {row: annotations[row] for row in sorted(annotations) if len(annotations[row]) >= 2}
    names = sorted({name for given in rows.values() for name in given})
    pairwise = []
    for a, b in combinations(names, 2):
        common = [r for r, given in rows.items() if a in given and b in given]
        if common:
            left, right = [rows[r][a] for r in common], [rows[r][b] for r in common]
            equal = sum(text(x) == text(y) for x, y in zip(left, right, strict=True)) / len(common)
            kappa = Value.none("kappa is for classes") if kind == "numeric" else cohen_kappa(left, right)
            pairwise.append({"a": a, "b": b, "rows": len(common), "equal": equal, "cohens_kappa": kappa.value})
    values = [[given[name] for name in sorted(given)] for given in rows.values()]
    level: Level = "interval" if kind == "numeric" else "nominal"
    return Agreement(
        rows=len(rows),
        annotators=tuple(names),
        pairwise=tuple(pairwise),
        percent=_mean([1 - _disagreement(v, "nominal") / (len(v) * (len(v) - 1)) for v in values]),
        fleiss=Value.none("kappa is for classes") if kind == "numeric" else fleiss_kappa(values),
        alpha=krippendorff_alpha(values, level=level),
        level=level,
        mean_difference=_mean([_mean_gap(v) for v in values]) if kind == "numeric" else None,
    )


def _mean(numbers: Sequence[float]) -> Value:
    return Value.of(sum(numbers) / len(numbers)) if numbers else Value.none("no row has two annotations")


def _mean_gap(answers: Sequence[LabelValue]) -> float:
    numbers = [float(a) for a in answers]  # type: ignore[arg-type]
    gaps = [abs(x - y) for x, y in combinations(numbers, 2)]
    return sum(gaps) / len(gaps)
