"""The public REST surface (contract §3)."""

from __future__ import annotations

import copy
import re
import urllib.parse
import uuid
from typing import Any

from tests.servers.datadog.registry import Registry
from tests.servers.datadog.switches import Switches
from tests.servers.datadog.wire import Refusal, Reply, Request, window
from tests.servers.datadog.world import World, stable_uuid

V1 = "/api/v2/llm-obs/v1"
EVALUATORS = "/api/unstable/llm-obs/config/evaluators/custom"
PRIVATE = ("_at",)


class Rest:
    def __init__(self, world: World, switches: Switches, registry: Registry) -> None:
        self.world = world
        self.switches = switches
        self.registry = registry

    def handle(self, request: Request) -> Reply | None:
        """Answers, or None when the path belongs to another surface."""
        path = request.path
        if path.startswith(EVALUATORS):
            return self._evaluator(request, urllib.parse.unquote(path[len(EVALUATORS) :].lstrip("/")))
        if not path.startswith(V1 + "/"):
            return None
        parts = path[len(V1) + 1 :].split("/")
        match (request.method, parts):
            case ("GET", ["annotation-queues"]):
                return self._queues(request)
            case ("GET", ["annotation-queues", key, "label-schema"]):
                return self._schema(key)
            case ("GET", ["annotation-queues", key, "annotated-interactions"]):
                return self._interactions(key)
            case ("GET", ["annotation-queues", key, "annotated-interactions", item]):
                return self._content(key, item)
            case ("GET", ["annotated-interactions"]):
                return self._across(request)
            case ("GET", ["spans", "events"]):
                return self._spans_get(request)
            case ("POST", ["spans", "events", "search"]):
                return self._spans_search(request.body)
            case ("GET", ["integrations", integration, "accounts"]):
                return Reply(body=self.world.accounts.get(integration, []))
            case ("GET", ["integrations", _, account, "models"]):
                if account not in self.world.models:
                    raise Refusal(404, "account not found")
                return Reply(body=self.world.models[account])
        raise Refusal(404, "not found")

    # queues
    def find_queue(self, key: str) -> dict[str, Any]:
        if key not in self.world.queues:
            raise Refusal(404, f"annotation queue {key} not found")
        return self.world.queues[key]

    def schema_of(self, key: str) -> dict[str, Any] | None:
        schemas = self.find_queue(key)["schemas"]
        return None if self.switches.annotation_schema_null or schemas is None else {"label_schemas": schemas}

    def queue_doc(self, key: str) -> dict[str, Any]:
        attributes = {
            "name": self.world.queues[key]["name"],
            "description": "",
            "project_id": stable_uuid("project"),
            "owned_by": stable_uuid("owner"),
            "annotation_schema": self.schema_of(key),
        }
        return {"id": key, "type": "queues", "attributes": attributes}

    def _queues(self, request: Request) -> Reply:
        if request.query.get("projectId") and request.query.get("queueIds"):
            raise Refusal(400, "projectId and queueIds are mutually exclusive")
        wanted = [k for part in request.query.get("queueIds", []) for k in part.split(",")]
        keys = [k for k in self.world.queues if not wanted or k in wanted]
        return Reply(body={"data": [self.queue_doc(k) for k in keys]})

    def _schema(self, key: str) -> Reply:
        return Reply(
            body={"data": {"id": key, "type": "queues", "attributes": {"annotation_schema": self.schema_of(key)}}}
        )

    def shown_interactions(self, key: str) -> list[dict[str, Any]]:
        s = self.switches
        out = []
        for item in self.find_queue(key)["interactions"]:
            item = copy.deepcopy(item)
            if s.annotations_null and not item["annotations"]:
                item["annotations"] = None
            for note in item["annotations"] or []:
                note["label_values"] = self._label_values(note["label_values"])
            out.append(item)
        return out

    def _label_values(self, entries: Any) -> Any:
        s = self.switches
        if not isinstance(entries, list):
            return entries
        for entry in entries:
            if entry.get("type") == "categorical":
                value = entry.get("value")
                if s.categorical_as == "list" and isinstance(value, str):
                    entry["value"] = [value] if value else []
                elif s.categorical_as == "string" and isinstance(value, list) and len(value) == 1:
                    entry["value"] = value[0]
        if s.label_values == "map_id":
            return {e["label_schema_id"]: e for e in entries}
        if s.label_values == "map_name":
            return {e["name_when_saved"]: e for e in entries}
        if s.label_values == "map_bare":
            return {e["label_schema_id"]: e.get("value") for e in entries}
        return entries

    def _interactions(self, key: str) -> Reply:
        body = {"annotated_interactions": self.shown_interactions(key)}
        return Reply(body={"data": {"id": key, "type": "annotated_interactions", "attributes": body}})

    def _content(self, key: str, item: str) -> Reply:
        self.find_queue(key)
        try:
            uuid.UUID(item)
        except ValueError:
            raise Refusal(400, f'invalid interactionId "{item}": expected a UUID') from None
        found = next((i for i in self.world.queues[key]["interactions"] if i["id"] == item), None)
        if found is None or item in self.switches.expired_content or item not in self.world.contents:
            content_id = item if found is None else found["content_id"]
            raise Refusal(404, f"interaction data with id {content_id} not found")
        return Reply(
            body={"data": {"id": item, "type": "annotated_interaction", "attributes": self.world.contents[item]}}
        )

    def _across(self, request: Request) -> Reply:
        wanted = request.query.get("contentIds") or []
        if not wanted:
            raise Refusal(400, "contentIds is required")
        offset, limit = int(request.one("offset", "0")), int(request.one("limit", "100"))
        rows = [
            {**item, "queue_id": key, "queue_name": self.world.queues[key]["name"]}
            for key in self.world.queues
            for item in self.shown_interactions(key)
            if item["content_id"] in wanted
        ]
        attributes = {"annotated_interactions": rows[offset : offset + limit], "total_count": len(rows)}
        return Reply(
            body={"data": {"id": "trace-query", "type": "annotated_interactions_by_trace", "attributes": attributes}}
        )

    # spans
    def select(self, filters: dict[str, Any], default_from: str) -> list[dict[str, Any]]:
        """Spans in the window that pass the filters, oldest first; ``query`` beats the structured ones."""
        start, end = window(filters.get("from"), filters.get("to"), self.world.now, default_from)
        query = str(filters.get("query") or "")
        if query:
            filters = {}
            for key, quoted, bare in re.findall(r'@?([a-z_]+):(?:"([^"]*)"|(\S+))', query):
                filters["parent_id" if key == "parent_id" else key] = quoted or bare
        pool = self.world.by_trace.get(filters["trace_id"], []) if filters.get("trace_id") else self.world.spans
        out = []
        for span in pool:
            if not start <= span["_at"] < end or self._gone(span):
                continue
            checks = (("trace_id", "trace_id"), ("span_id", "span_id"), ("span_kind", "span_kind"))
            checks += (("span_name", "name"), ("ml_app", "ml_app"), ("parent_id", "parent_id"))
            if any(filters.get(k) and filters[k] != span.get(f) for k, f in checks):
                continue
            tags = filters.get("tags") or {}
            if any(f"{k}:{v}" not in span["tags"] for k, v in tags.items()):
                continue
            out.append(span)
        return sorted(out, key=lambda span: span["start_ns"])

    def _gone(self, span: dict[str, Any]) -> bool:
        gone = self.switches.expired_traces
        if not gone:
            return False
        sessions = {t.partition(":")[2] for t in span["tags"] if t.startswith("session_id:")}
        return span["trace_id"] in gone or span["span_id"] in gone or bool(sessions & gone)

    def export(self, span: dict[str, Any]) -> dict[str, Any]:
        out = {k: copy.deepcopy(v) for k, v in span.items() if k not in PRIVATE}
        if span["span_id"] in self.switches.redacted:
            for side in ("input", "output"):
                if side in out:
                    out[side] = {"value": "REDACTED"}
        for name, by_span in self.world.verdicts.items():
            if span["span_id"] in by_span:
                out.setdefault("evaluation", {})[name] = by_span[span["span_id"]]
        return out

    def _spans_get(self, request: Request) -> Reply:
        filters: dict[str, Any] = {"tags": {}}
        for key, values in request.query.items():
            if match := re.fullmatch(r"filter\[tag\]\[(.+)\]", key):
                filters["tags"][match[1]] = values[0]
            elif match := re.fullmatch(r"filter\[(\w+)\]", key):
                filters[match[1]] = values[0]
        page = {"limit": int(request.one("page[limit]", "10")), "cursor": request.one("page[cursor]")}
        return self._page(filters, page, request.one("sort", "timestamp"))

    def _spans_search(self, body: Any) -> Reply:
        try:
            attributes = body["data"]["attributes"]
            if body["data"]["type"] != "spans":
                raise Refusal(400, "data.type must be spans")
        except (KeyError, TypeError):
            raise Refusal(400, "data.attributes is required") from None
        page = attributes.get("page") or {}
        return self._page(attributes.get("filter") or {}, page, attributes.get("sort", "timestamp"))

    def _page(self, filters: dict[str, Any], page: dict[str, Any], sort: str) -> Reply:
        limit = int(page.get("limit") or 10)
        if not 1 <= limit <= 5000:
            raise Refusal(400, "page[limit] must be between 1 and 5000")
        limit = min(limit, self.switches.page_cap)
        spans = self.select(filters, "now-15m")
        if sort.startswith("-"):
            spans.reverse()
        offset = int(str(page.get("cursor") or "c0")[1:])
        start = max(0, offset - 1) if self.switches.repeat_on_page and offset else offset
        chosen = spans[start : offset + limit]
        meta: dict[str, Any] = {"elapsed": 3, "request_id": "pddv1x", "status": self.switches.meta_status}
        if offset + limit < len(spans):
            meta["page"] = {"after": f"c{offset + limit}"}
        elif self.switches.last_page != "absent":
            meta["page"] = None if self.switches.last_page == "null" else {}
        data = [{"id": s["span_id"], "type": "span", "attributes": self.export(s)} for s in chosen]
        return Reply(body={"data": data, "meta": meta})

    # evaluators
    def _evaluator(self, request: Request, name: str) -> Reply:
        if request.method == "GET" and not name:
            data = [{"id": "", "type": "evaluator_config", "attributes": d} for d in self.registry.listed()]
            return Reply(body={"data": data})
        if request.method == "GET":
            doc = self.registry.get(name)
            return Reply(body={"data": {"id": doc.pop("id", name), "type": "evaluator_config", "attributes": doc}})
        if request.method == "PUT" and name:
            data = request.body.get("data") if isinstance(request.body, dict) else None
            if not isinstance(data, dict) or data.get("type") != "evaluator_config":
                raise Refusal(400, "data.type must be evaluator_config")
            if data.get("id", name) != name:
                raise Refusal(400, "id in the body differs from the path")
            self.registry.put(name, data.get("attributes") or {})
            return Reply(self.switches.put_status)
        raise Refusal(404, "not found")
