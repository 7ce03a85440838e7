"""The queue bundle: label schemas, several reviewers an interaction, span trees (docs/queues.md)."""

from __future__ import annotations

import json
from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import cache
from importlib import resources
from pathlib import Path
from typing import Any, Literal

from pydantic import ValidationError

from fitter.errors import BadInput
from fitter.jsonio import JSONFault, strict_loads
from fitter.labels import LabelSchema
from fitter.queues.reading import json_lines, parse_json, read_text, scrub
from fitter.queues.source import RawAnnotation, RawInteraction, RawQueue, TextSchema
from fitter.queues.spans import BadSpans, normal_form, resolves
from fitter.queues.values import is_empty
from fitter.textsafe import one_line

_KINDS: dict[str, Literal["span", "trace", "session"]] = {
    "span": "span",
    "trace": "trace",
    "experiment_trace": "trace",
    "session": "session",
}


@dataclass(frozen=True)
class BundleSource:
    """A bundle (folder, ``.json`` or ``.jsonl``) as a LabelSource."""

    path: Path
    queue_name: str | None = None

    def read(self) -> RawQueue:
        """Reads the bundle once; see :func:`read_bundle`."""
        return read_bundle(self.path, queue_name=self.queue_name)


@dataclass(frozen=True)
class _Place:
    """Where an interaction stands, for messages."""

    file: str
    line: int | None
    pointer: str
    row: str | None = None

    def error(self, message: str, *, at: str = "", hint: str | None = None) -> BadInput:
        pointer = f"{self.pointer}{at}"
        told = f"{message} (at {one_line(pointer, 200)})" if pointer else message
        row = None if self.row is None else one_line(self.row, 80)
        return BadInput(told, file=self.file, line=self.line, row=row, hint=hint)


def bundle_schema() -> dict[str, Any]:
    """The bundle's JSON Schema, as published in docs/queues.md."""
    text = (resources.files("fitter.queues") / "bundle.schema.json").read_text(encoding="utf-8")
    schema: dict[str, Any] = json.loads(text)
    return schema


def is_bundle(path: Path) -> bool:
    """True when a ``.jsonl`` file's first line is a bundle's header. A line that is no JSON is left to the reader."""
    for _, line in json_lines(read_text(path)):
        try:
            value = strict_loads(line)
        except JSONFault:
            return False
        return isinstance(value, dict) and "label_schemas" in value
    return False


def read_bundle(path: Path, *, queue_name: str | None = None) -> RawQueue:
    """Reads and validates a bundle.

    Args:
        path: folder, ``.json`` or ``.jsonl``.
        queue_name: identity of the queue; default the bundle's queue id.

    Raises:
        BadInput: unreadable, not JSON, or not the published shape; names file, line, JSON pointer and row id.
    """
    counts: Counter[str] = Counter()
    header_file, header_line, header, found = _parts(path, counts)
    _validate(header, "header", _Place(header_file, header_line, ""))
    if header.get("schema_version") != 1:
        raise BadInput("this bundle has another schema_version than 1", file=header_file)
    schemas = _schemas(header["label_schemas"], _Place(header_file, header_line, "/label_schemas"))
    for place, value in found:
        _validate(value, "interaction", place)
    queue = header["queue"]
    described = queue.get("description") or queue.get("name") or queue["id"]
    return _queue(schemas, found, queue_name or queue["id"], f"bundle {path.name}: {described}", counts)


def from_parsed(
    label_schemas: list[dict[str, Any]],
    interactions: list[dict[str, Any]],
    *,
    source: str,
    identity: str,
    description: str,
    counts: Counter[str],
) -> RawQueue:
    """A queue from documents that a platform's reader has shaped as a bundle's; the JSON Schema is not enforced.

    Args:
        label_schemas, interactions: as in a bundle.
        source: what stands for the file in error messages.
        identity, description: of the queue.
        counts: what the reader counted; added to.

    Raises:
        BadInput: documents that contradict themselves, with JSON pointer and row id.
    """
    schemas = _schemas(label_schemas, _Place(source, None, "/label_schemas"))
    found = [(_Place(source, None, f"/interactions/{n}", _row_id(v)), v) for n, v in enumerate(interactions)]
    return _queue(schemas, found, identity, description, counts)


def _queue(
    schemas: list[LabelSchema | TextSchema],
    found: list[tuple[_Place, Any]],
    identity: str,
    description: str,
    counts: Counter[str],
) -> RawQueue:
    names = Counter(schema.name for schema in schemas)
    address = {s.name: s.id for s in schemas if names[s.name] == 1} | {s.id: s.id for s in schemas}
    ids = {s.id for s in schemas}
    return RawQueue(
        identity=scrub(identity, Counter()),
        description=description,
        schemas=tuple(schemas),
        interactions=tuple(_interaction(value, place, address, ids, counts) for place, value in found),
        counts=dict(counts),
    )


