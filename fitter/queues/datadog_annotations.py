"""Label schemas and annotations as the platform gives them become bundle documents, and those a RawQueue. Pure.

The bundle's own conversion (``bundle.from_parsed``) reads ``label_values`` in both shapes; here only what differs from
a bundle is mended: unknown keys, the alias ``numeric``, and values of labels that the queue no longer has.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from dataclasses import replace
from typing import Any, Final

from fitter.errors import RunError
from fitter.queues.bundle import entries, from_parsed
from fitter.queues.reading import scrub_json
from fitter.queues.source import RawQueue

_SCHEMA_KEYS: Final = ("min", "max", "is_integer", "value_descriptions")


def bundle_schemas(values: Sequence[Mapping[str, Any]]) -> list[dict[str, Any]]:
    """Label schemas as a bundle lists them; a type fitter does not know is listed as text, which cannot be fitted.

    Raises:
        RunError: a label without id or name.
    """
    out = []
    for value in values:
        key, name = value.get("id"), value.get("name")
        if not isinstance(key, str) or not key or not isinstance(name, str) or not name:
            raise RunError("Datadog's label schema holds a label without id or name", hint="open the queue in Datadog")
        kind = {"numeric": "score"}.get(str(value.get("type")), str(value.get("type")))
        schema: dict[str, Any] = {"id": key, "name": name, "description": str(value.get("description") or "")}
        classes = [v for v in value.get("values") or [] if isinstance(v, str) and v.strip()]
        if kind == "categorical" and classes:
            schema |= {"type": kind, "values": list(dict.fromkeys(classes))}
        elif kind in ("boolean", "score"):
            schema["type"] = kind
        else:
            schema["type"] = "text"
        schema |= {k: value[k] for k in _SCHEMA_KEYS if value.get(k) is not None and schema["type"] != "text"}
        if schema["type"] == "score" and not _ordered(schema):
            schema.pop("min", None)
            schema.pop("max", None)
        out.append(schema)
    return out


def bundle_interaction(item: Mapping[str, Any]) -> dict[str, Any]:
    """One annotated interaction without its content; ``annotations: null`` is the same as none."""
    notes = item.get("annotations")
    return {
        "id": str(item.get("id") or item.get("interaction_id") or item.get("content_id") or ""),
        "type": str(item.get("type") or "trace"),
        "content_id": str(item.get("content_id") or ""),
        "annotations": [
            {
                "created_by": _person(note.get("created_by")),
                "label_values": note.get("label_values"),
            }
            for note in (notes if isinstance(notes, list) else [])
            if isinstance(note, Mapping)
        ],
    }


def convert(
    *,
    identity: str,
    description: str,
    schemas: Sequence[Mapping[str, Any]],
    interactions: Sequence[Mapping[str, Any]],
    counts: Counter[str],
) -> RawQueue:
    """The queue, by the bundle's conversion; ``notes`` of an interaction stay with it."""
    names = Counter(schema["name"] for schema in schemas)
    address = {s["name"]: s["id"] for s in schemas if names[s["name"]] == 1} | {s["id"]: s["id"] for s in schemas}
    known = {schema["id"] for schema in schemas}
    shaped = []
    for item in interactions:
        value = {k: v for k, v in item.items() if k != "notes"}
        value["annotations"] = [
            {**note, "label_values": _values(note.get("label_values"), address, known, counts)}
            for note in item["annotations"]
        ]
        shaped.append(value)
    queue = from_parsed(
        [dict(s) for s in schemas],
        shaped,
        source=identity,
        identity=identity,
        description=description,
        counts=counts,
    )
    rows = tuple(
        replace(row, notes=tuple(item.get("notes", ())))
        for row, item in zip(queue.interactions, interactions, strict=True)
    )
    return replace(queue, interactions=rows)


def _values(values: Any, address: Mapping[str, str], known: set[str], counts: Counter[str]) -> list[dict[str, Any]]:
    """Values as a list of entries; those of labels that are gone from the schema are counted and left out (GT-5)."""
    out: list[dict[str, Any]] = []
    if isinstance(values, list):
        values = [v for v in values if isinstance(v, Mapping) and v.get("label_schema_id")]
    elif not isinstance(values, Mapping):
        return out
    for _, key, entry in entries(values, address):
        if key not in known:
            counts["values_of_removed_labels"] += 1
            continue
        value = scrub_json(entry.get("value"), counts)
        reason = scrub_json(str(entry.get("reasoning") or ""), counts)
        out.append({"label_schema_id": key, "value": value, "reasoning": reason})
    return out


def _person(value: Any) -> str | None:
    if isinstance(value, Mapping):
        value = value.get("id") or value.get("email") or value.get("handle")
    return str(value) if value else None


def _ordered(schema: Mapping[str, Any]) -> bool:
    low, high = schema.get("min"), schema.get("max")
    return low is None or high is None or low < high
