"""The evaluator registry behind REST and façade: full replace, schema rules, lag and every way a write can go wrong."""

from __future__ import annotations

import copy
from typing import Any

from tests.servers.datadog.switches import Switches
from tests.servers.datadog.wire import Refusal
from tests.servers.datadog.world import World, iso

KINDS = ("boolean_eval", "score_eval", "categorical_eval")
WRAPPED = ("openai", "azureopenai")

# flat key -> nested path (4.2 d)
FLAT = {
    "application_name": "target.application_name",
    "enabled": "target.enabled",
    "eval_scope": "target.eval_scope",
    "filter": "target.filter",
    "root_spans_only": "target.root_spans_only",
    "sampling_percentage": "target.sampling_percentage",
    "integration_provider": "llm_provider.integration_provider",
    "integration_account_id": "llm_provider.integration_account_id",
    "model_name": "llm_provider.model_name",
    "bedrock_region": "llm_provider.bedrock.region",
    "bedrock_inference_profile": "llm_provider.bedrock.inference_profile",
    "vertex_ai_project": "llm_provider.vertex_ai.project",
    "vertex_ai_location": "llm_provider.vertex_ai.location",
    "parsing_type": "llm_judge_config.parsing_type",
    "output_schema": "llm_judge_config.output_schema",
    "assessment_criteria": "llm_judge_config.assessment_criteria",
    "prompt_template": "llm_judge_config.prompt_template",
    **{
        key: f"llm_judge_config.inference_params.{key}"
        for key in ("temperature", "max_tokens", "top_p", "top_k", "frequency_penalty", "presence_penalty")
    },
}


def plain(provider: Any) -> str:
    return str(provider or "").lower().replace("-", "").replace("_", "")


def set_path(doc: dict[str, Any], path: str, value: Any) -> None:
    *parents, last = path.split(".")
    for part in parents:
        doc = doc.setdefault(part, {})
    doc[last] = value


