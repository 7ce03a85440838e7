"""Short ways to write labels, passes and frames in tests of scoring."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

from fitter.labels import LabelKind, LabelValue
from fitter.records import Pass
from fitter.scoring.frame import Fixed, fix
from fitter.scoring.metrics import Metric
from fitter.scoring.table import CardInput


def row_id(k: int) -> str:
    return f"r{k:05d}"


def labels_of(values: Sequence[LabelValue]) -> dict[str, LabelValue]:
    return {row_id(k): v for k, v in enumerate(values)}


def passes_of(answers: Sequence[Sequence[LabelValue | None]], *, reason: str = "not_json", **more: Any) -> list[Pass]:
    """One inner sequence a row, one entry a run; None is unusable for ``reason``."""
    return [
        Pass(row=row_id(k), run=r, label=v, unusable=None if v is not None else reason, **more)  # type: ignore[arg-type]
        for k, row in enumerate(answers)
        for r, v in enumerate(row)
    ]


def judged(
    labels: Sequence[LabelValue],
    answers: Sequence[Sequence[LabelValue | None]] | Sequence[LabelValue | None],
    *,
    groups: Mapping[str, str] | None = None,
    **more: Any,
) -> CardInput:
    """Answers may be flat (one run) or nested (one inner sequence a row)."""
    nested = [list(a) if isinstance(a, list | tuple) else [a] for a in answers]
    return CardInput(labels=labels_of(labels), passes=passes_of(nested, **more), groups=groups)


def frame(
    labels: Sequence[LabelValue],
    metric: str = "accuracy",
    *,
    kind: LabelKind = "categorical",
    runs: int = 1,
    classes: Sequence[LabelValue] | None = None,
    options: Mapping[str, Any] | None = None,
    **more: Any,
) -> Fixed:
    """A frame over these labels; the class list is what occurs unless given."""
    if classes is None and kind != "numeric":
        seen: set[LabelValue] = set()
        for v in labels:
            seen |= set(v) if isinstance(v, frozenset) else {v}
        classes = sorted(seen, key=str)
    return fix(
        kind=kind,
        labels=labels_of(labels),
        metric=Metric.parse(metric, kind=kind, classes=classes or (), **(options or {})),
        runs=runs,
        seed=more.pop("seed", 11),
        classes=classes if kind != "numeric" else None,
        **more,
    )
