"""Intake: which rows have one human label, and why the others have not (GT). Pure.

A row is excluded under the first reason that holds, in this order: declined, pending, empty_label, unresolvable,
off_schema, contested.
"""

from __future__ import annotations

import contextlib
import statistics
from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import asdict, dataclass, field, replace
from typing import Any, Literal, TypeAlias, get_args

from fitter.errors import BadInput, RunError, SettingsError, UserError
from fitter.grouping import visible_content
from fitter.jsonio import JSONFault, canonical, digest, strict_loads
from fitter.labels import LabelKind, LabelSchema, LabelValue, same, text
from fitter.queues.recap import Intake, Review, finish
from fitter.queues.source import RawAnnotation, RawInteraction, RawQueue, TextSchema, UnlistedSchema
from fitter.queues.values import ValueReader, is_empty, tidy
from fitter.records import Row
from fitter.textsafe import is_blank, one_line

ExclusionReason: TypeAlias = Literal["declined", "pending", "empty_label", "unresolvable", "off_schema", "contested"]
REASONS: tuple[ExclusionReason, ...] = get_args(ExclusionReason)


@dataclass(frozen=True, kw_only=True)
class IntakeOptions:
    """What the user says about the label.

    Attributes:
        label_kind: kind of a label whose source lists none (flat files); None infers it from the values.
        label_map: value as recorded → value meant: words for booleans, and spellings to merge.
        numeric_tolerance: largest difference between reviewers that is still one numeric label (then the median).
    """

    label_kind: LabelKind | None = None
    label_map: Mapping[str, bool | str | float] = field(default_factory=dict)
    numeric_tolerance: float = 0.0


def find_label(raw: RawQueue, label: str) -> LabelSchema | UnlistedSchema:
    """The label addressed by schema id, or by its name while that is unambiguous (GT-5).

    Raises:
        UserError: no such label, an ambiguous name, or a text label (GT-8); lists the labels there are.
    """
    there = "; ".join(f"{s.id} ({one_line(s.name, 40)}, {_kind(s)})" for s in raw.schemas) or "none"
    found = [s for s in raw.schemas if s.id == label] or [s for s in raw.schemas if s.name == label]
    if not found:
        raise UserError(f"the queue has no label {one_line(label, 60)!r}; its labels are: {there}")
    if len(found) > 1:
        raise UserError(f"{one_line(label, 60)!r} is the name of {len(found)} labels; the labels are: {there}",
                        hint="address it by its id")  # fmt: skip
    schema = found[0]
    if isinstance(schema, TextSchema):
        raise UserError(f"label {one_line(label, 60)!r} is free text, which has no right answer to measure against",
                        hint=f"choose a boolean, categorical or numeric label; the labels are: {there}")  # fmt: skip
    return schema


def _kind(schema: LabelSchema | UnlistedSchema | TextSchema) -> str:
    if isinstance(schema, TextSchema):
        return "text"
    return schema.kind if isinstance(schema, LabelSchema) else "kind seen from its values"


