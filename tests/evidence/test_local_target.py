"""The local target: what a judge may see of a row (EV-1..4), what it must answer, what the template can carry."""

from __future__ import annotations

import copy
from typing import Any

import jsonschema
import pytest
from hypothesis import given
from hypothesis import strategies as st

from fitter.errors import SettingsError
from fitter.evidence.map import EvidenceField, EvidenceMap
from fitter.evidence.private import META_KEYS, PRIVATE_KEYS, SPAN_KEYS, public_span
from fitter.evidence.targets.base import Target
from fitter.evidence.targets.local import LocalTarget
from fitter.jsonio import canonical
from fitter.records import Framing, Row, Scope
from tests.evidence.content import flat, row, session, span
from tests.judge.test_prompt_frame import BOOLEAN, CHOICE, SCORE, SET

TARGET: Target = LocalTarget()
MESSAGES = {"messages": [{"role": "system", "content": "be kind"}, {"role": "user", "content": "hi"}]}


def resolved(path: str, given_: Row, scope: Scope = "span", framing: Framing = "grader") -> str:
    payload = TARGET.payload(given_, scope, framing)
    assert payload is not None
    return TARGET.resolve("{{" + path + "}}", payload).text


def test_ev1_a_span_payload_is_the_focus_span() -> None:
    given_ = row(span("root", "workflow", input="R"), span("s2", "llm", parent="root", input="Q"), focus="s2")
    payload = TARGET.payload(given_, "span", "grader")
    assert payload is not None
    assert (payload["span_id"], payload["meta"]["input"]["value"]) == ("s2", "Q")
    assert "traces" not in payload


def test_ev1_a_trace_payload_holds_the_spans_in_order_and_a_session_payload_the_traces() -> None:
    one = row(span("root", "workflow"), span("s2"), kind="trace")
    payload = TARGET.payload(one, "trace", "grader")
    assert payload is not None
    assert list(payload) == ["trace_id", "spans"]
    assert [s["span_id"] for s in payload["spans"]] == ["root", "s2"]
    two = session([span("a")], [span("b"), span("c")])
    seen = TARGET.payload(two, "session", "grader")
    assert seen is not None
    assert list(seen) == ["session_id", "traces"]
    assert [[s["span_id"] for s in t["spans"]] for t in seen["traces"]] == [["a"], ["b", "c"]]


def test_ev1_nothing_at_the_scope_is_none() -> None:
    two = session([span("a")], [span("b")])
    assert TARGET.payload(two, "span", "grader") is None
    assert TARGET.payload(two, "trace", "grader") is None
    assert TARGET.payload(session([span("a")]), "trace", "grader") is not None
    assert TARGET.payload(flat(), "session", "grader") is None
    assert TARGET.payload(row(span("a"), session_id="s"), "session", "grader") is not None
    lost = Row(id="r", content={"kind": "span", "focus": "x", "traces": []}, label="bad")
    for scope in TARGET.scopes:
        assert TARGET.payload(lost, scope, "grader") is None
    assert TARGET.payload(Row(id="r", content={}, label="bad"), "span", "grader") is None


def test_ev2_only_the_allow_list_passes_and_private_keys_at_no_depth() -> None:
    nasty = span(
        "s1",
        input={
            "value": {"q": "x", "expected_output": "CANARY"},
            "messages": [{"content": "m", "annotations": "CANARY"}],
        },
        output={"value": "a", "assessment": "CANARY"},
        metadata={"topic": "t", "deep": [{"evaluation": "CANARY"}], "expected_output": "CANARY"},
        evaluation={"toxicity": "CANARY"},
        expected_output="CANARY",
        annotations="CANARY",
        assessment="CANARY",
        reviewer="CANARY",
        tags=["env:prod"],
        duration=5,
    )
    nasty["meta"]["expected_output"] = "CANARY"
    nasty["meta"]["review"] = "CANARY"
    given_ = row(nasty, kind="trace", session_id="s", label="CANARY", reasons=("CANARY",), annotators=("CANARY",),
                 expected_output="CANARY", app_verdict="CANARY", original_labels=("CANARY",))  # fmt: skip
    for scope in TARGET.scopes:
        payload = TARGET.payload(given_, scope, "grader")
        text = canonical(payload)
        assert "CANARY" not in text
        assert '"topic":"t"' in text
        assert '"env:prod"' in text
    assert set(public_span(nasty)) <= {*SPAN_KEYS, "meta"}
    assert set(public_span(nasty)["meta"]) <= set(META_KEYS)


