"""Small queues for tests of the queue rooms."""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from fitter.labels import LabelSchema
from fitter.queues.source import RawAnnotation, RawInteraction, RawQueue, TextSchema, UnlistedSchema

LABEL = "q7"


def content(text: str, *, question: str = "q") -> dict[str, Any]:
    meta = {"span": {"kind": "llm"}, "input": {"value": question}, "output": {"value": text}}
    span = {"span_id": "s", "trace_id": "t", "parent_id": "undefined", "name": "n", "status": "ok", "meta": meta}
    return {"kind": "span", "session_id": None, "focus": "s", "traces": [{"trace_id": "t", "root_span_id": "s",
            "spans": [span]}]}  # fmt: skip


def said(value: Any, who: str | None = None, reason: str = "", role: str = "review") -> RawAnnotation:
    return RawAnnotation(annotator=who, value=value, reason=reason, role=role)  # type: ignore[arg-type]


def item(row: str, *annotations: RawAnnotation, label: str = LABEL, **more: Any) -> RawInteraction:
    more.setdefault("content", content(f"reply {row}", question=f"question {row}"))
    return RawInteraction(id=row, annotations={label: annotations} if annotations else {}, **more)


def queue(*items: RawInteraction, schema: LabelSchema | UnlistedSchema | TextSchema | None = None) -> RawQueue:
    schema = schema or UnlistedSchema(id=LABEL, name="ok")
    return RawQueue(identity="queue", description="", schemas=(schema,), interactions=items)


GOOD_BAD = LabelSchema(id=LABEL, name="ok", kind="categorical", classes=("good", "bad"))


def bundle(*interactions: dict[str, Any], labels: list[dict[str, Any]] | None = None) -> dict[str, Any]:
    return {
        "schema_version": 1,
        "queue": {"id": "support"},
        "label_schemas": labels or [{"id": LABEL, "name": "ok", "type": "categorical", "values": ["good", "bad"]}],
        "interactions": list(interactions),
    }


def interaction(row: str = "i1", **more: Any) -> dict[str, Any]:
    return {
        "id": row,
        "type": "trace",
        "annotations": [{"created_by": "ann", "label_values": [{"label_schema_id": LABEL, "value": ["good"]}]}],
        "content": {"spans": [{"span_id": "s1", "name": "reply", "kind": "llm", "output": {"value": "hello"}}]},
    } | more


def write_json(path: Path, value: Any) -> Path:
    path.write_text(json.dumps(value), encoding="utf-8")
    return path
