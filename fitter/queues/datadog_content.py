"""The recorded content of labelled things: spans by public search, by tools, and the annotation's own copy.

Every road is tried in a fixed order and written down; a row whose content is nowhere carries the list of what was
tried. A road is never changed because a key was refused: that stops the read.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import Any, Final, Protocol

from fitter.errors import Outage
from fitter.queues.datadog_http import V1, DatadogHTTP, Refused, seg
from fitter.queues.datadog_spans import bundle_span, evaluations, side, split_messages
from fitter.queues.datadog_tools import Tools

PAGE: Final = 1000
_TOOL_PAGE: Final = 100
_DETAILS: Final = 20
_TOKENS: Final = 200_000  # more than a 250 KB field holds
_MAX_PAGES: Final = 10_000


@dataclass
class Found:
    """What a road gave.

    Attributes:
        spans: bundle spans in recorded order, possibly of several traces.
        road: where they came from, for people.
        cut: fields that the platform cut; a judge may not be fitted on part of a text.
        notes: what a careful reader should know.
    """

    spans: list[dict[str, Any]] = field(default_factory=list)
    road: str = ""
    cut: list[str] = field(default_factory=list)
    notes: list[str] = field(default_factory=list)


class Road(Protocol):
    """One way to spans."""

    @property
    def name(self) -> str:
        """For the list of what was tried."""
        ...

    def spans(self, filters: Mapping[str, Any]) -> Found:
        """Spans matching ``trace_id``, ``span_id`` or ``tags``; none when there are none in the window."""
        ...


class SearchRoad:
    """Public REST: ``POST spans/events/search`` with an explicit window, paged to the end."""

    def __init__(self, http: DatadogHTTP, since: str, *, page: int = PAGE, until: str = "now") -> None:
        self._http = http
        self._since = since
        self._until = until
        self._page = page

    @property
    def name(self) -> str:
        """See :class:`Road`."""
        return f"spans search (since {self._since})"

    def spans(self, filters: Mapping[str, Any]) -> Found:
        """See :class:`Road`."""
        exported = self._all({**filters, "from": self._since, "to": self._until})
        return Found(spans=[s for s in (bundle_span(e) for e in exported) if s is not None], road=self.name)

    def _all(self, filters: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        cursor: str | None = None
        seen: set[str] = set()
        for _ in range(_MAX_PAGES):
            page: dict[str, Any] = {"limit": self._page}
            if cursor:
                page["cursor"] = cursor
            attributes = {
                "filter": dict(filters),
                "options": {"include_attachments": True},
                "page": page,
                "sort": "timestamp",
            }
            body = self._http.call(
                "POST",
                f"{V1}/spans/events/search",
                json={"data": {"type": "spans", "attributes": attributes}},
                what="reading spans",
            )
            meta = _mapping(_mapping(body).get("meta"))
            if meta.get("status") == "timeout":
                raise Outage(
                    "reading spans: Datadog's search timed out and returned only part",
                    hint="resume later, or narrow the window with --since",
                )
            for item in _list(_mapping(body).get("data")):
                span = _mapping(_mapping(item).get("attributes"))
                yield span if "span_id" in span else {**span, "span_id": _mapping(item).get("id")}
            cursor = _mapping(meta.get("page")).get("after")
            if not cursor:
                return
            if cursor in seen:
                raise Outage("reading spans: Datadog's paging runs in a circle")
            seen.add(cursor)


class ToolRoad:
    """Tools (façade or MCP): search, tree, details, then each field of each span."""

    def __init__(self, tools: Tools, since: str, *, until: str = "now") -> None:
        self._tools = tools
        self._window = {"from": since, "to": until}

    @property
    def name(self) -> str:
        """See :class:`Road`."""
        return f"{self._tools.road} spans (since {self._window['from']})"

    def spans(self, filters: Mapping[str, Any]) -> Found:
        """See :class:`Road`."""
        found = Found(road=self.name)
        briefs: dict[str, dict[str, Any]] = {}
        for brief in self._search(filters):
            briefs.setdefault(str(brief.get("span_id")), dict(brief))
        traces = sorted({str(b.get("trace_id")) for b in briefs.values()} or {str(filters.get("trace_id") or "")})
        for trace_id in traces:
            if not trace_id:
                continue
            if "span_id" not in filters:
                self._collapsed(trace_id, briefs)
            ids = [key for key, b in briefs.items() if b.get("trace_id") == trace_id]
            found.spans += self._fill(trace_id, ids, briefs, found)
        return found

    def _call(self, tool: str, **args: Any) -> Any:
        return self._tools.call(tool, {**args, **self._window}, what="reading spans")

    def _search(self, filters: Mapping[str, Any]) -> Iterator[Mapping[str, Any]]:
        cursor: str | None = None
        for _ in range(_MAX_PAGES):
            more = {"cursor": cursor} if cursor else {}
            body = _mapping(self._call("search_llmobs_spans", **filters, limit=_TOOL_PAGE, **more))
            yield from (s for s in _list(body.get("spans")) if isinstance(s, Mapping))
            cursor = body.get("next_cursor") or None
            if cursor is None:
                return
        raise Outage("reading spans: Datadog's paging does not end")

    def _collapsed(self, trace_id: str, briefs: dict[str, dict[str, Any]]) -> None:
        """Adds spans that the search left out: the tree shows one level, the rest must be expanded."""
        try:
            tree = _mapping(self._call("get_llmobs_trace", trace_id=trace_id, include_tree=True))
        except Refused as fault:
            if fault.status == 404:
                return
            raise
        have = sum(b.get("trace_id") == trace_id for b in briefs.values())
        total = tree.get("total_spans")
        if not isinstance(total, int) or have >= total:
            return
        open_nodes = [_mapping(tree.get("tree") or tree.get("root_span"))]
        asked: set[str] = set()
        while open_nodes:
            ask: list[str] = []
            while open_nodes:
                node = open_nodes.pop()
                key = str(node.get("span_id") or "")
                if key and key not in briefs:
                    briefs[key] = {**node, "trace_id": trace_id}
                children = [c for c in _list(node.get("children")) if isinstance(c, Mapping)]
                open_nodes += children
                if key and not children and key not in asked:
                    ask.append(key)
            asked |= set(ask)
            for at in range(0, len(ask), _DETAILS):
                body = self._call(
                    "expand_llmobs_spans", trace_id=trace_id, span_ids=ask[at : at + _DETAILS], max_depth=2
                )
                nodes = _list(_mapping(body).get("nodes") or _mapping(body).get("spans"))
                open_nodes += [c for n in nodes for c in _list(_mapping(n).get("children")) if isinstance(c, Mapping)]

    def _fill(
        self, trace_id: str, ids: list[str], briefs: Mapping[str, Mapping[str, Any]], found: Found
    ) -> list[dict[str, Any]]:
        details: dict[str, Mapping[str, Any]] = {}
        for at in range(0, len(ids), _DETAILS):
            try:
                body = self._call("get_llmobs_span_details", trace_id=trace_id, span_ids=ids[at : at + _DETAILS])
            except Refused as fault:
                if fault.status != 404 and "unmarshal" not in fault.detail:
                    raise
                found.notes.append("span details were refused; content was asked for field by field")
                continue
            details |= {str(d.get("span_id")): d for d in _list(_mapping(body).get("spans")) if isinstance(d, Mapping)}
        out = []
        for key in ids:
            span = self._span(trace_id, key, briefs[key], details.get(key), found)
            if span is not None:
                out.append(span)
        return out

    def _span(
        self, trace_id: str, key: str, brief: Mapping[str, Any], detail: Mapping[str, Any] | None, found: Found
    ) -> dict[str, Any] | None:
        exported = _from_brief({**(detail or {}), **brief})
        info = None if detail is None else _mapping(detail.get("content_info"))
        ask: Callable[[str], Any] = lambda name: self._field(trace_id, key, name, info, found)  # noqa: E731
        sides = {"input": side(ask("input")), "output": side(ask("output"))}
        if not (sides["input"].get("messages") or sides["output"].get("messages")):
            given = ask("messages")
            if isinstance(given, Mapping):
                before, after = side(given.get("input")), side(given.get("output"))
            else:
                first, last = split_messages(given)
                before = {"messages": first} if first else {}
                after = {"messages": last} if last else {}
            sides = {"input": {**sides["input"], **before}, "output": {**sides["output"], **after}}
        documents = ask("documents")
        if isinstance(documents, Mapping):
            for name in ("input", "output"):
                if documents.get(name):
                    sides[name]["documents"] = documents[name]
        elif documents:
            sides["output" if exported.get("span_kind") == "retrieval" else "input"]["documents"] = documents
        exported |= sides
        if isinstance(metadata := ask("metadata"), Mapping):
            exported["metadata"] = dict(metadata)
        if detail is not None:
            exported["evaluation"] = evaluations(detail.get("evaluations"))
        return bundle_span(exported)

    def _field(self, trace_id: str, key: str, name: str, info: Mapping[str, Any] | None, found: Found) -> Any:
        """One field of a span; ``path`` is never used, because the platform applies it after cutting."""
        if info is not None and name not in info:
            return None
        try:
            reply = self._call(
                "get_llmobs_span_content", trace_id=trace_id, span_id=key, field=name, max_tokens=_TOKENS
            )
        except Refused as fault:
            if fault.status == 404:
                return None
            raise
        if not isinstance(reply, Mapping):
            return reply
        content = reply.get("content", reply.get(name, reply.get("value")))
        chars = _mapping((info or {}).get(name)).get("chars")
        short = isinstance(content, str) and isinstance(chars, int) and len(content) < chars
        if reply.get("truncated") or short:
            found.cut.append(f"{name} of span {key}")
        return content


def interaction_copy(http: DatadogHTTP, queue_id: str, interaction_id: str) -> tuple[Mapping[str, Any] | None, str]:
    """The annotation's own copy of the content, and why there is none.

    It outlives the spans, and is the only road to an experiment's rows. Its exact JSON is not public: input, output
    and expected_output are looked for at the top, under ``attributes`` and under ``interaction``.
    """
    path = f"{V1}/annotation-queues/{seg(queue_id)}/annotated-interactions/{seg(interaction_id)}"
    try:
        body = http.call("GET", path, what="reading an interaction's content")
    except Refused as fault:
        if fault.status in (400, 404):
            return None, fault.detail
        raise
    held = _mapping(_mapping(_mapping(body).get("data", body)).get("attributes", body))
    for name in ("interaction", "content", "data"):
        if "input" not in held and "output" not in held and isinstance(held.get(name), Mapping):
            held = held[name]
    if held.get("input") is None and held.get("output") is None:
        return None, "the reply holds no input and no output"
    return held, ""


def copy_span(held: Mapping[str, Any], content_id: str) -> dict[str, Any] | None:
    """The one span an interaction's copy amounts to."""
    exported = {
        "span_id": content_id or "interaction",
        "trace_id": content_id or "interaction",
        "name": "interaction",
        "span_kind": "workflow",
        **{key: held[key] for key in ("input", "output", "metadata", "tags") if held.get(key) is not None},
        "expected_output": held.get("expected_output"),
    }
    return bundle_span(exported)


def _from_brief(brief: Mapping[str, Any]) -> dict[str, Any]:
    """The export's field names for what search, tree and details call otherwise (milliseconds become nanoseconds)."""
    out = {key: brief[key] for key in ("span_id", "trace_id", "name", "ml_app", "status", "tags") if key in brief}
    out["parent_id"] = brief.get("parent_id")
    out["span_kind"] = brief.get("span_kind") or brief.get("kind")
    for ms, ns in (("start_ms", "start_ns"), ("duration_ms", "duration")):
        value = brief.get(ms)
        if isinstance(value, int | float) and not isinstance(value, bool):
            out[ns] = round(value * 1_000_000)
    info = {k: v for k, v in _mapping(brief.get("llm_info")).items() if isinstance(v, int | float)}
    if info:
        out["metrics"] = info
    return out


def _mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def _list(value: Any) -> list[Any]:
    return value if isinstance(value, list) else []
