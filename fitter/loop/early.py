"""Fewer calls, same decisions: which passes of a candidate are still worth making. Pure.

Two facts make passes superfluous. A row whose vote no further pass can change needs none: the waiting ones would only
serve flip rate and deployable score, which a discarded candidate does not need. And a candidate is kept only if it
gains more rows than it loses (KE-3): once the lost rows are at least as many as the gained ones could become, it is
discarded whatever the rest says. Both hold only where the iteration is sure to be measurable: an unmeasurable one would
be ``no_change`` and leave patience alone (LO-6).

    stage 1   rows best gets wrong (only they can be gained), and one row a class as witnesses
    stage 2   the other rows, a chunk at a time
    stage 3   every vote settled: only a candidate that would be kept gets the passes that waited
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Literal

from fitter.labels import LabelKind, LabelValue
from fitter.records import Pass, RowReason
from fitter.scoring.frame import Fixed
from fitter.scoring.paired import moves, paired_mask
from fitter.scoring.statistic import holds
from fitter.scoring.table import CardInput, Table, tabulate, together
from fitter.scoring.values import BoolArray
from fitter.scoring.votes import NO_VOTE, quorum

CHUNK_ROWS = 16

# Their headline can be null on rows that hold every class or number (one constant answer): never decided early.
_MAY_BE_NULL = frozenset({"spearman"})


@dataclass(frozen=True, kw_only=True)
class Step:
    """What to do next.

    Attributes:
        kind: ``make`` these passes, then ask again; ``discard``: certain, the passes that are left are not needed;
            ``complete``: every pass is made, decide as ever.
        passes: (row, run) to make, in scheduling order.
        gained, lost, open: rows gained and lost for sure, and rows that could still be gained.
    """

    kind: Literal["make", "discard", "complete"]
    passes: tuple[tuple[str, int], ...] = ()
    gained: int = 0
    lost: int = 0
    open: int = 0


def settled(answers: Sequence[LabelValue | None], runs: int, kind: LabelKind) -> bool:
    """True when no further pass can change a row's vote, nor whether it has one.

    Args:
        answers: answers of the passes made, None for an unusable one.
        runs: passes planned.
        kind: the label's kind; a median can move with every pass.
    """
    left = runs - len(answers)
    if left <= 0:
        return True
    usable = [a for a in answers if a is not None]
    if len(usable) + left < quorum(runs):
        return True  # the quorum is out of reach
    if kind == "numeric" or len(usable) < quorum(runs):
        return False
    ranked = [n for _, n in Counter(usable).most_common(2)]
    second = ranked[1] if len(ranked) > 1 else 0
    return ranked[0] > second + left


def next_step(
    fixed: Fixed,
    *,
    best: CardInput,
    made: Sequence[Pass],
    excluded: Mapping[str, RowReason],
    keeps: Callable[[CardInput], bool],
) -> Step:
    """What to do next with a candidate.

    Args:
        fixed: what was fixed at intake; the policy for rows without a vote is ``exclude``, as in every fit.
        best: what best gave, complete.
        made: the candidate's passes so far, in any order.
        excluded: rows the candidate cannot judge, known before any call.
        keeps: whether the keep rule would keep the candidate with these passes and settled votes.

    Raises:
        ValueError: rows without a vote count as wrong: then a missing pass is no missing information.
    """
    if fixed.failures != "exclude":
        raise ValueError("candidates are decided early only where rows without a vote are excluded")
    by_row: dict[str, list[Pass]] = {row: [] for row in best.labels if row not in excluded}
    for one in sorted(made, key=lambda p: (p.row, p.run)):
        by_row[one.row].append(one)
    sure = [row for row, passes in by_row.items() if settled([p.label for p in passes], fixed.runs, fixed.kind)]
    partial = CardInput(
        labels=best.labels, passes=[p for row in sure for p in by_row[row]], groups=best.groups, excluded=excluded
    )
    perfect = CardInput(
        labels=best.labels,
        passes=[Pass(row=r, run=n, label=best.labels[r]) for r in by_row for n in range(fixed.runs)],
        groups=best.groups,
        excluded=excluded,
    )
    at_best, at_now, at_perfect = together(fixed, [tabulate(fixed, given) for given in (best, partial, perfect)])
    gained, lost = moves(fixed, at_best, at_now, paired_mask(fixed, at_best, at_now))
    gainable = _ids(at_best, moves(fixed, at_best, at_perfect, paired_mask(fixed, at_best, at_perfect))[0])
    is_sure = frozenset(sure)
    unsure = [row for row in at_best.rows if row in by_row and row not in is_sure]
    open_rows = gainable.intersection(unsure)
    won, gone, left = int(gained.sum()), int(lost.sum()), len(open_rows)

    def step(kind: Literal["make", "discard", "complete"], passes: Iterable[tuple[str, int]] = ()) -> Step:
        return Step(kind=kind, passes=tuple(passes), gained=won, lost=gone, open=left)

    if len(sure) < len(by_row):
        if gone >= won + left and _measurable(fixed, at_best, at_now):
            return step("discard")
        first = gainable.union(_witnesses(fixed, at_best))
        turn = [row for row in unsure if row in first] or unsure[:CHUNK_ROWS]
        return step("make", _wanted(fixed, by_row, turn))
    waiting = [(row, n) for row in sorted(by_row) for n in range(len(by_row[row]), fixed.runs)]
    if not waiting:
        return step("complete")
    if keeps(partial) or not _measurable(fixed, at_best, at_now):
        return step("make", waiting)
    return step("discard")


def _ids(table: Table, chosen: BoolArray) -> frozenset[str]:
    return frozenset(row for row, wanted in zip(table.rows, chosen, strict=True) if wanted)


def _witnesses(fixed: Fixed, best: Table) -> list[str]:
    """One row a class that best has a vote on; for numbers one row."""
    voted = best.judged & (best.votes != NO_VOTE)
    if fixed.kind == "numeric":
        return sorted(_ids(best, voted))[:1]
    held = holds(fixed.classes, best.values, best.truth) & voted[:, None]
    return [row for column in held.T for row in sorted(_ids(best, column))[:1]]


def _measurable(fixed: Fixed, best: Table, now: Table) -> bool:
    """True when the headline exists whatever the open rows bring: every class has a paired row for sure."""
    if fixed.metric.name in _MAY_BE_NULL:
        return False
    rows = paired_mask(fixed, best, now)
    if fixed.kind == "numeric":
        return bool(rows.any())
    return bool(holds(fixed.classes, best.values, best.truth)[rows].any(axis=0).all())


def _wanted(fixed: Fixed, by_row: Mapping[str, Sequence[Pass]], turn: Sequence[str]) -> list[tuple[str, int]]:
    """Passes of the rows whose turn it is: as many as could settle a row, then one more at a time."""
    wanted = []
    for row in turn:
        done = len(by_row[row])
        until = fixed.runs if fixed.kind == "numeric" else max(quorum(fixed.runs), done + 1)
        wanted += [(row, n) for n in range(done, until)]
    return wanted
