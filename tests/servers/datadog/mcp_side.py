"""The MCP server (contract §5), spoken by the `mcp` package over streamable HTTP."""

from __future__ import annotations

import json
from collections.abc import Awaitable, Callable
from typing import Any

import mcp_types as types
from mcp.server.lowlevel.server import Server
from mcp.server.streamable_http_manager import StreamableHTTPSessionManager

from tests.servers.datadog.facade import Facade
from tests.servers.datadog.rest import Rest
from tests.servers.datadog.switches import Switches
from tests.servers.datadog.wire import Refusal

QUEUE_WRITES = (
    "create_llmobs_annotation_queue",
    "update_llmobs_annotation_queue",
    "delete_llmobs_annotation_queue",
    "update_llmobs_annotation_label_schema",
    "add_llmobs_annotation_queue_interactions",
    "delete_llmobs_annotation_queue_interactions",
    "upsert_llmobs_annotations",
    "delete_llmobs_annotations",
)
_TEXT = {"type": "string"}
_INT = {"type": "integer"}
_BOOL = {"type": "boolean"}
_LIST = {"type": "array", "items": {"type": "string"}}
_TIMES = {"from": _TEXT, "to": _TEXT}


def _schemas() -> dict[str, dict[str, Any]]:
    """Tool name → input properties; required ones are marked with a leading ``!`` in the name."""
    trace = {"!trace_id": _TEXT, **_TIMES}
    return {
        "search_llmobs_spans": {"limit": _INT, "query": _TEXT, "tags": {"type": "object"}, "trace_id": _TEXT,
                                "span_id": _TEXT, "span_kind": _TEXT, "span_name": _TEXT, "ml_app": _TEXT,
                                "root_spans_only": _BOOL, "cursor": _TEXT, **_TIMES},
        "get_llmobs_trace": {**trace, "include_tree": _BOOL},
        "get_llmobs_span_details": {**trace, "!span_ids": _LIST},
        "get_llmobs_span_content": {**trace, "!span_id": _TEXT, "!field": _TEXT, "path": _TEXT, "max_tokens": _INT},
        "expand_llmobs_spans": {**trace, "!span_ids": _LIST, "max_depth": _INT},
        "list_llmobs_evals": {},
        "list_llmobs_evals_by_ml_app": {"!ml_app": _TEXT},
        "get_llmobs_evaluator": {"!eval_name": _TEXT},
        "create_or_update_llmobs_evaluator": {"!eval_name": _TEXT},
        "delete_llmobs_evaluator": {"!eval_name": _TEXT},
        "list_llmobs_annotation_queues": {"project_id": _TEXT},
        "get_llmobs_annotation_label_schema": {"!queue_id": _TEXT},
        "get_llmobs_annotated_interactions": {"!queue_id": _TEXT, "only_annotated": _BOOL},
        "get_llmobs_annotations_by_content_ids": {"!content_ids": _LIST},
        **{name: {} for name in QUEUE_WRITES},
    }  # fmt: skip


class McpSide:
    """Tools over the façade's handlers. ``on_call`` records a call before it is answered."""

    def __init__(
        self,
        facade: Facade,
        rest: Rest,
        switches: Switches,
        on_call: Callable[[str, dict[str, Any]], None],
    ) -> None:
        self.facade = facade
        self.rest = rest
        self.switches = switches
        self.on_call = on_call
        self.calls = 0
        self.server: Server[Any] = Server("stand-in", on_list_tools=self._list, on_call_tool=self._call)
        self.manager = StreamableHTTPSessionManager(
            app=self.server, stateless=True, json_response=not switches.mcp_sse, max_request_body_size=64 << 20
        )

    def offered(self, query: dict[str, list[str]], headers: dict[str, str]) -> list[str]:
        toolsets = ",".join([*query.get("toolsets", []), headers.get("x-datadog-mcp-toolsets", "")]).split(",")
        if "llmobs" not in toolsets and "all" not in toolsets:
            return []
        omitted = set(",".join(query.get("omit_tools", [])).split(",")) | self.switches.mcp_missing_tools
        return [name for name in _schemas() if name not in omitted]

    def _offered(self, context: Any) -> list[str]:
        request = context.request
        query: dict[str, list[str]] = {}
        for key, value in request.query_params.multi_items():
            query.setdefault(key, []).append(value)
        return self.offered(query, dict(request.headers))

    async def _list(self, context: Any, params: Any) -> types.ListToolsResult:
        tools = []
        for name in self._offered(context):
            properties = {k.lstrip("!"): v for k, v in _schemas()[name].items()}
            required = [k.lstrip("!") for k in _schemas()[name] if k.startswith("!")]
            properties["telemetry"] = {"type": "object", "properties": {"intent": _TEXT}}
            if self.switches.mcp_telemetry_required:
                required.append("telemetry")
            schema = {"type": "object", "properties": properties, "required": required}
            tools.append(types.Tool(name=name, description=name, input_schema=schema))
        return types.ListToolsResult(tools=tools)

    async def _call(self, context: Any, params: types.CallToolRequestParams) -> types.CallToolResult:
        args = dict(params.arguments or {})
        self.on_call(params.name, dict(args))
        self.calls += 1
        try:
            if params.name not in self._offered(context):
                raise Refusal(404, f"unknown tool {params.name}")
            if self.calls <= self.switches.mcp_tool_limit_first:
                raise Refusal(429, "Too many requests")
            if self.switches.mcp_telemetry_required and "telemetry" not in args:
                raise Refusal(400, "telemetry is required")
            args.pop("telemetry", None)
            body = self._answer(params.name, args)
        except Refusal as fault:
            text = fault.reply(self.switches).payload().decode()
            return types.CallToolResult(content=[types.TextContent(type="text", text=text)], is_error=True)
        text = json.dumps(body, ensure_ascii=False)
        structured = body if self.switches.mcp_structured and isinstance(body, dict) else None
        return types.CallToolResult(content=[types.TextContent(type="text", text=text)], structured_content=structured)

    def _answer(self, name: str, args: dict[str, Any]) -> Any:
        if name in self.facade.tools:
            return self.facade.tools[name](args)
        if name == "list_llmobs_annotation_queues":
            return {"data": [self.rest.queue_doc(k) for k in self.rest.world.queues]}
        key = str(args.get("queue_id"))
        if name == "get_llmobs_annotation_label_schema":
            return {"data": {"id": key, "attributes": {"annotation_schema": self.rest.schema_of(key)}}}
        if name == "get_llmobs_annotated_interactions":
            rows = self.rest.shown_interactions(key)
            annotated = [r for r in rows if r["annotations"]]
            shown = annotated if args.get("only_annotated") else rows
            counts = {"total_interactions": len(rows), "annotated_count": len(annotated)}
            counts["pending_count"] = len(rows) - len(annotated)
            attributes = {"annotated_interactions": shown, **counts}
            return {"data": {"id": key, "type": "annotated_interactions", "attributes": attributes}}
        raise Refusal(404, f"unknown tool {name}")

    @property
    def app(self) -> Callable[[Any, Any, Any], Awaitable[None]]:
        return self.manager.handle_request
