"""The mechanism audit: did the headline move for the right reason (KE-3, NU-1, MS-1)?"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fitter.labels import text
from fitter.scoring.breakdown import THIRDS, third_of
from fitter.scoring.frame import SMALL_CLASS, Fixed
from fitter.scoring.judges import flips
from fitter.scoring.paired import moves, paired_mask
from fitter.scoring.statistic import absolute_errors, holds
from fitter.scoring.table import Table
from fitter.scoring.values import EPSILON, BoolArray, FloatArray

RECALL_DROP = 0.10
LOST_ROWS = 1  # a class may lose this many rows whatever its recall does
USABLE_SHARE = 0.05
THIRD_RISE = 0.10  # of the scale
FLIP_RISE = 0.10


@dataclass(frozen=True, kw_only=True)
class Check:
    """One check with its figures.

    Attributes:
        name: key in the record.
        passed: the check holds (also where it does not apply; the figures say so).
        figures: what it was decided from.
        says: one sentence for people.
    """

    name: str
    passed: bool
    figures: Mapping[str, Any]
    says: str

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {"passed": self.passed, "figures": dict(self.figures), "says": self.says}


def audit(fixed: Fixed, reference: Table, candidate: Table, *, name: str) -> tuple[Check, ...]:
    """All checks that can discard, of the candidate against one reference.

    Args:
        fixed: what was fixed at intake.
        reference, candidate: tables with one code book.
        name: what the reference is called in sentences: ``best`` or ``v0``.
    """
    rows = paired_mask(fixed, reference, candidate)
    checks = [_gained_over_lost(fixed, reference, candidate, rows, name)]
    if fixed.kind == "numeric":
        checks.append(_third_mae(fixed, reference, candidate, rows, name))
        checks.append(_usable_rows(fixed, reference, candidate, name))
        return tuple(checks)
    hits = [_class_hits(fixed, t, rows) for t in (reference, candidate)]
    held = holds(fixed.classes, reference.values, reference.truth)[rows].sum(axis=0).astype(float)
    checks.append(_outside_largest(fixed, held, hits[0], hits[1], name))
    checks.append(_class_recall(fixed, held, hits[0], hits[1], name))
    if fixed.metric.floor is not None:
        checks.append(_precision_floor(fixed, reference, candidate, rows, name))
    checks.append(_usable_rows(fixed, reference, candidate, name))
    return tuple(checks)


def _class_hits(fixed: Fixed, table: Table, rows: BoolArray) -> FloatArray:
    """(K,) rows of each class that the votes get right; for multi-select value by value."""
    true = holds(fixed.classes, table.values, table.truth)
    said = holds(fixed.classes, table.values, table.votes)
    return np.asarray((true & said)[rows].sum(axis=0).astype(float))


def _gained_over_lost(fixed: Fixed, reference: Table, candidate: Table, rows: BoolArray, name: str) -> Check:
    gained, lost = (int(x.sum()) for x in moves(fixed, reference, candidate, rows))
    return Check(
        name="gained_over_lost",
        passed=gained > lost,
        figures={"gained": gained, "lost": lost, "rows": int(rows.sum())},
        says=f"against {name} it gains {gained} rows and loses {lost}",
    )


def _outside_largest(fixed: Fixed, held: FloatArray, before: FloatArray, after: FloatArray, name: str) -> Check:
    """Pooled recall outside the largest class: a drift to the majority is the classic false gain."""
    others = np.array([c != fixed.largest for c in fixed.classes], dtype=bool)
    rows, a, b = int(held[others].sum()), int(before[others].sum()), int(after[others].sum())
    largest = "" if fixed.largest is None else text(fixed.largest)
    return Check(
        name="recall_outside_largest",
        passed=b >= a,
        figures={"largest": largest, "rows": rows, "hits_before": a, "hits_after": b},
        says=f"outside the largest class ({largest}) it gets {b} of {rows} right, {name} {a}",
    )


def _class_recall(fixed: Fixed, held: FloatArray, before: FloatArray, after: FloatArray, name: str) -> Check:
    figures, failed = {}, []
    for k, label in enumerate(fixed.classes):
        rows, a, b = int(held[k]), int(before[k]), int(after[k])
        checked = rows >= SMALL_CLASS
        drop = (a - b) / rows if rows else 0.0
        bad = checked and drop > RECALL_DROP + EPSILON and a - b > LOST_ROWS
        figures[text(label)] = {"rows": rows, "hits_before": a, "hits_after": b, "drop": drop, "checked": checked}
        if bad:
            failed.append(f"{text(label)} falls from {a} to {b} of {rows}")
    return Check(
        name="class_recall",
        passed=not failed,
        figures=figures,
        says=f"against {name}: " + "; ".join(failed) if failed else f"no class falls far behind {name}",
    )


def _precision_floor(fixed: Fixed, reference: Table, candidate: Table, rows: BoolArray, name: str) -> Check:
    """Holds when the candidate keeps the floor, or, where the reference breaks it too, is not worse."""
    floor = fixed.metric.floor
    assert floor is not None
    column = fixed.classes.index(floor.target)
    shares: list[float | None] = []
    for table in (reference, candidate):
        said = holds(fixed.classes, table.values, table.votes)[rows, column]
        true = holds(fixed.classes, table.values, table.truth)[rows, column]
        shares.append(float((said & true).sum() / said.sum()) if said.any() else None)
    before, after = shares

    def keeps(share: float | None) -> bool:
        return share is not None and share >= floor.minimum - EPSILON

    # no predictions of the class fail the floor and are the worst case of it
    worse = (-1.0 if after is None else after) < (-1.0 if before is None else before) - EPSILON
    passed = keeps(after) or (not keeps(before) and not worse)
    shown = ["none" if s is None else f"{s:.3f}" for s in shares]
    return Check(
        name="precision_floor",
        passed=passed,
        figures={"class": text(floor.target), "minimum": floor.minimum, "before": before, "after": after},
        says=f"precision on {text(floor.target)} is {shown[1]} (floor {floor.minimum:g}, {name} {shown[0]})",
    )


def _usable_rows(fixed: Fixed, reference: Table, candidate: Table, name: str) -> Check:
    """Rows that count, per class: a judge must not win by failing to answer.

    Rows left short by an outage on either side are left out: no judge chose them (OUT-3).
    """
    whole = np.array(
        [
            "unavailable" not in (a, b) or fixed.failures == "wrong"
            for a, b in zip(reference.reasons, candidate.reasons, strict=True)
        ],
        dtype=bool,
    )
    before, after = reference.counted(fixed) & whole, candidate.counted(fixed) & whole
    if fixed.kind == "numeric":
        held = np.ones((len(reference.rows), 1), dtype=bool)
        names = ["all rows"]
        minority = -1
    else:
        held = holds(fixed.classes, reference.values, reference.truth)
        names = [text(c) for c in fixed.classes]
        minority = next((k for k, c in enumerate(fixed.classes) if c == fixed.minority), -1)
    figures, failed = {}, []
    for k, label in enumerate(names):
        a, b = int(held[before, k].sum()), int(held[after, k].sum())
        allowed = 0.0 if k == minority else max(1.0, USABLE_SHARE * a)
        figures[label] = {"before": a, "after": b, "may_lose": allowed, "minority": k == minority}
        if a - b > allowed + EPSILON:
            failed.append(f"{label} has {b} usable rows, {name} {a} (may lose {allowed:g})")
    return Check(
        name="usable_rows",
        passed=not failed,
        figures=figures,
        says="; ".join(failed) if failed else f"as many rows are usable as under {name}, within the limits",
    )


def _third_mae(fixed: Fixed, reference: Table, candidate: Table, rows: BoolArray, name: str) -> Check:
    """No third of the label range with six or more rows may raise its MAE by more than 10% of the scale (NU-1)."""
    truth = reference.truth[rows]
    place = third_of(fixed, [float(reference.values[t]) for t in truth])
    before = absolute_errors(fixed, reference.values, truth, reference.votes[rows])
    after = absolute_errors(fixed, reference.values, truth, candidate.votes[rows])
    allowed = THIRD_RISE * (fixed.scale or 0.0)
    figures: dict[str, Any] = {"may_rise": allowed}
    failed = []
    for k, label in zip(range(THIRDS), ("low", "middle", "high"), strict=True):
        inside = place == k
        n = int(inside.sum())
        a, b = (float(e[inside].mean()) if n else None for e in (before, after))
        figures[label] = {"rows": n, "before": a, "after": b, "checked": n >= SMALL_CLASS}
        if a is not None and b is not None and n >= SMALL_CLASS and b - a > allowed + EPSILON:
            failed.append(f"the {label} third's MAE rises from {a:.3f} to {b:.3f}")
    return Check(
        name="third_mae",
        passed=not failed,
        figures=figures,
        says=f"against {name}: " + "; ".join(failed)
        if failed
        else f"no third of the range gets much worse than {name}",
    )


def flip_check(fixed: Fixed, best: Table, candidate: Table) -> Check:
    """A label-only check: flip rate up by more than ``max(0.10, 2/rows)`` on common rows (KE-3)."""
    common = (best.usable >= 2) & (candidate.usable >= 2)
    before, after = flips(best, fixed.runs, common), flips(candidate, fixed.runs, common)
    if before.value.value is None or after.value.value is None:
        return Check(name="flip_rate", passed=True, figures={"rows": before.rows}, says="flip rate is not measured")
    limit = max(FLIP_RISE, 2 / before.rows)
    rise = after.value.value - before.value.value
    return Check(
        name="flip_rate",
        passed=rise <= limit + EPSILON,
        figures={
            "rows": before.rows,
            "before": before.value.value,
            "after": after.value.value,
            "may_rise": limit,
        },
        says=f"flip rate goes from {before.value.value:.3f} to {after.value.value:.3f} on {before.rows} common rows",
    )


def target_check(gained: tuple[str, ...], bucket: frozenset[str] | None) -> Check | None:
    """A label-only check: more than half of the gained rows lie in the targeted bucket, else it is luck (KE-3)."""
    if bucket is None:
        return None
    inside = sum(row in bucket for row in gained)
    return Check(
        name="on_target",
        passed=2 * inside > len(gained),
        figures={"gained": len(gained), "in_bucket": inside, "bucket": len(bucket)},
        says=f"{inside} of {len(gained)} gained rows lie in the targeted bucket",
    )
