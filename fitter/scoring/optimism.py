"""Selection optimism: how much the best of k null candidates would seem to gain on these rows.

A null candidate is v0 asked again: each row's passes are drawn anew, with replacement, from the row's own recorded
passes. The best of v0 and k such candidates shows how far "in-sample, selected from k candidates" can rise with no
change at all. It simulates the judge's pass noise only; what a real prompt change does to these particular rows comes
on top, and the audit of the keep rule, which removes some lucky candidates, is left out.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from math import factorial
from typing import Any

import numpy as np

from fitter.scoring.bootstrap import compress, generator
from fitter.scoring.frame import Fixed
from fitter.scoring.statistic import WRONG, measure
from fitter.scoring.table import Table
from fitter.scoring.values import FloatArray, IntArray, Value
from fitter.scoring.votes import NO_VOTE, medians, quorum, tally

_CELLS = 4_000_000
_NUMERIC_LIMIT = 200  # medians are drawn row by row, which costs more


@dataclass(frozen=True, kw_only=True)
class Optimism:
    """Simulated inflation of a selected train headline.

    Attributes:
        candidates: k.
        inflation: mean over simulations of best-of-(k+1) minus the mean single headline, in the metric's direction
            (never negative).
        upper: 95th percentile of the same.
        single: mean headline of one null candidate.
        simulations: how many.
    """

    candidates: int
    inflation: Value
    upper: Value
    single: Value
    simulations: int

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            "candidates": self.candidates,
            "inflation": self.inflation.to_json(),
            "upper95": self.upper.to_json(),
            "single": self.single.to_json(),
            "simulations": self.simulations,
        }


def selection_optimism(fixed: Fixed, v0: Table, *, candidates: int, simulations: int = 1000) -> Optimism:
    """Simulates ``candidates`` null candidates on v0's rows.

    Args:
        fixed: what was fixed at intake.
        v0: v0's table.
        candidates: k, measured iterations; 0 gives no inflation.
        simulations: simulated fits.
    """

    def null(why: str) -> Optimism:
        none = Value.none(why)
        return Optimism(candidates=candidates, inflation=none, upper=none, single=none, simulations=simulations)

    if fixed.runs == 1:
        return null("with one run a row the judge's noise is not seen")
    if not v0.judged.any():
        return null("no rows")
    if fixed.kind == "numeric":
        simulations = min(simulations, _NUMERIC_LIMIT)
    size = simulations * (candidates + 1)
    rng = generator(fixed.seed, f"optimism {candidates}")
    draw = _numeric_headlines if fixed.kind == "numeric" else _class_headlines
    headlines = draw(fixed, v0, size, rng)
    if np.isnan(headlines).mean() > 0.05:
        return null("too many simulated candidates have no headline")
    sign = fixed.metric.sign
    table = (headlines * sign).reshape(simulations, candidates + 1)
    kept = table[~np.isnan(table).any(axis=1)]
    single = float(kept.mean())
    rise = kept.max(axis=1) - single
    if candidates == 0:
        rise = np.zeros(len(rise))
    inflation = max(0.0, float(rise.mean()))
    return Optimism(
        candidates=candidates,
        inflation=Value.of(inflation),
        upper=Value.of(max(0.0, float(np.percentile(rise, 95)))),
        single=Value.of(single * sign),
        simulations=len(kept),
    )


def _class_headlines(fixed: Fixed, v0: Table, size: int, rng: np.random.Generator) -> FloatArray:
    """Headlines of null candidates: rows with the same label and the same passes share one vote distribution."""
    passes = np.sort(v0.passes[v0.judged], axis=1)
    patterns = compress([v0.truth[v0.judged], *passes.T])
    cells: dict[tuple[int, int], int] = {}
    plans: list[tuple[int, list[int], FloatArray]] = []
    for key, rows in zip(patterns.keys, patterns.counts.tolist(), strict=True):
        votes, shares = _vote_distribution(key[1:], fixed.runs)
        at = [cells.setdefault((int(key[0]), vote), len(cells)) for vote in votes]
        plans.append((rows, at, shares))
    counted = [k for k, (_, vote) in enumerate(cells) if vote != NO_VOTE or fixed.failures == "wrong"]
    keys = np.array(list(cells), dtype=np.int64)[counted]
    answers = np.where(keys[:, 1] == NO_VOTE, WRONG, keys[:, 1]) if len(keys) else keys
    if not len(keys):
        return np.full(size, np.nan)
    compute = measure(fixed, v0.values, keys[:, 0], answers).compute
    out = []
    step = max(1, _CELLS // max(1, len(cells)))
    for start in range(0, size, step):
        b = min(step, size - start)
        weights = np.zeros((b, len(cells)))
        for rows, at, shares in plans:
            weights[:, at] += rng.multinomial(rows, shares, size=b)
        out.append(compute(weights[:, counted]))
    return np.concatenate(out)


def _vote_distribution(passes: IntArray, runs: int) -> tuple[list[int], FloatArray]:
    """Votes that ``runs`` draws with replacement from these passes can give, with their probabilities."""
    codes, times = np.unique(passes, return_counts=True)
    shares = times / len(passes)
    chance: dict[int, float] = {}
    for parts in _compositions(runs, len(codes)):
        row = np.repeat(codes, parts)[None, :]
        vote = int(tally(row, quorum(runs))[0][0])
        ways = float(factorial(runs))
        for part, share in zip(parts, shares.tolist(), strict=True):
            ways *= share**part / factorial(part)
        chance[vote] = chance.get(vote, 0.0) + ways
    votes = sorted(chance)
    found = np.array([chance[v] for v in votes])
    return votes, found / found.sum()


def _compositions(total: int, parts: int) -> Iterator[tuple[int, ...]]:
    """All ways to write ``total`` as an ordered sum of ``parts`` numbers from 0."""
    if parts == 1:
        yield (total,)
        return
    for first in range(total + 1):
        for rest in _compositions(total - first, parts - 1):
            yield (first, *rest)


def _numeric_headlines(fixed: Fixed, v0: Table, size: int, rng: np.random.Generator) -> FloatArray:
    """Headlines of null candidates with medians for votes, drawn row by row."""
    numbers = np.array([*v0.values, np.nan], dtype=np.float64)
    passes = numbers[v0.passes[v0.judged]]
    truth = numbers[v0.truth[v0.judged]]
    n, runs = passes.shape
    out = np.full(size, np.nan)
    for k in range(size):
        drawn = np.take_along_axis(passes, rng.integers(0, runs, size=(n, runs)), axis=1)
        votes, _ = medians(drawn, quorum(runs))
        stands = ~np.isnan(votes)
        rows = stands if fixed.failures == "exclude" else np.ones(n, dtype=bool)
        steps = np.unique(np.concatenate([truth, votes[stands]]))
        answer = np.where(stands, np.searchsorted(steps, np.nan_to_num(votes)), WRONG)[rows]
        human = np.searchsorted(steps, truth)[rows]
        values = steps.tolist()
        found = measure(fixed, values, human, answer).compute(np.ones((1, int(rows.sum()))))
        out[k] = found[0]
    return out
