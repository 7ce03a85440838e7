"""The Datadog target: verdict contract, hosting, and the local renderer against an independent reading of §7."""

from __future__ import annotations

from collections import Counter
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fitter.errors import SettingsError
from fitter.evidence.map import EvidenceField, EvidenceMap
from fitter.evidence.targets.base import Target
from fitter.evidence.targets.datadog import DatadogTarget
from fitter.labels import LabelSchema
from fitter.queues.datadog_spans import bundle_span
from fitter.queues.spans import normal_form
from fitter.records import Row
from tests.evidence.reference import render as reference

TARGET: Target = DatadogTarget()
BOOLEAN = LabelSchema(id="a", name="ok", kind="boolean", classes=(False, True))
CATEGORY = LabelSchema(
    id="b", name="tone", kind="categorical", classes=("warm", "cold"), value_descriptions={"cold": "curt"}
)
SCORE = LabelSchema(id="c", name="stars", kind="numeric", minimum=1, maximum=5, is_integer=True)
SEVERAL = LabelSchema(id="d", name="flags", kind="multiselect", classes=("x", "y"))


@pytest.mark.parametrize(
    ("label", "field", "value"),
    [
        (BOOLEAN, "boolean_eval", {"type": "boolean"}),
        (
            CATEGORY,
            "categorical_eval",
            {
                "type": "string",
                "anyOf": [{"const": "warm", "description": "warm"}, {"const": "cold", "description": "curt"}],
            },
        ),
        (SCORE, "score_eval", {"type": "number", "minimum": 1, "maximum": 5}),
    ],
)
def test_out1_contract_is_the_platforms_reasoning_first_and_without_confidence(
    label: LabelSchema, field: str, value: dict[str, Any]
) -> None:
    contract = TARGET.contract(label)
    assert list(contract.schema["properties"]) == ["reasoning", field]
    assert contract.schema["properties"][field] == value
    assert contract.schema["required"] == [field, "reasoning"]
    assert contract.schema["additionalProperties"] is False
    assert (contract.label_field, contract.reasoning_field) == (field, "reasoning")
    assert contract.confidence_field is None
    assert "Confidence: NN%" in contract.schema["properties"]["reasoning"]["description"]


def test_a_multi_select_label_is_refused_before_any_spend() -> None:
    with pytest.raises(SettingsError, match="multi-select"):
        TARGET.contract(SEVERAL)


@pytest.mark.parametrize(
    "spec", ["openai:gpt-5.4-mini", "anthropic:claude-x", "azure:deployment", "bedrock:m", "vertex:m"]
)
def test_judges_behind_an_integration_are_hosted(spec: str) -> None:
    assert TARGET.hosts(spec) is None


@pytest.mark.parametrize(
    ("spec", "words"),
    [
        ("lexicon", "embedded judge lexicon"),
        ("local:smollm2", "on this machine"),
        ("replay:x.jsonl", "on this machine"),
        ("openai:@http://127.0.0.1:1/v1", "no integration"),
        ("openai:", "no integration"),
        ("mistral:m", "no integration"),
    ],
)
def test_lo1_other_judges_are_refused_with_the_reason(spec: str, words: str) -> None:
    why = TARGET.hosts(spec)
    assert why is not None
    assert words in why


def _row(exported: list[dict[str, Any]], kind: Any, focus: str | None = None) -> Row:
    spans = [s for s in (bundle_span(e) for e in exported) if s is not None]
    held: dict[str, Any] = {"trace_id": "t1", "session_id": "sess", "spans": spans}
    if focus:
        held["focus"] = focus
    content, problem = normal_form(kind, held, None, Counter())
    assert problem == ""
    assert content is not None
    return Row(id="r", content=content, label=True)


LLM = {
    "span_id": "2",
    "parent_id": "1",
    "name": "draft",
    "span_kind": "llm",
    "input": {"value": "ignored", "messages": [{"role": "user", "content": "hi"}, {"role": "user", "content": "you"}]},
    "output": {"messages": [{"role": "assistant", "content": "yo"}]},
}
ROOT = {
    "span_id": "1",
    "parent_id": "undefined",
    "name": "turn",
    "span_kind": "workflow",
    "input": {"value": "ask"},
    "output": {"value": "done"},
    "evaluation": {"old": {"value": True}},
}


@pytest.mark.parametrize(("focus", "text"), [("2", "hi\nyou|yo"), ("1", "ask|done")])
def test_the_aliases_follow_the_spans_kind(focus: str, text: str) -> None:
    payload = TARGET.payload(_row([ROOT, LLM], "span", focus), "span", "grader")
    assert payload is not None
    assert TARGET.resolve("{{span_input}}|{{span_output}}", payload).text == text


def test_ev1_an_llm_span_without_messages_has_no_span_input() -> None:
    bare = {**LLM, "input": {"value": "only a value"}}
    payload = TARGET.payload(_row([ROOT, bare], "span", "2"), "span", "grader")
    assert payload is not None
    resolved = TARGET.resolve("{{span_input}}", payload)
    assert (resolved.text, resolved.states) == ("", {"span_input": "missing"})


def test_ev6_the_field_cap_is_applied_and_reported() -> None:
    big = {**ROOT, "input": {"value": "é" * 200_000}}
    payload = TARGET.payload(_row([big], "span"), "span", "grader")
    assert payload is not None
    resolved = TARGET.resolve("{{meta.input.value}}", payload)
    assert len(resolved.text.encode()) == 250_000
    assert resolved.truncated == ("meta.input.value",)


