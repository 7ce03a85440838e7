"""The stand-in itself: what the other tests of this room lean on (contract §11)."""

from __future__ import annotations

import asyncio
import json
from collections.abc import Iterator
from typing import Any

import httpx
import pytest

from tests.servers.datadog import StandIn, Switches, World

SCHEMAS = [
    {"id": "q7f3", "name": "reply_ok", "type": "boolean"},
    {"id": "c1", "name": "tone", "type": "categorical", "values": ["a", "b"]},
]
BASE = "/api/v2/llm-obs/v1"
EVAL = "/api/unstable/llm-obs/config/evaluators/custom"


@pytest.fixture
def server() -> Iterator[StandIn]:
    """Without the violations check: this file causes violations on purpose."""
    with StandIn() as one:
        yield one


@pytest.fixture
def http(server: StandIn) -> Iterator[httpx.Client]:
    keys = {"DD-API-KEY": server.switches.api_key, "DD-APPLICATION-KEY": server.switches.app_key}
    with httpx.Client(base_url=server.origin, headers=keys, trust_env=False) as client:
        yield client


def body(name: str = "judge", **changes: Any) -> dict[str, Any]:
    inner = {
        "type": "object",
        "properties": {"reasoning": {"type": "string"}, "boolean_eval": {"type": "boolean"}},
        "required": ["boolean_eval", "reasoning"],
        "additionalProperties": False,
    }
    judge = {
        "inference_params": {"temperature": 0},
        "parsing_type": "structured_output",
        "output_schema": {"name": "boolean_eval", "strict": True, "schema": inner},
    }
    attributes: dict[str, Any] = {
        "eval_name": name,
        "target": {"application_name": "support", "enabled": False, "eval_scope": "span"},
        "llm_provider": {"integration_provider": "openai", "model_name": "m"},
        "llm_judge_config": judge,
    }
    for path, value in changes.items():
        doc = attributes
        *parents, last = path.split("__")
        for part in parents:
            doc = doc[part]
        doc[last] = value
    return {"data": {"type": "evaluator_config", "id": name, "attributes": attributes}}


def test_key_styles_and_rate_limit_headers(server: StandIn, http: httpx.Client) -> None:
    path = f"{BASE}/annotation-queues"
    assert http.get(path).status_code == 200
    assert "x-ratelimit-reset" in http.get(path).headers
    assert http.get(path, headers={"DD-API-KEY": ""}).status_code == 401
    assert http.get(path, headers={"DD-APPLICATION-KEY": "x"}).json() == {"errors": ["Forbidden"]}
    bare = httpx.get(
        server.origin + path, headers={"Authorization": f"Bearer {server.switches.bearer}"}, trust_env=False
    )
    assert bare.status_code == 200
    mcp = http.post("/v1/mcp", json={})
    assert mcp.status_code == 403  # hyphens are refused there


def test_default_window_hides_old_spans(server: StandIn, http: httpx.Client) -> None:
    server.world.span("t1", "s1")
    search = f"{BASE}/spans/events/search"

    def ask(**filters: str) -> list[Any]:
        reply = http.post(search, json={"data": {"type": "spans", "attributes": {"filter": filters}}})
        return list(reply.json()["data"])

    assert ask(trace_id="t1") == []
    assert len(ask(trace_id="t1", **{"from": "now-90d"})) == 1
    assert (
        len(
            http.get(f"{BASE}/spans/events", params={"filter[from]": "now-90d", "filter[trace_id]": "t1"}).json()[
                "data"
            ]
        )
        == 1
    )
    facade = http.post("/api/unstable/llm-obs-mcp/v1/trace/get-trace", json={"trace_id": "t1"})
    assert facade.status_code == 404


@pytest.mark.parametrize("shape", ["list", "map_id", "map_name", "map_bare"])
def test_label_value_shapes(server: StandIn, http: httpx.Client, shape: Any) -> None:
    queue = server.world.queue("Q", SCHEMAS)
    server.world.interaction(queue, "t1", [{"by": "u1", "values": {"q7f3": (True, "why"), "c1": (["a"], None)}}])
    server.switches.label_values = shape
    item = http.get(f"{BASE}/annotation-queues/{queue}/annotated-interactions").json()
    values = item["data"]["attributes"]["annotated_interactions"][0]["annotations"][0]["label_values"]
    keys = {"map_id": {"q7f3", "c1"}, "map_name": {"reply_ok", "tone"}, "map_bare": {"q7f3", "c1"}}
    assert isinstance(values, list) if shape == "list" else set(values) == keys[shape]
    across = http.get(f"{BASE}/annotated-interactions", params={"contentIds": "t1"}).json()
    assert across["data"]["attributes"]["total_count"] == 1


