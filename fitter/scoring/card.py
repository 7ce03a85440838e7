"""The score card: every figure that stands beside a headline (ME-2 to ME-4, OUT-4 to OUT-6, GT-7, GT-9)."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

from fitter.errors import RunError
from fitter.labels import LabelValue, text, to_json
from fitter.records import Pass, RowReason
from fitter.scoring.bootstrap import compress, figures, percentile_interval
from fitter.scoring.breakdown import ClassFigures, Third, confusion, per_class, thirds
from fitter.scoring.deployable import Deployable, deployable
from fitter.scoring.frame import SMALL_CLASS, Fixed, class_rows
from fitter.scoring.intervals import mover_mean, wilson
from fitter.scoring.judges import Confidence, Constant, Flips, best_constant, confidence, flips
from fitter.scoring.statistic import absolute_errors, correct, measure, smallest_class
from fitter.scoring.table import CardInput, Table, tabulate, votes_of
from fitter.scoring.values import EPSILON, BoolArray, IntArray, Interval, Value
from fitter.scoring.votes import NO_VOTE, Vote, quorum

WIDE_CLASS = 8  # below it the interval swallows most improvements (GT-7)
SAME_NUMBER = 1e-9


@dataclass(frozen=True, kw_only=True)
class Rows:
    """The accounting of a card (GT-9): labelled = scored + excluded.

    Attributes:
        labelled: usable rows of the card.
        scored: rows that enter the headline.
        excluded: reason → row ids that do not.
        counted_wrong: reason → rows without a vote that the ``wrong`` policy scores as wrong.
        groups: groups among the scored rows; None when rows come one by one.
    """

    labelled: int
    scored: int
    excluded: Mapping[str, tuple[str, ...]]
    counted_wrong: Mapping[str, tuple[str, ...]]
    groups: int | None

    def __post_init__(self) -> None:
        out = sum(len(ids) for ids in self.excluded.values())
        names = {i for ids in self.excluded.values() for i in ids}
        if len(names) != out or self.labelled != self.scored + out:
            raise RunError(
                f"the rows do not add up: {self.labelled} labelled, {self.scored} scored, {out} excluded",
                hint="this is a fault of fitter; keep the run folder and report it",
            )

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            "labelled": self.labelled,
            "scored": self.scored,
            "excluded": {k: list(v) for k, v in self.excluded.items()},
            "counted_wrong": {k: list(v) for k, v in self.counted_wrong.items()},
            "groups": self.groups,
        }


@dataclass(frozen=True, kw_only=True)
class QuorumCost:
    """What the quorum, a declared deviation, costs (OUT-4)."""

    lost: tuple[str, ...]
    headline_without: Value
    headline_unusable_wrong: Value

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            "rows_lost_to_quorum_alone": list(self.lost),
            "headline_without_quorum": self.headline_without.to_json(),
            "headline_all_unusable_wrong": self.headline_unusable_wrong.to_json(),
        }


@dataclass(frozen=True, kw_only=True)
class Card:
    """All figures of one judge on one set of rows.

    Attributes:
        fixed: what was fixed at intake.
        headline: the agreed metric over votes: the fitting signal.
        interval: its own 95% interval.
        group_interval: a bootstrap over groups, where rows come in groups and ``interval`` ignores that.
        deployable: the metric over single passes: the report's first figure.
        rows: the accounting.
        constant: the best constant judge on the same rows.
        confusion: see :func:`fitter.scoring.breakdown.confusion`.
        classes: per-class figures.
        thirds: numeric: MAE per third of the label range.
        accuracy: exact agreement of votes (numeric: within 1e-9), with Wilson.
        flips, confidence: how steady and how sure the judge is.
        quorum: what the quorum costs.
        small_classes: classes under 6 rows, not separately measurable (GT-7).
        headline_without_small: the headline without the rows of those classes.
        off_vocabulary: passes whose answer is no known class (open vocabulary only).
        warnings: sentences the report must print.
        table: what it was computed from.
    """

    fixed: Fixed
    headline: Value
    interval: Interval
    group_interval: Interval | None
    deployable: Deployable
    rows: Rows
    constant: Constant
    confusion: Mapping[str, Any] | None
    classes: tuple[ClassFigures, ...]
    thirds: tuple[Third, ...]
    accuracy: Value
    accuracy_interval: Interval
    flips: Flips
    confidence: Confidence
    quorum: QuorumCost
    small_classes: tuple[LabelValue, ...]
    headline_without_small: Value | None
    off_vocabulary: int
    warnings: tuple[str, ...]
    table: Table = field(repr=False, compare=False)

    @property
    def votes(self) -> tuple[Vote, ...]:
        """The standing votes and the missing ones, by row."""
        return votes_of(self.table)

    @property
    def beats_constant(self) -> bool:
        """The headline is strictly above the best constant judge on the same rows (PU-2)."""
        return beats(self.fixed, self.headline, self.constant)

    @property
    def outage(self) -> tuple[str, ...]:
        """Rows left short by calls that never ended in an answer: the run pauses on them (OUT-3)."""
        return tuple(r for r, why in zip(self.table.rows, self.table.reasons, strict=True) if why == "unavailable")

    def to_json(self) -> dict[str, Any]:
        """The card in the shape of ``fitter score --json``."""
        fixed, metric = self.fixed, self.fixed.metric
        headline: dict[str, Any] = {
            "metric": metric.text,
            "direction": metric.direction,
            **self.headline.to_json(),
            "ci95": self.interval.to_json(),
        }
        if self.group_interval is not None:
            headline["ci95_groups"] = self.group_interval.to_json()
        return {
            "headline": headline,
            "deployable": self.deployable.to_json(),
            "rows": self.rows.to_json(),
            "constant_judge": {**self.constant.to_json(), "beaten": self.beats_constant},
            "confusion": self.confusion,
            "per_class": {text(c.label): c.to_json() for c in self.classes},
            "thirds": [t.to_json() for t in self.thirds],
            "accuracy": {**self.accuracy.to_json(), "wilson95": self.accuracy_interval.to_json()},
            "flip_rate": self.flips.to_json(),
            "confidence": self.confidence.to_json(),
            "quorum": self.quorum.to_json(),
            "small_classes": {
                "classes": [to_json(c) for c in self.small_classes],
                "headline_without": None
                if self.headline_without_small is None
                else self.headline_without_small.to_json(),
            },
            "minority_class": {
                "label": None if fixed.minority is None else to_json(fixed.minority),
                "tied_with": [to_json(c) for c in fixed.minority_ties if c != fixed.minority],
            },
            "off_vocabulary": self.off_vocabulary,
            "policy": policy(fixed),
            "warnings": list(self.warnings),
        }


def beats(fixed: Fixed, headline: Value, constant: Constant) -> bool:
    """Strictly better than the constant judge's bar; never true for a figure that does not exist."""
    if headline.value is None or constant.bar is None:
        return False
    return (headline.value - constant.bar) * fixed.metric.sign > EPSILON


