"""What a set of labels can show, before any spend: closed forms, and power by simulation."""

from __future__ import annotations

import math
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np

from fitter.errors import SettingsError
from fitter.scoring.bootstrap import generator
from fitter.scoring.frame import SMALL_CLASS
from fitter.scoring.intervals import mover_mean, upper_bound, wilson_ends
from fitter.scoring.paired import ALPHA, exact_p
from fitter.scoring.values import EPSILON, Interval

# What a class needs to be measured at all, for a bootstrap interval to be reliable, for a clean 5% bound.
RELIABLE_CLASS = 10


def smallest_significant_gain(lost: int = 0, *, alpha: float = ALPHA) -> int:
    """Fewest gained rows that are significant when ``lost`` rows are lost (exact McNemar).

    With none lost it is 6: five one-way rows give p = 0.0625, six give 0.03125.
    """
    gained = lost + 1
    while exact_p(gained, lost) >= alpha:
        gained += 1
    return gained


def rows_for_bound(bound: float = 0.05, *, errors: int = 0, confidence: float = 0.95) -> int:
    """Fewest rows whose one-sided exact upper bound is at most ``bound`` with this many errors (59 for 0 and 5%).

    Raises:
        SettingsError: the bound is not within 0 and 1.
    """
    if not 0 < bound < 1:
        raise SettingsError(f"a bound of {bound} is not a rate", hint="use a number between 0 and 1, e.g. 0.05")
    low, high = errors, errors + 1
    while upper_bound(errors, high, confidence=confidence) > bound:
        low, high = high, high * 2
    while high - low > 1:
        middle = (low + high) // 2
        low, high = (low, middle) if upper_bound(errors, middle, confidence=confidence) <= bound else (middle, high)
    return high


def accuracy_width(rows: int, rate: float) -> float:
    """Width of accuracy's Wilson interval at an expected rate, exact counts rounded to the nearest row."""
    low, high = wilson_ends(round(rate * rows), rows)
    return high - low


def balanced_width(class_rows: Mapping[str, int], rate: float) -> float | None:
    """Width of balanced accuracy's MOVER interval when every class has this recall; None with an empty class."""
    found: Interval = mover_mean([(round(rate * n), n) for n in class_rows.values()])
    return None if found.low is None or found.high is None else found.high - found.low


@dataclass(frozen=True, kw_only=True)
class Power:
    """How often a true gain would be seen.

    Attributes:
        gain: true gain in accuracy, candidate minus best.
        churn: true share of rows that the candidate loses although it is better.
        kept: how often the headline moves up and more rows are gained than lost.
        significant: how often it is also significant and at least ``min_delta``.
        standard_error: Monte-Carlo error of ``significant``.
    """

    gain: float
    churn: float
    rows: int
    kept: float
    significant: float
    standard_error: float
    simulations: int

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            "gain": self.gain,
            "churn": self.churn,
            "rows": self.rows,
            "kept": self.kept,
            "significant": self.significant,
            "standard_error": self.standard_error,
            "simulations": self.simulations,
        }


def power(
    *, rows: int, gain: float, churn: float = 0.02, seed: int, min_delta: float = 0.02, simulations: int = 20_000
) -> Power:
    """Power of the paired exact test for a true gain, by simulation.

    Each simulated fit draws, on ``rows`` paired rows, gained rows with probability ``churn + gain`` and lost rows with
    probability ``churn``.

    Raises:
        SettingsError: probabilities that cannot be.
    """
    if rows < 1 or churn < 0 or churn + gain < 0 or 2 * churn + gain > 1:
        raise SettingsError(
            f"a gain of {gain} with churn {churn} on {rows} rows cannot be", hint="gain + 2·churn is at most 1"
        )
    rng = generator(seed, f"power {rows} {gain} {churn}")
    drawn = rng.multinomial(rows, [churn + gain, churn, 1 - gain - 2 * churn], size=simulations)
    pairs, times = np.unique(drawn[:, :2], axis=0, return_counts=True)
    kept = significant = 0
    for (gained, lost), count in zip(pairs.tolist(), times.tolist(), strict=True):
        if gained > lost:
            kept += count
            big = (gained - lost) / rows >= min_delta - EPSILON
            significant += count * (big and exact_p(gained, lost) < ALPHA)
    share = significant / simulations
    return Power(
        gain=gain,
        churn=churn,
        rows=rows,
        kept=kept / simulations,
        significant=share,
        standard_error=math.sqrt(share * (1 - share) / simulations),
        simulations=simulations,
    )


def rows_to_label(class_rows: Mapping[str, int]) -> dict[str, dict[str, int]]:
    """Rows worth labelling next, per class: how many more reach each threshold.

    ``measurable`` is 6 (GT-7), ``reliable_interval`` 10 (ME-3), ``clean_bound`` the rows of a 5% qualification bound
    with no errors (QU-2).
    """
    aims = {"measurable": SMALL_CLASS, "reliable_interval": RELIABLE_CLASS, "clean_bound": rows_for_bound()}
    return {name: {aim: max(0, need - n) for aim, need in aims.items()} for name, n in class_rows.items()}


def planned_calls(*, train: int, holdout: int, runs: int, max_iterations: int) -> dict[str, int]:
    """Judge calls of a fit: least (v0 on train and no more) and most (all iterations, a redraft, every retry).

    The holdout is opened once, for v0 and the winner (SP-6); a fit that ends without an evaluator leaves it sealed, and
    one that keeps no change judges it once, so no call on it is sure.
    """
    once = train * runs
    opened = 2 * holdout * runs
    return {"least": once, "most": 2 * (once * (2 + max_iterations) + opened)}
