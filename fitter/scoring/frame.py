"""What is fixed at intake, what a judge gave, and both as arrays."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import Any, Literal, TypeAlias, get_args

import numpy as np

from fitter.errors import BadInput, SettingsError
from fitter.jsonio import digest
from fitter.labels import LabelKind, LabelValue, from_json, text, to_json
from fitter.records import Pass, RowReason
from fitter.scoring.metrics import Metric
from fitter.scoring.values import BoolArray, FloatArray, IntArray
from fitter.scoring.votes import NO_VOTE, check_run, medians, quorum, tally

Failures: TypeAlias = Literal["exclude", "wrong"]

RESAMPLES = 10_000
SMALL_CLASS = 6  # below it a class is not separately measurable (GT-7)


@dataclass(frozen=True, kw_only=True)
class Fixed:
    """Everything that is fixed once at intake over the usable rows and used by every card and decision.

    Attributes:
        kind: the label's kind.
        classes: the class list; single values for multi-select; empty for numeric.
        class_rows: rows per class at intake, aligned with ``classes``.
        metric: the agreed metric.
        runs: passes a row.
        seed: bootstrap seed, from the config's hash (:func:`seed_from`).
        failures: ``exclude`` (OUT-4) or ``wrong``: rows without a standing vote count as wrong.
        low, high: numeric label range: the schema's bounds, else the usable labels' range.
        min_delta: the user's own smallest interesting gain; None derives it from v0 (KE-2).
        open_vocabulary: no class list was given, so an answer outside ``classes`` is wrong, not unusable.
        resamples: bootstrap resamples.
    """

    kind: LabelKind
    classes: tuple[LabelValue, ...]
    class_rows: tuple[int, ...]
    metric: Metric
    runs: int
    seed: int
    failures: Failures = "exclude"
    low: float | None = None
    high: float | None = None
    min_delta: float | None = None
    open_vocabulary: bool = False
    resamples: int = RESAMPLES

    def __post_init__(self) -> None:
        quorum(self.runs)
        if self.failures not in get_args(Failures):
            raise SettingsError(f"failures is {self.failures!r}", hint="exclude or wrong")
        if self.min_delta is not None and not (math.isfinite(self.min_delta) and self.min_delta >= 0):
            raise SettingsError(f"min_delta is {self.min_delta}", hint="a number, 0 or more")
        reason = self.metric.refuses(self.kind, len(self.classes))
        if reason is not None:
            raise SettingsError(f"metric {self.metric.text} does not fit: {reason}")

    @property
    def by_size(self) -> tuple[LabelValue, ...]:
        """Classes that have rows, fewest rows first; equal ones in canonical text order."""
        held = [(rows, text(c), c) for c, rows in zip(self.classes, self.class_rows, strict=True) if rows]
        return tuple(c for _, _, c in sorted(held, key=lambda item: item[:2]))

    @property
    def minority(self) -> LabelValue | None:
        """The class with fewest rows; on a tie the first by canonical text (see :attr:`minority_ties`)."""
        return self.by_size[0] if self.by_size else None

    @property
    def minority_ties(self) -> tuple[LabelValue, ...]:
        """All classes that share the minority's row count; named whenever there is more than one."""
        if not self.by_size:
            return ()
        rows = dict(zip(self.classes, self.class_rows, strict=True))
        return tuple(c for c in self.by_size if rows[c] == rows[self.by_size[0]])

    @property
    def largest(self) -> LabelValue | None:
        """The class with most rows; on a tie the last by canonical text, so that it is never the minority too."""
        return self.by_size[-1] if self.by_size else None

    @property
    def scale(self) -> float | None:
        """Numeric scale (NU-1): ``high - low``; None for the other kinds."""
        return None if self.low is None or self.high is None else self.high - self.low

    def to_json(self) -> dict[str, Any]:
        """Plain JSON; :meth:`from_json` reads it back."""
        return {
            "kind": self.kind,
            "classes": [to_json(c) for c in self.classes],
            "class_rows": list(self.class_rows),
            "minority": None if self.minority is None else to_json(self.minority),
            "minority_ties": [to_json(c) for c in self.minority_ties],
            "metric": self.metric.to_json(),
            "runs": self.runs,
            "seed": self.seed,
            "failures": self.failures,
            "low": self.low,
            "high": self.high,
            "min_delta": self.min_delta,
            "open_vocabulary": self.open_vocabulary,
            "resamples": self.resamples,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Fixed:
        """Reads :meth:`to_json`'s form back."""
        kind: LabelKind = data["kind"]
        one: LabelKind = "categorical" if kind == "multiselect" else kind
        return cls(
            kind=kind,
            classes=tuple(from_json(c, one) for c in data["classes"]),
            class_rows=tuple(data["class_rows"]),
            metric=Metric.from_json(data["metric"], kind),
            runs=data["runs"],
            seed=data["seed"],
            failures=data["failures"],
            low=data["low"],
            high=data["high"],
            min_delta=data["min_delta"],
            open_vocabulary=data["open_vocabulary"],
            resamples=data["resamples"],
        )


def seed_from(config_hash: str) -> int:
    """Bootstrap seed from a hex hash: its first 16 digits."""
    return int(config_hash[:16], 16)


def class_rows(labels: Mapping[str, LabelValue], classes: Sequence[LabelValue]) -> tuple[int, ...]:
    """Rows per class; a multi-select row counts for every value it holds."""
    seen: Counter[LabelValue] = Counter()
    for value in labels.values():
        if isinstance(value, frozenset):
            seen.update(value)
        else:
            seen[value] += 1
    return tuple(seen[c] for c in classes)


def fix(
    *,
    kind: LabelKind,
    labels: Mapping[str, LabelValue],
    metric: Metric,
    runs: int,
    seed: int,
    classes: Sequence[LabelValue] | None = None,
    failures: Failures = "exclude",
    minimum: float | None = None,
    maximum: float | None = None,
    min_delta: float | None = None,
    resamples: int = RESAMPLES,
) -> Fixed:
    """Fixes the frame over the usable rows.

    Args:
        kind: the label's kind.
        labels: the usable rows' labels.
        metric: the agreed metric.
        runs: passes a row.
        seed: see :func:`seed_from`.
        classes: the class list; None takes the classes present in the labels and leaves the vocabulary open.
        failures: see :class:`Fixed`.
        minimum, maximum: numeric schema bounds; used as the scale when both are known.
        min_delta: see :class:`Fixed`.
        resamples: see :class:`Fixed`.

    Raises:
        BadInput: no labels, or a label that is not of this kind or not listed.
        SettingsError: a setting that does not fit.
    """
    if not labels:
        raise BadInput("there are no labelled rows", hint="label some rows first")
    check_labels(labels, kind)
    low = high = None
    listed: tuple[LabelValue, ...] = ()
    if kind == "numeric":
        numbers = [float(v) for v in labels.values()]  # type: ignore[arg-type]
        low, high = (minimum, maximum) if minimum is not None and maximum is not None else (min(numbers), max(numbers))
    elif classes is not None:
        listed = tuple(classes)
    else:
        listed = tuple(sorted(present(labels), key=text))
    frame = Fixed(
        kind=kind,
        classes=listed,
        class_rows=class_rows(labels, listed),
        metric=metric,
        runs=runs,
        seed=seed,
        failures=failures,
        low=low,
        high=high,
        min_delta=min_delta,
        open_vocabulary=classes is None and kind != "numeric",
        resamples=resamples,
    )
    _check_listed(labels, frame)
    return frame


def present(labels: Mapping[str, LabelValue]) -> set[LabelValue]:
    """The single values that occur in the labels."""
    out: set[LabelValue] = set()
    for value in labels.values():
        out.update(value) if isinstance(value, frozenset) else out.add(value)
    return out


def check_labels(labels: Mapping[str, LabelValue], kind: LabelKind) -> None:
    """Refuses labels of mixed types or of another kind.

    Raises:
        BadInput: with the first such row.
    """
    for row in sorted(labels):
        if not _is_kind(labels[row], kind):
            raise BadInput(
                f"{labels[row]!r} is not a {kind} label", row=row, hint="all labels of one file are of one type"
            )


def _is_kind(value: object, kind: LabelKind) -> bool:
    if kind == "boolean":
        return isinstance(value, bool)
    if kind == "categorical":
        return isinstance(value, str)
    if kind == "multiselect":
        return isinstance(value, frozenset) and bool(value)
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def _check_listed(labels: Mapping[str, LabelValue], fixed: Fixed) -> None:
    if fixed.kind == "numeric":
        return
    listed = set(fixed.classes)
    for row in sorted(labels):
        value = labels[row]
        if not (value <= listed if isinstance(value, frozenset) else value in listed):
            names = ", ".join(text(c) for c in fixed.classes)
            raise BadInput(f"label {text(value)!r} is not in the class list", row=row, hint=f"listed are: {names}")


@dataclass(frozen=True, kw_only=True)
class CardInput:
    """What one version of a judge gave on a set of labelled rows.

    Attributes:
        labels: row id → the human's value, all usable rows of the card.
        passes: every pass; rows without any count as short of the quorum.
        groups: row id → group; None when rows come one by one.
        excluded: rows that were never judged, with why (EV-6, IN-1).
    """

    labels: Mapping[str, LabelValue]
    passes: Sequence[Pass] = field(repr=False)
    groups: Mapping[str, str] | None = None
    excluded: Mapping[str, RowReason] = field(default_factory=dict)

    def digest(self) -> str:
        """Hash of everything a card depends on, for the record of a decision (KE-5)."""
        return digest(
            {
                "labels": {row: to_json(value) for row, value in self.labels.items()},
                "groups": None if self.groups is None else dict(self.groups),
                "excluded": dict(self.excluded),
                "passes": sorted(
                    [
                        p.row,
                        p.run,
                        None if p.label is None else to_json(p.label),
                        p.unusable,
                        p.confidence,
                        p.confidence_fault,
                        p.attempts,
                    ]
                    for p in self.passes
                ),
            }
        )

    def subset(self, rows: set[str]) -> CardInput:
        """The same judge on some of the rows: a slice is just a card on a subset."""
        return CardInput(
            labels={r: v for r, v in self.labels.items() if r in rows},
            passes=[p for p in self.passes if p.row in rows],
            groups=None if self.groups is None else {r: g for r, g in self.groups.items() if r in rows},
            excluded={r: why for r, why in self.excluded.items() if r in rows},
        )


@dataclass(frozen=True, kw_only=True)
class Table:
    """A :class:`CardInput` as arrays, rows sorted by id.

    Answers are codes into ``values``: the classes in their fixed order and then any other answer; for multi-select one
    code a distinct set; for numeric the distinct numbers in ascending order. :data:`NO_VOTE` is no answer.

    Attributes:
        rows: row ids.
        values: code → value.
        truth: (n,) code of the human's value.
        passes: (n, runs) code of each pass.
        votes: (n,) code of the standing vote.
        free_votes: (n,) the vote without the quorum rule (one usable pass is enough).
        usable: (n,) usable passes.
        reasons: (n,) why there is no vote, or None.
        judged: (n,) False for rows excluded before any call.
        rescued: (n, runs) the pass stands only thanks to its retry.
        confidence: (n, runs), NaN where there is none.
        faults: counts of missing and invalid confidence on usable passes.
        group: (n,) group index, or None when no two rows share a group.
    """

    rows: tuple[str, ...]
    values: tuple[LabelValue, ...]
    truth: IntArray
    passes: IntArray
    votes: IntArray
    free_votes: IntArray
    usable: IntArray
    reasons: tuple[RowReason | None, ...]
    judged: BoolArray
    rescued: BoolArray
    confidence: FloatArray
    faults: Mapping[str, int]
    group: IntArray | None

    def counted(self, fixed: Fixed) -> BoolArray:
        """(n,) rows that enter the headline under the failures policy."""
        return self.judged if fixed.failures == "wrong" else self.judged & (self.votes != NO_VOTE)


def tabulate(fixed: Fixed, given: CardInput) -> Table:
    """Arrays of one judge.

    Raises:
        BadInput: a pass for an unknown or an excluded row, one (row, run) twice, a run outside ``0..runs-1``, an
            answer that is not of the label's kind or, with a closed class list, not in it.
    """
    check_labels(given.labels, fixed.kind)
    _check_listed(given.labels, fixed)
    rows = tuple(sorted(given.labels))
    at = {row: i for i, row in enumerate(rows)}
    for row in given.excluded:
        if row not in at:
            raise BadInput("an excluded row that is not labelled", row=row, hint="exclusions are a part of the rows")
    n, runs = len(rows), fixed.runs
    answers: list[list[LabelValue | None]] = [[None] * runs for _ in range(n)]
    lost = np.zeros(n, dtype=np.int64)
    rescued = np.zeros((n, runs), dtype=bool)
    confidence = np.full((n, runs), np.nan)
    faults: Counter[str] = Counter()
    seen: list[set[int]] = [set() for _ in range(n)]
    known: dict[tuple[type, LabelValue], None] = {}  # by type too: True equals 1.0 to Python, never to us
    for one in given.passes:
        i = at.get(one.row, -1)
        if i < 0 or one.row in given.excluded:
            why = "a pass for an unknown row" if i < 0 else "a pass for a row that is excluded before judging"
            raise BadInput(why, row=one.row, hint="passes go with labelled rows that were judged")
        check_run(one, runs, seen[i])
        if one.label is None:
            lost[i] += one.unusable == "unavailable"
            continue
        if (one.label.__class__, one.label) not in known:
            _check_answer(one.label, fixed, one.row)
            known[one.label.__class__, one.label] = None
        answers[i][one.run] = one.label
        rescued[i, one.run] = one.attempts > 1
        if one.confidence is not None:
            confidence[i, one.run] = one.confidence
        if one.confidence_fault is not None:
            faults[one.confidence_fault] += 1

    least = quorum(runs)
    if fixed.kind == "numeric":
        numbers = np.array(answers, dtype=float).reshape(n, runs)
        stand, usable = medians(numbers, least)
        free, _ = medians(numbers, 1)
        truth_numbers = np.array([float(given.labels[r]) for r in rows])  # type: ignore[arg-type]
        others = [truth_numbers, numbers.ravel(), stand, free]
        pool = np.concatenate(others)
        scale = np.unique(pool[~np.isnan(pool)])

        def coded(x: FloatArray) -> IntArray:
            return np.where(np.isnan(x), NO_VOTE, np.searchsorted(scale, np.nan_to_num(x))).astype(np.int64)

        values: tuple[LabelValue, ...] = tuple(float(v) for v in scale)
        truth, codes, votes, free_votes = coded(truth_numbers), coded(numbers), coded(stand), coded(free)
    else:
        values = _code_book(fixed, set(given.labels.values()) | {value for _, value in known})
        code: dict[LabelValue | None, int] = {value: k for k, value in enumerate(values)}
        code[None] = NO_VOTE
        truth = np.array([code[given.labels[r]] for r in rows], dtype=np.int64)
        codes = np.array([[code[a] for a in row] for row in answers], dtype=np.int64).reshape(n, runs)
        votes, usable = tally(codes, least)
        free_votes, _ = tally(codes, 1)

    judged = np.array([r not in given.excluded for r in rows], dtype=bool)
    reasons: list[RowReason | None] = [given.excluded.get(r) for r in rows]
    for i in np.flatnonzero(judged & (votes == NO_VOTE)).tolist():
        outage = lost[i] > 0 and usable[i] + lost[i] >= least
        reasons[i] = "unavailable" if outage else "no_quorum" if usable[i] < least else "tie"
    return Table(
        rows=rows,
        values=values,
        truth=truth,
        passes=codes,
        votes=votes,
        free_votes=free_votes,
        usable=usable,
        reasons=tuple(reasons),
        judged=judged,
        rescued=rescued,
        confidence=confidence,
        faults={"missing": faults["missing"], "invalid": faults["invalid"]},
        group=_group_index(rows, given.groups),
    )


def _check_answer(value: LabelValue, fixed: Fixed, row: str) -> None:
    if not _is_kind(value, fixed.kind):
        raise BadInput(
            f"the answer {value!r} is not a {fixed.kind} value", row=row, hint="record it as unusable (wrong_type)"
        )
    if fixed.kind == "numeric" or fixed.open_vocabulary:
        return
    listed = set(fixed.classes)
    if not (value <= listed if isinstance(value, frozenset) else value in listed):
        raise BadInput(
            f"the answer {text(value)!r} is not in the class list",
            row=row,
            hint="record it as unusable (label_not_in_schema)",
        )


def _code_book(fixed: Fixed, pool: set[LabelValue]) -> tuple[LabelValue, ...]:
    """Code → value: the classes in their order, then other answers by text; sets by text; numbers ascending."""
    if fixed.kind == "numeric":
        return tuple(sorted(pool, key=float))  # type: ignore[arg-type]
    if fixed.kind == "multiselect":
        return tuple(sorted(pool, key=text))
    return fixed.classes + tuple(sorted(pool - set(fixed.classes), key=text))


def together(fixed: Fixed, tables: Sequence[Table]) -> list[Table]:
    """The same tables with one code book for all, so that answers of several judges can be compared.

    Raises:
        BadInput: the tables are not about the same rows with the same labels.
    """
    first = tables[0]
    for other in tables[1:]:
        if other.rows != first.rows:
            odd = sorted(set(other.rows) ^ set(first.rows))[0]
            raise BadInput("only one of the judges was scored on this row", row=odd, hint="compare on the same rows")
    values = _code_book(fixed, {v for t in tables for v in t.values})
    code = {v: k for k, v in enumerate(values)}
    out = []
    for table in tables:
        map_ = np.array([*(code[v] for v in table.values), NO_VOTE], dtype=np.int64)  # the last entry serves code -1
        out.append(
            replace(
                table,
                values=values,
                truth=map_[table.truth],
                passes=map_[table.passes],
                votes=map_[table.votes],
                free_votes=map_[table.free_votes],
            )
        )
        differ = np.flatnonzero(out[-1].truth != out[0].truth)
        if len(differ):
            raise BadInput(
                "the judges were scored against different labels", row=table.rows[differ[0]], hint="use one label file"
            )
    return out


def _group_index(rows: Sequence[str], groups: Mapping[str, str] | None) -> IntArray | None:
    """Group number of each row; None when every row is its own group. Rows without a group stand alone."""
    if not groups:
        return None
    names: dict[tuple[bool, str], int] = {}
    out = [names.setdefault((True, groups[r]) if r in groups else (False, r), len(names)) for r in rows]
    return None if len(names) == len(rows) else np.array(out, dtype=np.int64)
