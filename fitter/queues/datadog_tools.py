"""The platform's tools, by name: one Protocol, spoken over the REST façade here and over MCP in ``datadog_mcp``.

Both take the same arguments and give the same JSON (the façade is what stands behind the MCP tools), so everything that
reads through tools is written once.
"""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, Final, Protocol

from fitter.errors import RunError
from fitter.queues.datadog_http import FACADE, AllowList, DatadogHTTP

# Tools a queue source may call (GT-1). The façade has no twin of the annotation tools.
SPAN_TOOLS: Final[Mapping[str, str]] = {
    "search_llmobs_spans": "trace/search-spans",
    "get_llmobs_trace": "trace/get-trace",
    "get_llmobs_span_details": "trace/span-details",
    "get_llmobs_span_content": "trace/span-content",
    "expand_llmobs_spans": "trace/expand-spans",
}
QUEUE_TOOLS: Final = frozenset(
    {
        "list_llmobs_annotation_queues",
        "get_llmobs_annotation_label_schema",
        "get_llmobs_annotated_interactions",
    }
)
READ_TOOLS: Final = QUEUE_TOOLS | frozenset(SPAN_TOOLS)
# Tools a publisher may call: reads, and the one write.
WRITE_TOOL: Final = "create_or_update_llmobs_evaluator"
PUBLISH_TOOLS: Final = frozenset(
    {"get_llmobs_evaluator", "list_llmobs_evals_by_ml_app", "search_llmobs_spans", WRITE_TOOL}
)
# Everything else the server may offer is switched off in the endpoint's URL, so that the session cannot call it.
DENIED_TOOLS: Final = (
    "create_llmobs_annotation_queue",
    "update_llmobs_annotation_queue",
    "delete_llmobs_annotation_queue",
    "update_llmobs_annotation_label_schema",
    "add_llmobs_annotation_queue_interactions",
    "delete_llmobs_annotation_queue_interactions",
    "upsert_llmobs_annotations",
    "delete_llmobs_annotations",
    "delete_llmobs_evaluator",
)
FACADE_READS: Final[AllowList] = tuple(("POST", f"{FACADE}/{path}") for path in SPAN_TOOLS.values())


class Tools(Protocol):
    """Calls a tool by its MCP name."""

    @property
    def road(self) -> str:
        """``façade`` or ``MCP``, for messages."""
        ...

    def call(self, tool: str, args: Mapping[str, Any], *, what: str) -> Any:
        """Calls one tool.

        Raises:
            RunError: off the allow-list, or a reply that cannot be read.
            SettingsError: not authenticated or not permitted.
            Refused: the tool refused (``status`` 404 for "not found").
            Outage: the platform does not answer.
        """
        ...


class FacadeTools:
    """Tools over the REST façade, through an allow-listed client."""

    road = "façade"

    def __init__(self, http: DatadogHTTP) -> None:
        self._http = http

    def call(self, tool: str, args: Mapping[str, Any], *, what: str) -> Any:
        """See :class:`Tools`."""
        if tool not in SPAN_TOOLS:
            raise RunError(f"refused to call {tool}: it is not on this client's allow-list")
        return self._http.call("POST", f"{FACADE}/{SPAN_TOOLS[tool]}", json=dict(args), what=what)