@pytest.mark.parametrize(
    ("sent", "status"),
    [
        (body(), 200),
        (body(target__sampling_percentage=0), 422),
        (body(llm_judge_config__output_schema={"type": "object"}), 400),
        (body(llm_judge_config__inference_params=None), 400),
        (body(eval_name="other"), 400),
        (body(llm_provider__integration_provider="anthropic"), 400),
        ({"data": {"attributes": {}}}, 400),
    ],
)
def test_put_rules(http: httpx.Client, sent: dict[str, Any], status: int) -> None:
    reply = http.put(f"{EVAL}/judge", json=sent)
    assert reply.status_code == status
    assert reply.content == b"" if status == 200 else "errors" in reply.json()


def test_put_is_a_full_replace(server: StandIn, http: httpx.Client) -> None:
    server.world.evaluator("judge", "support")
    http.put(f"{EVAL}/judge", json=body())
    target = http.get(f"{EVAL}/judge").json()["data"]["attributes"]["target"]
    assert "sampling_percentage" not in target


def test_flat_write_ignores_a_nested_body_and_stores_null_as_text(server: StandIn, http: httpx.Client) -> None:
    url = "/api/unstable/llm-obs-mcp/v1/custom-evaluator/create-or-update"
    assert http.post(url, json=body()["data"]["attributes"]).json() == {"status": "ok"}
    assert server.world.evaluators["judge"].keys() == {"eval_name", "created_at", "updated_at", "category"}
    http.post(url, json={"eval_name": "judge", "output_schema": None})
    assert server.world.evaluators["judge"]["llm_judge_config"]["output_schema"] == "null"


@pytest.mark.parametrize(
    ("method", "path", "sent"),
    [
        ("PUT", f"{BASE}/annotation-queues/q/label-schema", {}),
        ("POST", f"{BASE}/annotation-queues", {}),
        ("DELETE", f"{BASE}/annotation-queues/q", None),
        ("PUT", f"{EVAL}/judge", body(target__enabled=True)),
        ("POST", "/api/unstable/llm-obs-mcp/v1/custom-evaluator/create-or-update", {"enabled": True}),
        ("DELETE", f"{EVAL}/judge", None),
    ],
)
def test_gt1_pu1_violations_are_recorded(
    server: StandIn, http: httpx.Client, method: str, path: str, sent: dict[str, Any] | None
) -> None:
    http.request(method, path, json=sent)
    assert len(server.violations) == 1


@pytest.mark.parametrize("sse", [False, True])
def test_mcp_tools_toolsets_and_record(sse: bool) -> None:
    import httpx2
    from mcp.client.client import Client
    from mcp.client.streamable_http import streamable_http_client

    world = World()
    world.span("t1", "s1", input={"value": "hi"})

    async def talk(server: StandIn) -> tuple[list[str], list[str], Any, Any]:
        keys = {"DD_API_KEY": server.switches.api_key, "DD_APPLICATION_KEY": server.switches.app_key}
        names = []
        async with httpx2.AsyncClient(headers=keys, trust_env=False) as http:
            for query in ("?toolsets=llmobs&omit_tools=upsert_llmobs_annotations", ""):
                transport = streamable_http_client(f"{server.origin}/v1/mcp{query}", http_client=http)
                async with Client(transport, mode="legacy", cache=None) as client:
                    names.append([tool.name for tool in (await client.list_tools()).tools])
                    if query:
                        args = {"trace_id": "t1", "from": "now-90d", "telemetry": {"intent": "test"}}
                        good = await client.call_tool("get_llmobs_trace", args)
                        bad = await client.call_tool("upsert_llmobs_annotations", {"telemetry": {"intent": "test"}})
        return names[0], names[1], good, bad

    with StandIn(world, Switches(mcp_sse=sse)) as server:
        offered, core, good, bad = asyncio.run(talk(server))
        assert "get_llmobs_evaluator" in offered
        assert "upsert_llmobs_annotations" not in offered
        assert core == []
        assert json.loads(good.content[0].text)["total_spans"] == 1
        assert bad.is_error
        assert server.violations == ["write tool: upsert_llmobs_annotations"]
