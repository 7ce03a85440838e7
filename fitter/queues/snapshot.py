"""Rows to canonical JSON Lines and back, exactly; and the snapshot's hash. Pure."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from fitter.errors import Tampered
from fitter.jsonio import JSONFault, jsonl, sha256, strict_loads
from fitter.labels import LabelKind, LabelValue, from_json, to_json
from fitter.records import Row

SCHEMA_VERSION = 1


def _kind(value: LabelValue) -> LabelKind:
    if isinstance(value, bool):
        return "boolean"
    if isinstance(value, str):
        return "categorical"
    return "multiselect" if isinstance(value, frozenset) else "numeric"


def _label(value: LabelValue | None) -> Any:
    # The kind is written with the value: 1.0 and 1 are one number in JSON, ["a"] is not "a".
    return None if value is None else {"kind": _kind(value), "value": to_json(value)}


def _unlabel(value: Any) -> LabelValue:
    return from_json(value["value"], value["kind"])


def row_to_json(row: Row) -> dict[str, Any]:
    """One row as JSON: everything, private fields included; only for private folders."""
    return {
        "schema_version": SCHEMA_VERSION,
        "id": row.id,
        "content": row.content,
        "label": _label(row.label),
        "reasons": list(row.reasons),
        "annotators": list(row.annotators),
        "group": row.group,
        "content_id": row.content_id,
        "expected_output": row.expected_output,
        "app_verdict": _label(row.app_verdict),
        "app_fields": [list(pair) for pair in row.app_fields],
        "adjudicated": row.adjudicated,
        "original_labels": list(row.original_labels),
    }


def row_from_json(value: Any) -> Row:
    """Reads :func:`row_to_json` back.

    Raises:
        Tampered: not a row as this version writes it.
    """
    try:
        if value["schema_version"] != SCHEMA_VERSION:
            raise ValueError(f"schema_version {value['schema_version']!r}")
        verdict = value["app_verdict"]
        return Row(
            id=value["id"],
            content=value["content"],
            label=_unlabel(value["label"]),
            reasons=tuple(value["reasons"]),
            annotators=tuple(value["annotators"]),
            group=value["group"],
            content_id=value["content_id"],
            expected_output=value["expected_output"],
            app_verdict=None if verdict is None else _unlabel(verdict),
            app_fields=tuple((pair[0], pair[1]) for pair in value["app_fields"]),
            adjudicated=value["adjudicated"],
            original_labels=tuple(value["original_labels"]),
        )
    except (KeyError, TypeError, IndexError, ValueError) as fault:
        raise Tampered(f"a snapshot row is not what was written: {type(fault).__name__} {fault}") from None


def dump_rows(rows: Iterable[Row]) -> str:
    """Canonical JSON Lines, sorted by row id; the same rows give the same bytes in any order."""
    return jsonl(row_to_json(row) for row in sorted(rows, key=lambda row: row.id))


def load_rows(text: str) -> tuple[Row, ...]:
    """Reads :func:`dump_rows` back, exactly.

    Raises:
        Tampered: the text is not a snapshot.
    """
    rows = []
    for line in text.split("\n"):
        if not line:
            continue
        try:
            # Content was accepted at 64 levels and stands a level deeper inside its row.
            rows.append(row_from_json(strict_loads(line, max_depth=80)))
        except JSONFault as fault:
            raise Tampered(f"a snapshot line is not JSON: {fault}") from None
    return tuple(rows)


def snapshot_hash(rows: Iterable[Row]) -> str:
    """Hash of a snapshot: of everything in its rows."""
    return sha256(dump_rows(rows))
