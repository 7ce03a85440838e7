"""The evaluator registry's verbs over public REST and over MCP: the same answers, two clients.

Reads, and the one write each surface has; neither client can delete, touch a queue, or send ``enabled: true``.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from typing import Any, Final, Protocol

from fitter.errors import PublishError
from fitter.publishing.datadog_wire import flatten, owner, unflatten_shape
from fitter.publishing.diff import enabled_at
from fitter.queues.datadog_http import EVALUATORS, V1, DatadogHTTP, Refused, seg
from fitter.queues.datadog_mcp import McpTools
from fitter.queues.datadog_tools import WRITE_TOOL

_VARIABLE: Final = re.compile(r"\{\{\s*([^{}]{1,300}?)\s*\}\}")
TRAFFIC_DAYS: Final = 30


class Surface(Protocol):
    """One way to the registry."""

    def get(self, name: str) -> dict[str, Any] | None:
        """Nested attributes, or None for 404."""
        ...

    def write(self, name: str, config: Mapping[str, Any]) -> None:
        """The full replace; raises Refused."""
        ...

    def listing(self, app: str) -> list[dict[str, Any]]:
        """``name, app, enabled`` of an app's evaluators."""
        ...

    def documents(self, app: str) -> list[dict[str, Any]]:
        """Nested attributes of existing evaluators: the organisation's over REST, the app's over MCP."""
        ...

    def accounts(self, integration: str) -> list[dict[str, Any]] | None:
        """Integration accounts, each with ``models``; None where this surface cannot say."""
        ...

    def has_traffic(self, app: str) -> bool:
        """Whether the app emitted a span lately."""
        ...

    def close(self) -> None:
        """Releases connections."""
        ...


def _only_disabled(config: Mapping[str, Any]) -> None:
    """The last net (PU-1): whoever built the document, this client sends no switch that is not exactly false."""
    where = enabled_at(config)
    target = config.get("target")
    if where is not None or not isinstance(target, Mapping) or target.get("enabled") is not False:
        raise PublishError(
            f"the platform refused the write: fitter sends only `enabled: false` (at {where or '/target'})"
        )


class RestSurface:
    """Public REST, nested documents."""

    def __init__(self, http: DatadogHTTP) -> None:
        self._http = http

    def get(self, name: str) -> dict[str, Any] | None:
        """See :class:`Surface`."""
        try:
            body = self._http.call("GET", f"{EVALUATORS}/{seg(name)}", what=f"reading the evaluator {name}")
        except Refused as fault:
            if fault.status == 404:
                return None
            raise
        return unflatten_shape(body)

    def write(self, name: str, config: Mapping[str, Any]) -> None:
        """See :class:`Surface`."""
        _only_disabled(config)
        body = {"data": {"type": "evaluator_config", "id": name, "attributes": dict(config)}}
        self._http.call("PUT", f"{EVALUATORS}/{seg(name)}", json=body, what=f"writing the evaluator {name}")

    def listing(self, app: str) -> list[dict[str, Any]]:
        """See :class:`Surface`; the list knows no app filter, so it is applied here."""
        return [
            {"name": str(d.get("eval_name") or d.get("name")), "app": app, "enabled": d["target"].get("enabled")}
            for d in self.documents(app)
            if owner(d) == app
        ]

    def documents(self, app: str) -> list[dict[str, Any]]:  # noqa: ARG002 - the organisation's, whatever the app
        """See :class:`Surface`."""
        body = self._http.call("GET", EVALUATORS, what="listing the evaluators")
        found = (unflatten_shape(item) for item in named_list(body))
        return [d for d in found if d is not None]

    def accounts(self, integration: str) -> list[dict[str, Any]] | None:
        """See :class:`Surface`."""
        try:
            body = self._http.call(
                "GET", f"{V1}/integrations/{seg(integration)}/accounts", what="listing integration accounts"
            )
        except Refused as fault:
            if fault.status == 404:
                return None
            raise
        out = []
        for account in _dicts(body):
            key = str(account.get("id") or account.get("account_id") or "")
            if not key:
                continue
            path = f"{V1}/integrations/{seg(integration)}/{seg(key)}/models"
            try:
                models = _dicts(self._http.call("GET", path, what="listing an integration's models"))
            except Refused as fault:
                if fault.status != 404:
                    raise
                models = []
            out.append({**account, "account_id": key, "models": models})
        return out

    def has_traffic(self, app: str) -> bool:
        """See :class:`Surface`."""
        attributes = {
            "filter": {"query": traffic_query(app), "from": f"now-{TRAFFIC_DAYS}d", "to": "now"},
            "page": {"limit": 1},
        }
        body = self._http.call(
            "POST",
            f"{V1}/spans/events/search",
            json={"data": {"type": "spans", "attributes": attributes}},
            what="looking for traffic",
        )
        return bool(_dicts(body))

    def close(self) -> None:
        """See :class:`Surface`."""
        self._http.close()


