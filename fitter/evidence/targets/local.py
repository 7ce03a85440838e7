"""The local target: the template grammar of a hosted platform, resolved here, for the file-backed registry."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fitter.errors import SettingsError
from fitter.evidence.map import EvidenceField, EvidenceMap
from fitter.evidence.private import META_KEYS, PRIVATE_KEYS, SPAN_KEYS, public_span
from fitter.evidence.targets import grammar
from fitter.evidence.targets.base import Compiled, Gap, Resolved
from fitter.labels import LabelSchema
from fitter.records import Framing, Row, Scope, VerdictContract
from fitter.textsafe import one_line

_HOSTED: Final = ("replay:", "local:", "openai:", "anthropic:", "azure:")
_TOP: Final[Mapping[Scope, tuple[str, ...]]] = {
    "span": (*SPAN_KEYS, "meta"),
    "trace": ("trace_id", "spans"),
    "session": ("session_id", "traces"),
}


def _side(side: str) -> Any:
    def path(payload: Mapping[str, Any]) -> str:
        meta = payload.get("meta")
        meta = meta if isinstance(meta, Mapping) else {}
        span, io = meta.get("span"), meta.get(side)
        is_llm = isinstance(span, Mapping) and span.get("kind") == "llm"
        has_messages = isinstance(io, Mapping) and bool(io.get("messages"))
        return f"meta.{side}.messages[*].content" if is_llm and has_messages else f"meta.{side}.value"

    return path


# An llm span's input is its messages' content, any other's its value. A flat file's row is an llm span without
# messages, so here the value steps in for missing messages.
SPAN_ALIASES: Final[grammar.Aliases] = {"span_input": _side("input"), "span_output": _side("output")}


def span_payload(row: Row, framing: Framing) -> dict[str, Any] | None:
    """The focus span, or None when it is not there or the label is about several traces."""
    traces = _traces(row)
    if row.content.get("kind") == "session" and len(traces) > 1:
        return None
    spans = [span for trace in traces for span in _spans(trace)]
    focus = next((span for span in spans if span.get("span_id") == row.content.get("focus")), None)
    return None if focus is None else _span(focus, row, framing)


def trace_payload(row: Row, framing: Framing) -> dict[str, Any] | None:
    """The trace of the focus span, or None when there is none or the label is about several traces."""
    traces = _traces(row)
    if row.content.get("kind") == "session" and len(traces) > 1:
        return None
    focus = row.content.get("focus")
    for trace in traces:
        if any(span.get("span_id") == focus for span in _spans(trace)):
            return {"trace_id": trace.get("trace_id"), "spans": [_span(s, row, framing) for s in _spans(trace)]}
    return None


def session_payload(row: Row, framing: Framing) -> dict[str, Any] | None:
    """All traces of the session, or None when the row belongs to none (no evaluator would fire)."""
    session_id = row.content.get("session_id")
    traces = [
        {
            "trace_id": trace.get("trace_id"),
            "root_span_id": trace.get("root_span_id"),
            "spans": [_span(span, row, framing) for span in _spans(trace)],
        }
        for trace in _traces(row)
    ]
    if not session_id or not any(trace["spans"] for trace in traces):
        return None
    return {"session_id": session_id, "traces": traces}


def build_payload(row: Row, scope: Scope, framing: Framing) -> dict[str, Any] | None:
    """What an evaluator may see of a row at a scope, built by allow-list (EV-1..3); None if nothing is there."""
    if scope == "span":
        return span_payload(row, framing)
    return trace_payload(row, framing) if scope == "trace" else session_payload(row, framing)


def carry(evidence: EvidenceMap, aliases: grammar.Aliases) -> Compiled:
    """Compiles a map: each field becomes one placeholder, or a gap when no payload of its scope can hold it.

    Raises:
        SettingsError: a selector that does not parse; names the field.
    """
    placeholders: list[tuple[EvidenceField, str]] = []
    gaps: list[Gap] = []
    for item in evidence.fields:
        try:
            path = grammar.parse_path(item.path)
        except SettingsError as fault:
            raise SettingsError(f"evidence field {item.name!r}: {fault.message}", hint=fault.hint) from None
        why = _why_not(path, evidence.scope, aliases)
        if why is None:
            placeholders.append((item, "{{" + path.text + "}}"))
        else:
            gaps.append(Gap(field=item.name, path=path.text, why=why))
    return Compiled(placeholders=tuple(placeholders), gaps=tuple(gaps))


def label_schema(label: LabelSchema) -> dict[str, Any]:
    """JSON Schema of the label's value alone."""
    if label.kind == "boolean":
        return {"type": "boolean"}
    if label.kind == "categorical":
        return {"type": "string", "enum": list(label.classes)}
    if label.kind == "multiselect":
        items = {"type": "string", "enum": list(label.classes)}
        return {"type": "array", "items": items, "minItems": 1, "uniqueItems": True}
    number: dict[str, Any] = {"type": "integer" if label.is_integer else "number"}
    if label.minimum is not None:
        number["minimum"] = _plain(label.minimum)
    if label.maximum is not None:
        number["maximum"] = _plain(label.maximum)
    return number


