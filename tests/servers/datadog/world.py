"""The data behind the stand-in: queues, spans, evaluators, accounts, and small builders for tests."""

from __future__ import annotations

import hashlib
import time
import uuid
from dataclasses import dataclass, field
from typing import Any

DAY = 86_400


def stable_uuid(text: str) -> str:
    """A UUID that is the same in every run."""
    return str(uuid.UUID(hashlib.sha256(text.encode()).hexdigest()[:32]))


def iso(epoch: float) -> str:
    return time.strftime("%Y-%m-%dT%H:%M:%SZ", time.gmtime(epoch))


@dataclass
class World:
    """Mutable state. Spans are kept in the export form of 3.6 plus ``_at`` (epoch seconds) for windows."""

    now: float = field(default_factory=lambda: float(int(time.time())))
    queues: dict[str, dict[str, Any]] = field(default_factory=dict)
    spans: list[dict[str, Any]] = field(default_factory=list)
    by_trace: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    contents: dict[str, dict[str, Any]] = field(default_factory=dict)
    evaluators: dict[str, dict[str, Any]] = field(default_factory=dict)
    ootb: list[dict[str, Any]] = field(default_factory=list)
    accounts: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    models: dict[str, list[dict[str, Any]]] = field(default_factory=dict)
    verdicts: dict[str, dict[str, dict[str, Any]]] = field(default_factory=dict)  # evaluator -> span id -> verdict

    def queue(self, name: str, schemas: list[dict[str, Any]] | None, *, queue_id: str | None = None) -> str:
        key = queue_id or stable_uuid(f"queue {name} {len(self.queues)}")
        self.queues[key] = {"name": name, "schemas": schemas, "interactions": []}
        return key

    def span(
        self,
        trace_id: str,
        span_id: str,
        *,
        parent: str = "undefined",
        name: str = "step",
        kind: str = "llm",
        age: float = 3 * DAY,
        offset_ms: int = 0,
        **more: Any,
    ) -> dict[str, Any]:
        at = self.now - age
        span = {
            "span_id": span_id,
            "trace_id": trace_id,
            "parent_id": parent,
            "name": name,
            "span_kind": kind,
            "status": more.pop("status", "ok"),
            "start_ns": (int(at) * 1000 + offset_ms) * 1_000_000,
            "duration": more.pop("duration_ms", 5) * 1_000_000,
            "ml_app": more.pop("ml_app", "support"),
            "tags": more.pop("tags", ["env:prod"]),
            **more,
            "_at": at,
        }
        self.spans.append(span)
        self.by_trace.setdefault(trace_id, []).append(span)
        return span

    def interaction(
        self,
        queue_id: str,
        content_id: str,
        annotations: list[dict[str, Any]] | None = None,
        *,
        kind: str = "trace",
        key: str | None = None,
        **more: Any,
    ) -> str:
        """Adds one; an annotation is ``{"by": user, "values": {schema id: (value, reasoning)}}``."""
        number = len(self.queues[queue_id]["interactions"])
        iid = key or stable_uuid(f"interaction {queue_id} {number}")
        names = {s["id"]: s for s in self.queues[queue_id]["schemas"] or []}
        notes = []
        for n, note in enumerate(annotations or []):
            values = []
            for sid, (value, reasoning) in note["values"].items():
                schema = names.get(sid, {"name": sid, "type": "boolean"})
                entry = {
                    "label_schema_id": sid,
                    "name_when_saved": schema["name"],
                    "type": schema["type"],
                    "value": value,
                }
                if reasoning is not None:
                    entry["reasoning"] = reasoning
                values.append(entry)
            notes.append(
                {
                    "id": stable_uuid(f"annotation {iid} {n}"),
                    "interaction_id": iid,
                    "created_by": note["by"],
                    "created_at": iso(self.now - DAY),
                    "modified_by": note["by"],
                    "modified_at": iso(self.now - DAY),
                    "label_values": values,
                }
            )
        item = {"id": iid, "type": kind, "content_id": content_id, "annotations": notes, **more}
        if kind != "display_block":
            item["created_at"] = item["modified_at"] = iso(self.now - DAY)
        self.queues[queue_id]["interactions"].append(item)
        return iid

    def evaluator(
        self,
        name: str,
        app: str,
        *,
        enabled: bool = False,
        provider: str = "openai",
        model: str = "gpt-5.4-mini",
        **target: Any,
    ) -> dict[str, Any]:
        """An evaluator that exists before the test writes."""
        self.evaluators[name] = {
            "eval_name": name,
            "category": "Custom",
            "created_at": iso(self.now - 30 * DAY),
            "updated_at": iso(self.now - 20 * DAY),
            "target": {
                "application_name": app,
                "enabled": enabled,
                "eval_scope": "span",
                "sampling_percentage": 25.0,
                **target,
            },
            "llm_provider": {
                "integration_provider": provider,
                "integration_account_id": f"acc-{provider}",
                "model_name": model,
            },
            "llm_judge_config": {
                "inference_params": {"temperature": 0, "max_tokens": 700},
                "parsing_type": "structured_output",
                "output_schema": {
                    "name": "boolean_eval",
                    "strict": True,
                    "schema": {
                        "type": "object",
                        "properties": {"boolean_eval": {"type": "boolean"}, "reasoning": {"type": "string"}},
                        "required": ["boolean_eval", "reasoning"],
                        "additionalProperties": False,
                    },
                },
                "assessment_criteria": {"pass_when": True},
                "prompt_template": [
                    {"role": "system", "content": "Judge."},
                    {"role": "user", "content": "{{span_input}} {{meta.metadata.topic}}"},
                ],
            },
        }
        return self.evaluators[name]

    def account(self, integration: str, *models: str, account_id: str | None = None, json_schema: bool = True) -> str:
        key = account_id or f"acc-{integration}"
        self.accounts.setdefault(integration, []).append(
            {"id": key, "integration": integration, "account_id": key, "account_name": f"{integration} main"}
        )
        self.models[key] = [
            {
                "id": m,
                "integration": integration,
                "provider": integration,
                "model_id": m,
                "model_display_name": m,
                "has_access": True,
                "json_schema": json_schema,
            }
            for m in models
        ]
        return key
