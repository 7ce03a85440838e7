"""The evaluator document on Datadog's two surfaces, and what of it must read back as sent. Pure.

The *nested* document (public REST, ``attributes``) is the one form used here; the *flat* one (MCP and façade) is made
from it by :func:`flatten`, which refuses to lose a field: that surface ignores what it does not know, and every write
is a full replace.
"""

from __future__ import annotations

import copy
from collections.abc import Iterator, Mapping
from typing import Any, Final

from fitter.errors import SettingsError
from fitter.publishing.publisher import EvaluatorSpec
from fitter.textsafe import one_line

KINDS: Final = ("boolean_eval", "categorical_eval", "score_eval")
# Owned by the server; read, never sent.
READ_ONLY: Final = frozenset({"id", "created_at", "updated_at", "created_by", "last_updated_by", "error", "last_error"})
# Said of the prompt and schema that are replaced; kept, they would describe what is no longer there.
_OF_THE_OLD_PROMPT: Final = (
    "last_used_library_prompt_template_name",
    "modified_library_prompt_template",
    "user_specified_json_post_processing_function",
)
# Wrapped as {name, strict, schema} for these, bare for the others (the SDK's own rule; [G] on the server).
_WRAPPED: Final = frozenset({"openai", "azureopenai"})
_HYPHENS: Final[Mapping[str, str]] = {
    "amazon_bedrock": "amazon-bedrock",
    "azure_openai": "azure-openai",
    "vertex_ai": "vertex-ai",
}
_SAMPLING: Final[Mapping[str, float]] = {"span": 10, "trace": 5, "session": 5}
ROOT_FILTER: Final = "@parent_id:undefined"

FLAT: Final[Mapping[str, str]] = {
    "eval_name": "eval_name",
    "target.application_name": "application_name",
    "target.enabled": "enabled",
    "target.eval_scope": "eval_scope",
    "target.filter": "filter",
    "target.root_spans_only": "root_spans_only",
    "target.sampling_percentage": "sampling_percentage",
    "llm_provider.integration_provider": "integration_provider",
    "llm_provider.integration_account_id": "integration_account_id",
    "llm_provider.model_name": "model_name",
    "llm_provider.bedrock.region": "bedrock_region",
    "llm_provider.bedrock.inference_profile": "bedrock_inference_profile",
    "llm_provider.vertex_ai.project": "vertex_ai_project",
    "llm_provider.vertex_ai.location": "vertex_ai_location",
    "llm_judge_config.parsing_type": "parsing_type",
    "llm_judge_config.output_schema": "output_schema",
    "llm_judge_config.assessment_criteria": "assessment_criteria",
    "llm_judge_config.prompt_template": "prompt_template",
    "llm_judge_config.inference_params.temperature": "temperature",
    "llm_judge_config.inference_params.max_tokens": "max_tokens",
    "llm_judge_config.inference_params.top_p": "top_p",
    "llm_judge_config.inference_params.top_k": "top_k",
    "llm_judge_config.inference_params.frequency_penalty": "frequency_penalty",
    "llm_judge_config.inference_params.presence_penalty": "presence_penalty",
}
# Writable over REST only; kept by a full replace there, so they are compared as well.
_NESTED_ONLY: Final = frozenset(
    {
        "target.experiment_project_ids",
        "llm_judge_config.context_query",
        "llm_judge_config.target_query",
        "llm_judge_config.inference_params.reasoning_effort",
    }
)
_WHOLE: Final = frozenset({"output_schema", "assessment_criteria", "prompt_template"})


def plain(provider: Any) -> str:
    """A provider's name without the marks in which its three spellings differ."""
    return str(provider or "").lower().replace("-", "").replace("_", "")


def is_disabled(document: Mapping[str, Any]) -> bool:
    """True only for an explicit ``false``: a missing or misspelt switch counts as enabled (PU-3)."""
    return _mapping(document.get("target")).get("enabled") is False


def owner(document: Mapping[str, Any]) -> str:
    """The application an evaluator belongs to."""
    return str(_mapping(document.get("target")).get("application_name") or "")


