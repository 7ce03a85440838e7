"""What one version of a judge gave, as records and as arrays."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from fitter.errors import BadInput
from fitter.jsonio import digest
from fitter.labels import LabelValue, text, to_json
from fitter.records import Pass, RowReason
from fitter.scoring.frame import Fixed, check_labels, check_listed, is_kind
from fitter.scoring.values import BoolArray, FloatArray, IntArray
from fitter.scoring.votes import NO_VOTE, check_run, medians, quorum, tally


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
    check_listed(given.labels, fixed)
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
    if not is_kind(value, fixed.kind):
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
