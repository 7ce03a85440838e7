"""What intake found: rows, exclusions, gate, findings, warnings; and its recap for people and for git. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Mapping
from dataclasses import dataclass, field
from typing import Any, Literal

from fitter.labels import LabelSchema, ordered, same, text
from fitter.queues.source import RawQueue
from fitter.queues.values import ValueReader, is_empty, tidy
from fitter.records import Row
from fitter.textsafe import one_line

SMALL_CLASS = 8  # below this the interval swallows most improvements (GT-7)
UNMEASURABLE_CLASS = 6  # below this a class is named as not separately measurable (GT-7)
GATE_NUMERIC_ROWS = 10
GATE_NUMERIC_VALUES = 3


@dataclass(frozen=True, kw_only=True)
class Review:
    """One reviewer's readable label, contested rows included: what inter-reviewer agreement is computed from."""

    row: str
    annotator: str | None
    label: str
    role: Literal["review", "adjudication"] = "review"


@dataclass(frozen=True, kw_only=True)
class Gate:
    """GT-7, decided before any model call. ``reason`` is empty when it passed."""

    passed: bool
    reason: str = ""


@dataclass(frozen=True, kw_only=True)
class Agreement:
    """A second voice beside the human label: the app's verdict, or the dataset's expected output.

    Attributes:
        rows: usable rows on which it can be compared.
        differs: ids of those where it differs from the human label, sorted.
        not_comparable: usable rows where it is given but is no value of this label.
    """

    rows: int
    differs: tuple[str, ...]
    not_comparable: int = 0


@dataclass(frozen=True, kw_only=True)
class Intake:
    """A queue after intake.

    Attributes:
        identity: the queue's name; with the label's id it names the seal.
        label: the label's schema with the class list fixed.
        rows: usable rows, sorted by id.
        excluded: reason → row ids, sorted; every reason is present.
        read: distinct rows read; ``read == len(rows) + all excluded`` (GT-9).
        counts: things counted on the way (``stripped``, ``collapsed_duplicates``, ``duplicate_content``, ...).
        class_counts: canonical text of a class → usable rows that carry it (multi-select: that hold the value).
        minority: canonical text of the class with fewest rows (at least one); None for numeric, or without rows.
        minority_tied: other classes with as few rows.
        scale: numeric range (schema bounds, else the usable labels'); None unless numeric.
        gate: GT-7.
        warnings: plain sentences for recap and report.
        small_classes: classes under 6 rows, not separately measurable.
        expected_output: disagreement of the dataset's reference answer with the human (GT-6), a finding.
        app: the app's own verdict against the human.
        medians: rows whose numeric label is a median of close labels.
        adjudicated: ids of rows settled by an adjudicator.
        reviews: every readable annotation; private (names people).
        positional: row ids are only row numbers.
    """

    identity: str
    label: LabelSchema
    rows: tuple[Row, ...]
    excluded: Mapping[str, tuple[str, ...]]
    read: int
    counts: Mapping[str, int]
    class_counts: Mapping[str, int]
    minority: str | None
    minority_tied: tuple[str, ...]
    scale: tuple[float, float] | None
    gate: Gate
    warnings: tuple[str, ...]
    small_classes: tuple[str, ...]
    expected_output: Agreement
    app: Agreement
    medians: tuple[str, ...]
    adjudicated: tuple[str, ...]
    positional: bool
    numeric_tolerance: float = 0.0
    reviews: tuple[Review, ...] = field(default=(), repr=False)

    def to_json(self, *, train_ids: Collection[str] | None = None) -> dict[str, Any]:
        """The recap as JSON without any recorded text: ids, labels, counts and reason codes.

        Args:
            train_ids: ids of the train rows once the split is drawn. Findings name only these: which held-out row
                disagrees with what must not be known before the holdout is opened (SP-7). None names no usable row.
        """
        named = set(train_ids or ())

        def finding(found: Agreement) -> dict[str, Any]:
            return {
                "rows": found.rows,
                "differs": len(found.differs),
                "differs_train_ids": [i for i in found.differs if i in named],
                "not_comparable": found.not_comparable,
            }

        return {
            "schema_version": 1,
            "queue": self.identity,
            "label": self.label.model_dump(
                mode="json", include={"id", "name", "kind", "classes", "minimum", "maximum", "is_integer"}
            ),
            "read": self.read,
            "usable": len(self.rows),
            "excluded": {reason: {"rows": len(ids), "ids": list(ids)} for reason, ids in self.excluded.items()},
            "counts": dict(sorted(self.counts.items())),
            "class_counts": dict(self.class_counts),
            "minority": self.minority,
            "minority_tied": list(self.minority_tied),
            "scale": None if self.scale is None else list(self.scale),
            "numeric_tolerance": self.numeric_tolerance,
            "gate": {"passed": self.gate.passed, "reason": self.gate.reason},
            "warnings": list(self.warnings),
            "small_classes": list(self.small_classes),
            "expected_output": finding(self.expected_output),
            "app_verdict": finding(self.app),
            "medians": {"rows": len(self.medians), "train_ids": [i for i in self.medians if i in named]},
            "adjudicated": {"rows": len(self.adjudicated), "train_ids": [i for i in self.adjudicated if i in named]},
            "positional_ids": self.positional,
        }


