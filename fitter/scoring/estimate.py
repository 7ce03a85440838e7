"""The pass rate of unlabelled traffic, corrected for the judge's own errors (Rogan and Gladen 1978).

A judge that says "pass" on a share q of the traffic, with sensitivity se on rows that humans pass and specificity sp on
rows that humans fail, points to a true pass rate of ``(q + sp - 1) / (se + sp - 1)``. The interval is Lang and
Reiczigel's (2014), which carries the sampling error of all three rates. It does not say that se and sp measured on
the labelled rows hold on the traffic: if the labelled rows were picked otherwise, the estimate is off by that much.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from typing import Any

from scipy import special

from fitter.errors import BadInput
from fitter.scoring.intervals import mover_mean
from fitter.scoring.values import Interval, Value


@dataclass(frozen=True, kw_only=True)
class Proportion:
    """Hits among rows."""

    hits: int
    rows: int

    def __post_init__(self) -> None:
        if self.rows < 0 or not 0 <= self.hits <= self.rows:
            raise BadInput(f"{self.hits} of {self.rows} is not a proportion", hint="count hits among the rows")

    @property
    def rate(self) -> float | None:
        """The share; None without rows."""
        return self.hits / self.rows if self.rows else None

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {"hits": self.hits, "rows": self.rows, "rate": self.rate}


@dataclass(frozen=True, kw_only=True)
class PassRate:
    """A bias-corrected pass rate.

    Attributes:
        sensitivity: judge passes among the rows that humans pass.
        specificity: judge fails among the rows that humans fail.
        apparent: judge passes among the unlabelled rows.
        value: corrected rate within 0..1; null when it is not identifiable.
        unclipped: the estimator before it is cut to 0..1.
        interval: 95%, both sampling errors carried.
        informedness: ``se + sp - 1``, with its interval: when that includes 0 the rate is not identifiable.
    """

    sensitivity: Proportion
    specificity: Proportion
    apparent: Proportion
    value: Value
    unclipped: float | None
    interval: Interval
    informedness: Value
    informedness_interval: Interval

    def to_json(self) -> dict[str, Any]:
        """Plain JSON."""
        return {
            "sensitivity": self.sensitivity.to_json(),
            "specificity": self.specificity.to_json(),
            "apparent": self.apparent.to_json(),
            "pass_rate": self.value.to_json(),
            "unclipped": self.unclipped,
            "ci95": self.interval.to_json(),
            "informedness": {**self.informedness.to_json(), "ci95": self.informedness_interval.to_json()},
        }


def pass_rate(*, sensitivity: Proportion, specificity: Proportion, apparent: Proportion) -> PassRate:
    """Corrects an apparent pass rate.

    Args:
        sensitivity: on human-labelled rows.
        specificity: on human-labelled rows.
        apparent: on unlabelled rows; unusable verdicts are no part of it and are to be counted beside it.

    Returns:
        The estimate; null, with the reason, when a rate has no rows or the judge is not clearly better than chance
        (the 95% interval of ``se + sp - 1`` includes 0).
    """
    se, sp, q = sensitivity.rate, specificity.rate, apparent.rate
    n = apparent.rows
    if se is None or sp is None or q is None:
        return _unknown(sensitivity, specificity, apparent, "rows are missing: one of the three rates has none")
    # se + sp - 1 is twice the mean of the two rates minus 1, so MOVER's interval carries over
    half = mover_mean([(sensitivity.hits, sensitivity.rows), (specificity.hits, specificity.rows)])
    low, high = (2 * (half.low or 0.0) - 1, 2 * (half.high or 0.0) - 1)
    around = Interval(low=low, high=high, method="mover_wilson", n=half.n)
    if not low > 0:
        return _unknown(
            sensitivity,
            specificity,
            apparent,
            "not identifiable: the judge's sensitivity + specificity - 1 is not clearly above 0",
            informedness=Value.of(se + sp - 1),
            around=around,
        )
    raw = (q + sp - 1) / (se + sp - 1)
    return PassRate(
        sensitivity=sensitivity,
        specificity=specificity,
        apparent=apparent,
        value=Value.of(min(1.0, max(0.0, raw))),
        unclipped=raw,
        interval=_lang_reiczigel(sensitivity, specificity, apparent, n),
        informedness=Value.of(se + sp - 1),
        informedness_interval=around,
    )


def _lang_reiczigel(sensitivity: Proportion, specificity: Proportion, apparent: Proportion, n: int) -> Interval:
    """The adjusted interval: Agresti-Coull-like counts, a shifted centre, and the three variances added."""
    z = float(special.ndtri(0.975))
    se = (sensitivity.hits + 1) / (sensitivity.rows + 2)
    sp = (specificity.hits + 1) / (specificity.rows + 2)
    size = n + z * z
    q = (apparent.hits + z * z / 2) / size
    gap = se + sp - 1
    if gap <= 0:
        return Interval(low=0.0, high=1.0, method="lang_reiczigel", n=n, reliable=False, why="no information")
    p = (q + sp - 1) / gap
    noise_se = se * (1 - se) / (sensitivity.rows + 2)
    noise_sp = sp * (1 - sp) / (specificity.rows + 2)
    shift = 2 * z * z * (p * noise_se - (1 - p) * noise_sp)
    spread = z / gap * math.sqrt(q * (1 - q) / size + p * p * noise_se + (1 - p) ** 2 * noise_sp)
    low, high = (min(1.0, max(0.0, x)) for x in (p + shift - spread, p + shift + spread))
    return Interval(low=low, high=high, method="lang_reiczigel", n=n)


def _unknown(
    sensitivity: Proportion,
    specificity: Proportion,
    apparent: Proportion,
    why: str,
    *,
    informedness: Value | None = None,
    around: Interval | None = None,
) -> PassRate:
    null = Interval(low=None, high=None, method="lang_reiczigel", n=apparent.rows, reliable=False, why=why)
    return PassRate(
        sensitivity=sensitivity,
        specificity=specificity,
        apparent=apparent,
        value=Value.none(why),
        unclipped=None,
        interval=null,
        informedness=informedness or Value.none(why),
        informedness_interval=around or null,
    )
