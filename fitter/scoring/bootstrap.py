"""Bootstrap by pattern counts: seeded, percentile, rows or groups as the unit (ME-3).

A resample of n rows is a multinomial draw of how often each pattern occurs, so its cost depends on the number of
distinct patterns and not on the number of rows. Where rows come in groups, whole groups are drawn: the patterns are
then the groups' own vectors of row patterns. Streams are numpy's PCG64, seeded by the fit's seed and the figure's name.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass

import numpy as np

from fitter.jsonio import sha256
from fitter.scoring.values import EPSILON, FloatArray, IntArray, Interval

DROP_LIMIT = 0.05  # over this share of dropped resamples there is no interval (ME-3)
_CELLS = 2_000_000  # counts held at once


@dataclass(frozen=True, kw_only=True)
class Patterns:
    """Distinct rows of some integer columns, and how they are resampled.

    Attributes:
        keys: (P, C) the distinct patterns, in lexicographic order.
        counts: (P,) rows of each.
        unit_counts: (U,) how often each distinct unit occurs; a unit is a pattern, or a group's vector of patterns.
        unit_vectors: (U, P) rows of each pattern in one such group; None when the unit is the row.
    """

    keys: IntArray
    counts: IntArray
    unit_counts: IntArray
    unit_vectors: FloatArray | None

    @property
    def units(self) -> int:
        """Rows or groups."""
        return int(self.unit_counts.sum())

    @property
    def method(self) -> str:
        """The instrument's name."""
        return "bootstrap_rows" if self.unit_vectors is None else "bootstrap_groups"


def compress(columns: Sequence[IntArray], group: IntArray | None = None) -> Patterns:
    """Counts the distinct patterns of rows.

    Args:
        columns: C arrays (n,) of small integers (codes; -2 is the least).
        group: (n,) group index, or None.
    """
    stacked = np.stack(columns, axis=1)
    packed = _packed(stacked)
    if packed is None:
        keys, inverse, counts = np.unique(stacked, axis=0, return_inverse=True, return_counts=True)
    else:
        _, first, inverse, counts = np.unique(packed, return_index=True, return_inverse=True, return_counts=True)
        keys = stacked[first]
    counts = counts.astype(np.int64)
    if group is None or len(stacked) == 0:
        return Patterns(keys=keys, counts=counts, unit_counts=counts, unit_vectors=None)
    vectors, times = _group_vectors(inverse.reshape(-1), group, len(keys))
    return Patterns(keys=keys, counts=counts, unit_counts=times, unit_vectors=vectors)


def _packed(stacked: IntArray) -> IntArray | None:
    """One integer a row that sorts like the row's columns; None where it would not fit 62 bits."""
    if stacked.size == 0:
        return None
    low = stacked.min(axis=0)
    spans = [int(s) for s in stacked.max(axis=0) - low + 1]
    size = 1
    for span in spans:
        size *= span
    if size >= 1 << 62:
        return None
    out = np.zeros(len(stacked), dtype=np.int64)
    for j, span in enumerate(spans):
        out = out * span + (stacked[:, j] - low[j])
    return out


def _group_vectors(pattern: IntArray, group: IntArray, size: int) -> tuple[FloatArray, IntArray]:
    """Distinct groups as vectors of pattern counts, in lexicographic order, and how often each occurs."""
    order = np.lexsort((pattern, group))
    members = pattern[order]
    starts = np.flatnonzero(np.diff(group[order], prepend=-1))
    seen: dict[bytes, int] = {}
    times: list[int] = []
    kinds: list[IntArray] = []
    for part in np.split(members, starts[1:]):
        k = seen.setdefault(part.tobytes(), len(seen))
        if k == len(times):
            times.append(0)
            kinds.append(part)
        times[k] += 1
    ranked = sorted(range(len(kinds)), key=lambda k: kinds[k].tolist())
    vectors = np.zeros((len(kinds), size))
    for line, k in enumerate(ranked):
        vectors[line] = np.bincount(kinds[k], minlength=size)
    return vectors, np.array([times[k] for k in ranked], dtype=np.int64)


def generator(seed: int, purpose: str) -> np.random.Generator:
    """The random stream of one figure: independent of all others, the same on every machine."""
    return np.random.Generator(np.random.PCG64(np.random.SeedSequence([seed, int(sha256(purpose)[:12], 16)])))


def resample(patterns: Patterns, resamples: int, rng: np.random.Generator) -> Iterator[FloatArray]:
    """Yields (b, P) pattern counts until ``resamples`` lines were drawn."""
    n = patterns.units
    kinds = len(patterns.unit_counts)
    share = patterns.unit_counts / n
    by_unit = kinds * 6 > n  # many kinds for so few units: drawing units beats drawing counts
    owner = np.repeat(np.arange(kinds), patterns.unit_counts)
    width = max(kinds, len(patterns.counts), n if by_unit else 1)
    step = max(1, _CELLS // width)
    for start in range(0, resamples, step):
        b = min(step, resamples - start)
        if by_unit:
            picks = owner[rng.integers(0, n, size=(b, n), dtype=np.uint16 if n <= 1 << 16 else np.uint32)]
            picks += (np.arange(b) * kinds)[:, None]
            drawn = np.bincount(picks.ravel(), minlength=b * kinds).reshape(b, kinds)
        else:
            drawn = rng.multinomial(n, share, size=b)
        weights = drawn.astype(float)
        yield weights if patterns.unit_vectors is None else weights @ patterns.unit_vectors


def figures(
    patterns: Patterns, compute: Callable[[FloatArray], FloatArray], *, resamples: int, seed: int, purpose: str
) -> FloatArray:
    """(resamples,) bootstrap figures, NaN for a resample that does not measure the figure."""
    if patterns.units == 0:
        return np.full(resamples, np.nan)
    rng = generator(seed, purpose)
    return np.concatenate([compute(weights) for weights in resample(patterns, resamples, rng)])


def percentile_interval(
    found: FloatArray, patterns: Patterns, *, small_class: int | None = None, least: int = 10
) -> Interval:
    """95% percentile interval (linear interpolation between order statistics) of bootstrap figures.

    Args:
        found: figures, NaN for dropped resamples.
        patterns: what was resampled.
        small_class: rows of the smallest class, where the figure hangs on classes.
        least: below this many rows in a class the interval is not reliable.
    """
    kept = found[~np.isnan(found)]
    dropped = len(found) - len(kept)
    low = high = None
    reliable, why = False, None
    if patterns.units == 0:
        why = "no rows"
    elif dropped > DROP_LIMIT * len(found):
        why = "class_too_small" if small_class is not None else "too many resamples do not measure it"
    else:
        low, high = (float(q) for q in np.percentile(kept, [2.5, 97.5]))
        if high - low <= EPSILON:
            why = "interval not reliable: zero width"
        elif small_class is not None and small_class < least:
            why = f"interval not reliable: a class has {small_class} rows"
        else:
            reliable = True
    return Interval(
        low=low,
        high=high,
        method=patterns.method,
        n=patterns.units,
        reliable=reliable,
        why=why,
        resamples=len(found),
        dropped=dropped,
    )