def finish(
    *,
    raw: RawQueue,
    label: LabelSchema,
    rows: tuple[Row, ...],
    excluded: Mapping[str, tuple[str, ...]],
    read: int,
    counts: Mapping[str, int],
    reviews: tuple[Review, ...],
    medians: tuple[str, ...],
    positional: bool,
    tolerance: float,
    unused_map: tuple[str, ...],
    all_numerals: bool,
    reader: ValueReader,
) -> Intake:
    """Derives gate, minority class, scale, findings and warnings from the usable rows."""
    per_class = _class_counts(label, rows)
    held = {name: n for name, n in per_class.items() if n}
    fewest = sorted(name for name, n in held.items() if n == min(held.values()))
    small = tuple(name for name, n in held.items() if n < UNMEASURABLE_CLASS)
    return Intake(
        identity=raw.identity,
        label=label,
        rows=rows,
        excluded=excluded,
        read=read,
        counts={name: n for name, n in counts.items() if n},
        class_counts=per_class,
        minority=fewest[0] if fewest else None,
        minority_tied=tuple(fewest[1:]),
        scale=_scale(label, rows),
        gate=gate(label, rows),
        warnings=tuple(_warnings(label, held, small, unused_map, all_numerals)),
        small_classes=small,
        expected_output=_expected(rows, reader, label),
        app=_app(rows, counts),
        medians=medians,
        adjudicated=tuple(row.id for row in rows if row.adjudicated),
        positional=positional,
        numeric_tolerance=tolerance,
        reviews=reviews,
    )


def _class_counts(label: LabelSchema, rows: tuple[Row, ...]) -> dict[str, int]:
    if label.kind == "numeric":
        return {}
    found: Counter[str] = Counter()
    for row in rows:
        found.update(sorted(row.label) if isinstance(row.label, frozenset) else [text(row.label)])
    return {text(name): found[text(name)] for name in label.classes}


def _scale(label: LabelSchema, rows: tuple[Row, ...]) -> tuple[float, float] | None:
    """Schema bounds where it gives both, else the range of the usable labels (NU-1)."""
    if label.kind != "numeric" or not rows:
        return None
    if label.minimum is not None and label.maximum is not None:
        return (label.minimum, label.maximum)
    values = [float(row.label) for row in rows if isinstance(row.label, int | float)]
    return (min(values), max(values))


def gate(label: LabelSchema, rows: tuple[Row, ...]) -> Gate:
    """GT-7: can anything be measured on these rows at all?"""
    distinct = ordered({text(row.label): row.label for row in rows}.values())
    if label.kind == "numeric":
        if len(rows) >= GATE_NUMERIC_ROWS and len(distinct) >= GATE_NUMERIC_VALUES:
            return Gate(passed=True)
        return Gate(
            passed=False,
            reason=f"a numeric label needs {GATE_NUMERIC_ROWS} usable rows with {GATE_NUMERIC_VALUES} distinct values; "
            f"there are {len(rows)} with {len(distinct)}",
        )
    if len(distinct) >= 2:
        return Gate(passed=True)
    if distinct:
        have = f"all {len(rows)} usable rows say {one_line(text(distinct[0]), 60)!r}"
    else:
        have = "there is no usable row"
    need = "two different sets" if label.kind == "multiselect" else "a usable row in each of two classes"
    return Gate(passed=False, reason=f"a {label.kind} label needs {need}; {have}")


def _warnings(
    label: LabelSchema,
    held: Mapping[str, int],
    small: tuple[str, ...],
    unused_map: tuple[str, ...],
    all_numerals: bool,
) -> list[str]:
    out = []
    if held and min(held.values()) < SMALL_CLASS:
        name = min(held, key=lambda key: (held[key], key))
        out.append(
            f"The smallest class ({one_line(name, 60)}) has {held[name]} rows: with fewer than {SMALL_CLASS} the "
            "interval is wide enough to swallow most improvements."
        )
    if small:
        out.append(
            f"Not separately measurable (under {UNMEASURABLE_CLASS} rows): "
            + ", ".join(f"{one_line(name, 60)} ({held[name]})" for name in small)
            + ". The headline is printed with and without them."
        )
    if unused_map:
        out.append(
            "The label map names words that no label holds: " + ", ".join(one_line(w, 60) for w in unused_map) + "."
        )
    if all_numerals:
        out.append(
            f"Every value of {one_line(label.name, 60)} is a numeral written as text and is read as a class name; "
            "if it is a score, say --label-kind numeric."
        )
    return out


def _expected(rows: tuple[Row, ...], reader: ValueReader, label: LabelSchema) -> Agreement:
    compared, differs, other = 0, [], 0
    for row in rows:
        value = tidy(row.expected_output, Counter())
        if is_empty(value):
            continue
        found = reader.read(value)
        if found is None or not label.admits(found):  # a reference text, not a value of this label
            other += 1
            continue
        compared += 1
        if not same(found, row.label):
            differs.append(row.id)
    return Agreement(rows=compared, differs=tuple(differs), not_comparable=other)


def _app(rows: tuple[Row, ...], counts: Mapping[str, int]) -> Agreement:
    given = [row for row in rows if row.app_verdict is not None]
    return Agreement(
        rows=len(given),
        differs=tuple(row.id for row in given if row.app_verdict is not None and not same(row.app_verdict, row.label)),
        not_comparable=counts.get("app_verdict_off_schema", 0),
    )
