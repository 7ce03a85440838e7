"""Fewer calls, same decisions: which passes of a candidate are still worth making. Pure.

Two facts make passes superfluous. A row whose vote no further pass can change needs none: the waiting ones would only
serve flip rate and deployable score, which a discarded candidate does not need. And a candidate is kept only if it
gains more rows than it loses (KE-3): once the lost rows are at least as many as the gained ones could become, it is
discarded whatever the rest says. Both hold only where the iteration is sure to be measurable: an unmeasurable one would
be ``no_change`` and leave patience alone (LO-6).

    stage 1   rows best gets wrong (only they can be gained), and one row a class as witnesses
    stage 2   the other rows, a chunk at a time, those first on which best's own passes differ
    stage 3   every vote settled: only a candidate that would be kept gets the passes that waited
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Collection, Iterable, Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal

from fitter.labels import LabelKind, LabelValue
from fitter.loop.decide import Decision, decide, differences, digests_of, record_head, redecide
from fitter.records import Pass, RowReason
from fitter.scoring.frame import Fixed
from fitter.scoring.paired import MinDelta, moves, paired_mask
from fitter.scoring.statistic import holds
from fitter.scoring.table import CardInput, Table, tabulate, together
from fitter.scoring.values import BoolArray
from fitter.scoring.votes import NO_VOTE, quorum

CHUNK_ROWS = 8
MOST_CHUNKS = 12  # a large queue is asked in larger chunks: every stage waits for its last answer

# Their headline can be null on rows that hold every class or number (one constant answer): never decided early.
_MAY_BE_NULL = frozenset({"spearman"})


@dataclass(frozen=True, kw_only=True)
class Step:
    """What to do next.

    Attributes:
        kind: ``make`` these passes, then ask again; ``discard``: certain, the passes that are left are not needed;
            ``complete``: every pass is made, decide as ever.
        passes: (row, run) to make, in scheduling order.
        votes: every row's vote is settled.
        gained, lost, open: rows gained and lost for sure, and rows that could still be gained.
    """

    kind: Literal["make", "discard", "complete"]
    passes: tuple[tuple[str, int], ...] = ()
    votes: bool = False
    gained: frozenset[str] = frozenset()
    lost: frozenset[str] = frozenset()
    open: frozenset[str] = frozenset()


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


class Planner:
    """What to do next with one candidate; what it is compared with is counted once.

    Args:
        fixed: what was fixed at intake; the policy for rows without a vote is ``exclude``, as in every fit.
        best: what best gave, complete.
        excluded: rows the candidate cannot judge, known before any call.
        keeps: whether the keep rule would keep the candidate with these passes and settled votes.

    Raises:
        ValueError: rows without a vote count as wrong: then a missing pass is no missing information.
    """

    def __init__(
        self,
        fixed: Fixed,
        *,
        best: CardInput,
        excluded: Mapping[str, RowReason],
        keeps: Callable[[CardInput], bool],
    ) -> None:
        if fixed.failures != "exclude":
            raise ValueError("candidates are decided early only where rows without a vote are excluded")
        self.fixed = fixed
        self.best = best
        self.keeps = keeps
        self.excluded = excluded
        self.rows = [row for row in best.labels if row not in excluded]
        perfect = self._given(
            Pass(row=row, run=n, label=best.labels[row]) for row in self.rows for n in range(fixed.runs)
        )
        self._best, self._perfect = (tabulate(fixed, given) for given in (best, perfect))
        self._split = _split(self._best)
        self._chunk = max(CHUNK_ROWS, len(self.rows) // MOST_CHUNKS)

    def _given(self, passes: Iterable[Pass]) -> CardInput:
        return CardInput(labels=self.best.labels, passes=list(passes), groups=self.best.groups, excluded=self.excluded)

    def _steady(self, row: str) -> tuple[int, str]:
        """Rows on which best's own passes differ come first: a change is likeliest to lose those."""
        return (0 if row in self._split else 1, row)

    def next(self, made: Sequence[Pass]) -> Step:
        """The next step after these passes of the candidate, in any order."""
        fixed = self.fixed
        by_row: dict[str, list[Pass]] = {row: [] for row in self.rows}
        for one in sorted(made, key=lambda p: (p.row, p.run)):
            by_row[one.row].append(one)
        sure = [row for row, passes in by_row.items() if settled([p.label for p in passes], fixed.runs, fixed.kind)]
        partial = self._given(p for row in sure for p in by_row[row])
        at_best, at_now, at_perfect = together(fixed, [self._best, tabulate(fixed, partial), self._perfect])
        gained, lost = (_ids(at_best, m) for m in moves(fixed, at_best, at_now, paired_mask(fixed, at_best, at_now)))
        gainable = _ids(at_best, moves(fixed, at_best, at_perfect, paired_mask(fixed, at_best, at_perfect))[0])
        is_sure = frozenset(sure)
        unsure = [row for row in at_best.rows if row in by_row and row not in is_sure]
        open_rows = gainable.intersection(unsure)

        def step(kind: Literal["make", "discard", "complete"], passes: Iterable[tuple[str, int]] = ()) -> Step:
            return Step(kind=kind, passes=tuple(passes), votes=not unsure, gained=gained, lost=lost, open=open_rows)

        if unsure:
            if len(lost) >= len(gained) + len(open_rows) and _measurable(fixed, at_best, at_now):
                return step("discard")
            first = gainable.union(_witnesses(fixed, at_best))
            turn = [row for row in unsure if row in first] or sorted(unsure, key=self._steady)[: self._chunk]
            return step("make", _wanted(fixed, by_row, turn))
        waiting = [(row, n) for row in sorted(by_row) for n in range(len(by_row[row]), fixed.runs)]
        if not waiting:
            return step("complete")
        if self.keeps(partial) or not _measurable(fixed, at_best, at_now):
            return step("make", waiting)
        return step("discard")


