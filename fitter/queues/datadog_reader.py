"""One read of an annotation queue: clients, roads to the content, the shaping of each row (``datadog.py`` opens it)."""

from __future__ import annotations

import copy
from collections import Counter
from collections.abc import Callable, Iterable, Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from typing import Any, Final, Literal, TypeAlias, TypeVar

from fitter.errors import RunError, SettingsError, UserError
from fitter.queues.datadog_annotations import bundle_interaction, bundle_schemas, convert
from fitter.queues.datadog_content import Found, Road, SearchRoad, ToolRoad, copy_span, interaction_copy
from fitter.queues.datadog_http import QUEUE_READS, V1, DatadogHTTP, Refused, Retry, seg
from fitter.queues.datadog_mcp import FAIR_USE, McpTools
from fitter.queues.datadog_site import Access
from fitter.queues.datadog_spans import drop_redacted, session_of, unique
from fitter.queues.datadog_tools import FACADE_READS, READ_TOOLS, FacadeTools
from fitter.queues.reading import scrub_json
from fitter.queues.source import RawQueue
from fitter.textsafe import one_line

Backend: TypeAlias = Literal["rest", "mcp"]
SPAN_KINDS: Final = frozenset({"trace", "span", "session"})
_In = TypeVar("_In")
_Out = TypeVar("_Out")


@dataclass(frozen=True, kw_only=True)
class QueueOptions:
    """How a Datadog queue is read.

    Attributes:
        backend: ``rest`` or ``mcp``; the user's choice.
        since: how far back spans are looked for: ``90d``, ``now-90d``, ``36h`` or an ISO date.
        queue_name: overrides the queue's identity, which together with the label names the seal.
        workers: requests in flight.
        page: spans a page (REST).
        retry: patience with the platform.
        mcp_rate: (calls, seconds) of the MCP fair-use limit, None for none.
    """

    backend: Backend = "rest"
    since: str = "90d"
    queue_name: str | None = None
    workers: int = 8
    page: int = 1000
    retry: Retry = field(default_factory=Retry)
    mcp_rate: tuple[int, float] | None = FAIR_USE


