"""Flat files as queues: CSV and JSON Lines, one row an interaction (or one row an annotation)."""

from __future__ import annotations

import csv
import io
import sys
from collections import Counter
from dataclasses import dataclass, field, fields
from pathlib import Path
from typing import Any

from fitter.errors import BadInput, SettingsError
from fitter.jsonio import canonical
from fitter.queues.reading import columns_text, json_lines, parse_json, read_text, scrub
from fitter.queues.source import RawAnnotation, RawInteraction, RawQueue, UnlistedSchema
from fitter.textsafe import one_line

SPAN = "row"
_EVIDENCE = {"input": "meta.input.value", "output": "meta.output.value", "context": "meta.metadata.context"}
_DEFAULTS: dict[str, tuple[str, ...]] = {
    "id": ("id",),
    "input": ("input",),
    "output": ("output",),
    "context": ("context",),
    "label": ("label",),
    "reason": ("human_reasoning", "reason"),
    "expected_output": ("expected_output",),
}
_OPTION = {
    name: f"--{name.replace('_', '-')}-col" for name in (*_DEFAULTS, "group", "role", "annotator", "app_verdict")
}


@dataclass(frozen=True, kw_only=True)
class FlatColumns:
    """Which column holds what; None takes the default name where the file has it, else nothing.

    Attributes:
        id: row key; without one, ids are positional (``row-0001``). Default ``id``.
        input, output, context: the evidence. Defaults ``input``, ``output``, ``context``.
        label: the target label. Default ``label``. In JSON Lines it may hold an object ``{annotator: value}``.
        reason: the reviewer's reasoning. Default ``human_reasoning``, else ``reason``.
        expected_output: the dataset's reference answer, private (GT-6). Default ``expected_output``.
        group: rows of one group stay on one side of the split. No default.
        annotator: who labelled; several rows of one id are then several annotations. No default.
        role: ``review``, ``adjudication`` or empty; needs ``annotator``. No default.
        app_verdict: the app's own verdict. No default.
    """

    id: str | None = None
    input: str | None = None
    output: str | None = None
    context: str | None = None
    label: str | None = None
    reason: str | None = None
    expected_output: str | None = None
    group: str | None = None
    annotator: str | None = None
    role: str | None = None
    app_verdict: str | None = None


@dataclass(frozen=True)
class FlatFile:
    """A flat file as a LabelSource."""

    path: Path
    columns: FlatColumns = field(default_factory=FlatColumns)
    queue_name: str | None = None

    def read(self) -> RawQueue:
        """Reads the file once; see :func:`read_flat`."""
        return read_flat(self.path, self.columns, queue_name=self.queue_name)


@dataclass(frozen=True)
class _Record:
    line: int
    cells: dict[str, Any]


def read_flat(path: Path, columns: FlatColumns | None = None, *, queue_name: str | None = None) -> RawQueue:
    """Reads a flat ``.csv`` or ``.jsonl`` file.

    Args:
        path: the file; ``.csv`` is comma-separated with a header line, anything else is JSON Lines.
        columns: which column holds what.
        queue_name: identity of the queue; default the file's stem.

    Raises:
        BadInput: a file or row that cannot be read, with file and line; missing columns, with those there are.
        SettingsError: columns that contradict each other (the label may not be evidence, EV-2).
    """
    counts: Counter[str] = Counter()
    text = read_text(path)
    if path.suffix.lower() == ".csv":
        names, records = _csv_records(path, text, counts)
    else:
        names, records = _jsonl_records(path, text, counts)
    if not records:
        raise BadInput("holds no rows", file=str(path))
    used = _resolve(path, names, columns or FlatColumns())
    interactions = _merge(path, [_interaction(path, number, record, used) for number, record in enumerate(records, 1)],
                          merging="annotator" in used, counts=counts)  # fmt: skip
    label = used["label"]
    return RawQueue(
        identity=scrub(queue_name or path.stem, Counter()),  # a file name need not be text
        description=f"flat file {path.name}: "
        + ", ".join(f"{role} = {one_line(name, 60)!r}" for role, name in sorted(used.items())),
        schemas=(UnlistedSchema(id=label, name=label),),
        interactions=tuple(interactions),
        counts=dict(counts),
    )