def _parts(path: Path, counts: Counter[str]) -> tuple[str, int | None, dict[str, Any], list[tuple[_Place, Any]]]:
    """Header and interactions, wherever they stand."""
    if path.is_dir():
        header_path, lines_path = path / "queue.json", path / "interactions.jsonl"
        header = _object(header_path, counts)
        if not lines_path.exists():
            return str(header_path), None, header, _listed(header_path, header)
        if "interactions" in header:
            raise BadInput("interactions stand here and in interactions.jsonl", file=str(header_path),
                           hint="keep one of the two")  # fmt: skip
        return str(header_path), None, header, list(_lined(lines_path, json_lines(read_text(lines_path)), counts))
    if path.suffix.lower() == ".jsonl":
        lines = json_lines(read_text(path))
        number, first = next(lines, (1, ""))
        header = parse_json(first, path, counts, line=number)
        if not isinstance(header, dict) or "interactions" in header:
            raise BadInput("the first line is the bundle's header, without interactions", file=str(path), line=number)
        return str(path), number, header, list(_lined(path, lines, counts))
    header = _object(path, counts)
    return str(path), None, header, _listed(path, header)


def _object(path: Path, counts: Counter[str]) -> dict[str, Any]:
    value = parse_json(read_text(path), path, counts)
    if not isinstance(value, dict):
        raise BadInput("a bundle is a JSON object", file=str(path), hint="docs/queues.md describes it")
    return value


def _listed(path: Path, header: dict[str, Any]) -> list[tuple[_Place, Any]]:
    if "interactions" not in header:
        raise BadInput("holds no interactions", file=str(path), hint="a bundle has the key interactions")
    items = header.pop("interactions")
    if not isinstance(items, list):
        raise BadInput("interactions is a list (at /interactions)", file=str(path))
    return [(_Place(str(path), None, f"/interactions/{n}", _row_id(item)), item) for n, item in enumerate(items)]


def _lined(path: Path, lines: Iterator[tuple[int, str]], counts: Counter[str]) -> Iterator[tuple[_Place, Any]]:
    for number, line in lines:
        value = parse_json(line, path, counts, line=number)
        yield _Place(str(path), number, "", _row_id(value)), value


def _row_id(value: Any) -> str | None:
    found = value.get("id") if isinstance(value, dict) else None
    return found if isinstance(found, str) else None


@cache
def _validator(part: str) -> Any:
    from jsonschema import Draft202012Validator

    schema = bundle_schema()
    if part == "header":
        return Draft202012Validator({k: v for k, v in schema.items() if k not in ("$id",)})
    return Draft202012Validator({"$defs": schema["$defs"], "$ref": f"#/$defs/{part}"})


def _validate(value: Any, part: str, place: _Place) -> None:
    faults = sorted(_validator(part).iter_errors(value), key=lambda f: [str(p) for p in f.absolute_path])
    if faults:
        at = "".join(f"/{str(p).replace('~', '~0').replace('/', '~1')}" for p in faults[0].absolute_path)
        more = f", and {len(faults) - 1} more faults" if len(faults) > 1 else ""
        raise place.error(f"{_explain(faults[0])}{more}", at=at, hint="docs/queues.md describes the bundle")


def _explain(fault: Any) -> str:
    """What is wrong, without quoting the value: it may be a customer's text."""
    wanted, instance = fault.validator_value, fault.instance
    if fault.validator == "additionalProperties":
        extra = sorted(set(instance) - set(fault.schema.get("properties", {})))
        return f"unknown key {', '.join(repr(one_line(key, 60)) for key in extra)}"
    if fault.validator == "required":
        return f"missing key {', '.join(repr(key) for key in wanted if key not in instance)}"
    if fault.validator is None:  # a schema that is false: the key may not stand beside another
        return "this key may not stand here"
    kinds = {"dict": "an object", "list": "a list", "str": "a string", "bool": "a boolean", "NoneType": "null"}
    is_a = kinds.get(type(instance).__name__, "a number")
    told = {
        "type": f"should be {' or '.join(wanted) if isinstance(wanted, list) else wanted}, is {is_a}",
        "enum": f"should be one of {', '.join(json.dumps(w) for w in wanted) if isinstance(wanted, list) else wanted}",
        "const": f"should be {wanted!r}",
        "minLength": "may not be empty",
        "minItems": "may not be empty",
        "uniqueItems": "holds a value twice",
        "pattern": f"does not match {wanted}",
    }
    return told.get(str(fault.validator), f"breaks the rule {fault.validator}")


def _schemas(values: list[dict[str, Any]], place: _Place) -> list[LabelSchema | TextSchema]:
    out: list[LabelSchema | TextSchema] = []
    for n, value in enumerate(values):
        if any(schema.id == value["id"] for schema in out):
            raise place.error(f"label id {one_line(value['id'], 60)!r} stands twice", at=f"/{n}/id")
        about = {"id": value["id"], "name": value["name"], "description": value.get("description") or ""}
        if value["type"] == "text":
            out.append(TextSchema(**about))
            continue
        try:
            out.append(_label(value, about))
        except ValidationError as fault:
            raise place.error(str(fault.errors()[0]["msg"]), at=f"/{n}") from None
        except ValueError as fault:
            raise place.error(str(fault), at=f"/{n}") from None
    return out