def policy(fixed: Fixed) -> dict[str, Any]:
    """The choices that a headline hangs on, printed with it."""
    return {
        "failures": fixed.failures,
        "meaning": "rows without a standing vote count as wrong"
        if fixed.failures == "wrong"
        else "rows without a standing vote are excluded and counted",
        "runs": fixed.runs,
        "quorum": quorum(fixed.runs),
        "open_vocabulary": fixed.open_vocabulary,
        "precision_floor": None if fixed.metric.floor is None else fixed.metric.floor.to_json(),
        "bootstrap": {"resamples": fixed.resamples, "seed": fixed.seed, "generator": "PCG64", "kind": "percentile"},
    }


def score_card(
    fixed: Fixed,
    labels: Mapping[str, LabelValue],
    groups: Mapping[str, str] | None,
    passes: Sequence[Pass],
    excluded: Mapping[str, RowReason],
) -> Card:
    """Scores one judge on a set of rows; a slice is the same on a subset.

    Args:
        fixed: what was fixed at intake.
        labels: row id → human value, all usable rows.
        groups: row id → group, or None.
        passes: every pass of the judged rows.
        excluded: rows excluded before judging, with why.

    Raises:
        BadInput: passes or labels that do not fit together; names the row.
        RunError: the accounting does not add up (GT-9).
    """
    return card_of(fixed, CardInput(labels=labels, groups=groups, passes=passes, excluded=excluded))