def test_a_payload_is_a_copy_and_the_row_stays_whole() -> None:
    given_ = row(span(output={"value": "verdict: bad"}), app_fields=(("s1", "meta.output.value"),))
    before = copy.deepcopy(given_.content)
    TARGET.payload(given_, "span", "replicator")
    assert given_.content == before


@pytest.mark.parametrize("scope", ["span", "trace", "session"])
def test_ev3_a_replicator_sees_no_field_of_the_apps_verdict_step(scope: Scope) -> None:
    given_ = row(
        span(
            "root",
            "workflow",
            output="APP-1",
            metadata={"verdict": {"value": "APP-2", "at": "step"}},
            tags=["x", "v:APP-3"],
        ),
        span("s2", "task", output={"messages": [{"role": "a", "content": "APP-4"}, {"role": "b", "content": "kept"}]}),
        session_id="s",
        app_fields=(
            ("root", "meta.output.value"),
            ("root", "meta.metadata.verdict.value"),
            ("root", "tags.1"),
            ("s2", "meta.output.messages.0.content"),
            ("s2", "meta.output.absent.x"),
        ),
    )
    hidden = canonical(TARGET.payload(given_, scope, "replicator"))
    assert "APP-" not in hidden
    assert '"at":"step"' in hidden
    if scope != "span":
        assert "kept" in hidden
    for framing in ("grader", "corrector"):
        assert "APP-1" in canonical(TARGET.payload(given_, scope, framing))


def test_ev3_a_path_through_a_list_without_an_index_means_every_element() -> None:
    given_ = row(
        span(output={"messages": [{"content": "A", "role": "x"}, {"content": "B"}]}),
        app_fields=(("s1", "meta.output.messages.content"), ("s1", "meta.output.messages.99999999999999999999.role")),
    )
    payload = TARGET.payload(given_, "span", "replicator")
    assert payload is not None
    assert payload["meta"]["output"]["messages"] == [{"role": "x"}, {}]


def test_span_aliases() -> None:
    assert resolved("span_input", row(span("s1", "llm", input={**MESSAGES, "value": "v"}))) == "be kind\nhi"
    assert resolved("span_input", row(span("s1", "task", input={**MESSAGES, "value": "v"}))) == "v"
    assert resolved("span_input", flat("q", "a")) == "q"
    assert resolved("span_output", flat("q", "a")) == "a"
    assert resolved("span_output", row(span("s1", "llm", output={"messages": [], "value": "v"}))) == "v"


def test_structured_values_are_canonical_json() -> None:
    given_ = row(span(output={"value": {"b": 1, "a": [True, None]}}))
    assert resolved("span_output", given_) == '{"a":[true,null],"b":1}'


def evidence(*paths: str, scope: Scope = "span") -> EvidenceMap:
    return EvidenceMap(scope=scope, fields=tuple(EvidenceField(name=f"f{i}", path=p) for i, p in enumerate(paths)))


@pytest.mark.parametrize(
    ("path", "scope", "why"),
    [
        ("span_input", "trace", "span scope only"),
        ("span_output", "session", "span scope only"),
        ("spans[0].name", "span", "has no 'spans'"),
        ("meta.input.value", "trace", "has no 'meta'"),
        ("evaluation.toxicity.value", "span", "somebody graded"),
        ("expected_output", "span", "somebody graded"),
        ("meta.metadata.expected_output", "span", "somebody graded"),
        ("spans.meta.metadata.annotations", "trace", "somebody graded"),
        ("spans[evaluation.x.value:pass].name", "trace", "somebody graded"),
        ("reviewer", "span", "has no 'reviewer'"),
        ("meta.review", "span", "meta has no 'review'"),
        ("spans[0].review", "trace", "a span has no 'review'"),
        ("traces[*].spans.meta.review", "session", "meta has no 'review'"),
        ("label", "span", "has no 'label'"),
    ],
)
def test_ev7_what_no_payload_can_hold_is_a_gap_known_before_any_spend(path: str, scope: Scope, why: str) -> None:
    compiled = TARGET.compile(evidence(path, scope=scope))
    assert compiled.placeholders == ()
    assert [g.path for g in compiled.gaps] == [path]
    assert why in compiled.gaps[0].why


