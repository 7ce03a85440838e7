"""What one version of a judge gave, as records and as arrays."""

from __future__ import annotations

import math
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
from fitter.scoring.votes import NO_VOTE, Vote, check_run, medians, quorum, tally


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

    Answers are codes into ``values``: classes and any other answers by canonical text; for multi-select one code a
    distinct set; for numeric the distinct numbers in ascending order. So the resamples of a figure do not hang on the
    order in which somebody listed the classes. :data:`NO_VOTE` is no answer.

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
    read = _read(fixed, given, {row: i for i, row in enumerate(rows)})
    least = quorum(fixed.runs)
    labels = [given.labels[r] for r in rows]
    if fixed.kind == "numeric":
        answers = np.array([*read.answers, np.nan], dtype=np.float64)[read.codes]  # the last entry serves code -1
        human = np.array(labels, dtype=np.float64)
        standing, usable = medians(answers, least)
        free, _ = medians(answers, 1)
        pool = np.concatenate([human, answers.ravel(), standing, free])
        steps = np.unique(pool[~np.isnan(pool)])
        values: tuple[LabelValue, ...] = tuple(steps.tolist())
        truth, codes, votes, free_votes = (_steps(steps, x) for x in (human, answers, standing, free))
    else:
        values = _code_book(fixed, {*labels, *read.answers})
        code = {value: k for k, value in enumerate(values)}
        truth = np.array([code[v] for v in labels], dtype=np.int64)
        codes = np.array([*(code[a] for a in read.answers), NO_VOTE], dtype=np.int64)[read.codes]
        votes, usable = tally(codes, least)
        free_votes, _ = tally(codes, 1)

    judged = np.array([r not in given.excluded for r in rows], dtype=bool)
    reasons: list[RowReason | None] = [given.excluded.get(r) for r in rows]
    for i in np.flatnonzero(judged & (votes == NO_VOTE)).tolist():
        outage = read.lost[i] > 0 and usable[i] + read.lost[i] >= least
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
        rescued=read.rescued,
        confidence=read.confidence,
        faults=read.faults,
        group=_group_index(rows, given.groups),
    )


@dataclass(frozen=True, kw_only=True)
class _Read:
    """Passes as arrays; codes into ``answers``, which is in order of first sight."""

    answers: list[LabelValue]
    codes: IntArray
    lost: IntArray
    rescued: BoolArray
    confidence: FloatArray
    faults: Mapping[str, int]


def _read(fixed: Fixed, given: CardInput, at: Mapping[str, int]) -> _Read:
    """One walk over the passes: this loop is what a card on many rows costs, so it holds no objects per row."""
    odd = sorted(set(given.excluded) - set(at))
    if odd:
        raise BadInput("an excluded row that is not labelled", row=odd[0], hint="exclusions are a part of the rows")
    runs, size = fixed.runs, len(at) * fixed.runs
    codes, points = [NO_VOTE] * size, [math.nan] * size
    seen, rescued = bytearray(size), bytearray(size)
    lost: Counter[int] = Counter()
    faults: Counter[str] = Counter()
    # by type too: True equals 1.0 to Python, never to us
    known: dict[tuple[type, LabelValue], int] = {}
    for one in given.passes:
        row, run, label = one.row, one.run, one.label
        i = at.get(row, -1)
        if i < 0 or row in given.excluded:
            why = "a pass for an unknown row" if i < 0 else "a pass for a row that is excluded before judging"
            raise BadInput(why, row=row, hint="passes go with labelled rows that were judged")
        cell = i * runs + run
        if not 0 <= run < runs or seen[cell]:
            check_run(one, runs, {run} if 0 <= run < runs else set())
        seen[cell] = 1
        if label is None:
            if one.unusable == "unavailable":
                lost[i] += 1
            continue
        code = known.get((label.__class__, label), -1)
        if code < 0:
            _check_answer(label, fixed, row)
            code = known[label.__class__, label] = len(known)
        codes[cell] = code
        if one.attempts > 1:
            rescued[cell] = 1
        if one.confidence is not None:
            points[cell] = one.confidence
        if one.confidence_fault is not None:
            faults[one.confidence_fault] += 1
    shape = (len(at), runs)
    short = np.zeros(len(at), dtype=np.int64)
    for i, times in lost.items():
        short[i] = times
    return _Read(
        answers=[label for _, label in known],
        codes=np.array(codes, dtype=np.int64).reshape(shape),
        lost=short,
        rescued=np.frombuffer(bytes(rescued), dtype=np.bool_).reshape(shape),
        confidence=np.array(points, dtype=np.float64).reshape(shape),
        faults={"missing": faults["missing"], "invalid": faults["invalid"]},
    )


def _steps(steps: FloatArray, numbers: FloatArray) -> IntArray:
    """Codes of numbers in their ascending list; NaN is no answer."""
    found = np.searchsorted(steps, np.nan_to_num(numbers))
    return np.where(np.isnan(numbers), NO_VOTE, found).astype(np.int64)


def votes_of(table: Table) -> tuple[Vote, ...]:
    """The votes of the judged rows, standing or missing, in row order."""
    counts = (~np.isnan(table.confidence)).sum(axis=1)
    sums = np.nan_to_num(table.confidence).sum(axis=1)
    means = [float(s / c) if c else None for s, c in zip(sums, counts, strict=True)]
    return tuple(
        Vote(
            row=row,
            value=None if code == NO_VOTE else table.values[code],
            reason=reason if reason in ("no_quorum", "tie", "unavailable") else None,
            usable=usable,
            confidence=mean,
        )
        for row, code, reason, usable, mean, judged in zip(
            table.rows, table.votes.tolist(), table.reasons, table.usable.tolist(), means, table.judged, strict=True
        )
        if judged
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
    """Code → value: classes and other answers by text; sets by text; numbers ascending."""
    if fixed.kind == "numeric":
        return tuple(sorted(pool, key=float))  # type: ignore[arg-type]
    if fixed.kind == "multiselect":
        return tuple(sorted(pool, key=text))
    return tuple(sorted(pool | set(fixed.classes), key=text))


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