class LocalTarget:
    """The target of ``--publish-to local``; implements ``evidence.targets.base.Target``."""

    name: str = "local"
    scopes: tuple[Scope, ...] = ("span", "trace", "session")
    max_user_bytes: int = 1_000_000

    def hosts(self, judge_spec: str) -> str | None:
        """Every judge that fitter itself can call is hosted; see Target."""
        kind, colon, model = judge_spec.partition(":")
        if judge_spec == "lexicon" or (colon and model.strip() and f"{kind}:" in _HOSTED):
            return None
        known = ", ".join(["lexicon", *(f"{prefix}MODEL" for prefix in _HOSTED)])
        return f"the local target does not know the judge {one_line(judge_spec, 60)!r}; it hosts {known}"

    def contract(self, label: LabelSchema) -> VerdictContract:
        """Fields ``reasoning``, ``label``, ``confidence``, in that order; see Target."""
        properties = {
            "reasoning": {"type": "string", "description": "What in the content decides the answer; comes first."},
            "label": label_schema(label),
            "confidence": {"type": "integer", "minimum": 0, "maximum": 100},
        }
        schema = {
            "type": "object",
            "properties": properties,
            "required": list(properties),
            "additionalProperties": False,
        }
        return VerdictContract(
            label_field="label",
            reasoning_field="reasoning",
            confidence_field="confidence",
            schema=schema,
            label=label,
        )

    def compile(self, evidence: EvidenceMap) -> Compiled:
        """See Target; raises SettingsError for a selector that does not parse."""
        return carry(evidence, SPAN_ALIASES)

    def payload(self, row: Row, scope: Scope, framing: Framing) -> Mapping[str, Any] | None:
        """See Target: built by allow-list."""
        return build_payload(row, scope, framing)

    def resolve(self, template: str, payload: Mapping[str, Any]) -> Resolved:
        """See Target. There is no per-field cap here: a row too large is ``oversized``, never cut."""
        aliases = SPAN_ALIASES if "meta" in payload else None
        return grammar.resolve(template, payload, aliases=aliases, field_cap=None)


def _why_not(path: grammar.Path, scope: Scope, aliases: grammar.Aliases) -> str | None:
    if not path.steps:
        return None
    if path.text in aliases:
        return None if scope == "span" else f"{path.text} exists at span scope only, the map's scope is {scope}"
    names = [step.name for step in path.steps if isinstance(step, grammar.Key)]
    filters = [name for step in path.steps if isinstance(step, grammar.Where) for name in step.path]
    private = sorted(PRIVATE_KEYS.intersection([*names, *filters]))
    if private:
        return f"{private[0]} exists only because somebody graded; no judge may see it"
    if names[0] not in _TOP[scope]:
        return f"a {scope} payload has no {one_line(names[0], 40)!r}; it has {', '.join(_TOP[scope])}"
    inner = names if scope == "span" else names[names.index("spans") + 1 :] if "spans" in names else []
    if inner and inner[0] not in (*SPAN_KEYS, "meta"):
        return f"a span has no {one_line(inner[0], 40)!r} that an evaluator may see"
    if len(inner) > 1 and inner[0] == "meta" and inner[1] not in META_KEYS:
        return f"meta has no {one_line(inner[1], 40)!r} that an evaluator may see"
    return None


def _traces(row: Row) -> list[Mapping[str, Any]]:
    traces = row.content.get("traces")
    return [trace for trace in traces if isinstance(trace, dict | Mapping)] if isinstance(traces, list | tuple) else []


def _spans(trace: Mapping[str, Any]) -> list[Mapping[str, Any]]:
    spans = trace.get("spans")
    return [span for span in spans if isinstance(span, dict | Mapping)] if isinstance(spans, list | tuple) else []


def _span(span: Mapping[str, Any], row: Row, framing: Framing) -> dict[str, Any]:
    written = [path for span_id, path in row.app_fields if span_id == span.get("span_id")]
    return public_span(span, written if framing == "replicator" else ())


def _plain(number: float) -> float | int:
    return int(number) if float(number).is_integer() else number