def test_ev7_what_the_template_cannot_carry_is_known_before_any_spend() -> None:
    paths = {"a": "span_input", "b": "spans[name:draft].meta.output.value", "c": "spans.evaluation.old.value"}
    fields = tuple(EvidenceField(name=name, path=path) for name, path in paths.items())
    compiled = TARGET.compile(EvidenceMap(scope="trace", fields=fields))
    assert [field.name for field, _ in compiled.placeholders] == ["b"]
    assert [gap.field for gap in compiled.gaps] == ["a", "c"]


# The property: random span trees and templates, against §7 read anew. The reference builds the payload from the
# export on its own, and resolves paths with tests/evidence/reference.py.
NAMES = ["turn", "draft", "lookup", "a b"]
WORDS = st.sampled_from(["", "x", "two words", "{{span_input}}", "line\nbreak", "é", '"q"', " "])
VALUES = st.recursive(
    WORDS | st.integers(-5, 5) | st.booleans() | st.none(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.sampled_from(["k", "v", "topic"]), inner, max_size=3)
    ),
    max_leaves=5,
)
MESSAGES = st.lists(
    st.fixed_dictionaries({"role": st.sampled_from(["user", "assistant"]), "content": WORDS}), max_size=3
)
SIDES = st.fixed_dictionaries({}, optional={"value": WORDS, "messages": MESSAGES})
SPANS = st.lists(
    st.fixed_dictionaries(
        {
            "name": st.sampled_from(NAMES),
            "span_kind": st.sampled_from(["llm", "workflow", "tool", "agent"]),
            "input": SIDES,
            "output": SIDES,
        },
        optional={
            "metadata": st.dictionaries(st.sampled_from(["k", "topic"]), VALUES, min_size=1, max_size=2),
            "metrics": st.just({"input_tokens": 3}),
            "tags": st.lists(st.sampled_from(["env:prod", "v:1"]), max_size=2),
        },
    ),
    min_size=1,
    max_size=4,
)
STEPS = ["meta.input.value", "meta.output.messages.content", "meta.output.messages[role:assistant].content",
         "meta.input.messages[0].content", "meta.metadata", "meta.metadata.topic", "name", "metrics", "tags",
         "meta.span.kind", "meta.input", "meta.input.messages[0,1]", "absent.path", "parent_id"]  # fmt: skip
HEADS = {
    "span": [""],
    "trace": ["spans.", "spans[0].", "spans[*].", "spans[0,2].", "spans[9].", "spans[meta.span.kind:llm].",
              "spans[name:a b]."],
    "session": ["traces.spans.", "traces[0].spans[name:draft].", "traces[*].spans[*]."],
}  # fmt: skip


def _payload_anew(exported: list[dict[str, Any]], scope: str, focus: int) -> dict[str, Any]:
    spans = []
    for n, item in enumerate(exported):
        meta = {"span": {"kind": item["span_kind"]}, "input": {**item["input"]}, "output": {**item["output"]}}
        if "metadata" in item:
            meta["metadata"] = item["metadata"]
        span = {"span_id": f"s{n}", "trace_id": "t1", "name": item["name"], "status": "ok", "meta": meta}
        span["parent_id"] = "undefined" if n == 0 else f"s{(n - 1) // 2}"
        for key in ("metrics", "tags"):
            if key in item:
                span[key] = item[key]
        spans.append(span)
    if scope == "span":
        return spans[focus]
    if scope == "trace":
        return {"trace_id": "t1", "spans": spans}
    return {"session_id": "sess", "traces": [{"trace_id": "t1", "root_span_id": "s0", "spans": spans}]}


def _expand(template: str, payload: dict[str, Any]) -> tuple[str, dict[str, str]]:
    """Aliases by §7.1, spelled out: a template without them means the same."""
    for side in ("input", "output"):
        kind = payload.get("meta", {}).get("span", {}).get("kind")
        path = f"meta.{side}.messages[*].content" if kind == "llm" else f"meta.{side}.value"
        template = template.replace("{{span_" + side + "}}", "{{" + path + "}}")
    return reference(template, payload)


@given(data=st.data(), exported=SPANS, scope=st.sampled_from(["span", "trace", "session"]))
def test_ev1_random_trees_and_templates_render_as_an_independent_reference_does(
    data: st.DataObject, exported: list[dict[str, Any]], scope: Any
) -> None:
    ids = {
        n: {"span_id": f"s{n}", "parent_id": "undefined" if n == 0 else f"s{(n - 1) // 2}"}
        for n in range(len(exported))
    }
    focus = data.draw(st.integers(0, len(exported) - 1)) if scope == "span" else 0
    row = _row([{**item, **ids[n]} for n, item in enumerate(exported)], scope, f"s{focus}" if scope == "span" else None)
    paths = [head + step for head in HEADS[scope] for step in STEPS]
    paths += ["span_input", "span_output", "*"] if scope == "span" else ["*"]
    chosen = data.draw(st.lists(st.sampled_from(paths), min_size=1, max_size=4))
    template = "".join(f"<{n}> {{{{{path}}}}} {'{'} $x " for n, path in enumerate(chosen))
    payload = TARGET.payload(row, scope, "grader")
    assert payload is not None
    wanted = _payload_anew(exported, scope, focus)
    assert payload == wanted
    resolved = TARGET.resolve(template, payload)
    text, _ = _expand(template, wanted)
    assert resolved.text == text