class Reader:
    """One read: clients, roads, conversion."""

    def __init__(self, access: Access, options: QueueOptions) -> None:
        if options.backend not in ("rest", "mcp"):
            raise SettingsError(f"no backend {one_line(str(options.backend), 20)!r}", hint="use rest or mcp")
        self._access = access
        self._options = options
        self._http: DatadogHTTP | None = None
        self._mcp: McpTools | None = None
        if options.backend == "rest":
            self._http = DatadogHTTP(access, QUEUE_READS + FACADE_READS, retry=options.retry)
            search = SearchRoad(self._http, options.since, page=options.page)
            self._roads: tuple[Road, ...] = (search, ToolRoad(FacadeTools(self._http), options.since))
        else:
            self._mcp = McpTools(access, READ_TOOLS, retry=options.retry, rate=options.mcp_rate)
            self._roads = (ToolRoad(self._mcp, options.since),)

    def __enter__(self) -> Reader:
        return self

    def __exit__(self, *exc: object) -> None:
        if self._http is not None:
            self._http.close()
        if self._mcp is not None:
            self._mcp.close()

    # the queue
    def queue(self, wanted: str) -> RawQueue:
        """Reads the queue of this id or name; see ``DatadogQueue.read``."""
        counts: Counter[str] = Counter()
        key, name = self._resolve(wanted)
        schemas = bundle_schemas(self._schema(key))
        if not schemas:
            raise UserError(
                f"the Datadog queue {one_line(name)!r} has no labels defined: there is nothing to fit",
                hint="add a label to the queue in Datadog, and label some rows",
            )
        items = self._interactions(key)
        # A pending row is excluded before anyone looks at its content (GT-4): it is not worth the calls.
        judged = [i for i in items if i["annotations"]]
        kinds = sorted({(i["type"], i["content_id"]) for i in judged if i["type"] in SPAN_KINDS and i["content_id"]})
        found = dict(zip(kinds, self.contents(kinds), strict=True))
        shaped = []
        for item, counted in self._each(lambda i: self._shape(key, i, found), items):
            shaped.append(item)
            counts.update(counted)
        return convert(
            identity=self._options.queue_name or f"datadog:{key}",
            description=f"Datadog queue {name!r} ({key}) on {self._access.site.name}, since {self._options.since}",
            schemas=schemas,
            interactions=shaped,
            counts=counts,
        )

    def _get(self, tool: str, path: str, args: Mapping[str, Any], what: str) -> Any:
        if self._mcp is not None:
            return self._mcp.call(tool, args, what=what)
        if self._http is None:
            raise RunError("this read has no client")
        return self._http.call("GET", path, what=what)

    def _resolve(self, wanted: str) -> tuple[str, str]:
        body = self._get("list_llmobs_annotation_queues", f"{V1}/annotation-queues", {}, "listing annotation queues")
        queues = []
        for item in dicts(body, "data", "queues"):
            held = item.get("attributes")
            name = (held if isinstance(held, Mapping) else item).get("name")
            queues.append((str(item.get("id") or item.get("queue_id") or ""), str(name or "")))
        same_case = [q for q in queues if q[0] and q[1] == wanted]
        any_case = [q for q in queues if q[0] and q[1].casefold() == wanted.casefold()]
        for hits in ([q for q in queues if q[0] == wanted], same_case, any_case):
            if len(hits) == 1:
                return hits[0]
            if hits:
                shown = "\n".join(f"  datadog:{key}  {one_line(name, 60)}" for key, name in sorted(hits))
                raise UserError(
                    f"{len(hits)} Datadog queues are called {one_line(wanted, 60)!r}:\n{shown}",
                    hint="use the id of one",
                )
        shown = "\n".join(f"  datadog:{key}  {one_line(name, 60)}" for key, name in sorted(queues)[:20])
        raise UserError(
            f"there is no Datadog queue {one_line(wanted, 60)!r} on {self._access.site.name}",
            hint=f"queues this key can see:\n{shown}" if shown else "this key can see no queue at all",
        )

    def _schema(self, key: str) -> Sequence[Mapping[str, Any]]:
        body = self._get(
            "get_llmobs_annotation_label_schema",
            f"{V1}/annotation-queues/{seg(key)}/label-schema",
            {"queue_id": key},
            "reading the label schema",
        )
        return list(dicts(body, "label_schemas"))

    def _interactions(self, key: str) -> list[dict[str, Any]]:
        body = self._get(
            "get_llmobs_annotated_interactions",
            f"{V1}/annotation-queues/{seg(key)}/annotated-interactions",
            {"queue_id": key},
            "reading the annotated interactions",
        )
        items = [bundle_interaction(item) for item in dicts(body, "annotated_interactions")]
        total = find(body, "total_interactions")
        if isinstance(total, int) and total != len(items):
            raise UserError(
                f"Datadog returned {len(items)} of {total} interactions of this queue", hint="use --backend rest"
            )
        return items

    # contents
    def _each(self, function: Callable[[_In], _Out], items: Sequence[_In]) -> list[_Out]:
        if self._options.workers <= 1 or len(items) <= 1:
            return [function(item) for item in items]
        pool = ThreadPoolExecutor(self._options.workers, thread_name_prefix="datadog")
        try:
            return list(pool.map(function, items))
        finally:
            pool.shutdown(wait=True, cancel_futures=True)

    def contents(self, wanted: Sequence[tuple[str, str]]) -> list[tuple[Found, list[str]]]:
        """What the roads gave for each (kind, content id), with the roads tried, in the same order."""
        return self._each(lambda pair: self._spans(*pair), wanted)

    def _spans(self, kind: str, content_id: str) -> tuple[Found, list[str]]:
        filters: dict[str, Any] = {"trace_id": content_id}
        if kind == "session":
            filters = {"tags": {"session_id": content_id}}
        elif kind == "span":
            filters = {"span_id": content_id.rpartition(":")[2]}
        tried = []
        for road in self._roads:
            tried.append(road.name)
            try:
                found = road.spans(filters)
                if kind == "span" and found.spans:
                    # The labelled span alone is not what a trace-scope evaluator sees: read its whole trace.
                    found = road.spans({"trace_id": found.spans[0]["trace_id"]})
            except Refused as fault:
                if fault.status != 404:
                    raise
                continue
            if found.spans:
                return found, tried
        return Found(), tried

    def content(
        self, kind: str, content_id: str, given: tuple[Found, list[str]], counts: Counter[str]
    ) -> tuple[dict[str, Any] | None, str]:
        """The bundle's content, or None with why."""
        found, tried = given
        if not found.spans:
            return None, f"expired: nothing was found by {', '.join(tried)}"
        if found.cut:
            return None, f"cut: Datadog returned only part of {', '.join(found.cut[:3])}"
        spans = unique(copy.deepcopy(found.spans), counts)  # several rows may share what was found
        gone = {s["span_id"] for s in spans if drop_redacted(s, counts)}
        session = session_of(spans)
        if kind == "session":
            traces: dict[str, list[dict[str, Any]]] = {}
            for span in spans:
                traces.setdefault(span["trace_id"], []).append(span)
            if gone and gone == {s["span_id"] for s in spans}:
                return None, "redacted: no text is left"
            return {"session_id": content_id, "traces": [{"trace_id": t, "spans": s} for t, s in traces.items()]}, ""
        out: dict[str, Any] = {"trace_id": spans[0]["trace_id"], "session_id": session, "spans": spans}
        if kind == "span":
            out["focus"] = content_id.rpartition(":")[2]
            if out["focus"] not in {s["span_id"] for s in spans}:
                return None, f"expired: the trace was found by {found.road}, the labelled span was not"
            if out["focus"] in gone:
                return None, "redacted: nothing is left of the labelled span"
        elif gone and gone == {s["span_id"] for s in spans if s["input"] or s["output"] or s["span_id"] in gone}:
            return None, "redacted: no text is left"
        return out, ""

    def _shape(
        self, queue: str, item: dict[str, Any], found: Mapping[tuple[str, str], tuple[Found, list[str]]]
    ) -> tuple[dict[str, Any], Counter[str]]:
        """The interaction with its content, as in a bundle (``notes`` stand beside), and what was counted."""
        counts: Counter[str] = Counter()
        kind, content_id = item["type"], item["content_id"]
        if kind == "display_block":
            return item, counts
        if not item["annotations"]:
            unread = {"content": None, "content_problem": "pending: content was not read"}
            return {**item, **unread, "type": kind if kind in SPAN_KINDS else "experiment_trace"}, counts
        notes: list[str] = []
        content: dict[str, Any] | None = None
        problem = ""
        if kind in SPAN_KINDS:
            given = found.get((kind, content_id), (Found(), ["no road: the interaction names no content"]))
            content, problem = self.content(kind, content_id, given, counts)
            notes += sorted(set(given[0].notes))
            if content is not None and given[0].road != self._roads[0].name:
                notes.append(f"content was read by {given[0].road}")
        if content is None and (problem.startswith("expired") or kind not in SPAN_KINDS):
            content, problem = self._copy(queue, item, kind, content_id, problem, notes)
        out = {**item, "content": content, "notes": notes}
        if kind not in SPAN_KINDS:
            out["type"] = "experiment_trace"
        if content is None:
            out["content_problem"] = problem
            return out, counts
        if content.get("session_id"):
            out["group"] = content["session_id"]
        try:
            out["content"] = scrub_json(content, counts)
        except ValueError as fault:
            out["content"], out["content_problem"] = None, f"unreadable: {fault}"
        return out, counts

    def _copy(
        self, queue: str, item: Mapping[str, Any], kind: str, content_id: str, problem: str, notes: list[str]
    ) -> tuple[dict[str, Any] | None, str]:
        problem = problem or f"{kind}: no span tool reaches it"
        if self._http is None:
            return None, f"{problem}; the MCP backend has no interaction content (--backend rest has)"
        held, why = interaction_copy(self._http, queue, item["id"])
        span = None if held is None else copy_span(held, content_id)
        if held is None or span is None:
            return None, f"{problem}; GET annotated-interactions/{item['id']}: {why}"
        if drop_redacted(span, Counter()):
            return None, "redacted: no text is left in the annotation's own copy"
        notes.append("content is the annotation's own copy: one step, no span tree")
        if kind == "session":
            return {"session_id": content_id, "traces": [{"trace_id": content_id, "spans": [span]}]}, ""
        return {"trace_id": content_id or "interaction", "spans": [span]}, ""


def find(body: Any, key: str) -> Any:
    """The value of a key in a reply: at the top, or below data and attributes."""
    for _ in range(4):
        if not isinstance(body, Mapping):
            return None
        if key in body:
            return body[key]
        body = next(
            (body[k] for k in ("data", "attributes", "annotation_schema") if isinstance(body.get(k), Mapping)), None
        )
    return None


def dicts(body: Any, *keys: str) -> Iterable[Mapping[str, Any]]:
    """The objects of the first list found under one of the keys; a null list is an empty one."""
    if isinstance(body, list):
        return [item for item in body if isinstance(item, Mapping)]
    for key in keys:
        value = find(body, key)
        if isinstance(value, list):
            return [item for item in value if isinstance(item, Mapping)]
    return []