def document(
    spec: EvaluatorSpec,
    existing: Mapping[str, Any] | None,
    *,
    provider: str,
    model: str,
    account: Mapping[str, Any] | None = None,
    target: Mapping[str, Any] | None = None,
    params: Mapping[str, Any] | None = None,
) -> dict[str, Any]:
    """The full nested document: the existing one with only our fields replaced, disabled (PU-1, PU-3).

    Args:
        spec: the judge.
        existing: what is stored, or None.
        provider: integration, in the integrations API's spelling.
        model: the vendor's model name.
        account: ``{"account_id", "bedrock"?, "vertex_ai"?}`` of the integration account, where known.
        target: ``filter``, ``root_spans_only``, ``sampling_percentage`` that the user asked for.
        params: inference parameters that the user asked for.
    """
    kept = {k: copy.deepcopy(v) for k, v in (existing or {}).items() if k not in READ_ONLY and v is not None}
    section = _section(kept, "target")
    fresh = existing is None
    section |= {"application_name": spec.app, "enabled": False, "eval_scope": spec.scope}
    if section.get("sampling_percentage") is None:
        section["sampling_percentage"] = _SAMPLING[spec.scope]
    if fresh and spec.scope == "trace":
        # Without it a trace evaluator could fire once a span: the filter is matched on the root.
        section |= {"root_spans_only": True, "filter": ROOT_FILTER}
    section |= {k: v for k, v in (target or {}).items() if v is not None}
    judge = _section(kept, "llm_judge_config")
    for name in _OF_THE_OLD_PROMPT:
        judge.pop(name, None)
    inference = _section(judge, "inference_params")
    if fresh:
        inference["temperature"] = 0
    inference |= {k: v for k, v in (params or {}).items() if v is not None}
    judge |= {
        "inference_params": inference,
        "parsing_type": "structured_output",
        "output_schema": output_schema(spec, provider),
        "prompt_template": [
            {"role": "system", "content": spec.system},
            {"role": "user", "content": spec.user_template},
        ],
    }
    judge.pop("assessment_criteria", None)
    if rule := criteria(spec):
        judge["assessment_criteria"] = rule
    return {
        **kept,
        "eval_name": spec.name,
        "target": section,
        "llm_provider": _provider(_section(kept, "llm_provider"), provider, model, account),
        "llm_judge_config": judge,
    }


def _provider(kept: dict[str, Any], provider: str, model: str, account: Mapping[str, Any] | None) -> dict[str, Any]:
    if plain(kept.get("integration_provider")) != plain(provider):
        kept = {}  # another vendor's account, region or project
    out = {**kept, "integration_provider": _HYPHENS.get(provider, provider), "model_name": model}
    if account is not None and not kept.get("integration_account_id"):
        out["integration_account_id"] = account["account_id"]
        for name in ("bedrock", "vertex_ai"):
            if account.get(name) and not out.get(name):
                out[name] = dict(account[name])
    return out


def output_schema(spec: EvaluatorSpec, provider: str) -> dict[str, Any]:
    """The measured schema in the form that the provider's configs have."""
    schema = copy.deepcopy(dict(spec.contract.schema))
    return wrap(schema) if plain(provider) in _WRAPPED else schema


def wrap(schema: Mapping[str, Any]) -> dict[str, Any]:
    """``{name, strict, schema}``; the name is the verdict's field."""
    properties = _mapping(schema.get("properties"))
    name = next((kind for kind in KINDS if kind in properties), "json_eval")
    return {"name": name, "strict": True, "schema": dict(schema)}


def unwrap(schema: Any) -> Any:
    """The bare schema of either form."""
    inner = schema.get("schema") if isinstance(schema, Mapping) else None
    return inner if isinstance(inner, Mapping) else schema


def ladder(config: Mapping[str, Any]) -> Iterator[tuple[str, dict[str, Any]]]:
    """What to try when the platform calls an output schema invalid: (what changed, document), the asked one first.

    The other wrapper form means the same. Leaving out properties beyond verdict and reasoning does not: it is tried
    last, and the comparison afterwards says so.
    """
    schema = _mapping(config.get("llm_judge_config")).get("output_schema")
    bare = unwrap(schema)
    wrapped = isinstance(schema, Mapping) and bare is not schema
    yield "as measured", _with_schema(config, schema)
    if not isinstance(bare, Mapping):
        return
    other, word = (dict(bare), "bare") if wrapped else (wrap(bare), "wrapped")
    yield f"with the {word} output schema", _with_schema(config, other)
    properties = _mapping(bare.get("properties"))
    extra = sorted(set(properties) - {*KINDS, "reasoning"})
    if extra:
        less = {k: v for k, v in properties.items() if k not in extra}
        need = [name for name in bare.get("required", ()) if name not in extra]
        slim = {**bare, "properties": less, "required": need}
        for form, name in ((wrap(slim), "wrapped"), (slim, "bare")):
            yield f"without {', '.join(extra)}, with the {name} output schema", _with_schema(config, form)


def _with_schema(config: Mapping[str, Any], schema: Any) -> dict[str, Any]:
    return {**config, "llm_judge_config": {**_mapping(config.get("llm_judge_config")), "output_schema": schema}}


