"""Closed-form intervals: Wilson, exact binomial (Clopper-Pearson), MOVER for a mean of proportions.

On scipy.special, whose import costs a third of that of scipy.stats; tests hold every figure to scipy.stats' own
(``binomtest``, ``beta``) over all counts up to 60.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from functools import lru_cache

from scipy import special

from fitter.scoring.values import Interval


@lru_cache(maxsize=4096)
def wilson_ends(hits: int, n: int, confidence: float = 0.95) -> tuple[float, float]:
    """Ends of the Wilson score interval without continuity correction (Wilson 1927), by scipy.

    Args:
        hits: successes, 0..n.
        n: trials, at least 1.
        confidence: two-sided level.

    Raises:
        ValueError: counts that are no proportion.
    """
    if n < 1 or not 0 <= hits <= n:
        raise ValueError(f"{hits} of {n} is not a proportion")
    z = float(special.ndtri((1 + confidence) / 2))
    share, extra = hits / n, z * z / n
    centre = (share + extra / 2) / (1 + extra)
    half = z / (1 + extra) * math.sqrt(share * (1 - share) / n + extra / (4 * n))
    return 0.0 if hits == 0 else max(0.0, centre - half), 1.0 if hits == n else min(1.0, centre + half)


def wilson(hits: int, n: int, *, grouped: bool = False) -> Interval:
    """95% Wilson interval of ``hits`` in ``n`` rows; null when there are no rows."""
    if n == 0:
        return Interval(low=None, high=None, method="wilson", n=0, reliable=False, why="no rows")
    low, high = wilson_ends(hits, n)
    return Interval(low=low, high=high, method="wilson", n=n, assumes_independent_rows=grouped)


def clopper_pearson(hits: int, n: int, *, confidence: float = 0.95) -> tuple[float, float]:
    """Exact two-sided binomial interval (Clopper and Pearson 1934), by scipy.

    Raises:
        ValueError: counts that are no proportion.
    """
    if n < 1 or not 0 <= hits <= n:
        raise ValueError(f"{hits} of {n} is not a proportion")
    tail = (1 - confidence) / 2
    low = 0.0 if hits == 0 else float(special.betaincinv(hits, n - hits + 1, tail))
    high = 1.0 if hits == n else float(special.betaincinv(hits + 1, n - hits, 1 - tail))
    return low, high


def upper_bound(errors: int, n: int, *, confidence: float = 0.95) -> float:
    """One-sided exact upper bound of an error rate (QU-2): 0 in 30 gives 9.50%, 0 in 100 gives 2.95%.

    Raises:
        ValueError: counts that are no proportion.
    """
    if n < 1 or not 0 <= errors <= n:
        raise ValueError(f"{errors} errors in {n} rows is not a rate")
    if errors == n:
        return 1.0
    return float(special.betaincinv(errors + 1, n - errors, confidence))


def mover_mean(counts: Sequence[tuple[int, int]], *, grouped: bool = False) -> Interval:
    """95% interval of the mean of independent proportions: MOVER on Wilson intervals (ME-3).

    Zou and Donner's method of variance estimates recovery: each proportion's distance to its own Wilson end stands in
    for its standard error, and the distances add in squares. With one proportion it is the Wilson interval itself.

    Args:
        counts: (hits, rows) per class, each with at least one row.
        grouped: rows come in groups, which Wilson ignores.

    Returns:
        Interval of ``mean(hits/rows)``; null when there is no class or one has no rows.
    """
    n = sum(rows for _, rows in counts)
    if not counts or any(rows == 0 for _, rows in counts):
        return Interval(low=None, high=None, method="mover_wilson", n=n, reliable=False, why="a class has no rows")
    down = up = centre = 0.0
    for hits, rows in counts:
        rate = hits / rows
        low, high = wilson_ends(hits, rows)
        centre += rate
        down += (rate - low) ** 2
        up += (high - rate) ** 2
    k = len(counts)
    return Interval(
        low=max(0.0, (centre - math.sqrt(down)) / k),
        high=min(1.0, (centre + math.sqrt(up)) / k),
        method="mover_wilson",
        n=n,
        assumes_independent_rows=grouped,
    )
