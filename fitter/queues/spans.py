"""A bundle's flat span lists become the normal form of docs/evidence.md. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Mapping, Sequence
from typing import Any, Literal

ROOT = "undefined"
_PLAIN = ("status", "start_ns", "duration", "metrics", "tags", "ml_app", "evaluation", "expected_output")
_META = ("metadata", "tool_definitions")


class BadSpans(ValueError):
    """A span list that contradicts itself; ``at`` is a JSON pointer below the content."""

    def __init__(self, message: str, at: str = "") -> None:
        super().__init__(message)
        self.message = message
        self.at = at


def normal_form(
    kind: Literal["span", "trace", "session"],
    content: Mapping[str, Any],
    content_id: str | None,
    counts: Counter[str],
) -> tuple[dict[str, Any] | None, str]:
    """Rebuilds recorded content.

    Args:
        kind: what was labelled.
        content: the bundle's ``content``, valid by its JSON Schema.
        content_id: the platform's id; for a span row it may name the labelled span.
        counts: ``orphan_spans`` are counted here.

    Returns:
        (content in the normal form, "") or (None, reason code) for content that is no tree.

    Raises:
        BadSpans: a repeated span id, a focus that is not there, several traces in a row that is one.
    """
    nested = "traces" in content
    recorded = content["traces"] if nested else [content]
    if kind != "session" and len(recorded) != 1:
        raise BadSpans(f"a {kind} has one trace, here are {len(recorded)}", "/traces")
    seen: set[str] = set()
    traces = []
    for n, trace in enumerate(recorded):
        for m, span in enumerate(trace["spans"]):
            if span["span_id"] in seen:
                raise BadSpans("this span id stands twice", f"{f'/traces/{n}' if nested else ''}/spans/{m}/span_id")
            seen.add(span["span_id"])
        if _circular(trace["spans"]):
            return None, "span_cycle"
        traces.append(_trace(trace, n, counts))
    focus = str(traces[0]["root_span_id"])
    if kind == "span":
        focus = content.get("focus") or (content_id if content_id in seen else None) or focus
        if focus not in seen:
            raise BadSpans("focus names no span", "/focus")
    elif content.get("focus") not in (None, focus):
        raise BadSpans(f"focus is for rows of type span; a {kind}'s is its root", "/focus")
    return {"kind": kind, "session_id": content.get("session_id") or None, "focus": focus, "traces": traces}, ""


def _parent(span: Mapping[str, Any]) -> str:
    return span.get("parent_id") or ROOT


def _circular(spans: Sequence[Mapping[str, Any]]) -> bool:
    parents = {span["span_id"]: _parent(span) for span in spans}
    safe: set[str] = set()
    for start in parents:
        path: list[str] = []
        here, on_path = start, set()
        while here in parents and here not in safe:
            if here in on_path:
                return True
            path.append(here)
            on_path.add(here)
            here = parents[here]
        safe.update(path)
    return False


def _trace(trace: Mapping[str, Any], n: int, counts: Counter[str]) -> dict[str, Any]:
    spans = trace["spans"]
    known = {span["span_id"] for span in spans}
    orphans = [span for span in spans if _parent(span) != ROOT and _parent(span) not in known]
    if orphans:
        counts["orphan_spans"] += len(orphans)
    roots = [span for span in spans if _parent(span) == ROOT] or orphans
    root = roots[0]
    trace_id = trace.get("trace_id") or root.get("trace_id") or f"trace-{n + 1}"
    ordered = [root, *(span for span in spans if span is not root)]
    return {
        "trace_id": trace_id,
        "root_span_id": root["span_id"],
        "spans": [_span(span, trace_id) for span in ordered],
    }


def _span(span: Mapping[str, Any], trace_id: str) -> dict[str, Any]:
    meta: dict[str, Any] = {
        "span": {"kind": span["kind"]},
        "input": dict(span.get("input") or {}),
        "output": dict(span.get("output") or {}),
    }
    meta |= {key: span[key] for key in _META if key in span}
    out: dict[str, Any] = {
        "span_id": span["span_id"],
        "trace_id": span.get("trace_id") or trace_id,
        "parent_id": _parent(span),
        "name": span["name"],
        "status": span.get("status") or "ok",
        "meta": meta,
    }
    return out | {key: span[key] for key in _PLAIN if key in span and key != "status"}


def resolves(content: Mapping[str, Any], span_id: str, path: str) -> bool:
    """True when a dotted path leads to something in a span of normal-form content."""
    for trace in content["traces"]:
        for span in trace["spans"]:
            if span["span_id"] == span_id:
                here: Any = span
                for part in path.split("."):
                    if isinstance(here, Mapping) and part in here:
                        here = here[part]
                    elif isinstance(here, list) and part.isascii() and part.isdigit() and int(part) < len(here):
                        here = here[int(part)]
                    else:
                        return False
                return True
    return False