@pytest.mark.parametrize(
    ("path", "scope"),
    [
        ("span_input", "span"),
        ("*", "span"),
        ("meta", "span"),
        ("meta.metadata.anything", "span"),
        ("tags", "span"),
        ("spans[meta.span.kind:llm].meta.output.messages.content", "trace"),
        ("trace_id", "trace"),
        ("traces[0].spans[0].meta.input.value", "session"),
        ("traces.trace_id", "session"),
    ],
)
def test_what_a_payload_can_hold_is_carried(path: str, scope: Scope) -> None:
    compiled = TARGET.compile(evidence(path, scope=scope))
    assert [text for _, text in compiled.placeholders] == ["{{" + path + "}}"]
    assert compiled.gaps == ()


def test_a_selector_that_does_not_parse_names_its_field() -> None:
    with pytest.raises(SettingsError, match=r"evidence field 'f1': template, character 2: \[-1\]"):
        TARGET.compile(evidence("span_input", "a[-1]"))


ANSWERS: dict[str, list[Any]] = {
    "boolean": [True, False],
    "categorical": ["good", "bad"],
    "multiselect": [["rude"], ["wrong", "none"]],
    "numeric": [1, 5],
}
WRONG: dict[str, list[Any]] = {
    "boolean": [1, "true", None],
    "categorical": ["ugly", True],
    "multiselect": [[], ["rude", "rude"], "rude", ["x"]],
    "numeric": [0, 6, 2.5, "3"],
}


@pytest.mark.parametrize("label", [BOOLEAN, CHOICE, SET, SCORE], ids=lambda s: s.kind)
def test_out1_the_contract_asks_for_reasoning_first_and_its_schema_says_what_a_label_is(label: Any) -> None:
    contract = TARGET.contract(label)
    schema = dict(contract.schema)
    assert list(schema["properties"]) == ["reasoning", "label", "confidence"] == schema["required"]
    assert schema["additionalProperties"] is False
    check = jsonschema.Draft202012Validator(schema)
    for value in ANSWERS[label.kind]:
        assert check.is_valid({"reasoning": "x", "label": value, "confidence": 5})
        assert not check.is_valid({"reasoning": "x", "label": value, "confidence": 5, "extra": 1})
        assert not check.is_valid({"reasoning": "x", "label": value, "confidence": 101})
    for value in WRONG[label.kind]:
        assert not check.is_valid({"reasoning": "x", "label": value, "confidence": 5})


@pytest.mark.parametrize("spec", ["lexicon", "replay:x.jsonl", "local:m", "openai:gpt", "anthropic:c", "azure:d"])
def test_hosted_judges(spec: str) -> None:
    assert TARGET.hosts(spec) is None


@pytest.mark.parametrize("spec", ["", "openai:", "openai: ", "gpt-5", "lexicon:x", "other:x", "\x1b[31m:x"])
def test_judges_that_are_not_hosted_say_what_is(spec: str) -> None:
    why = TARGET.hosts(spec)
    assert why is not None
    assert "lexicon" in why
    assert "\x1b" not in why


JSON = st.recursive(
    st.text(max_size=4) | st.none() | st.integers(0, 3),
    lambda inner: (
        st.lists(inner, max_size=3)
        | st.dictionaries(st.sampled_from([*sorted(PRIVATE_KEYS), "a", "b"]), inner, max_size=4)
    ),
    max_leaves=12,
)


@given(JSON, JSON, st.dictionaries(st.sampled_from([*SPAN_KEYS, *sorted(PRIVATE_KEYS), "x"]), JSON))
def test_ev2_no_private_key_survives_any_shape_of_span(value: Any, metadata: Any, more: dict[str, Any]) -> None:
    made = {**more, "span_id": "s1", "meta": {"input": {"value": value}, "metadata": metadata, "evaluation": value}}

    def keys(node: Any) -> set[str]:
        if isinstance(node, dict):
            return set(node).union(*(keys(inner) for inner in node.values()))
        return set().union(*(keys(inner) for inner in node)) if isinstance(node, list) else set()

    assert not keys(public_span(made)) & PRIVATE_KEYS