class Registry:
    def __init__(self, world: World, switches: Switches) -> None:
        self.world = world
        self.switches = switches
        self.reset()

    def reset(self) -> None:
        self.writes = 0
        self._hide_list: dict[str, int] = {}
        self._hide_get: dict[str, int] = {}

    # reads
    def get(self, name: str) -> dict[str, Any]:
        if self._hide_get.get(name, 0) > 0:
            self._hide_get[name] -= 1
            raise Refusal(404, "not found")
        if name not in self.world.evaluators:
            raise Refusal(404, "not found")
        return self._shown(name)

    def _shown(self, name: str) -> dict[str, Any]:
        doc = copy.deepcopy(self.world.evaluators[name])
        s = self.switches
        provider = doc.get("llm_provider", {})
        if "integration_provider" in provider and s.readback_spelling != "as_stored":
            mark = "_" if s.readback_spelling == "underscore" else "-"
            provider["integration_provider"] = provider["integration_provider"].replace("-", mark).replace("_", mark)
        judge = doc.get("llm_judge_config", {})
        schema = judge.get("output_schema")
        if isinstance(schema, dict):
            inner = schema.get("schema") if isinstance(schema.get("schema"), dict) else schema
            if s.readback_wrapper == "wrapped":
                name_key = next((k for k in KINDS if k in inner.get("properties", {})), "json_eval")
                judge["output_schema"] = {"name": name_key, "strict": True, "schema": inner}
            elif s.readback_wrapper == "bare":
                judge["output_schema"] = inner
        if s.readback_nulls:
            doc.setdefault("target", {}).setdefault("experiment_project_ids", None)
            judge.setdefault("context_query", None)
            judge.setdefault("user_specified_json_post_processing_function", None)
        if s.readback_extra:
            doc["id"] = ""
            doc["created_by"] = {"email": "someone@example.test"}
            doc["last_updated_by"] = {"email": "someone@example.test"}
        else:
            for key in ("created_at", "updated_at", "category"):
                doc.pop(key, None)
        return doc

    def listed(self) -> list[dict[str, Any]]:
        out = []
        for name in self.world.evaluators:
            lag = self._hide_list.get(name, 0)
            if lag:
                if lag > 0:
                    self._hide_list[name] = lag - 1
                continue
            out.append(self._shown(name))
        return out

    # writes
    def put(self, name: str, attributes: dict[str, Any]) -> None:
        """The nested write: a full replace."""
        target = attributes.get("target")
        if not isinstance(target, dict) or not isinstance(target.get("application_name"), str):
            raise Refusal(400, "attributes.target.application_name is required")
        if not isinstance(target.get("enabled"), bool):
            raise Refusal(400, "attributes.target.enabled is required")
        if attributes.get("eval_name", name) != name:
            raise Refusal(400, "eval_name in the body differs from the path")
        sampling = target.get("sampling_percentage")
        if sampling is not None and (isinstance(sampling, bool) or not 0 < sampling <= 100):
            raise Refusal(422, "sampling_percentage must be above 0 and at most 100")
        if target.get("eval_scope", "span") not in ("span", "trace", "session"):
            raise Refusal(400, "invalid eval_scope")
        self._may_write(name)
        judge = attributes.get("llm_judge_config")
        if isinstance(judge, dict):
            if not isinstance(judge.get("inference_params"), dict):
                raise Refusal(400, "llm_judge_config.inference_params is required")
            self._check_schema(judge, attributes.get("llm_provider") or {})
        self._store(name, attributes)

    def put_flat(self, args: dict[str, Any]) -> None:
        """The flat write (4.2): unknown keys are ignored, also a whole nested document."""
        name = args.get("eval_name")
        if not isinstance(name, str) or not name:
            raise Refusal(400, "eval_name is required")
        self._may_write(name)
        if self.switches.discard_draft and args.get("discard_draft_id") is None:
            raise Refusal(409, "an unpublished draft exists; pass discard_draft_id=draft-7 to discard it")
        doc: dict[str, Any] = {"eval_name": name}
        for key, path in FLAT.items():
            if key in args:
                set_path(doc, path, args[key])
        judge = doc.get("llm_judge_config")
        if isinstance(judge, dict) and "output_schema" in judge:
            if judge["output_schema"] is None:
                judge["output_schema"] = "null"
            else:
                self._check_schema(judge, doc.get("llm_provider") or {})
        sampling = args.get("sampling_percentage")
        if sampling is not None and not 0 < sampling <= 100:
            raise Refusal(422, "sampling_percentage must be above 0 and at most 100")
        self._store(name, doc)

    def _may_write(self, name: str) -> None:
        if self.switches.versioned or name in self.switches.versioned_names:
            raise Refusal(
                400, f'custom evaluator "{name}" is versioned and can only be edited from the LLM Observability UI'
            )
        if self.switches.write_refused:
            raise Refusal(400, self.switches.write_refused)

    def _check_schema(self, judge: dict[str, Any], provider: dict[str, Any]) -> None:
        if judge.get("parsing_type", "structured_output") != "structured_output":
            return
        schema = judge.get("output_schema")
        bad = Refusal(400, "llm_judge_config.output_schema: invalid BYOP output schema")
        if not isinstance(schema, dict):
            raise bad
        wrapped = isinstance(schema.get("schema"), dict)
        rule = self.switches.wrapper_rule
        want = plain(provider.get("integration_provider")) in WRAPPED if rule == "by_provider" else rule == "require"
        if rule != "any" and wrapped != want:
            raise bad
        inner = schema["schema"] if wrapped else schema
        properties = inner.get("properties")
        if inner.get("type") != "object" or not isinstance(properties, dict):
            raise bad
        kinds = [k for k in KINDS if k in properties]
        if len(kinds) != 1 or (wrapped and schema.get("name") != kinds[0]):
            raise bad
        if inner.get("required") not in ([kinds[0]], [kinds[0], "reasoning"]):
            raise bad
        if not self.switches.allow_extra_properties and set(properties) - {kinds[0], "reasoning"}:
            raise bad
        if inner.get("additionalProperties") is not False:
            raise bad

    def _store(self, name: str, attributes: dict[str, Any]) -> None:
        self.writes += 1
        if self.switches.write_lost:
            return
        doc = copy.deepcopy(attributes)
        doc.pop("id", None)
        old = self.world.evaluators.get(name, {})
        doc["eval_name"] = name
        doc["created_at"] = old.get("created_at", iso(self.world.now))
        doc["updated_at"] = iso(self.world.now)
        doc.setdefault("category", "Custom")
        for path, value in self.switches.lands_changed.items():
            set_path(doc, path, value)
        self.world.evaluators[name] = doc
        self._hide_list[name] = self.switches.list_lag
        self._hide_get[name] = self.switches.read_lag