def card_of(fixed: Fixed, given: CardInput) -> Card:
    """:func:`score_card` on a :class:`CardInput`."""
    table = tabulate(fixed, given)
    rows = table.counted(fixed)
    figures_by_class = per_class(fixed, table, table.votes, rows) if fixed.kind != "numeric" else ()
    headline = _headline(fixed, table, table.votes, rows)
    hits, scored = _hits(fixed, table, rows), int(rows.sum())
    small = _small(fixed, given.labels)
    scores = deployable(fixed, table)
    interval, group_interval = _intervals(fixed, table, rows, figures_by_class)
    sure = confidence(table)
    return Card(
        fixed=fixed,
        headline=headline,
        interval=interval,
        group_interval=group_interval,
        deployable=scores,
        rows=_rows(table, rows),
        constant=best_constant(fixed, table, rows),
        confusion=confusion(fixed, table, table.votes, rows),
        classes=figures_by_class,
        thirds=thirds(fixed, table, table.votes, rows),
        accuracy=Value.of(hits / scored) if scored else Value.none("no rows"),
        accuracy_interval=wilson(hits, scored, grouped=table.group is not None),
        flips=flips(table, fixed.runs),
        confidence=sure,
        quorum=_quorum_cost(fixed, table),
        small_classes=small,
        headline_without_small=_without_small(fixed, table, rows, small),
        off_vocabulary=_off_vocabulary(fixed, table),
        warnings=_warnings(fixed, given.labels, figures_by_class, small, interval, sure),
        table=table,
    )


def _headline(fixed: Fixed, table: Table, votes: IntArray, rows: BoolArray) -> Value:
    """The metric over the chosen rows; a missing vote among them counts as wrong."""
    patterns = compress([table.truth[rows], votes[rows]])
    if patterns.units == 0:
        return Value.none("no rows")
    return measure(fixed, table.values, patterns.keys[:, 0], patterns.keys[:, 1]).at(patterns.counts)


def _hits(fixed: Fixed, table: Table, rows: BoolArray) -> int:
    truth, votes = table.truth[rows], table.votes[rows]
    if fixed.kind == "numeric":
        near = absolute_errors(fixed, table.values, truth, votes) <= SAME_NUMBER
        return int((near & (votes != NO_VOTE)).sum())
    return int(correct(truth, votes).sum())


def _intervals(
    fixed: Fixed, table: Table, rows: BoolArray, classes: tuple[ClassFigures, ...]
) -> tuple[Interval, Interval | None]:
    """The headline's interval (ME-3), and one over groups where the first one ignores them."""
    metric = fixed.metric
    grouped = table.group is not None
    closed: Interval | None = None
    if metric.name == "accuracy" or (metric.name == "mean_credit" and metric.match == "exact"):
        closed = wilson(_hits(fixed, table, rows), int(rows.sum()), grouped=grouped)
    elif metric.name == "balanced_accuracy":
        closed = mover_mean([(c.hits, c.support) for c in classes if c.support], grouped=grouped)
    if closed is not None and not grouped:
        return closed, None
    group = None if table.group is None else table.group[rows]
    patterns = compress([table.truth[rows], table.votes[rows]], group)
    compute = measure(fixed, table.values, patterns.keys[:, 0], patterns.keys[:, 1]).compute
    found = figures(patterns, compute, resamples=fixed.resamples, seed=fixed.seed, purpose="headline")
    smallest = smallest_class(fixed, table.values, table.truth[rows]) if metric.by_class else None
    drawn = percentile_interval(found, patterns, small_class=smallest)
    return (drawn, None) if closed is None else (closed, drawn)


