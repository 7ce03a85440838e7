"""Figures as they are printed: a value or the reason there is none, an interval with its instrument."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any, TypeAlias

import numpy as np
from numpy.typing import NDArray

FloatArray: TypeAlias = NDArray[np.float64]
IntArray: TypeAlias = NDArray[np.int64]
BoolArray: TypeAlias = NDArray[np.bool_]

# Figures closer than this are equal: sums of the same counts in another order differ by rounding only.
EPSILON = 1e-12


@dataclass(frozen=True, kw_only=True)
class Value:
    """A figure, or null with a reason (ME-1): a degenerate value is never printed as 0.

    Attributes:
        value: the figure in the metric's own units.
        why: why there is none; None exactly when ``value`` is set.
    """

    value: float | None
    why: str | None = None

    def __post_init__(self) -> None:
        if (self.value is None) == (self.why is None):
            raise ValueError("a figure has a value or a reason why not, never both and never neither")
        if self.value is not None and not np.isfinite(self.value):
            raise ValueError("a figure is finite")

    @classmethod
    def of(cls, value: float) -> Value:
        """A figure that exists."""
        return cls(value=float(value))

    @classmethod
    def none(cls, why: str) -> Value:
        """A figure that does not, with its reason."""
        return cls(value=None, why=why)

    def to_json(self) -> dict[str, Any]:
        """``{"value"}`` with ``why`` beside a null."""
        return {"value": self.value} if self.why is None else {"value": None, "why": self.why}


@dataclass(frozen=True, kw_only=True)
class Interval:
    """A 95% interval and the instrument that made it (ME-2, ME-3).

    Attributes:
        low, high: ends in the figure's own units; None when the interval is null.
        method: ``wilson``, ``mover_wilson``, ``bootstrap_rows``, ``bootstrap_groups``, ...
        reliable: False when the report must print "interval not reliable".
        n: rows (or groups) it stands on, never passes.
        why: why it is null or not reliable.
        resamples: bootstrap resamples used; None for closed forms.
        dropped: resamples dropped because a class was lacking or the figure did not exist.
        assumes_independent_rows: rows come in groups and this instrument ignores that.
    """

    low: float | None
    high: float | None
    method: str
    n: int
    reliable: bool = True
    why: str | None = None
    resamples: int | None = None
    dropped: int | None = None
    assumes_independent_rows: bool = False

    def excludes(self, point: float) -> bool:
        """True when the point lies strictly outside; a null interval excludes nothing."""
        if self.low is None or self.high is None:
            return False
        return self.low > point + EPSILON or self.high < point - EPSILON

    def to_json(self) -> dict[str, Any]:
        """All attributes that say something."""
        out: dict[str, Any] = {
            "low": self.low,
            "high": self.high,
            "method": self.method,
            "reliable": self.reliable,
            "n": self.n,
            "assumes_independent_rows": self.assumes_independent_rows,
        }
        if self.why is not None:
            out["why"] = self.why
        if self.resamples is not None:
            out["resamples"] = self.resamples
            out["dropped"] = self.dropped
        return out