def _csv_records(path: Path, text: str, counts: Counter[str]) -> tuple[list[str], list[_Record]]:
    limit = csv.field_size_limit(min(sys.maxsize, 2**31 - 1))  # the default refuses a cell over 131,072 characters
    try:
        reader = csv.reader(io.StringIO(text, newline=""), strict=True)
        header: list[str] | None = None
        records: list[_Record] = []
        start = 1
        for cells in reader:
            line, start = start, reader.line_num + 1
            if not cells:
                continue
            if header is None:
                header = _header(path, cells, line)
                continue
            if len(cells) != len(header):
                raise BadInput(
                    f"the row has {len(cells)} cells, the header has {len(header)}",
                    file=str(path),
                    line=line,
                    hint="a comma, a quote or a line break inside a cell needs quotes around the whole cell",
                )
            values = [scrub(cell, counts) for cell in cells]
            records.append(_Record(line, {k: v for k, v in zip(header, values, strict=True) if k}))
    except csv.Error as fault:
        raise BadInput(f"broken CSV: {fault}", file=str(path), line=start) from None
    finally:
        csv.field_size_limit(limit)
    if header is None:
        raise BadInput("is empty; a header line is needed", file=str(path))
    return [name for name in header if name], records


def _header(path: Path, cells: list[str], line: int) -> list[str]:
    if any("\x00" in cell for cell in cells):
        raise BadInput("NUL bytes in the header: this is not UTF-8 text", file=str(path), line=line,
                       hint="save it as UTF-8")  # fmt: skip
    twice = sorted(name for name, count in Counter(cells).items() if count > 1 and name)
    if twice:
        raise BadInput(f"the header names a column twice: {columns_text(twice)}", file=str(path), line=line,
                       hint="rename one of them")  # fmt: skip
    if len(cells) == 1 and any(mark in cells[0] for mark in (";", "\t", "|")):
        raise BadInput("the header has one column; the file seems not to be separated by commas", file=str(path),
                       line=line, hint="save it with commas between the cells")  # fmt: skip
    return cells


def _jsonl_records(path: Path, text: str, counts: Counter[str]) -> tuple[list[str], list[_Record]]:
    names: dict[str, None] = {}
    records: list[_Record] = []
    for line, body in json_lines(text):
        value = parse_json(body, path, counts, line=line)
        if not isinstance(value, dict):
            raise BadInput("a row is a JSON object", file=str(path), line=line)
        names.update(dict.fromkeys(value))
        records.append(_Record(line, value))
    return list(names), records


def _resolve(path: Path, names: list[str], columns: FlatColumns) -> dict[str, str]:
    """Role → column name, for the roles this file has."""
    used: dict[str, str] = {}
    for spec in fields(columns):
        asked = getattr(columns, spec.name)
        if asked is not None:
            if asked not in names:
                raise BadInput(
                    f"no column {one_line(asked, 60)!r} ({_OPTION[spec.name]}); the columns are: {columns_text(names)}",
                    file=str(path),
                )
            used[spec.name] = asked
        else:
            default = next((name for name in _DEFAULTS.get(spec.name, ()) if name in names), None)
            if default is not None:
                used[spec.name] = default
    if "label" not in used:
        raise BadInput(f"no label column; the columns are: {columns_text(names)}", file=str(path),
                       hint="name it with --label-col")  # fmt: skip
    if "input" not in used and "output" not in used:
        raise BadInput(f"neither an input nor an output column; the columns are: {columns_text(names)}",
                       file=str(path), hint="name them with --input-col and --output-col")  # fmt: skip
    if "role" in used and "annotator" not in used:
        raise SettingsError("--role-col needs --annotator-col",
                            hint="only a named adjudicator can be told from the two who disagree")  # fmt: skip
    for role in ("label", "reason", "annotator", "role", "expected_output"):
        clash = next((e for e in _EVIDENCE if role in used and used.get(e) == used[role]), None)
        if clash is not None:
            if role == "expected_output" and columns.expected_output is None:
                del used[role]  # only a default: the user said what this column is
                continue
            raise SettingsError(
                f"column {one_line(used[role], 60)!r} is named both as {role} and as {clash}",
                hint="what exists only because somebody graded the row is never evidence",
            )
    return used


