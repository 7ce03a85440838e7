"""The Datadog target: what a deployed LLM-as-a-judge evaluator sees and answers (docs/datadog.md).

Pure: no network, no keys. The template grammar and the payload are the shared ones; what is Datadog's own is here: the
two aliases, the 250 KB cap of a field, the verdict's fixed field names, and which judges it can call.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final

from fitter.errors import SettingsError
from fitter.evidence.map import EvidenceMap
from fitter.evidence.targets import grammar
from fitter.evidence.targets.base import Compiled, Resolved
from fitter.evidence.targets.local import build_payload, carry
from fitter.labels import LabelSchema, text
from fitter.records import Framing, Row, Scope, VerdictContract
from fitter.textsafe import one_line

# Judge spec prefix → the integration that can call the model, in the spelling of the integrations API.
INTEGRATIONS: Final[Mapping[str, str]] = {
    "openai": "openai",
    "anthropic": "anthropic",
    "azure": "azure_openai",
    "bedrock": "amazon_bedrock",
    "vertex": "vertex_ai",
}
_REASONING: Final[Mapping[str, Any]] = {
    "type": "string",
    "description": "What in the content decides the answer; comes first. Close it with: Confidence: NN%",
}
# Where the platform's renderer is not documented to the byte, and what is assumed here (PU-5).
RENDERER_DIFFERENCES: Final = (
    "Objects are shown as compact JSON with sorted keys; the platform's key order is not documented",
    "Numbers and booleans are shown as their JSON text; the platform does not document how it shows them",
    "A field is cut at 250,000 bytes of UTF-8; the platform says 250 KB without saying of what",
)


def _alias(side: str) -> Any:
    def path(payload: Mapping[str, Any]) -> str:
        meta = payload.get("meta")
        span = meta.get("span") if isinstance(meta, Mapping) else None
        is_llm = isinstance(span, Mapping) and span.get("kind") == "llm"
        return f"meta.{side}.messages[*].content" if is_llm else f"meta.{side}.value"

    return path


ALIASES: Final[grammar.Aliases] = {"span_input": _alias("input"), "span_output": _alias("output")}


def through(model: str) -> tuple[str, str | None]:
    """A judge's model, and the server of the user's own that it is measured through, or None."""
    name, at, url = model.partition("@http")
    return name.strip(), f"http{url}" if at else None


class DatadogTarget:
    """The target of ``--publish-to datadog``; implements ``evidence.targets.base.Target``."""

    name: str = "datadog"
    scopes: tuple[Scope, ...] = ("span", "trace", "session")
    # No limit on a prompt is published; the model's context is the real one. Above this a row is not worth a call.
    max_user_bytes: int = 1_000_000

    def hosts(self, judge_spec: str) -> str | None:
        """The models behind an integration of the organisation; see Target.

        A spec with a URL (``openai:MODEL@https://...``) is hosted too: the fit then measures through that server, and
        the platform calls the vendor's own model of that name (:func:`through`), which the report names as a gap.
        """
        kind, colon, model = judge_spec.partition(":")
        shown = one_line(judge_spec, 60)
        known = ", ".join(f"{prefix}:MODEL" for prefix in INTEGRATIONS)
        if judge_spec == "lexicon":
            return f"Datadog cannot run the embedded judge lexicon: it hosts models behind an integration ({known})"
        if kind in ("local", "replay"):
            return f"Datadog cannot run {shown!r}: it is on this machine; Datadog hosts {known}"
        if kind not in INTEGRATIONS or not colon or not through(model)[0]:
            return f"Datadog has no integration for the judge {shown!r}; it hosts {known}"
        return None

    def contract(self, label: LabelSchema) -> VerdictContract:
        """Fixed names: ``reasoning``, then ``boolean_eval``, ``categorical_eval`` or ``score_eval``; see Target.

        There is no confidence field: the platform refuses every further property.

        Raises:
            SettingsError: a multi-select label, which no evaluator of the platform can answer.
        """
        field, value = _answer(label)
        schema = {
            "type": "object",
            "properties": {"reasoning": dict(_REASONING), field: value},
            "required": [field, "reasoning"],  # the platform takes this order only
            "additionalProperties": False,
        }
        return VerdictContract(
            label_field=field, reasoning_field="reasoning", confidence_field=None, schema=schema, label=label
        )

    def compile(self, evidence: EvidenceMap) -> Compiled:
        """See Target; raises SettingsError for a selector that does not parse."""
        return carry(evidence, ALIASES)

    def payload(self, row: Row, scope: Scope, framing: Framing) -> Mapping[str, Any] | None:
        """See Target: built by allow-list."""
        return build_payload(row, scope, framing)

    def resolve(self, template: str, payload: Mapping[str, Any]) -> Resolved:
        """See Target; each field is cut at the platform's cap, and a cut is reported."""
        aliases = ALIASES if "meta" in payload else None
        return grammar.resolve(template, payload, aliases=aliases, field_cap=grammar.FIELD_CAP)


def _answer(label: LabelSchema) -> tuple[str, dict[str, Any]]:
    if label.kind == "boolean":
        return "boolean_eval", {"type": "boolean"}
    if label.kind == "categorical":
        named = [{"const": c, "description": _meaning(label, c)} for c in label.classes]
        return "categorical_eval", {"type": "string", "anyOf": named}
    if label.kind == "numeric":
        score: dict[str, Any] = {"type": "number"}
        for key, bound in (("minimum", label.minimum), ("maximum", label.maximum)):
            if bound is not None:
                score[key] = int(bound) if float(bound).is_integer() else bound
        return "score_eval", score
    raise SettingsError(
        f"Datadog has no evaluator that answers several values at once; {one_line(label.name, 60)!r} is multi-select",
        hint="publish to local, or fit one boolean label per value",
    )


def _meaning(label: LabelSchema, value: bool | str) -> str:
    return label.value_descriptions.get(text(value)) or text(value)
