"""``fitter score``: every figure of a score card, and of the keep rule, for anybody's predictions."""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from fitter.errors import SettingsError
from fitter.evaluation.reading import LabelFile, PassFile
from fitter.jsonio import digest, strict_loads
from fitter.labels import LabelValue, text
from fitter.loop.decide import Decision, decide
from fitter.scoring.card import card_of
from fitter.scoring.frame import Fixed, fix, present, seed_from
from fitter.scoring.metrics import Metric
from fitter.scoring.paired import min_delta
from fitter.scoring.table import CardInput
from fitter.textsafe import one_line

SCHEMA_VERSION = 1
_FROM_DECISION = (
    "min_delta", "audit", "labels_only", "significance", "decision", "basis", "label", "reasoning", "policy",
)  # fmt: skip


@dataclass(frozen=True, kw_only=True)
class ScoreOptions:
    """What the figures are computed with; the names are those of the flags.

    Attributes:
        metric: see :meth:`fitter.scoring.metrics.Metric.parse`, with ``beta``, ``match``, ``taxonomy``, ``floor``.
        runs: passes a row.
        classes: the class list as texts; None leaves the vocabulary open.
        failures: ``exclude`` or ``wrong``.
        slices: fields of the LABELS rows; a card for each of their values.
        min_delta: the smallest interesting gain; None derives it from OTHER's passes.
        minimum, maximum: bounds of a numeric label, where they are known.
        config_hash: of the fit whose rows these are: its resamples are drawn again. None seeds them by labels, metric
            and runs.
    """

    metric: str
    runs: int
    classes: tuple[str, ...] | None = None
    failures: Literal["exclude", "wrong"] = "exclude"
    beta: float | None = None
    match: str | None = None
    taxonomy: Mapping[str, Sequence[str]] | None = None
    floor: str | None = None
    slices: tuple[str, ...] = ()
    min_delta: float | None = None
    minimum: float | None = None
    maximum: float | None = None
    config_hash: str | None = None
    resamples: int | None = field(default=None, repr=False)


def class_list(labels: LabelFile, written: Sequence[str] | None) -> tuple[LabelValue, ...] | None:
    """The closed class list, or None where the vocabulary is open.

    Raises:
        SettingsError: a list that does not fit the labels.
    """
    if labels.kind == "boolean":
        if written is not None and sorted(written) != ["false", "true"]:
            raise SettingsError("the labels are booleans: their classes are false and true", hint="leave --classes out")
        return (False, True)
    if written is None:
        return None
    if labels.kind == "numeric":
        raise SettingsError("the labels are numbers and have no classes", hint="leave --classes out")
    if not all(written) or len(set(written)) != len(written):
        raise SettingsError("--classes names a class twice, or an empty one", hint="write --classes a,b,c")
    unlisted = sorted({text(v) for v in present(labels.labels)} - set(written))
    if unlisted:
        row = min(r for r, v in labels.labels.items() if text(v) in unlisted or _holds(v, unlisted))
        raise SettingsError(
            f"{labels.path}, row {row}: label {unlisted[0]!r} is not in --classes",
            hint="add it to --classes, or leave the row out",
        )
    return tuple(written)


def _holds(value: LabelValue, names: Sequence[str]) -> bool:
    return isinstance(value, frozenset) and bool(value & set(names))


def frame_of(labels: LabelFile, options: ScoreOptions) -> Fixed:
    """What is fixed over the labelled rows.

    Raises:
        SettingsError: a metric or option that does not fit the labels.
    """
    classes = class_list(labels, options.classes)
    named = classes if classes is not None else tuple(sorted(present(labels.labels), key=text))
    metric = Metric.parse(
        options.metric,
        kind=labels.kind,
        classes=() if labels.kind == "numeric" else named,
        beta=options.beta,
        match=options.match,
        groups=options.taxonomy,
        floor=options.floor,
    )
    return fix(
        kind=labels.kind,
        labels=labels.labels,
        metric=metric,
        runs=options.runs,
        # a fit's own; else the same labels and the same question give the same resamples, whatever the predictions
        seed=seed_from(options.config_hash or digest([labels.sha256, metric.to_json(), options.runs])),
        classes=classes,
        failures=options.failures,
        minimum=options.minimum,
        maximum=options.maximum,
        min_delta=options.min_delta,
        **({} if options.resamples is None else {"resamples": options.resamples}),
    )