def intake(raw: RawQueue, *, label: str, options: IntakeOptions | None = None) -> Intake:
    """Applies GT-2 to GT-9 to a queue.

    Args:
        raw: the queue as read.
        label: schema id, or unambiguous name.
        options: see :class:`IntakeOptions`.

    Raises:
        UserError: no such label, or values that need a map (GT-8).
        BadInput: one id with different content.
        RunError: rows that do not add up (GT-9): a fault of this program.
    """
    options = options or IntakeOptions()
    if not options.numeric_tolerance >= 0:
        raise SettingsError("the numeric tolerance is a number of at least 0")
    schema = find_label(raw, label)
    counts: Counter[str] = Counter(raw.counts)
    items = _distinct(raw.interactions, counts)
    as_lists = options.label_kind == "multiselect" and isinstance(schema, UnlistedSchema)
    said = {item.id: _tidied(item.annotations.get(schema.id, ()), counts, as_lists) for item in items}
    values = [a.value for annotations in said.values() for a in annotations if not is_empty(a.value)]
    reader = ValueReader(schema, values, label_map=options.label_map, kind=options.label_kind)

    rows: list[Row] = []
    excluded: dict[str, list[str]] = {reason: [] for reason in REASONS}
    reviews: list[Review] = []
    medians: list[str] = []
    for item in items:
        verdict = _judge(item, said[item.id], reader, options.numeric_tolerance, counts)
        reviews.extend(verdict.reviews)
        if verdict.excluded is not None or verdict.row is None:
            excluded[verdict.excluded or "unresolvable"].append(item.id)
            continue
        rows.append(verdict.row)
        if verdict.median:
            medians.append(item.id)

    contents = Counter(digest(visible_content(item.content)) for item in items if item.content is not None)
    counts["duplicate_content"] = sum(n - 1 for n in contents.values())
    if options.label_map and reader.unused:
        counts["label_map_unused"] = len(reader.unused)
    if len(items) != len(rows) + sum(len(ids) for ids in excluded.values()):
        raise RunError(f"intake does not add up: {len(items)} rows read, {len(rows)} usable")
    fixed = reader.schema(row.label for row in rows)
    return finish(
        raw=raw,
        label=fixed,
        rows=tuple(_with_app(row, fixed, counts) for row in sorted(rows, key=lambda row: row.id)),
        excluded={reason: tuple(sorted(ids)) for reason, ids in excluded.items()},
        read=len(items),
        counts=counts,
        reviews=tuple(sorted(reviews, key=lambda r: (r.row, r.annotator or "", r.label))),
        medians=tuple(sorted(medians)),
        positional=any(item.positional for item in items),
        tolerance=options.numeric_tolerance,
        unused_map=reader.unused,
        all_numerals=reader.all_numerals,
        reader=reader,
    )


def _distinct(items: Sequence[RawInteraction], counts: Counter[str]) -> list[RawInteraction]:
    """Identical duplicates collapse and are counted; one id with different content is an error (GT-8)."""
    kept: dict[str, RawInteraction] = {}
    for item in items:
        if item.id not in kept:
            kept[item.id] = item
        elif _identity(kept[item.id]) == _identity(item):
            counts["collapsed_duplicates"] += 1
        else:
            first = kept[item.id].where[1]
            raise BadInput(
                "this id stands twice with different content or labels"
                + (f" (first on line {first})" if first else ""),
                file=item.where[0] or None,
                line=item.where[1],
                row=item.id,
                hint="an id is one interaction; if several reviewers labelled it, name the column that says who"
                " (--annotator-col)",
            )
    return list(kept.values())


def _identity(item: RawInteraction) -> str:
    # Canonical text, not ==: to Python 1 and True are the same answer.
    return canonical(asdict(replace(item, where=("", None))))


def _tidied(annotations: Sequence[RawAnnotation], counts: Counter[str], as_lists: bool) -> list[RawAnnotation]:
    return [replace(a, value=tidy(_listed(a.value) if as_lists else a.value, counts)) for a in annotations]


def _listed(value: Any) -> Any:
    """A CSV cell can hold several values only as a JSON list; any other text is one value."""
    if isinstance(value, str) and value.lstrip().startswith("["):
        with contextlib.suppress(JSONFault):
            found = strict_loads(value)
            return found if isinstance(found, list) else value
    return value


@dataclass(frozen=True, kw_only=True)
class _Verdict:
    reviews: tuple[Review, ...] = ()
    excluded: ExclusionReason | None = None
    row: Row | None = None
    median: bool = False


