"""The Datadog queue source against the stand-in: every shape, every fault, both backends."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from fitter.errors import FitterError, Outage, RunError, SettingsError, UserError
from fitter.queues.datadog import QueueOptions, fetch_verdicts, open_queue, window
from fitter.queues.datadog_http import PUBLISH, QUEUE_READS, DatadogHTTP, Retry
from fitter.queues.datadog_mcp import McpTools
from fitter.queues.datadog_site import SITES, access_from, site_named
from fitter.queues.datadog_tools import DENIED_TOOLS, FACADE_READS, PUBLISH_TOOLS, READ_TOOLS
from fitter.queues.intake import intake
from fitter.queues.recap import Intake
from fitter.queues.source import TextSchema
from tests.datadog.worlds import BOOL, FAST, SCHEMAS, nightly, note, read, row, talk
from tests.servers.datadog import StandIn

BACKENDS = ["rest", "mcp"]


@pytest.mark.parametrize("sse", [False, True])
def test_rest_and_mcp_give_the_same_queue(stand_in: StandIn, sse: bool) -> None:
    nightly(stand_in)
    stand_in.mcp.manager.json_response = not sse
    over_rest = read(stand_in)
    assert read(stand_in, backend="mcp") == over_rest
    assert over_rest.identity.startswith("datadog:")
    assert len(over_rest.interactions) == 10
    assert isinstance(over_rest.schemas[3], TextSchema)


def test_the_content_is_in_the_normal_form(stand_in: StandIn) -> None:
    nightly(stand_in)
    queue = read(stand_in)
    trace = row(queue, "aa1").content
    assert trace is not None
    assert (trace["kind"], trace["focus"], trace["session_id"]) == ("trace", "aa1-1", None)
    first, second, third = trace["traces"][0]["spans"]
    assert first["parent_id"] == "undefined"
    assert first["meta"]["input"] == {"value": "question 1"}
    assert first["meta"]["metadata"] == {"channel": "mail"}
    assert second["meta"]["span"] == {"kind": "llm"}
    assert second["meta"]["output"]["messages"][0]["tool_calls"][0]["name"] == "lookup"
    assert third["parent_id"] == "aa1-2"
    session = row(queue, "sess-1")
    assert session.content is not None
    assert [t["trace_id"] for t in session.content["traces"]] == ["bb1", "bb2"]
    assert session.group == "sess-1"
    span = row(queue, "aa0-2")
    assert span.content is not None
    assert (span.content["kind"], span.content["focus"]) == ("span", "aa0-2")
    assert len(span.content["traces"][0]["spans"]) == 3


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("shape", ["list", "map_id", "map_name", "map_bare"])
@pytest.mark.parametrize("categorical", ["list", "string"])
def test_gt5_every_label_shape_reads_the_same(stand_in: StandIn, backend: str, shape: Any, categorical: Any) -> None:
    world = stand_in.world
    queue = world.queue("Q", SCHEMAS)
    talk(stand_in, "t1")
    world.interaction(queue, "t1", [note("ann", True, c1aa=(["cold"], None))])
    stand_in.switches.label_values = shape
    stand_in.switches.categorical_as = categorical
    held = row(read(stand_in, "Q", backend=backend), "t1").annotations
    assert held["q7f3"][0].value is True
    assert held["q7f3"][0].reason == ("" if shape == "map_bare" else "because")
    assert held["q7f3"][0].annotator == "ann"
    assert held["c1aa"][0].value == (["cold"] if categorical == "list" else "cold")


def test_gt5_a_renamed_label_is_addressed_by_its_id(stand_in: StandIn) -> None:
    queue = stand_in.world.queue("Q", [BOOL])
    talk(stand_in, "t1")
    stand_in.world.interaction(queue, "t1", [note("ann", False, gone=("x", None))])
    for item in stand_in.world.queues[queue]["interactions"]:
        item["annotations"][0]["label_values"][0]["name_when_saved"] = "an older name"
    held = read(stand_in, "Q")
    assert row(held, "t1").annotations["q7f3"][0].value is False
    assert held.counts["values_of_removed_labels"] == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_gt3_pending_is_unlabelled_and_null_is_none(stand_in: StandIn, backend: str) -> None:
    nightly(stand_in)
    stand_in.switches.annotations_null = True
    pending = row(read(stand_in, backend=backend), "pend")
    assert pending.annotations == {}
    assert pending.content_problem == "pending: content was not read"


def test_gt4_contested_rows_keep_every_reviewer(stand_in: StandIn) -> None:
    nightly(stand_in)
    twice = [r for r in read(stand_in).interactions if r.content_id == "aa3"]
    assert [[a.value for a in r.annotations["q7f3"]] for r in twice] == [[False], [True, False]]


# what is set, backend, error class, exit code, words of the message
DENIED = "may not do this"
STOPS: list[tuple[dict[str, Any], str, type[FitterError], int, str]] = [
    ({"api_key": "f" * 32}, "rest", SettingsError, 2, "DD_API_KEY"),
    ({"api_key": "f" * 32}, "mcp", SettingsError, 2, "DD_API_KEY"),
    ({"app_key": "f" * 40}, "rest", SettingsError, 2, DENIED),
    ({"forbidden": True}, "rest", SettingsError, 2, DENIED),
    ({"forbidden": True}, "mcp", SettingsError, 2, DENIED),
    ({"mcp_off": True}, "mcp", SettingsError, 2, "there is no MCP server"),
    ({"mcp_missing_tools": {"get_llmobs_trace"}}, "mcp", SettingsError, 2, "does not offer get_llmobs_trace"),
    ({"annotation_schema_null": True}, "rest", UserError, 2, "no labels defined"),
    ({"annotation_schema_null": True}, "mcp", UserError, 2, "no labels defined"),
    ({"limit_every": 1}, "rest", Outage, 4, "rate limit did not clear"),
    ({"limit_every": 1}, "mcp", Outage, 4, "rate limit did not clear"),
    ({"mcp_tool_limit_first": 999}, "mcp", Outage, 4, "rate limit did not clear"),
    ({"fail_first": 999}, "rest", Outage, 4, "answers 500: internal trouble"),
    ({"fail_first": 999, "error_shape": "html"}, "rest", Outage, 4, "answers 500: 500 internal trouble"),
    ({"fail_first": 999, "error_shape": "reason"}, "rest", Outage, 4, "answers 500: internal trouble"),
    ({"fail_first": 999, "error_shape": "detail"}, "rest", Outage, 4, "answers 500: internal trouble"),
    ({"fail_first": 999}, "mcp", Outage, 4, "cannot be reached"),
    ({"not_json": "annotation-queues"}, "rest", RunError, 1, "not JSON"),
    ({"meta_status": "timeout"}, "rest", Outage, 4, "returned only part"),
]


def _named(case: tuple[Any, ...]) -> str:
    return f"{case[1]} {' '.join(f'{k}={v}'[:40] for k, v in case[0].items())}"


def _set(server: StandIn, values: dict[str, Any]) -> None:
    for key, value in values.items():
        assert hasattr(server.switches, key)
        setattr(server.switches, key, value)


@pytest.mark.parametrize(("values", "backend", "kind", "code", "words"), STOPS, ids=[_named(s) for s in STOPS])
def test_sc3_faults_that_stop_the_read(
    stand_in: StandIn, values: dict[str, Any], backend: Any, kind: type[FitterError], code: int, words: str
) -> None:
    nightly(stand_in)
    env = stand_in.env()
    _set(stand_in, {"echo_keys_in_errors": True, **values})
    with pytest.raises(kind) as caught:
        open_queue("datadog:Nightly review", env, QueueOptions(backend=backend, retry=FAST, mcp_rate=None)).read()
    assert words in str(caught.value)
    assert caught.value.exit_code == code
    for secret in (env["DD_API_KEY"], env["DD_APP_KEY"]):
        assert secret[:8] not in str(caught.value)


# switches that must not change what is read
HARMLESS: list[tuple[dict[str, Any], str]] = [
    ({"page_cap": 2}, "rest"),
    ({"page_cap": 2}, "mcp"),
    ({"last_page": "no_after", "page_cap": 1}, "rest"),
    ({"last_page": "absent", "page_cap": 1}, "rest"),
    ({"limit_every": 3}, "rest"),
    ({"limit_every": 4}, "mcp"),
    ({"limit_every": 3, "limit_headers": False}, "rest"),
    ({"fail_first": 2}, "rest"),
    ({"fail_first": 2}, "mcp"),
    ({"mcp_tool_limit_first": 3}, "mcp"),
    ({"content_shape": "flat"}, "mcp"),
    ({"mcp_telemetry_required": False}, "mcp"),
    ({"mcp_structured": True}, "mcp"),
    ({"error_shape": "strings"}, "rest"),
]


@pytest.mark.parametrize(("values", "backend"), HARMLESS, ids=[_named((v, b)) for v, b in HARMLESS])
def test_switches_that_change_nothing(stand_in: StandIn, values: dict[str, Any], backend: str) -> None:
    queue = stand_in.world.queue("Q", SCHEMAS)
    for key in ("t1", "t2"):
        talk(stand_in, key, session="s1")
        stand_in.world.interaction(queue, key, [note("ann", True)])
    stand_in.world.interaction(queue, "s1", [note("ann", False)], kind="session")
    expected = read(stand_in, "Q")
    _set(stand_in, values)
    assert read(stand_in, "Q", backend=backend) == expected


def test_pages_that_overlap_are_counted_and_not_doubled(stand_in: StandIn) -> None:
    nightly(stand_in)
    expected = read(stand_in)
    stand_in.switches.page_cap, stand_in.switches.repeat_on_page = 2, True
    got = read(stand_in)
    assert got.interactions == expected.interactions
    assert got.counts["repeated_spans"] > 0


@pytest.mark.parametrize("backend", BACKENDS)
def test_spans_that_the_search_leaves_out_are_expanded(stand_in: StandIn, backend: str) -> None:
    nightly(stand_in)
    stand_in.switches.hidden_from_search |= {"aa1-2", "aa1-3"}
    content = row(read(stand_in, backend=backend), "aa1").content
    assert content is not None
    assert [s["span_id"] for s in content["traces"][0]["spans"]] == ["aa1-1", "aa1-2", "aa1-3"]
    assert content["traces"][0]["spans"][2]["meta"]["output"] == {"value": "found"}


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("broken", [False, True])
def test_an_orphan_span_is_kept_and_counted(stand_in: StandIn, backend: str, broken: bool) -> None:
    queue = stand_in.world.queue("Q", [BOOL])
    talk(stand_in, "t1")
    stand_in.world.span("t1", "lost", parent="never-sent", kind="tool", offset_ms=9, input={"value": "x"})
    stand_in.world.interaction(queue, "t1", [note("ann", True)])
    stand_in.switches.span_details_broken = broken
    held = read(stand_in, "Q", backend=backend)
    content = row(held, "t1").content
    assert content is not None
    assert content["traces"][0]["spans"][-1]["span_id"] == "lost"
    assert content["traces"][0]["spans"][-1]["meta"]["input"] == {"value": "x"}
    assert held.counts["orphan_spans"] == 1


@pytest.mark.parametrize("backend", BACKENDS)
def test_redacted_text_never_reaches_a_judge(stand_in: StandIn, backend: str) -> None:
    nightly(stand_in)
    stand_in.switches.redacted |= {"aa1-1", "aa2-1", "aa2-2", "aa2-3", "aa0-2"}
    held = read(stand_in, backend=backend)
    partly = row(held, "aa1").content
    assert partly is not None
    assert partly["traces"][0]["spans"][0]["meta"]["input"] == {}
    assert "REDACTED" not in str(partly)
    assert row(held, "aa2").content is None
    assert row(held, "aa2").content_problem == "redacted: no text is left"
    assert row(held, "aa0-2").content_problem == "redacted: nothing is left of the labelled span"
    # aa1: 2, aa2: 6, and aa0-2 in two rows: 4
    assert held.counts["redacted_fields"] == 12


def test_two_rows_on_one_redacted_trace_say_the_same(stand_in: StandIn) -> None:
    queue = stand_in.world.queue("Q", [BOOL])
    talk(stand_in, "t1")
    for by in ("ann", "bob"):
        stand_in.world.interaction(queue, "t1", [note(by, True)])
    stand_in.switches.redacted |= {"t1-1", "t1-2", "t1-3"}
    rows = read(stand_in, "Q").interactions
    assert [r.content_problem for r in rows] == ["redacted: no text is left"] * 2


@pytest.mark.parametrize("backend", BACKENDS)
def test_gt4_expired_content_names_the_roads_tried(stand_in: StandIn, backend: str) -> None:
    nightly(stand_in)
    stand_in.switches.expired_traces |= {"aa1", "sess-1"}
    held = read(stand_in, backend=backend)
    for content_id in ("aa1", "sess-1"):
        lost = row(held, content_id)
        assert lost.content is None
        assert lost.content_problem.startswith("expired: nothing was found by ")
        tried = ["spans search (since now-90d)", "façade spans", "GET annotated-interactions/"]
        for road in tried if backend == "rest" else ["MCP spans (since now-90d)", "--backend rest has"]:
            assert road in lost.content_problem
    assert row(held, "aa2").content is not None


def test_the_window_is_the_users(stand_in: StandIn) -> None:
    queue = stand_in.world.queue("Q", [BOOL])
    talk(stand_in, "old", age=100 * 86_400)
    stand_in.world.interaction(queue, "old", [note("ann", True)])
    assert row(read(stand_in, "Q"), "old").content is None
    assert row(read(stand_in, "Q", since="120d"), "old").content is not None


def test_gt6_an_experiment_row_is_read_by_the_content_endpoint(stand_in: StandIn) -> None:
    queue = stand_in.world.queue("Q", [BOOL])
    hexes = "f" * 32
    iid = stand_in.world.interaction(queue, hexes, [note("ann", True)], kind="experiment_trace")
    lost = stand_in.world.interaction(queue, "e" * 32, [note("ann", True)], kind="experiment_trace")
    for key in (iid, lost):
        stand_in.world.contents[key] = {"input": "ask", "output": {"text": "reply"}, "expected_output": "the reference"}
    stand_in.switches.expired_content.add(lost)
    held = read(stand_in, "Q")
    got = row(held, hexes)
    assert got.content is not None
    span = got.content["traces"][0]["spans"][0]
    assert span["meta"]["input"] == {"value": "ask"}
    assert span["meta"]["output"] == {"value": {"text": "reply"}}
    assert "the reference" not in str(span["meta"])
    assert got.expected_output == "the reference"
    gone = row(held, "e" * 32)
    assert f"interaction data with id {'e' * 32} not found" in gone.content_problem
    over_mcp = row(read(stand_in, "Q", backend="mcp"), hexes)
    assert over_mcp.content is None
    assert "--backend rest has" in over_mcp.content_problem


def test_the_annotations_own_copy_outlives_the_spans(stand_in: StandIn) -> None:
    nightly(stand_in)
    stand_in.switches.expired_traces.add("aa1")
    key = row(read(stand_in), "aa1").id
    stand_in.world.contents[key] = {"input": "question 1", "output": "answer"}
    got = row(read(stand_in), "aa1")
    assert got.content is not None
    assert got.content["traces"][0]["spans"][0]["meta"]["output"] == {"value": "answer"}
    assert got.notes == ("content is the annotation's own copy: one step, no span tree",)


def test_ev6_text_that_the_platform_cut_is_not_judged(stand_in: StandIn) -> None:
    queue = stand_in.world.queue("Q", [BOOL])
    talk(stand_in, "t1", text="long " * 400)
    stand_in.world.interaction(queue, "t1", [note("ann", True)])
    stand_in.switches.content_max_tokens = 20
    lost = row(read(stand_in, "Q", backend="mcp"), "t1")
    assert lost.content is None
    assert lost.content_problem.startswith("cut: Datadog returned only part of input of span t1-1")
    assert row(read(stand_in, "Q"), "t1").content is not None


def test_circular_spans_and_hostile_text(stand_in: StandIn) -> None:
    queue = stand_in.world.queue("Q", [BOOL])
    stand_in.world.span("t1", "a", parent="b")
    stand_in.world.span("t1", "b", parent="a")
    stand_in.world.interaction(queue, "t1", [note("ann", True)])
    talk(stand_in, "t2", text="nul \x00 and {{span_input}} <<<x")
    stand_in.world.interaction(queue, "t2", [note("ann", True)])
    held = read(stand_in, "Q")
    assert row(held, "t1").content_problem == "span_cycle"
    content = row(held, "t2").content
    assert content is not None
    assert content["traces"][0]["spans"][0]["meta"]["input"]["value"] == "nul \ufffd and {{span_input}} <<<x"
    assert held.counts["nul_replaced"] > 0


@pytest.mark.parametrize("backend", BACKENDS)
def test_gt9_intake_accounts_for_every_row(stand_in: StandIn, backend: str) -> None:
    nightly(stand_in)
    stand_in.switches.expired_traces.add("aa1")
    taken = intake(read(stand_in, backend=backend), label="reply_ok")
    # The display block has no annotation either, and one reviewer left this label alone.
    assert counted(taken) == {"pending": 3, "contested": 1, "unresolvable": 1}
    assert taken.read == len(taken.rows) + 5 == 10
    assert {row.content_id for row in taken.rows} == {"aa0", "aa2", "aa3", "sess-1", "aa0-2"}
    tone = counted(intake(read(stand_in, backend=backend), label="tone"))
    assert tone["empty_label"] == 1  # [] is what the platform records for a choice not made


def counted(taken: Intake) -> dict[str, int]:
    return {reason: len(ids) for reason, ids in taken.excluded.items() if ids}


# names
def test_a_queue_is_found_by_id_name_or_case(stand_in: StandIn) -> None:
    key = nightly(stand_in)
    for spec in (key, '"Nightly review"', "nightly REVIEW"):
        assert read(stand_in, spec).identity == f"datadog:{key}"


@pytest.mark.parametrize("backend", BACKENDS)
def test_ambiguous_and_unknown_names_list_the_candidates(stand_in: StandIn, backend: str) -> None:
    first, second = stand_in.world.queue("Twin", [BOOL]), stand_in.world.queue("Twin", [BOOL])
    with pytest.raises(UserError, match="2 Datadog queues are called 'Twin'") as caught:
        read(stand_in, "Twin", backend=backend)
    assert first in str(caught.value)
    assert second in str(caught.value)
    with pytest.raises(UserError, match="no Datadog queue 'Nobody'") as caught:
        read(stand_in, "Nobody", backend=backend)
    assert first in str(caught.value)


# settings, sites, secrets
KEYS = {"DD_API_KEY": "secret-1", "DD_APP_KEY": "secret-2"}


@pytest.mark.parametrize(
    ("env", "words"),
    [
        ({}, "DD_API_KEY and DD_APP_KEY"),
        ({"DD_API_KEY": "secret-1"}, "DD_APP_KEY (or DD_APPLICATION_KEY)"),
        ({"DD_API_KEY": "secret-1", "DD_APP_KEY": "a", "DD_APPLICATION_KEY": "b"}, "both set and differ"),
        ({"DD_API_KEY": "secret-1 x", "DD_APP_KEY": "secret-2"}, "is not a key"),
        ({**KEYS, "DD_SITE": "evil.test"}, "no Datadog site"),
        ({**KEYS, "DD_LLMOBS_OVERRIDE_ORIGIN": "http://10.0.0.9:1"}, "unencrypted"),
        ({**KEYS, "DD_LLMOBS_OVERRIDE_ORIGIN": "http://u:p@127.0.0.1"}, "not an origin"),
        ({**KEYS, "DD_LLMOBS_MCP_PATH": "https://evil.test/"}, "not a path"),
    ],
)
def test_sc3_bad_environments_are_user_errors_without_values(env: dict[str, str], words: str) -> None:
    with pytest.raises(SettingsError) as caught:
        access_from(env)
    assert words in str(caught.value)
    assert "secret-" not in str(caught.value)


def test_either_name_of_the_application_key() -> None:
    for name in ("DD_APP_KEY", "DD_APPLICATION_KEY"):
        access = access_from({"DD_API_KEY": "k" * 32, name: "p" * 40})
        assert access.rest_headers()["DD-APPLICATION-KEY"] == "p" * 40
        assert access.mcp_headers() == {"DD_API_KEY": "k" * 32, "DD_APPLICATION_KEY": "p" * 40}
        assert "kkkk" not in repr(access)
        assert "pppp" not in repr(access)


def test_the_site_table() -> None:
    pages = {site: site_named(site).evaluations_page for site in SITES}
    assert pages["datadoghq.com"] == "https://app.datadoghq.com/llm/evaluations"
    assert pages["us3.datadoghq.com"] == "https://us3.datadoghq.com/llm/evaluations"
    assert pages["datadoghq.eu"] == "https://app.datadoghq.eu/llm/evaluations"
    assert pages["ddog-gov.com"] == "https://app.ddog-gov.com/llm/evaluations"
    assert pages["us2.ddog-gov.com"] == "https://us2.ddog-gov.com/llm/evaluations"
    assert pages["datad0g.com"] == "https://dd.datad0g.com/llm/evaluations"
    assert site_named("uk1.datadoghq.com").rest == "https://api.uk1.datadoghq.com"
    assert site_named("ap2.datadoghq.com").mcp == "https://mcp.ap2.datadoghq.com/v1/mcp"
    assert site_named("ddog-gov.com").mcp is None


def test_no_mcp_on_a_gov_site_is_said_and_nothing_else_is_tried() -> None:
    env = {"DD_API_KEY": "k" * 32, "DD_APP_KEY": "p" * 40, "DD_SITE": "ddog-gov.com"}
    with pytest.raises(SettingsError, match="has no MCP server"):
        open_queue("datadog:x", env, QueueOptions(backend="mcp")).read()


@pytest.mark.parametrize(("given", "sent"), [("90d", "now-90d"), ("now-36h", "now-36h"), ("2w", "now-14d"),
                                             ("2026-01-31", "2026-01-31T00:00:00Z")])  # fmt: skip
def test_since(given: str, sent: str) -> None:
    assert window(given) == sent


@pytest.mark.parametrize("bad", ["", "90", "0d", "yesterday", "90d; drop"])
def test_since_refuses_what_is_no_time(bad: str) -> None:
    with pytest.raises(SettingsError, match="--since"):
        window(bad)


@pytest.mark.parametrize("spec", ["datadog:", 'datadog:""', "datadog:   "])
def test_an_empty_spec_is_a_user_error(spec: str) -> None:
    with pytest.raises(SettingsError, match="no queue is named"):
        open_queue(spec, {})


# GT-1
QUEUE_WRITES = [
    ("POST", "/api/v2/llm-obs/v1/annotation-queues"),
    ("PUT", "/api/v2/llm-obs/v1/annotation-queues/q1"),
    ("PATCH", "/api/v2/llm-obs/v1/annotation-queues/q1"),
    ("DELETE", "/api/v2/llm-obs/v1/annotation-queues/q1"),
    ("PUT", "/api/v2/llm-obs/v1/annotation-queues/q1/label-schema"),
    ("POST", "/api/v2/llm-obs/v1/annotation-queues/q1/annotated-interactions"),
    ("POST", "/api/v2/llm-obs/v1/annotation-queues/q1/annotations"),
    ("PUT", "/api/unstable/llm-obs/config/evaluators/custom/judge"),
    ("DELETE", "/api/unstable/llm-obs/config/evaluators/custom/judge"),
    ("POST", "/api/unstable/llm-obs-mcp/v1/custom-evaluator/create-or-update"),
    ("GET", "/api/v2/llm-obs/v1/annotation-queues/q1/label-schema/../../x"),
    ("GET", "/api/v2/llm-obs/v1/annotation-queues/../label-schema"),
    ("GET", "/api/v1/anything"),
]


@pytest.mark.parametrize(("method", "path"), QUEUE_WRITES)
def test_gt1_the_queue_client_refuses_what_is_off_its_list(stand_in: StandIn, method: str, path: str) -> None:
    http = DatadogHTTP(access_from(stand_in.env()), QUEUE_READS + FACADE_READS)
    with pytest.raises(RunError, match="allow-list"):
        http.call(method, path, json={}, what="trying")
    http.close()
    assert stand_in.requests == []


def test_gt1_no_allow_list_holds_a_queue_write_or_a_delete() -> None:
    for method, path in QUEUE_READS + FACADE_READS + PUBLISH:
        assert method in ("GET", "POST", "PUT")
        if method != "GET":
            assert path.endswith("/search") or "/evaluators/custom/" in path or "/trace/" in path
    assert not set(DENIED_TOOLS) & (READ_TOOLS | PUBLISH_TOOLS)


@pytest.mark.parametrize("tool", [*DENIED_TOOLS, "create_or_update_llmobs_evaluator", "anything"])
def test_gt1_the_mcp_client_refuses_tools_off_its_list(stand_in: StandIn, tool: str) -> None:
    tools = McpTools(access_from(stand_in.env()), READ_TOOLS)
    with pytest.raises(RunError, match="allow-list"):
        tools.call(tool, {}, what="trying")
    assert stand_in.requests == []


def test_gt1_the_mcp_session_switches_write_tools_off(stand_in: StandIn) -> None:
    nightly(stand_in)
    read(stand_in, backend="mcp")
    omitted = stand_in.calls("POST", "/v1/mcp")[0].one("omit_tools").split(",")
    assert set(omitted) == set(DENIED_TOOLS)
    assert {name for name, _ in stand_in.tool_calls} <= READ_TOOLS
    assert all("telemetry" in args for _, args in stand_in.tool_calls)


def test_every_spans_request_has_an_explicit_window(stand_in: StandIn) -> None:
    nightly(stand_in)
    read(stand_in)
    read(stand_in, backend="mcp")
    searches = stand_in.calls("POST", "/spans/events/search")
    assert searches
    assert {r.body["data"]["attributes"]["filter"]["from"] for r in searches} == {"now-90d"}
    spans = [args for name, args in stand_in.tool_calls if "annot" not in name]
    assert spans
    assert {args["from"] for args in spans} == {"now-90d"}


@pytest.mark.parametrize("backend", BACKENDS)
def test_sc3_a_proxy_is_not_asked_for_a_server_on_this_machine(
    stand_in: StandIn, backend: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("HTTP_PROXY", "http_proxy", "ALL_PROXY"):
        monkeypatch.setenv(name, "http://127.0.0.1:9")
    nightly(stand_in)
    assert len(read(stand_in, backend=backend).interactions) == 10


def test_the_documented_sites_are_the_sites() -> None:
    page = (Path(__file__).parents[2] / "docs" / "datadog.md").read_text(encoding="utf-8")
    rows = [site_named(name) for name in SITES]
    for site in rows:
        assert f"| {site.name} | {site.ui} | {'yes' if site.mcp else 'no'} |" in page


# limits
def test_a_429_waits_as_long_as_the_platform_says(stand_in: StandIn) -> None:
    nightly(stand_in)
    stand_in.switches.limit_first, stand_in.switches.limit_reset = 1, "7"
    waits: list[float] = []
    queue = open_queue(
        "datadog:Nightly review", stand_in.env(), QueueOptions(workers=1, retry=Retry(sleep=waits.append))
    )
    queue.read()
    assert 6.5 < waits[0] <= 7


def test_fair_use_holds_back_mcp_calls(stand_in: StandIn) -> None:
    nightly(stand_in)
    waits: list[float] = []
    read(stand_in, backend="mcp", mcp_rate=(20, 10.0), workers=1, retry=Retry(sleep=waits.append))
    calls = len(stand_in.tool_calls)
    assert calls > 40
    assert len(waits) >= calls - 20
    assert max(waits) <= 10 * (calls // 20 + 1)


@pytest.mark.slow
def test_5000_interactions_with_429s_lose_and_double_no_row(stand_in: StandIn) -> None:
    world = stand_in.world
    queue = world.queue("Big", [BOOL])
    for n in range(5000):
        world.span(f"t{n}", f"s{n}", kind="llm", input={"value": f"in {n}"}, output={"value": f"out {n}"})
        world.interaction(queue, f"t{n}", [note("ann", n % 3 == 0)] if n % 10 else [])
    stand_in.switches.limit_every = 17
    held = read(stand_in, "Big")
    assert [r.content_id for r in held.interactions] == [f"t{n}" for n in range(5000)]
    assert len({r.id for r in held.interactions}) == 5000
    for n, item in enumerate(held.interactions):
        if n % 10 == 0:  # pending
            assert (item.content, item.annotations) == (None, {})
            continue
        assert item.content is not None
        span = item.content["traces"][0]["spans"][0]
        assert (span["span_id"], span["meta"]["input"]["value"]) == (f"s{n}", f"in {n}")
        assert [a.value for a in item.annotations["q7f3"]] == [n % 3 == 0]
    assert stand_in.count > 4500 * 17 // 16


# fidelity
@pytest.mark.parametrize("backend", BACKENDS)
def test_verdicts_of_an_enabled_evaluator_are_read_per_row(stand_in: StandIn, backend: Any) -> None:
    nightly(stand_in)
    said = {"value": True, "assessment": "pass", "eval_metric_type": "boolean", "reasoning": "fine"}
    stand_in.world.verdicts["judge"] = {"aa0-1": said, "aa0-2": {**said, "value": False}, "bb2-1": said}
    rows = [("trace", "aa0"), ("span", "aa0-2"), ("session", "sess-1"), ("trace", "aa1"), ("trace", "nowhere")]
    options = QueueOptions(backend=backend, retry=FAST, mcp_rate=None)
    got = fetch_verdicts("judge", rows, env=stand_in.env(), options=options)
    assert {key: value["value"] for key, value in got.items()} == {"aa0": True, "aa0-2": False, "sess-1": True}
    assert fetch_verdicts("other", rows, env=stand_in.env(), options=options) == {}


def test_ev2_an_evaluators_verdict_lies_outside_meta(stand_in: StandIn) -> None:
    nightly(stand_in)
    stand_in.world.verdicts["judge"] = {"aa0-1": {"value": True, "reasoning": "CANARY"}}
    content = row(read(stand_in), "aa0").content
    assert content is not None
    span = content["traces"][0]["spans"][0]
    assert span["evaluation"]["judge"]["reasoning"] == "CANARY"
    assert "CANARY" not in str(span["meta"])