def card_input(labels: LabelFile, passes: PassFile) -> CardInput:
    """Files as scoring reads them; a :class:`PassRecord` has every member of a pass that scoring looks at."""
    return CardInput(labels=labels.labels, passes=passes.passes, groups=labels.groups)  # type: ignore[arg-type]


def score(
    fixed: Fixed,
    labels: LabelFile,
    passes: PassFile,
    *,
    against: PassFile | None = None,
    slices: Sequence[str] = (),
    config_hash: str | None = None,
) -> dict[str, Any]:
    """The whole answer of ``fitter score --json``.

    Args:
        fixed: see :func:`frame_of`.
        labels: human labels.
        passes: the judge's passes.
        against: another judge's passes on the same rows; ``passes`` is then the candidate and ``against`` is best.
        slices: slice fields that were read.
        config_hash: as in the options that ``fixed`` was made of; named in the answer.
    """
    given = card_input(labels, passes)
    card = card_of(fixed, given)
    result: dict[str, Any] = {
        "schema_version": SCHEMA_VERSION,
        "inputs": {
            "labels": {
                "file": labels.path,
                "sha256": labels.sha256,
                "rows": len(labels.labels),
                "kind": labels.kind,
                "classes": [text(c) for c in fixed.classes],
                "collapsed_duplicates": labels.collapsed,
                "trimmed": labels.trimmed,
            },
            "passes": _described(passes),
            "against": None if against is None else _described(against),
            "config_hash": config_hash,
        },
        **card.to_json(),
        "slices": [
            {"field": name, "value": value, "card": card_of(fixed, given.subset(rows)).to_json()}
            for name in slices
            for value, rows in _values(labels.slices[name])
        ],
        "against": None,
        "paired": None,
    }
    if against is not None:
        best = card_input(labels, against)
        at_best = card_of(fixed, best)
        least = min_delta(fixed, at_best.deployable, at_best.rows.scored)
        made = decide(fixed, best=best, candidate=given, v0=best, min_delta=least, allow_outage=True)
        result["against"] = at_best.to_json()
        result["paired"] = paired_json(made)
    return result


def paired_json(made: Decision) -> dict[str, Any]:
    """A decision in the shape that is published: the pair's figures, the audit, and what the keep rule says."""
    record = made.record
    return {
        **record["paired"],
        **{
            key: record[key]
            for key in _FROM_DECISION
        },
    }  # fmt: skip


def fit_of(labels: Path) -> str | None:
    """Config hash of the fit whose folder holds this LABELS file (``runs/RUN/labels/``); None for any other file."""
    labels = labels.absolute()
    config = labels.parent.parent / "config.json"
    if labels.parent.name != "labels" or not config.is_file():
        return None
    try:
        found = strict_loads(config.read_text(encoding="utf-8"))
        return check_config_hash(found["config_hash"]) if found["run"] == labels.parent.parent.name else None
    except (OSError, ValueError, TypeError, KeyError, SettingsError):
        return None  # somebody else's config.json beside somebody else's labels/


def check_config_hash(written: str) -> str:
    """The hash as a report prints it.

    Raises:
        SettingsError: it is none.
    """
    if not re.fullmatch("[0-9a-f]{64}", written):
        raise SettingsError(
            f"--config-hash {one_line(repr(written), 80)} is no config hash",
            hint="64 hex digits, as they stand at the end of a fit's report",
        )
    return written


def schema() -> dict[str, Any]:
    """The JSON Schema of what :func:`score` returns."""
    found: dict[str, Any] = strict_loads(
        resources.files("fitter.evaluation").joinpath("score.schema.json").read_text(encoding="utf-8")
    )
    return found


def _described(passes: PassFile) -> dict[str, Any]:
    return {
        "file": passes.path,
        "sha256": passes.sha256,
        "passes": len(passes.passes),
        "unusable": dict(passes.unusable),
        "collapsed_duplicates": passes.collapsed,
    }


def _values(by_row: Mapping[str, str]) -> list[tuple[str, set[str]]]:
    """(value, its rows), by value."""
    rows: dict[str, set[str]] = {}
    for row, value in by_row.items():
        rows.setdefault(value, set()).add(row)
    return [(value, rows[value]) for value in sorted(rows)]
