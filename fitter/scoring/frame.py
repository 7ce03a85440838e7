"""What is fixed once at intake over the usable rows (the law's *fixed* things), and the checks of labels against it."""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any, Literal, TypeAlias, get_args

from fitter.errors import BadInput, SettingsError
from fitter.labels import LabelKind, LabelValue, from_json, text, to_json
from fitter.scoring.metrics import Metric
from fitter.scoring.votes import quorum

Failures: TypeAlias = Literal["exclude", "wrong"]

RESAMPLES = 10_000
SMALL_CLASS = 6  # below it a class is not separately measurable (GT-7)


@dataclass(frozen=True, kw_only=True)
class Fixed:
    """Everything that is fixed once at intake over the usable rows and used by every card and decision.

    Attributes:
        kind: the label's kind.
        classes: the class list; single values for multi-select; empty for numeric.
        class_rows: rows per class at intake, aligned with ``classes``.
        metric: the agreed metric.
        runs: passes a row.
        seed: bootstrap seed, from the config's hash (:func:`seed_from`).
        failures: ``exclude`` (OUT-4) or ``wrong``: rows without a standing vote count as wrong.
        low, high: numeric label range: the schema's bounds, else the usable labels' range.
        min_delta: the user's own smallest interesting gain; None derives it from v0 (KE-2).
        open_vocabulary: no class list was given, so an answer outside ``classes`` is wrong, not unusable.
        resamples: bootstrap resamples.
    """

    kind: LabelKind
    classes: tuple[LabelValue, ...]
    class_rows: tuple[int, ...]
    metric: Metric
    runs: int
    seed: int
    failures: Failures = "exclude"
    low: float | None = None
    high: float | None = None
    min_delta: float | None = None
    open_vocabulary: bool = False
    resamples: int = RESAMPLES

    def __post_init__(self) -> None:
        quorum(self.runs)
        if self.failures not in get_args(Failures):
            raise SettingsError(f"failures is {self.failures!r}", hint="exclude or wrong")
        if self.min_delta is not None and not (math.isfinite(self.min_delta) and self.min_delta >= 0):
            raise SettingsError(f"min_delta is {self.min_delta}", hint="a number, 0 or more")
        reason = self.metric.refuses(self.kind, len(self.classes))
        if reason is not None:
            raise SettingsError(f"metric {self.metric.text} does not fit: {reason}")

    @property
    def by_size(self) -> tuple[LabelValue, ...]:
        """Classes that have rows, fewest rows first; equal ones in canonical text order."""
        held = [(rows, text(c), c) for c, rows in zip(self.classes, self.class_rows, strict=True) if rows]
        return tuple(c for _, _, c in sorted(held, key=lambda item: item[:2]))

    @property
    def minority(self) -> LabelValue | None:
        """The class with fewest rows; on a tie the first by canonical text (see :attr:`minority_ties`)."""
        return self.by_size[0] if self.by_size else None

    @property
    def minority_ties(self) -> tuple[LabelValue, ...]:
        """All classes that share the minority's row count; named whenever there is more than one."""
        if not self.by_size:
            return ()
        rows = dict(zip(self.classes, self.class_rows, strict=True))
        return tuple(c for c in self.by_size if rows[c] == rows[self.by_size[0]])

    @property
    def largest(self) -> LabelValue | None:
        """The class with most rows; on a tie the last by canonical text, so that it is never the minority too."""
        return self.by_size[-1] if self.by_size else None

    @property
    def scale(self) -> float | None:
        """Numeric scale (NU-1): ``high - low``; None for the other kinds."""
        return None if self.low is None or self.high is None else self.high - self.low

    def to_json(self) -> dict[str, Any]:
        """Plain JSON; :meth:`from_json` reads it back."""
        return {
            "kind": self.kind,
            "classes": [to_json(c) for c in self.classes],
            "class_rows": list(self.class_rows),
            "minority": None if self.minority is None else to_json(self.minority),
            "minority_ties": [to_json(c) for c in self.minority_ties],
            "metric": self.metric.to_json(),
            "runs": self.runs,
            "seed": self.seed,
            "failures": self.failures,
            "low": self.low,
            "high": self.high,
            "min_delta": self.min_delta,
            "open_vocabulary": self.open_vocabulary,
            "resamples": self.resamples,
        }

    @classmethod
    def from_json(cls, data: Mapping[str, Any]) -> Fixed:
        """Reads :meth:`to_json`'s form back."""
        kind: LabelKind = data["kind"]
        one: LabelKind = "categorical" if kind == "multiselect" else kind
        return cls(
            kind=kind,
            classes=tuple(from_json(c, one) for c in data["classes"]),
            class_rows=tuple(data["class_rows"]),
            metric=Metric.from_json(data["metric"], kind),
            runs=data["runs"],
            seed=data["seed"],
            failures=data["failures"],
            low=data["low"],
            high=data["high"],
            min_delta=data["min_delta"],
            open_vocabulary=data["open_vocabulary"],
            resamples=data["resamples"],
        )