def _rows(table: Table, rows: BoolArray) -> Rows:
    excluded: dict[str, list[str]] = {}
    wrong: dict[str, list[str]] = {}
    for i, reason in enumerate(table.reasons):
        if reason is not None:
            (wrong if rows[i] else excluded).setdefault(reason, []).append(table.rows[i])
    return Rows(
        labelled=len(table.rows),
        scored=int(rows.sum()),
        excluded={k: tuple(excluded[k]) for k in sorted(excluded)},
        counted_wrong={k: tuple(wrong[k]) for k in sorted(wrong)},
        groups=None if table.group is None else len(np.unique(table.group[rows])),
    )


def _quorum_cost(fixed: Fixed, table: Table) -> QuorumCost:
    judged = table.judged
    lost = judged & (table.votes == NO_VOTE) & (table.free_votes != NO_VOTE)
    lost &= table.usable < quorum(fixed.runs)
    free = judged if fixed.failures == "wrong" else judged & (table.free_votes != NO_VOTE)
    return QuorumCost(
        lost=tuple(table.rows[i] for i in np.flatnonzero(lost)),
        headline_without=_headline(fixed, table, table.free_votes, free),
        headline_unusable_wrong=_headline(fixed, table, table.votes, judged),
    )


def _small(fixed: Fixed, labels: Mapping[str, LabelValue]) -> tuple[LabelValue, ...]:
    """Classes with rows on this card, but fewer than six."""
    rows = class_rows(labels, fixed.classes)
    return tuple(c for c, n in zip(fixed.classes, rows, strict=True) if 0 < n < SMALL_CLASS)


def _without_small(fixed: Fixed, table: Table, rows: BoolArray, small: tuple[LabelValue, ...]) -> Value | None:
    """The headline without the rows that hold a class under six rows (GT-7); None when there is no such class."""
    if not small:
        return None
    gone = frozenset(small)
    value_gone = np.array([bool(v & gone) if isinstance(v, frozenset) else v in gone for v in table.values])
    kept = rows & ~value_gone[table.truth]
    patterns = compress([table.truth[kept], table.votes[kept]])
    if patterns.units == 0:
        return Value.none("no rows are left without these classes")
    truth, answer = patterns.keys[:, 0], patterns.keys[:, 1]
    return measure(fixed, table.values, truth, answer, without=gone).at(patterns.counts)


def _off_vocabulary(fixed: Fixed, table: Table) -> int:
    if not fixed.open_vocabulary:
        return 0
    listed = set(fixed.classes)
    off = np.array([not (v <= listed if isinstance(v, frozenset) else v in listed) for v in table.values])
    return int(off[table.passes[table.passes != NO_VOTE]].sum())


def _warnings(
    fixed: Fixed,
    labels: Mapping[str, LabelValue],
    classes: tuple[ClassFigures, ...],
    small: tuple[LabelValue, ...],
    interval: Interval,
    sure: Confidence,
) -> tuple[str, ...]:
    """Sentences that a report must print beside the figures."""
    out = []
    rows = class_rows(labels, fixed.classes)
    held = [n for n in rows if n]
    if held and min(held) < WIDE_CLASS:
        out.append(f"the smallest class has {min(held)} rows: the interval is wide enough to swallow most improvements")
    if small:
        names = ", ".join(text(c) for c in small)
        out.append(f"not separately measurable, under {SMALL_CLASS} rows: {names}")
    gone = [text(c.label) for c, n in zip(classes, rows, strict=False) if n and not c.support]
    if gone:
        out.append(f"labelled, but no row of it is scored, so class figures leave it out: {', '.join(gone)}")
    if len(fixed.minority_ties) > 1 and fixed.minority is not None:
        names = ", ".join(text(c) for c in fixed.minority_ties)
        out.append(f"{names} have equally few rows; {text(fixed.minority)} is taken as the minority class")
    if not interval.reliable:
        out.append(interval.why or "interval not reliable")
    if interval.assumes_independent_rows:
        out.append("rows come in groups: Wilson intervals assume independent rows")
    if sure.advice is not None:
        out.append(sure.advice)
    return tuple(out)
