"""Rows in the normal form of docs/evidence.md, for tests."""

from __future__ import annotations

from typing import Any

from fitter.records import Row


def span(
    span_id: str = "s1",
    kind: str = "llm",
    *,
    name: str = "step",
    parent: str = "undefined",
    input: Any = None,
    output: Any = None,
    metadata: Any = None,
    **more: Any,
) -> dict[str, Any]:
    """One span; a plain string as input or output is its value."""
    meta: dict[str, Any] = {"span": {"kind": kind}}
    for side, given in (("input", input), ("output", output)):
        if given is not None:
            meta[side] = {"value": given} if isinstance(given, str) else given
    if metadata is not None:
        meta["metadata"] = metadata
    return {
        "span_id": span_id, "trace_id": "t1", "parent_id": parent, "name": name, "status": "ok", "meta": meta, **more,
    }  # fmt: skip


def row(*spans: dict[str, Any], kind: str = "span", focus: str | None = None, id: str = "r1", **more: Any) -> Row:
    """A row of one trace."""
    content = {
        "kind": kind,
        "session_id": more.pop("session_id", None),
        "focus": focus or spans[0]["span_id"],
        "traces": [{"trace_id": "t1", "root_span_id": spans[0]["span_id"], "spans": list(spans)}],
    }
    return Row(id=id, content=content, label=more.pop("label", "bad"), **more)


def session(*traces: list[dict[str, Any]], id: str = "r1", session_id: str | None = "sess") -> Row:
    """A session row."""
    content = {
        "kind": "session",
        "session_id": session_id,
        "focus": traces[0][0]["span_id"],
        "traces": [
            {"trace_id": f"t{i}", "root_span_id": spans[0]["span_id"], "spans": spans}
            for i, spans in enumerate(traces, 1)
        ],
    }
    return Row(id=id, content=content, label="bad")


def flat(
    input: str = "question", output: str = "answer", *, context: str | None = None, id: str = "r1", **more: Any
) -> Row:
    """A flat file's row."""
    metadata = None if context is None else {"context": context}
    return row(span("row", name="row", input=input, output=output, metadata=metadata), id=id, **more)