def _label(value: Mapping[str, Any], about: Mapping[str, Any]) -> LabelSchema:
    told = value.get("value_descriptions") or {}
    if value["type"] in ("score", "numeric"):
        low, high = value.get("min"), value.get("max")
        if low is not None and high is not None and not low < high:
            raise ValueError("min is not below max")
        return LabelSchema(**about, kind="numeric", minimum=low, maximum=high,
                           is_integer=bool(value.get("is_integer")))  # fmt: skip
    classes: tuple[bool | str, ...] = (False, True)
    if value["type"] == "categorical":
        classes = tuple(name.strip() for name in value["values"])  # recorded values are stripped as well
    unknown = sorted(set(told) - {("true" if c else "false") if isinstance(c, bool) else c for c in classes})
    if unknown:
        raise ValueError(f"value_descriptions names {one_line(unknown[0], 60)!r}, which is not a value")
    if value["type"] == "boolean":
        return LabelSchema(**about, kind="boolean", classes=classes, value_descriptions=told)
    kind: Literal["multiselect", "categorical"] = "multiselect" if value.get("multi_select") else "categorical"
    return LabelSchema(**about, kind=kind, classes=classes, value_descriptions=told)


def _interaction(
    value: dict[str, Any], place: _Place, address: Mapping[str, str], ids: set[str], counts: Counter[str]
) -> RawInteraction:
    annotations = _annotations(value, place, address, ids)
    status = value.get("status")
    if status == "pending" and any(not is_empty(a.value) for group in annotations.values() for a in group):
        raise place.error("the status says pending, but an annotation holds a value", at="/status",
                          hint="remove the status, or the annotation")  # fmt: skip
    content, problem = _content(value, place, counts)
    verdict = value.get("app_verdict") or {}
    fields = tuple((f["span_id"], f["path"]) for f in verdict.get("fields", ()))
    for n, (span_id, path) in enumerate(fields):
        if content is not None and not resolves(content, span_id, path):
            raise place.error(f"{one_line(path, 80)!r} of span {one_line(span_id, 60)!r} leads nowhere",
                              at=f"/app_verdict/fields/{n}",
                              hint="a misspelt path would show the app's own verdict to the judge")  # fmt: skip
    expected = value.get("expected_output")
    if expected is None and content is not None:
        spans = (span for trace in content["traces"] for span in trace["spans"])
        expected = next((s.get("expected_output") for s in spans if s["span_id"] == content["focus"]), None)
    return RawInteraction(
        id=value["id"],
        annotations={key: tuple(group) for key, group in annotations.items()},
        content=content,
        content_problem=problem,
        content_id=value.get("content_id") or None,
        group=value.get("group") or None,
        declined=status == "declined",
        expected_output=expected,
        app_verdict=verdict.get("value"),
        app_fields=fields,
        where=(place.file, place.line),
    )


def _content(value: dict[str, Any], place: _Place, counts: Counter[str]) -> tuple[dict[str, Any] | None, str]:
    kind = _KINDS.get(value["type"])
    if kind is None:
        return None, "display_block"  # made for reviewers: no evaluator ever sees one
    if value.get("content") is None:
        return None, value.get("content_problem", "no_content")
    try:
        return normal_form(kind, value["content"], value.get("content_id"), counts)
    except BadSpans as fault:
        raise place.error(fault.message, at=f"/content{fault.at}") from None


def _annotations(
    value: dict[str, Any], place: _Place, address: Mapping[str, str], ids: set[str]
) -> dict[str, list[RawAnnotation]]:
    out: dict[str, list[RawAnnotation]] = {}
    for n, annotation in enumerate(value.get("annotations") or ()):
        seen: set[str] = set()
        for at, schema_id, entry in entries(annotation["label_values"], address):
            where = f"/annotations/{n}/label_values/{at}"
            if schema_id not in ids:
                raise place.error(f"no label {one_line(str(schema_id), 60)!r} in label_schemas", at=where,
                                  hint="label values are addressed by the label's id")  # fmt: skip
            if schema_id in seen:
                raise place.error("one annotation answers one label twice", at=where)
            seen.add(schema_id)
            out.setdefault(schema_id, []).append(
                RawAnnotation(
                    annotator=annotation.get("created_by") or None,
                    value=entry["value"],
                    reason=entry.get("reasoning") or "",
                    role="adjudication" if annotation.get("role") == "adjudication" else "review",
                )
            )
    return out


def entries(values: Any, address: Mapping[str, str]) -> Iterator[tuple[str, str, Mapping[str, Any]]]:
    """(pointer part, label id, entry) of both shapes that label values come in."""
    if isinstance(values, list):
        for n, entry in enumerate(values):
            yield str(n), entry["label_schema_id"], entry
        return
    for key, entry in (values or {}).items():
        full = entry if isinstance(entry, dict) else {"value": entry}
        # An id inside the entry outranks the key, which may be a name from an earlier day (GT-5).
        yield key, full.get("label_schema_id") or address.get(key, key), full