def _ids(table: Table, chosen: BoolArray) -> frozenset[str]:
    return frozenset(row for row, wanted in zip(table.rows, chosen, strict=True) if wanted)


def _split(best: Table) -> frozenset[str]:
    """Rows whose passes do not all give one answer."""
    return _ids(best, (best.passes != best.passes[:, :1]).any(axis=1))


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


def decide_early(
    fixed: Fixed,
    *,
    best: CardInput,
    candidate: CardInput,
    v0: CardInput,
    min_delta: MinDelta,
    bucket_rows: Collection[str] | None,
) -> dict[str, Any] | None:
    """The record of a candidate that is discarded before all its passes were made (KE-5); None where it is not.

    Recomputing it from the retained passes also proves that the passes which were not made were not needed.

    Args:
        fixed: what was fixed at intake.
        best, v0: what these gave, complete.
        candidate: what the candidate gave so far.
        min_delta: derived once at v0.
        bucket_rows: rows of the targeted bucket.

    Returns:
        Plain JSON in the shape of a decision's record, with ``passes`` ``{made, of}`` and ``settled`` ``{votes,
        gained_ids, lost_ids, open_ids}``. ``basis`` is ``cannot_gain`` where some votes are open, and ``paired`` and
        ``audit`` are None; where only passes are missing that change no vote, the three are the exhaustive decision's.
        What the missing passes would show (flip rate, significance) is left out.
    """
    made: list[Decision] = []

    def keeps(given: CardInput) -> bool:
        made.append(decide(fixed, best=best, candidate=given, v0=v0, min_delta=min_delta, bucket_rows=bucket_rows))
        return made[-1].kept

    plan = Planner(fixed, best=best, excluded=candidate.excluded, keeps=keeps)
    step = plan.next(candidate.passes)
    if step.kind != "discard":
        return None
    done, every = len(candidate.passes), len(plan.rows) * fixed.runs
    reasoning = [f"decided early, {done} of {every} passes"]
    by_votes = made[-1] if step.votes else None
    if by_votes is None:
        reasoning.append(
            f"discarded: {len(step.lost)} rows are lost for sure, and no more than {len(step.gained) + len(step.open)} "
            f"can be gained ({len(step.gained)} are, {len(step.open)} are open)"
        )
    else:
        reasoning += by_votes.reasoning
    return {
        **record_head(fixed, digests=digests_of(best, candidate, v0), min_delta=min_delta, bucket_rows=bucket_rows),
        "passes": {"made": done, "of": every},
        "settled": {
            "votes": step.votes,
            "gained_ids": sorted(step.gained),
            "lost_ids": sorted(step.lost),
            "open_ids": sorted(step.open),
        },
        "paired": None if by_votes is None else by_votes.record["paired"],
        "paired_v0": None if by_votes is None else by_votes.record["paired_v0"],
        "audit": None if by_votes is None else by_votes.record["audit"],
        "decision": "discard",
        "basis": "cannot_gain" if by_votes is None else by_votes.basis,
        "label": None,
        "off_target": None,
        "reasoning": reasoning,
    }


def recompute(
    record: Mapping[str, Any], *, best: CardInput, candidate: CardInput, v0: CardInput
) -> list[tuple[str, Any, Any]]:
    """Recomputes a decision of either kind from its record and the retained passes (KE-5).

    Returns:
        (dotted key, recorded, recomputed) for every difference, in key order; empty when the record stands.
    """
    if "passes" not in record:
        return redecide(record, best=best, candidate=candidate, v0=v0)
    again = decide_early(
        Fixed.from_json(record["fixed"]),
        best=best,
        candidate=candidate,
        v0=v0,
        min_delta=MinDelta.from_json(record["min_delta"]),
        bucket_rows=record["bucket_rows"],
    )
    return [("passes", record["passes"], None)] if again is None else differences(record, again)