def seed_from(config_hash: str) -> int:
    """Bootstrap seed from a hex hash: its first 16 digits."""
    return int(config_hash[:16], 16)


def class_rows(labels: Mapping[str, LabelValue], classes: Sequence[LabelValue]) -> tuple[int, ...]:
    """Rows per class; a multi-select row counts for every value it holds."""
    seen: Counter[LabelValue] = Counter()
    for value, times in Counter(labels.values()).items():
        for one in value if isinstance(value, frozenset) else (value,):
            seen[one] += times
    return tuple(seen[c] for c in classes)


def fix(
    *,
    kind: LabelKind,
    labels: Mapping[str, LabelValue],
    metric: Metric,
    runs: int,
    seed: int,
    classes: Sequence[LabelValue] | None = None,
    failures: Failures = "exclude",
    minimum: float | None = None,
    maximum: float | None = None,
    min_delta: float | None = None,
    resamples: int = RESAMPLES,
) -> Fixed:
    """Fixes the frame over the usable rows.

    Args:
        kind: the label's kind.
        labels: the usable rows' labels.
        metric: the agreed metric.
        runs: passes a row.
        seed: see :func:`seed_from`.
        classes: the class list; None takes the classes present in the labels and leaves the vocabulary open.
        failures: see :class:`Fixed`.
        minimum, maximum: numeric schema bounds; used as the scale when both are known.
        min_delta: see :class:`Fixed`.
        resamples: see :class:`Fixed`.

    Raises:
        BadInput: no labels, or a label that is not of this kind or not listed.
        SettingsError: a setting that does not fit.
    """
    if not labels:
        raise BadInput("there are no labelled rows", hint="label some rows first")
    check_labels(labels, kind)
    low = high = None
    listed: tuple[LabelValue, ...] = ()
    if kind == "numeric":
        numbers = [float(v) for v in labels.values()]  # type: ignore[arg-type]
        low, high = (minimum, maximum) if minimum is not None and maximum is not None else (min(numbers), max(numbers))
    elif classes is not None:
        listed = tuple(classes)
    else:
        listed = tuple(sorted(present(labels), key=text))
    frame = Fixed(
        kind=kind,
        classes=listed,
        class_rows=class_rows(labels, listed),
        metric=metric,
        runs=runs,
        seed=seed,
        failures=failures,
        low=low,
        high=high,
        min_delta=min_delta,
        open_vocabulary=classes is None and kind != "numeric",
        resamples=resamples,
    )
    check_listed(labels, frame)
    return frame


def present(labels: Mapping[str, LabelValue]) -> set[LabelValue]:
    """The single values that occur in the labels."""
    out: set[LabelValue] = set()
    for value in labels.values():
        out.update(value) if isinstance(value, frozenset) else out.add(value)
    return out


def check_labels(labels: Mapping[str, LabelValue], kind: LabelKind) -> None:
    """Refuses labels of mixed types or of another kind.

    Raises:
        BadInput: with the first such row.
    """
    odd = [row for row, value in labels.items() if not is_kind(value, kind)]
    if odd:
        row = min(odd)
        raise BadInput(f"{labels[row]!r} is not a {kind} label", row=row, hint="all labels of one file are of one type")


def is_kind(value: object, kind: LabelKind) -> bool:
    """True when a value is of this kind by type (never coerces)."""
    if kind == "boolean":
        return isinstance(value, bool)
    if kind == "categorical":
        return isinstance(value, str)
    if kind == "multiselect":
        return isinstance(value, frozenset) and bool(value)
    return isinstance(value, int | float) and not isinstance(value, bool) and math.isfinite(value)


def check_listed(labels: Mapping[str, LabelValue], fixed: Fixed) -> None:
    """Refuses a label outside the class list.

    Raises:
        BadInput: with the first such row.
    """
    if fixed.kind == "numeric":
        return
    listed = set(fixed.classes)
    unlisted = {v for v in set(labels.values()) if not (v <= listed if isinstance(v, frozenset) else v in listed)}
    if unlisted:
        row = min(r for r, v in labels.items() if v in unlisted)
        names = ", ".join(text(c) for c in fixed.classes)
        raise BadInput(f"label {text(labels[row])!r} is not in the class list", row=row, hint=f"listed are: {names}")