def _interaction(path: Path, number: int, record: _Record, used: dict[str, str]) -> RawInteraction:
    def cell(role: str) -> Any:
        return record.cells.get(used[role]) if role in used else None

    where = (str(path), record.line)
    row_id = f"row-{number:04d}" if "id" not in used else _key(cell("id"), used["id"], where)
    evidence = {role: cell(role) for role in _EVIDENCE}
    group = cell("group")
    if group is not None and not isinstance(group, str | int):
        raise BadInput("a group is a string or a whole number", file=where[0], line=where[1], row=row_id)
    verdict = cell("app_verdict")
    app_column = used.get("app_verdict")
    app_fields = tuple((SPAN, at) for role, at in _EVIDENCE.items() if app_column and used.get(role) == app_column)
    shown = any(evidence[role] not in (None, "") for role in ("input", "output"))
    return RawInteraction(
        id=row_id,
        annotations={used["label"]: _annotations(record, used, where, row_id)},
        content=_content(evidence) if shown else None,
        content_problem="" if shown else "empty_content",
        group=None if group in (None, "") else str(group),
        expected_output=None if cell("expected_output") == "" else cell("expected_output"),
        app_verdict=None if verdict == "" else verdict,
        app_fields=app_fields,
        where=where,
        positional="id" not in used,
    )


def _key(value: Any, column: str, where: tuple[str, int]) -> str:
    if isinstance(value, bool) or not isinstance(value, str | int) or value == "":
        raise BadInput(
            f"no usable id in column {one_line(column, 60)!r}: a non-empty string or a whole number is needed",
            file=where[0],
            line=where[1],
        )
    return str(value)


def _content(evidence: dict[str, Any]) -> dict[str, Any]:
    meta: dict[str, Any] = {"span": {"kind": "llm"}, "input": {}, "output": {}}
    for side in ("input", "output"):
        if evidence[side] is not None:
            meta[side]["value"] = evidence[side]
    if evidence["context"] not in (None, ""):
        meta["metadata"] = {"context": evidence["context"]}
    # Constant ids: a row's own id must never reach a judge through its trace.
    span = {"span_id": SPAN, "trace_id": SPAN, "parent_id": "undefined", "name": SPAN, "status": "ok", "meta": meta}
    return {
        "kind": "span",
        "session_id": None,
        "focus": SPAN,
        "traces": [{"trace_id": SPAN, "root_span_id": SPAN, "spans": [span]}],
    }


def _annotations(
    record: _Record, used: dict[str, str], where: tuple[str, int], row_id: str
) -> tuple[RawAnnotation, ...]:
    def text(role: str) -> str:
        value = record.cells.get(used[role]) if role in used else None
        if value is None:
            return ""
        if not isinstance(value, str | int) or isinstance(value, bool):
            raise BadInput(f"the {role} cell is not text", file=where[0], line=where[1], row=row_id)
        return str(value).strip() if role != "reason" else str(value)

    value = record.cells.get(used["label"])
    reason = text("reason")
    role = text("role")
    if role not in ("", "review", "adjudication"):
        raise BadInput(f"the role {one_line(role, 40)!r} is neither 'review' nor 'adjudication'", file=where[0],
                       line=where[1], row=row_id)  # fmt: skip
    annotator = text("annotator") or None
    if isinstance(value, dict):
        if "annotator" in used:
            raise BadInput("the label holds an object of annotators, and an annotator column is named as well",
                           file=where[0], line=where[1], row=row_id, hint="leave out --annotator-col")  # fmt: skip
        return tuple(RawAnnotation(annotator=who, value=said, reason=reason) for who, said in value.items())
    return (
        RawAnnotation(
            annotator=annotator,
            value=value,
            reason=reason,
            role="adjudication" if role == "adjudication" else "review",
        ),
    )


def _core(item: RawInteraction) -> str:
    return canonical([item.content, item.group, item.expected_output, item.app_verdict])


def _merge(path: Path, items: list[RawInteraction], *, merging: bool, counts: Counter[str]) -> list[RawInteraction]:
    """Several rows of one id become several annotations, where an annotator column says that they may."""
    if not merging:
        return items
    kept: dict[str, RawInteraction] = {}
    for item in items:
        first = kept.get(item.id)
        if first is None:
            kept[item.id] = item
            continue
        if _core(first) != _core(item):
            raise BadInput(
                f"this id already stands on line {first.where[1]} with different content",
                file=str(path),
                line=item.where[1],
                row=item.id,
                hint="one id is one interaction; only label, reason, annotator and role may differ",
            )
        (label, have), (_, more) = *first.annotations.items(), *item.annotations.items()
        if canonical(_said(more[0])) in {canonical(_said(one)) for one in have}:
            counts["collapsed_duplicates"] += 1
            continue
        kept[item.id] = RawInteraction(**{**vars(first), "annotations": {label: have + more}})
    return list(kept.values())


def _said(annotation: RawAnnotation) -> list[Any]:
    return [annotation.annotator, annotation.value, annotation.reason, annotation.role]
