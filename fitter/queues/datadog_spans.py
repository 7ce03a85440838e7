"""Spans as the platform exports them become bundle spans (docs/queues.md). Pure.

The export names its fields differently from the templates (``input`` for ``meta.input``, ``span_kind`` for
``meta.span.kind``); the bundle's span stands between the two, and ``spans.normal_form`` rebuilds the ``meta.*`` form
from it, so that one function decides what a payload looks like.
"""

from __future__ import annotations

import math
from collections import Counter
from collections.abc import Iterable, Mapping
from typing import Any, Final

# What stands where the platform, or a scanner in front of it, has taken the text away.
REDACTED: Final = frozenset({"REDACTED", "<REDACTED>", "<REDACTED_INPUT>", "<REDACTED_OUTPUT>",
                             "<MASKED_STREAMING_RESPONSE>"})  # fmt: skip
_ROOTS: Final = frozenset({"", "undefined", "0"})
_SIDE: Final = ("value", "messages", "documents", "parameters")
_MESSAGE: Final = ("role", "content", "tool_calls", "tool_results")
_VERDICT: Final = ("value", "assessment", "reasoning", "status", "tags")


def bundle_span(exported: Mapping[str, Any]) -> dict[str, Any] | None:
    """One exported span (REST attributes) as a bundle span; None without a span id.

    Accepts the ``meta`` form too, and a side that is a bare string or a list of messages.
    """
    span_id = exported.get("span_id")
    if not isinstance(span_id, str | int) or isinstance(span_id, bool) or span_id == "":
        return None
    meta = exported.get("meta")
    meta = meta if isinstance(meta, Mapping) else {}
    kind = exported.get("span_kind") or _inner(meta.get("span"), "kind") or "task"
    parent = str(exported.get("parent_id") or "")
    out: dict[str, Any] = {
        "span_id": str(span_id),
        "trace_id": str(exported.get("trace_id") or ""),
        "parent_id": None if parent in _ROOTS else parent,
        "name": str(exported.get("name") or ""),
        "kind": str(kind),
        "status": str(exported.get("status") or "ok"),
        "input": side(exported.get("input", meta.get("input"))),
        "output": side(exported.get("output", meta.get("output"))),
    }
    for key in ("start_ns", "duration", "metrics", "ml_app", "expected_output"):
        if exported.get(key) is not None:
            out[key] = exported[key]
    for key in ("metadata", "tool_definitions"):
        value = exported.get(key, meta.get(key))
        if value:
            out[key] = value
    tags = exported.get("tags")
    if isinstance(tags, list):
        out["tags"] = [str(tag) for tag in tags]
    if verdicts := evaluations(exported.get("evaluation")):
        out["evaluation"] = verdicts
    return out


def side(value: Any) -> dict[str, Any]:
    """An input or output in whatever shape as ``{"value"?, "messages"?, "documents"?, "parameters"?}``."""
    if isinstance(value, Mapping):
        known = {key: value[key] for key in _SIDE if value.get(key) is not None}
        if "messages" in known:
            known["messages"] = messages(known["messages"])
        return known if known or not value else {"value": dict(value)}
    if isinstance(value, list) and value and all(isinstance(v, Mapping) and "role" in v for v in value):
        return {"messages": messages(value)}
    return {} if value is None else {"value": value}


def messages(value: Any) -> list[dict[str, Any]]:
    """Messages with only what a template addresses: role, content, tool calls and tool results."""
    if not isinstance(value, list):
        return []
    return [{k: item[k] for k in _MESSAGE if item.get(k) is not None} for item in value if isinstance(item, Mapping)]


def evaluations(value: Any) -> dict[str, dict[str, Any]]:
    """An evaluator's verdicts on a span; private, read for ``fidelity`` only."""
    if not isinstance(value, Mapping):
        return {}
    return {
        str(name): {k: entry[k] for k in _VERDICT if entry.get(k) is not None}
        for name, entry in value.items()
        if isinstance(entry, Mapping)
    }


def split_messages(flat: Any) -> tuple[list[dict[str, Any]], list[dict[str, Any]]]:
    """Input and output messages of one list: the answer is the run of assistant messages at its end."""
    found = messages(flat)
    cut = len(found)
    while cut and found[cut - 1].get("role") == "assistant":
        cut -= 1
    return found[:cut], found[cut:]


def drop_redacted(span: dict[str, Any], counts: Counter[str]) -> bool:
    """Removes redacted text from a bundle span, so that no judge takes the marker for content.

    Returns:
        True when nothing is left of its input and output because of it.
    """
    dropped = 0
    for name in ("input", "output"):
        held = span[name]
        if _redacted(held.get("value")):
            del held["value"]
            dropped += 1
        for item in held.get("messages", ()):
            if _redacted(item.get("content")):
                del item["content"]
                dropped += 1
        if not any(len(item) > ("role" in item) for item in held.get("messages", ())):
            held.pop("messages", None)
    counts["redacted_fields"] += dropped
    return dropped > 0 and not span["input"] and not span["output"]


def unique(spans: Iterable[dict[str, Any]], counts: Counter[str]) -> list[dict[str, Any]]:
    """Spans in recorded order, each id once: pages overlap while new spans arrive."""
    out: dict[str, dict[str, Any]] = {}
    for span in spans:
        if span["span_id"] in out:
            counts["repeated_spans"] += 1
        else:
            out[span["span_id"]] = span
    return sorted(out.values(), key=_start)


def session_of(spans: Iterable[Mapping[str, Any]]) -> str | None:
    """The session a trace belongs to, from its spans' tags."""
    for span in spans:
        for tag in span.get("tags", ()):
            key, _, value = tag.partition(":")
            if key == "session_id" and value:
                return str(value)
    return None


def verdict_of(content: Mapping[str, Any], evaluator: str) -> Mapping[str, Any] | None:
    """An evaluator's verdict on the labelled thing: on its focus span, else on any root of it."""
    roots = {trace["root_span_id"] for trace in content["traces"]}
    spans = [span for trace in content["traces"] for span in trace["spans"]]
    wanted = [s for s in spans if s["span_id"] == content["focus"]] + [s for s in spans if s["span_id"] in roots]
    for span in wanted:
        found = span.get("evaluation", {}).get(evaluator)
        if found is not None:
            return dict(found)
    return None


def _start(span: Mapping[str, Any]) -> float:
    start = span.get("start_ns")
    if isinstance(start, int | float) and not isinstance(start, bool):
        return float(start)
    return math.inf  # a span whose start is not told stands last


def _redacted(value: Any) -> bool:
    return isinstance(value, str) and value.strip() in REDACTED


def _inner(value: Any, key: str) -> Any:
    return value.get(key) if isinstance(value, Mapping) else None