class McpSurface:
    """MCP tools, flat documents."""

    def __init__(self, tools: McpTools) -> None:
        self._tools = tools

    def get(self, name: str) -> dict[str, Any] | None:
        """See :class:`Surface`."""
        try:
            body = self._tools.call("get_llmobs_evaluator", {"eval_name": name}, what=f"reading the evaluator {name}")
        except Refused as fault:
            if fault.status == 404:
                return None
            raise
        return unflatten_shape(body)

    def write(self, name: str, config: Mapping[str, Any]) -> None:
        """See :class:`Surface`; raises SettingsError where the flat form would lose a field."""
        _only_disabled(config)
        self._tools.call(WRITE_TOOL, {**flatten(config), "eval_name": name}, what=f"writing the evaluator {name}")

    def listing(self, app: str) -> list[dict[str, Any]]:
        """See :class:`Surface`."""
        body = self._tools.call("list_llmobs_evals_by_ml_app", {"ml_app": app}, what="listing the evaluators")
        return [
            {
                "name": str(entry.get("eval_name") or entry.get("name")),
                "app": app,
                "enabled": entry.get("enabled"),
            }
            for entry in named_list(body)
            if entry.get("ml_app", app) == app and entry.get("source", "custom") == "custom"
        ]

    def documents(self, app: str) -> list[dict[str, Any]]:
        """See :class:`Surface`."""
        found = (self.get(entry["name"]) for entry in self.listing(app)[:20])
        return [d for d in found if d is not None]

    def accounts(self, integration: str) -> list[dict[str, Any]] | None:  # noqa: ARG002 - there is nothing to ask
        """See :class:`Surface`: no tool lists integrations."""
        return None

    def has_traffic(self, app: str) -> bool:
        """See :class:`Surface`."""
        args = {"query": traffic_query(app), "limit": 1, "from": f"now-{TRAFFIC_DAYS}d", "to": "now"}
        body = self._tools.call("search_llmobs_spans", args, what="looking for traffic")
        spans = body.get("spans") if isinstance(body, Mapping) else None
        return bool(spans)

    def close(self) -> None:
        """See :class:`Surface`."""
        self._tools.close()


def traffic_query(app: str) -> str:
    """The app as a query term; the structured filter is known to be unreliable."""
    escaped = app.replace("\\", "\\\\").replace('"', '\\"')
    return f'@ml_app:"{escaped}"'


def named_list(body: Any, depth: int = 5) -> list[Mapping[str, Any]]:
    """The first list of objects that carry an evaluator's name, wherever it stands: its wrapper is not documented."""
    if isinstance(body, list):
        items = [item for item in body if isinstance(item, Mapping)]
        return items if all(_has_name(item) for item in items) else []
    if isinstance(body, Mapping) and depth > 0:
        for value in body.values():
            if isinstance(value, list | Mapping) and (found := named_list(value, depth - 1)):
                return found
    return []


def variables(documents: Sequence[Mapping[str, Any]]) -> dict[str, int]:
    """Template variables that existing evaluators use → in how many of them; what is in use is known to work."""
    counts: dict[str, int] = {}
    for document in documents:
        judge = document.get("llm_judge_config")
        prompt = judge.get("prompt_template") if isinstance(judge, Mapping) else None
        texts = [
            str(m.get("content") or "") for m in prompt or [] if isinstance(m, Mapping) and m.get("role") == "user"
        ]
        for name in {found for text in texts for found in _VARIABLE.findall(text)}:
            counts[name] = counts.get(name, 0) + 1
    return dict(sorted(counts.items(), key=lambda item: (-item[1], item[0])))


def _has_name(item: Mapping[str, Any]) -> bool:
    inner = item.get("attributes")
    held = inner if isinstance(inner, Mapping) else item
    return bool(held.get("eval_name") or held.get("name"))


def _dicts(body: Any) -> list[dict[str, Any]]:
    if isinstance(body, Mapping):
        body = body.get("data")
    return [dict(item) for item in body if isinstance(item, Mapping)] if isinstance(body, list) else []
