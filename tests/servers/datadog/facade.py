"""The façade over REST (contract §4); the MCP tools answer with the same handlers."""

from __future__ import annotations

import json
from collections.abc import Callable
from typing import Any

from tests.servers.datadog.registry import Registry
from tests.servers.datadog.rest import Rest
from tests.servers.datadog.switches import Switches
from tests.servers.datadog.wire import Refusal, Reply, Request
from tests.servers.datadog.world import World

BASE = "/api/unstable/llm-obs-mcp/v1/"
PATHS = {
    "search_llmobs_spans": "trace/search-spans",
    "get_llmobs_trace": "trace/get-trace",
    "get_llmobs_span_details": "trace/span-details",
    "get_llmobs_span_content": "trace/span-content",
    "expand_llmobs_spans": "trace/expand-spans",
    "list_llmobs_evals": "eval/list-for-org",
    "list_llmobs_evals_by_ml_app": "eval/list",
    "get_llmobs_evaluator": "custom-evaluator/get",
    "create_or_update_llmobs_evaluator": "custom-evaluator/create-or-update",
    "delete_llmobs_evaluator": "custom-evaluator/delete",
}
FIELDS = ("input", "output", "messages", "documents", "metadata")


class Facade:
    def __init__(self, world: World, switches: Switches, registry: Registry, rest: Rest, default_from: str) -> None:
        self.world = world
        self.switches = switches
        self.registry = registry
        self.rest = rest
        self.default_from = default_from
        self.tools: dict[str, Callable[[dict[str, Any]], Any]] = {
            "search_llmobs_spans": self.search,
            "get_llmobs_trace": self.trace,
            "get_llmobs_span_details": self.details,
            "get_llmobs_span_content": self.content,
            "expand_llmobs_spans": self.expand,
            "list_llmobs_evals": lambda args: self.evals(None),
            "list_llmobs_evals_by_ml_app": lambda args: self.evals(args.get("ml_app")),
            "get_llmobs_evaluator": self.get_evaluator,
            "create_or_update_llmobs_evaluator": self.write_evaluator,
        }

    def handle(self, request: Request) -> Reply | None:
        if not request.path.startswith(BASE):
            return None
        suffix = request.path[len(BASE) :]
        tool = next((t for t, p in PATHS.items() if p == suffix), None)
        if request.method != "POST" or tool not in self.tools:
            raise Refusal(404, "not found")
        return Reply(body=self.tools[tool](request.body or {}), content_type="application/json")

    # spans
    def _trace(self, args: dict[str, Any], *, all_spans: bool = False) -> list[dict[str, Any]]:
        filters = {"from": args.get("from"), "to": args.get("to"), "trace_id": args.get("trace_id")}
        spans = self.rest.select(filters, self.default_from)
        if not spans:
            raise Refusal(404, f"no spans found for trace {args.get('trace_id')}")
        if all_spans:
            return spans
        known = {s["span_id"] for s in spans}
        linked: set[str] = set()
        for _ in spans:  # orphans hang on a parent that is not there: no path to a root
            linked |= {s["span_id"] for s in spans if s["parent_id"] == "undefined" or s["parent_id"] in linked & known}
        return [s for s in spans if s["span_id"] in linked]

    def search(self, args: dict[str, Any]) -> dict[str, Any]:
        tags = args.get("tags") or {}
        filters = {k: args.get(k) for k in ("query", "trace_id", "span_id", "span_kind", "span_name", "from", "to")}
        spans = self.rest.select({**filters, "tags": tags}, self.default_from)
        spans = [s for s in spans if s["span_id"] not in self.switches.hidden_from_search]
        if args.get("root_spans_only"):
            spans = [s for s in spans if s["parent_id"] == "undefined"]
        limit = min(int(args.get("limit") or 10), self.switches.page_cap)
        offset = int(str(args.get("cursor") or "c0")[1:])
        shown = [self._brief(s) for s in spans[offset : offset + limit]]
        more = f"c{offset + limit}" if offset + limit < len(spans) else None
        return {"spans": shown, "next_cursor": more}

    def _info(self, span: dict[str, Any]) -> dict[str, Any]:
        info = dict(span.get("metrics") or {})
        return {"model_name": span["model_name"], **info} if "model_name" in span else info

    def _brief(self, span: dict[str, Any]) -> dict[str, Any]:
        out = {
            k: span[k] for k in ("span_id", "trace_id", "name", "span_kind", "ml_app", "status", "parent_id", "tags")
        }
        out["duration_ms"] = span["duration"] / 1_000_000
        out["start_ms"] = span["start_ns"] // 1_000_000
        out["apm_trace_id"] = "1" + span["trace_id"]
        if info := self._info(span):
            out["llm_info"] = info
        for side in ("input", "output"):
            out[side] = {"preview": str((self.rest.export(span).get(side) or {}).get("value", ""))[:200]}
        return out

    def trace(self, args: dict[str, Any]) -> dict[str, Any]:
        spans = self._trace(args, all_spans=True)
        root = next((s for s in spans if s["parent_id"] == "undefined"), spans[0])
        kinds: dict[str, int] = {}
        for span in spans:
            kinds[span["span_kind"]] = kinds.get(span["span_kind"], 0) + 1
        out = {
            "trace_id": args["trace_id"],
            "root_span": {"span_id": root["span_id"], "name": root["name"], "span_kind": root["span_kind"]},
            "total_spans": len(spans),
            "span_kinds": kinds,
            "tree_depth": 3,
            "total_duration_ms": 5,
        }
        if args.get("include_tree"):
            out["tree"] = self._node(root, spans, depth=1)
        return out

    def _node(self, span: dict[str, Any], spans: list[dict[str, Any]], depth: int) -> dict[str, Any]:
        children = [s for s in spans if s["parent_id"] == span["span_id"]]
        node: dict[str, Any] = {k: span[k] for k in ("span_id", "parent_id", "name", "span_kind")}
        node["has_input"] = bool(span.get("input"))
        if children and depth > 0:
            node["children"] = [self._node(c, spans, depth - 1) for c in children]
        elif children:
            node["collapsed_children"] = len(children)
        return node

    def expand(self, args: dict[str, Any]) -> dict[str, Any]:
        filters = {"from": args.get("from"), "to": args.get("to"), "trace_id": args.get("trace_id")}
        spans = self.rest.select(filters, self.default_from)  # too old: empty, not an error
        wanted = set(args.get("span_ids") or [])
        depth = int(args.get("max_depth") or 1)
        return {"nodes": [self._node(s, spans, depth) for s in spans if s["span_id"] in wanted]}

    def details(self, args: dict[str, Any]) -> dict[str, Any]:
        if self.switches.span_details_broken:
            raise Refusal(400, "json: cannot unmarshal string into Go struct field .span_ids of type []string")
        ids = args.get("span_ids") or []
        if len(ids) > 20:
            raise Refusal(400, "at most 20 span_ids")
        out = []
        for span in self._trace(args):
            if span["span_id"] not in ids:
                continue
            shown = self.rest.export(span)
            detail = {k: span[k] for k in ("span_id", "name", "span_kind", "status")}
            detail["duration_ms"] = span["duration"] / 1_000_000
            detail["children_ids"] = []
            detail["evaluations"] = shown.get("evaluation") or {}
            info: dict[str, Any] = {}
            for key in FIELDS:
                value = self._field(shown, key)
                if value is not None:
                    info[key] = {"count": len(value)} if key == "messages" else {"chars": len(_text(value))}
            detail["content_info"] = info
            if llm := self._info(span):
                detail["llm_info"] = llm
            out.append(detail)
        return {"spans": out}

    def _field(self, shown: dict[str, Any], key: str) -> Any:
        source, target = shown.get("input") or {}, shown.get("output") or {}
        if key == "metadata":
            return shown.get("metadata") or None
        if key == "documents":
            both = {s: d["documents"] for s, d in (("input", source), ("output", target)) if "documents" in d}
            return both or None
        if key == "messages":
            flat = [*(source.get("messages") or []), *(target.get("messages") or [])]
            return flat or None
        side = source if key == "input" else target
        if self.switches.content_shape == "flat":
            return side.get("value")
        return {k: v for k, v in side.items() if k != "documents"} or None

    def content(self, args: dict[str, Any]) -> dict[str, Any]:
        field = args.get("field")
        if field not in FIELDS:
            raise Refusal(400, f"unknown field {field!r}")
        span = next((s for s in self._trace(args, all_spans=True) if s["span_id"] == args.get("span_id")), None)
        if span is None:
            raise Refusal(404, "not found")
        value = self._field(self.rest.export(span), field)
        if value is None:
            raise Refusal(404, "not found")
        text = _text(value)
        tokens = len(text) // 4 + 1
        cap = min(int(args.get("max_tokens") or 2000), self.switches.content_max_tokens or 10**9)
        if tokens > cap:  # path would be applied after this cut
            return {"content": text[: cap * 4], "total_tokens_approx": tokens, "truncated": True}
        return {"content": value, "total_tokens_approx": tokens}

    # evaluators
    def evals(self, app: Any) -> Any:
        s = self.switches
        rows = [
            {
                s.list_name_key: doc["eval_name"],
                "ml_app": doc["target"]["application_name"],
                "enabled": doc["target"]["enabled"],
                "source": "custom",
                "created_at": doc.get("created_at", ""),
            }
            for doc in self.registry.listed()
        ]
        rows += [{**row, s.list_name_key: row["eval_name"], "source": "ootb"} for row in self.world.ootb]
        rows = [r for r in rows if app is None or r["ml_app"] == app]
        if s.list_shape == "bare":
            return rows
        if s.list_shape == "data":
            return {"data": rows}
        if s.list_shape == "evaluators":
            return {"evaluators": rows}
        return {"status": "success", "data": {"evaluators": rows}}

    def get_evaluator(self, args: dict[str, Any]) -> Any:
        doc = self.registry.get(str(args.get("eval_name")))
        shape = self.switches.get_shape
        if shape == "evaluator":
            return {"evaluator": doc}
        return {"data": {"attributes": doc}} if shape == "data" else doc

    def write_evaluator(self, args: dict[str, Any]) -> Any:
        self.registry.put_flat(args)
        return {"status": "ok"}


def _text(value: Any) -> str:
    return value if isinstance(value, str) else json.dumps(value, ensure_ascii=False)