def criteria(spec: EvaluatorSpec) -> dict[str, Any] | None:
    """What counts as a pass, where the user named labels; None leaves the verdict without an assessment."""
    field, labels = spec.contract.label_field, spec.pass_labels
    if field == "boolean_eval" and len(set(labels)) == 1:
        return {"pass_when": labels[0] == "true"}
    if field == "categorical_eval" and labels:
        return {"pass_values": sorted(set(labels))}
    if field == "score_eval" and labels:
        numbers = sorted(float(text) for text in labels)
        return {"min_threshold": _number(numbers[0]), "max_threshold": _number(numbers[-1])}
    return None


def flatten(config: Mapping[str, Any]) -> dict[str, Any]:
    """The flat document, without nulls (a null ``output_schema`` would be stored as the word "null").

    Raises:
        SettingsError: the evaluator holds a field that this surface cannot write; the full replace would lose it.
    """
    out: dict[str, Any] = {}
    lost = []
    for path, value in _leaves(config):
        if path in FLAT:
            out[FLAT[path]] = value
        elif path != "category" or value != "Custom":
            lost.append(path)
    prompt = out.get("prompt_template")
    if isinstance(prompt, list) and any("contents" in _mapping(item) for item in prompt):
        lost.append("llm_judge_config.prompt_template[].contents")
    if lost:
        raise SettingsError(
            f"this evaluator holds {', '.join(one_line(p, 80) for p in sorted(lost)[:5])}, which Datadog's MCP surface "
            "cannot write: a write there would lose it",
            hint="use --backend rest for this evaluator, or another --name",
        )
    provider = str(out.get("integration_provider") or "")
    if provider:
        out["integration_provider"] = provider.replace("-", "_")
    return out


def refuse_lossy(existing: Mapping[str, Any]) -> None:
    """Before any spend: can the flat surface keep what this evaluator holds beside its prompt?

    Raises:
        SettingsError: see :func:`flatten`.
    """
    judge = _mapping(existing.get("llm_judge_config"))
    ours = {*_OF_THE_OLD_PROMPT, "prompt_template", "output_schema", "assessment_criteria"}
    flatten({**existing, "llm_judge_config": {k: v for k, v in judge.items() if k not in ours}})


def unflatten_shape(found: Any) -> dict[str, Any] | None:
    """The nested attributes in a reply, under whichever wrapper; None when there are none."""
    for _ in range(4):
        if not isinstance(found, Mapping):
            return None
        if "target" in found or "llm_judge_config" in found or "eval_name" in found:
            return dict(found)
        found = next((found[k] for k in ("data", "attributes", "evaluator") if isinstance(found.get(k), Mapping)), None)
    return None


def comparable(config: Mapping[str, Any], *, account: bool) -> dict[str, Any]:
    """What must read back as sent, normalised: null is absent, spellings and wrapper forms are one, 0.0 is 0.

    Args:
        config: a nested document, sent or read.
        account: compare the integration account too (where one was chosen).
    """
    out: dict[str, Any] = {}
    for path, value in _leaves(config):
        known = path in FLAT or path in _NESTED_ONLY
        if not known or (path.endswith("integration_account_id") and not account):
            continue
        if path.endswith("integration_provider"):
            value = plain(value)
        elif path.endswith("output_schema"):
            value = unwrap(value)
        elif path.endswith("assessment_criteria") and isinstance(value, Mapping) and "pass_values" in value:
            value = {**value, "pass_values": sorted(map(str, value["pass_values"]))}
        elif path.endswith("root_spans_only") and value is False:
            continue  # the same as leaving it out
        out[path] = _clean(value)
    return out


def _leaves(value: Any, path: str = "") -> Iterator[tuple[str, Any]]:
    """Dotted paths to values; what the flat surface takes whole stays whole; read-only and empty things drop out."""
    if value is None or value in ({}, []):
        return
    last = path.rpartition(".")[2]
    if isinstance(value, Mapping) and last not in _WHOLE:
        for key, inner in value.items():
            if not (path == "" and key in READ_ONLY):
                yield from _leaves(inner, f"{path}.{key}" if path else str(key))
        return
    yield path, value


def _clean(value: Any) -> Any:
    if isinstance(value, Mapping):
        return {k: _clean(v) for k, v in value.items() if v is not None}
    if isinstance(value, list):
        return [_clean(v) for v in value]
    return _number(value) if isinstance(value, float) else value


def _number(value: float) -> float | int:
    return int(value) if float(value).is_integer() else value


def _section(holder: dict[str, Any], key: str) -> dict[str, Any]:
    found = holder.get(key)
    return {k: v for k, v in found.items() if v is not None} if isinstance(found, Mapping) else {}


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}
