"""PU-5: which labelled rows the published evaluator would run on, and what the report is told."""

from __future__ import annotations

from typing import Any

import pytest

from fitter.evidence.targets.base import Compiled
from fitter.evidence.targets.datadog import DatadogTarget
from fitter.labels import LabelSchema
from fitter.publishing.datadog import DatadogPublisher, PublishOptions, open_publisher
from fitter.publishing.datadog_reach import reach, shown_filter
from fitter.publishing.fidelity import MeasuredJudge, fidelity_gaps
from fitter.publishing.publisher import EvaluatorSpec
from fitter.records import Row
from tests.datadog.worlds import FAST
from tests.servers.datadog import StandIn

ROOT = {"span_id": "1", "parent_id": "undefined", "name": "turn", "ml_app": "support", "status": "ok",
        "tags": ["env:prod"], "meta": {"span": {"kind": "workflow"}}}  # fmt: skip
CHILD = {**ROOT, "span_id": "2", "parent_id": "1", "name": "draft", "meta": {"span": {"kind": "llm"}}}


def a_row(focus: str = "1", session: str | None = None, **changes: Any) -> Row:
    spans = [{**ROOT, **changes}, {**CHILD, **changes}] if changes else [ROOT, CHILD]
    traces = [{"trace_id": "t", "root_span_id": "1", "spans": spans}]
    return Row(id=focus, content={"kind": "span", "focus": focus, "session_id": session, "traces": traces}, label=True)


@pytest.mark.parametrize(
    ("target", "row", "where"),
    [
        ({}, a_row(), "seen"),
        ({"application_name": "billing"}, a_row(), "hidden"),
        ({"root_spans_only": True}, a_row("1"), "seen"),
        ({"root_spans_only": True}, a_row("2"), "hidden"),
        ({"root_spans_only": True, "eval_scope": "trace"}, a_row("2"), "seen"),
        ({"filter": "@parent_id:undefined"}, a_row("2"), "hidden"),
        ({"filter": "@parent_id:undefined"}, a_row("1"), "seen"),
        ({"filter": '@name:"draft" env:prod'}, a_row("2"), "seen"),
        ({"filter": "@name:draft env:staging"}, a_row("2"), "hidden"),
        ({"filter": "@meta.span.kind:llm"}, a_row("2"), "seen"),
        ({"filter": "@span_kind:llm"}, a_row("1"), "hidden"),
        ({"filter": "env:prod OR env:staging"}, a_row(), "unknown"),
        ({"filter": "-env:prod"}, a_row(), "unknown"),
        ({"filter": "@name:dra*"}, a_row("2"), "unknown"),
        ({"filter": "@custom.field:x"}, a_row(), "unknown"),
        ({"filter": "@custom.field:x @name:turn"}, a_row("2"), "hidden"),
        ({"eval_scope": "session"}, a_row(), "hidden"),
        ({"eval_scope": "session"}, a_row(session="s"), "seen"),
        ({}, a_row(ml_app=None), "unknown"),
        ({}, a_row("missing"), "hidden"),
    ],
)
def test_pu5_rows_the_evaluator_would_see(target: dict[str, Any], row: Row, where: str) -> None:
    config = {"target": {"application_name": "support", "eval_scope": "span", **target}}
    found = reach(config, [row])
    assert getattr(found, where) == (row.id,)
    assert len(found.seen) + len(found.hidden) + len(found.unknown) == 1


def test_pu5_the_gap_is_told_with_its_figures(stand_in: StandIn) -> None:
    label = LabelSchema(id="a", name="ok", kind="boolean", classes=(False, True))
    spec = EvaluatorSpec(
        name="judge",
        app="support",
        scope="span",
        system="s",
        user_template="{{span_input}}",
        contract=DatadogTarget().contract(label),
        judge="openai:m",
    )
    publisher = open_publisher(stand_in.env(), "rest", PublishOptions(retry=FAST, filter="@parent_id:undefined"))
    assert isinstance(publisher, DatadogPublisher)
    config = publisher.config(spec, None)
    assert shown_filter(config) == "@parent_id:undefined"
    deployed = publisher.deployed(spec, config, [a_row("1"), a_row("2"), a_row("2")])
    publisher.close()
    assert (deployed.hidden_rows, deployed.traffic, deployed.judge) == (2, False, "openai:m")
    measured = MeasuredJudge(
        compiled=Compiled(placeholders=(), gaps=()),
        contract=spec.contract,
        judge="openai:m",
        runs=3,
        passes=9,
        rescued=1,
    )
    codes = [gap.code for gap in fidelity_gaps(measured, deployed)]
    assert codes == ["renderer"] * 3 + [
        "single_call",
        "no_retry",
        "confidence_field",
        "parameters",
        "static_system",
        "filter_hides_rows",
        "sampling",
        "no_traffic",
    ]
