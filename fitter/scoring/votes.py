"""A row's vote from its passes (OUT-4, NU-1, MS-1).

Confidence plays no part here (OUT-5): no weight, no tie break, no gate.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from fitter.errors import BadInput, SettingsError
from fitter.labels import LabelKind, LabelValue, to_json
from fitter.records import Pass
from fitter.scoring.values import FloatArray, IntArray

VoteReason = Literal["no_quorum", "tie", "unavailable"]

NO_VOTE = -1  # code of a row (or pass) without an answer


@dataclass(frozen=True, kw_only=True)
class Vote:
    """The row's prediction, or why there is none.

    Attributes:
        row: row id.
        value: the standing vote.
        reason: ``no_quorum``, ``tie`` or ``unavailable``; None exactly when ``value`` is set.
        usable: usable passes.
        confidence: mean confidence of the usable passes that gave one; reported, never used.
    """

    row: str
    value: LabelValue | None
    reason: VoteReason | None
    usable: int
    confidence: float | None = None

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            "row": self.row,
            "value": None if self.value is None else to_json(self.value),
            "reason": self.reason,
            "usable": self.usable,
            "confidence": self.confidence,
        }


def quorum(runs: int) -> int:
    """Usable passes a vote needs: ``runs // 2 + 1`` (OUT-4).

    Raises:
        SettingsError: ``runs`` is not odd or not within 1 to 7.
    """
    if runs not in (1, 3, 5, 7):
        raise SettingsError(f"runs is {runs}", hint="use an odd number of runs from 1 to 7")
    return runs // 2 + 1


def vote(passes: Sequence[Pass], runs: int, kind: LabelKind, *, needed: int | None = None) -> Vote:
    """The vote of one row.

    A vote stands with at least ``runs // 2 + 1`` usable passes and a single most frequent answer; numeric rows take the
    median of the usable passes. A row without a vote is ``unavailable`` when calls that never ended in an answer could
    have made one (OUT-3), else ``no_quorum`` or ``tie``.

    Args:
        passes: all passes of one row, any order; at least one.
        runs: passes planned per row.
        kind: the label's kind.
        needed: another quorum than the rule's, for the figures that show what the rule costs.

    Raises:
        BadInput: passes of several rows, a run index twice or outside ``0..runs-1``.
        SettingsError: ``runs`` is not odd or not within 1 to 7.
        ValueError: no pass at all.
    """
    least = quorum(runs) if needed is None else needed
    if not passes:
        raise ValueError("a vote needs the row's passes")
    row = passes[0].row
    seen: set[int] = set()
    for one in passes:
        if one.row != row:
            raise BadInput("passes of several rows in one vote", row=one.row)
        check_run(one, runs, seen)
    answers = [p.label for p in passes if p.label is not None]
    lost = sum(p.unusable == "unavailable" for p in passes)
    sure = [p.confidence for p in passes if p.label is not None and p.confidence is not None]
    confidence = sum(sure) / len(sure) if sure else None

    def without(reason: VoteReason) -> Vote:
        outage = lost > 0 and len(answers) + lost >= least
        return Vote(
            row=row,
            value=None,
            reason="unavailable" if outage else reason,
            usable=len(answers),
            confidence=confidence,
        )

    if len(answers) < least:
        return without("no_quorum")
    if kind == "numeric":
        value: LabelValue = float(np.median([float(a) for a in answers]))  # type: ignore[arg-type]
        return Vote(row=row, value=value, reason=None, usable=len(answers), confidence=confidence)
    ranked = Counter(answers).most_common(2)
    if len(ranked) > 1 and ranked[0][1] == ranked[1][1]:
        return without("tie")
    return Vote(row=row, value=ranked[0][0], reason=None, usable=len(answers), confidence=confidence)


def check_run(one: Pass, runs: int, seen: set[int]) -> None:
    """Refuses a run index outside ``0..runs-1`` or one that was seen before on this row.

    Raises:
        BadInput: with the row and what to do.
    """
    if not 0 <= one.run < runs:
        raise BadInput(f"run {one.run} is outside 0..{runs - 1}", row=one.row, hint="runs are counted from 0")
    if one.run in seen:
        raise BadInput(f"run {one.run} is there twice", row=one.row, hint="keep one pass per row and run")
    seen.add(one.run)


def votes_by_row(passes: Iterable[Pass], runs: int, kind: LabelKind) -> dict[str, Vote]:
    """Votes of all rows that have a pass, by row id, in row order."""
    rows: dict[str, list[Pass]] = {}
    for one in passes:
        rows.setdefault(one.row, []).append(one)
    return {row: vote(rows[row], runs, kind) for row in sorted(rows)}


def tally(codes: IntArray, least: int) -> tuple[IntArray, IntArray]:
    """:func:`vote` for many rows at once, on codes.

    Args:
        codes: (rows, runs), :data:`NO_VOTE` for an unusable pass.
        least: the quorum.

    Returns:
        (votes, usable): the most frequent code, or :data:`NO_VOTE` below the quorum or on a tie; usable passes.
    """
    usable = (codes != NO_VOTE).sum(axis=1)
    same = (codes[:, :, None] == codes[:, None, :]) & (codes != NO_VOTE)[:, :, None]
    times = same.sum(axis=2)  # how often this pass's answer occurs in its row; 0 for an unusable pass
    top = times.max(axis=1, initial=0)
    leading = (times == top[:, None]) & (times > 0)
    high = np.where(leading, codes, NO_VOTE).max(axis=1, initial=NO_VOTE)
    low = np.where(leading, codes, np.iinfo(np.int64).max).min(axis=1, initial=np.iinfo(np.int64).max)
    stands = (usable >= least) & (high == low)
    return np.where(stands, high, NO_VOTE), usable


def medians(values: FloatArray, least: int) -> tuple[FloatArray, IntArray]:
    """Numeric votes of many rows: the median of the usable passes (NU-1), NaN below the quorum.

    Args:
        values: (rows, runs), NaN for an unusable pass.
        least: the quorum.
    """
    usable = (~np.isnan(values)).sum(axis=1)
    out = np.full(len(values), np.nan)
    enough = usable >= max(least, 1)
    if enough.any():
        out[enough] = np.nanmedian(values[enough], axis=1)
    return out, usable


def by_row(votes: Mapping[str, Vote], reason: VoteReason) -> list[str]:
    """Row ids whose vote is missing for this reason, sorted."""
    return sorted(row for row, v in votes.items() if v.reason == reason)