def _judge(
    item: RawInteraction,
    annotations: Sequence[RawAnnotation],
    reader: ValueReader,
    tolerance: float,
    counts: Counter[str],
) -> _Verdict:
    given = [a for a in annotations if not is_empty(a.value)]
    read = [(a, reader.read(a.value)) for a in given]
    reviews = tuple(
        Review(row=item.id, annotator=a.annotator, label=text(v), role=a.role) for a, v in read if v is not None
    )

    def out(reason: ExclusionReason) -> _Verdict:
        return _Verdict(reviews=reviews, excluded=reason)

    if item.declined:
        return out("declined")
    if not given:
        # Nobody named: nobody has labelled it yet. Somebody named: they looked, and chose nothing.
        return out("empty_label" if any(a.annotator is not None for a in annotations) else "pending")
    if item.content is None:
        return out("unresolvable")
    plain = [(a, v) for a, v in read if a.role == "review"]
    judged = [(a, v) for a, v in read if a.role == "adjudication"]
    if not plain:  # an adjudicator with nothing to settle is a reviewer
        plain, judged = judged, []
    settled, kind = _settle(plain, tolerance)
    adjudicated = False
    if judged and (settled is None or not all(v is not None and same(v, settled) for _, v in judged)):
        ruling = _ruling(plain, judged) if kind in ("contested", "off_schema") else None
        if ruling is None:
            counts["adjudications_not_accepted"] += 1
            return out("off_schema" if kind == "off_schema" or any(v is None for _, v in judged) else "contested")
        settled, adjudicated = ruling, True
        counts["adjudicated"] += 1
    if settled is None:
        return out("off_schema" if kind == "off_schema" else "contested")
    agreeing = [a for a, v in read if v is not None and (same(v, settled) or kind == "median")]
    row = Row(
        id=item.id,
        content=item.content,
        label=settled,
        # Whoever was overruled argued for another label: that reason would be evidence against this one.
        reasons=tuple(a.reason for a in agreeing if not is_blank(a.reason)),
        annotators=tuple(sorted({a.annotator for a in given if a.annotator is not None})),
        group=item.group,
        content_id=item.content_id,
        expected_output=item.expected_output,
        app_verdict=_app_verdict(item, reader, counts),
        app_fields=item.app_fields,
        adjudicated=adjudicated,
        original_labels=tuple(_original(v, a) for a, v in plain) if adjudicated else (),
    )
    return _Verdict(reviews=reviews, row=row, median=kind == "median")


def _original(value: LabelValue | None, annotation: RawAnnotation) -> str:
    return text(value) if value is not None else canonical(annotation.value)


def _settle(
    read: Sequence[tuple[RawAnnotation, LabelValue | None]], tolerance: float
) -> tuple[LabelValue | None, Literal["agreed", "median", "contested", "off_schema"]]:
    """One label out of several: only when all are the same, or numeric and within the tolerance (GT-4)."""
    values = [v for _, v in read if v is not None]
    if len(values) < len(read):
        return None, "off_schema"
    if all(same(values[0], v) for v in values[1:]):
        return values[0], "agreed"
    numbers = [v for v in values if isinstance(v, float)]
    if len(numbers) == len(values) and max(numbers) - min(numbers) <= tolerance:
        return float(statistics.median(numbers)), "median"
    return None, "contested"


def _ruling(
    plain: Sequence[tuple[RawAnnotation, LabelValue | None]],
    judged: Sequence[tuple[RawAnnotation, LabelValue | None]],
) -> LabelValue | None:
    """The adjudicators' label: one value, each with a reason, each named and none of those who disagree (GT-4)."""
    reviewers = {a.annotator for a, _ in plain}
    first = judged[0][1]
    if None in reviewers or first is None:
        return None
    for annotation, value in judged:
        if annotation.annotator is None or annotation.annotator in reviewers or is_blank(annotation.reason):
            return None
        if value is None or not same(value, first):
            return None
    return first


def _app_verdict(item: RawInteraction, reader: ValueReader, counts: Counter[str]) -> LabelValue | None:
    if item.app_verdict is None:
        return None
    value = tidy(item.app_verdict, Counter())
    found = None if is_empty(value) else reader.read(value)
    if found is None:
        counts["app_verdict_off_schema"] += 1
    return found


def _with_app(row: Row, label: LabelSchema, counts: Counter[str]) -> Row:
    """An unlisted label's classes are known only now: another word from the app is no verdict on this label."""
    if row.app_verdict is None or label.admits(row.app_verdict):
        return row
    counts["app_verdict_off_schema"] += 1
    return replace(row, app_verdict=None)
