"""The default evidence map: from train rows only, deterministic, never a graded or app verdict field."""

from __future__ import annotations

import random
from typing import Any

import pytest

from fitter.errors import SettingsError
from fitter.evidence.map import EvidenceMap
from fitter.evidence.propose_map import NoEvidence, propose_map
from fitter.evidence.render import Rendered, render
from fitter.evidence.targets.local import LocalTarget
from fitter.judge.prompt import build_prompt
from fitter.records import Framing, Row, Scope
from tests.evidence.content import flat, row, session, span
from tests.judge.test_prompt_frame import CHOICE, draft

TARGET = LocalTarget()


def propose(*rows: Row, scope: Scope | None = None, framing: Framing = "grader") -> EvidenceMap:
    return propose_map(rows, scope, TARGET, framing)


def paths(found: EvidenceMap) -> dict[str, str]:
    return {f.name: f.path for f in found.fields}


def test_a_flat_file_gets_input_context_output_in_that_order() -> None:
    found = propose(flat("q", "a", context="c"), flat("q2", "a2", id="r2"))
    assert found.scope == "span"
    assert list(paths(found).items()) == [
        ("input", "span_input"), ("context", "meta.metadata.context"), ("output", "span_output"),
    ]  # fmt: skip
    assert [f.required for f in found.fields] == [False, False, True]
    assert all(f.why for f in found.fields)
    assert not found.reviewed


def test_ev4_metadata_is_proposed_for_flat_files_only() -> None:
    found = propose(row(span("s1", input="q", output="a", metadata={"context": "c"})))
    assert list(paths(found)) == ["input", "output"]


def test_a_column_given_as_both_input_and_output_is_shown_once() -> None:
    found = propose(flat("same", "same"), flat("also", "also", id="r2"))
    assert list(paths(found)) == ["output"]
    assert "repeats" in found.fields[0].why
    assert list(paths(propose(flat("same", "same"), flat("q", "a", id="r2")))) == ["input", "output"]


def test_the_proposal_is_deterministic_in_the_order_of_rows() -> None:
    rows = [flat(f"q{i}", f"a{i}", context="c" if i % 2 else None, id=f"r{i}") for i in range(9)]
    shuffled = list(rows)
    random.Random(3).shuffle(shuffled)
    assert propose(*rows) == propose(*shuffled)


CALL = {"name": "lookup", "arguments": {"id": 7}, "tool_id": "call-1", "type": "function"}
RESULT = {"name": "lookup", "result": "42", "tool_id": "call-1", "type": "function"}


def agent(**root: Any) -> Row:
    documents = [{"text": "doc one", "id": "d1"}, {"text": "doc two"}]
    return row(
        span("root", "workflow", **{"input": "the user's question", "output": "the answer", **root}),
        span("s2", "retrieval", parent="root", output={"documents": documents}),
        span(
            "s3", "llm", parent="root",
            input={"messages": [{"role": "user", "content": "a long full question " * 20, "tool_results": [RESULT]}]},
            output={"messages": [{"role": "assistant", "content": "a long full answer " * 20, "tool_calls": [CALL]}]},
        ),
        span("s4", "tool", name="lookup", parent="root", input='{"id":7}', output="42"),
        kind="trace",
    )  # fmt: skip


def test_lesson14_a_trace_map_shows_documents_and_tool_calls_with_their_ids() -> None:
    given_ = agent(input="a question " * 30, output="an answer " * 30)
    found = propose(given_)
    assert found.scope == "trace"
    assert paths(found) == {
        "input": "spans[0].meta.input.value",
        "documents": "spans[meta.span.kind:retrieval].meta.output.documents.text",
        "tool_calls": "spans[meta.span.kind:llm].meta.output.messages.tool_calls",
        "tool_results": "spans[meta.span.kind:llm].meta.input.messages.tool_results",
        "output": "spans[0].meta.output.value",
    }
    prompt = build_prompt(draft(otherwise="bad"), TARGET.contract(CHOICE), TARGET.compile(found))
    text = render(TARGET, prompt, found, given_, "grader")
    assert isinstance(text, Rendered)
    assert text.text.count('"tool_id":"call-1"') == 2
    assert "doc one\ndoc two" in text.text


def test_a_thin_or_missing_root_gives_way_to_the_llm_steps_messages() -> None:
    thin = propose(agent(input="ok", output="done"))
    assert paths(thin)["input"] == "spans[meta.span.kind:llm].meta.input.messages.content"
    assert paths(thin)["output"] == "spans[meta.span.kind:llm].meta.output.messages.content"
    assert "summary" in thin.fields[0].why
    missing = propose(agent(input={}, output={}))
    assert paths(missing)["output"] == "spans[meta.span.kind:llm].meta.output.messages.content"


def test_tools_without_messages_are_shown_by_name_input_and_output() -> None:
    given_ = row(
        span("root", "workflow", input="q", output="a"),
        span("s2", "tool", name="lookup", parent="root", input='{"id":7}', output="42"),
        kind="trace",
    )
    assert paths(propose(given_)) == {
        "input": "spans[0].meta.input.value",
        "tool_names": "spans[meta.span.kind:tool].name",
        "tool_calls": "spans[meta.span.kind:tool].meta.input",
        "tool_results": "spans[meta.span.kind:tool].meta.output",
        "output": "spans[0].meta.output.value",
    }


def test_a_span_row_shows_tool_calls_of_its_own_messages() -> None:
    given_ = row(
        span("s1", input={"messages": [{"role": "user", "content": "q"}]},
             output={"messages": [{"role": "assistant", "content": "a", "tool_calls": [CALL]}]})
    )  # fmt: skip
    assert paths(propose(given_)) == {
        "input": "span_input", "tool_calls": "meta.output.messages.tool_calls", "output": "span_output",
    }  # fmt: skip


def test_a_session_map() -> None:
    given_ = session([span("a", "agent", input="q", output="x")], [span("b", "agent", input="q2", output="y")])
    found = propose(given_)
    assert (found.scope, paths(found)["output"]) == ("session", "traces[*].spans[0].meta.output.value")


def test_without_a_scope_the_one_of_most_rows_is_taken_and_else_one_that_reaches_evidence() -> None:
    traces = [row(span("root", "workflow", input="q", output="a"), kind="trace", id=f"t{i}") for i in range(3)]
    assert propose(flat(id="f"), *traces).scope == "trace"
    # A session that no evaluator would fire on: its one trace still is reached.
    assert propose(session([span("a", "agent", input="q", output="x")], session_id=None)).scope in ("span", "trace")


def verdict_rows() -> list[Row]:
    return [
        row(
            span("root", "workflow", input=f"a question {i}", output="app says bad", metadata={"verdict": "bad"}),
            span("s2", "llm", parent="root", input={"messages": [{"content": "prompt"}]}, output="app says bad"),
            kind="trace", id=f"r{i}", app_verdict="bad",
            app_fields=(("root", "meta.output.value"), ("root", "meta.metadata.verdict"), ("s2", "meta.output.value")),
        )
        for i in range(3)
    ]  # fmt: skip


@pytest.mark.parametrize("scope", ["span", "trace"])
def test_ev3_a_replicator_map_never_maps_what_the_apps_verdict_step_wrote(scope: Scope) -> None:
    found = propose(*verdict_rows(), scope=scope, framing="replicator")
    assert "output" not in paths(found)
    for given_ in verdict_rows():
        payload = TARGET.payload(given_, scope, "replicator")
        assert payload is not None
        for field in found.fields:
            assert "app says" not in TARGET.resolve("{{" + field.path + "}}", payload).text
    assert "output" in paths(propose(*verdict_rows(), scope=scope, framing="corrector"))


def test_pu2_no_scope_that_reaches_evidence_is_its_own_error() -> None:
    blank = row(span("s1", "task", metadata={"note": "x"}))
    with pytest.raises(NoEvidence, match="no eval scope reaches the evidence"):
        propose(blank)
    with pytest.raises(NoEvidence):
        propose()
    # Tools alone are no evidence: there is nothing that was asked and nothing that was answered.
    tools = row(span("root", "workflow"), span("s2", "tool", parent="root", input="x", output="y"), kind="trace")
    with pytest.raises(NoEvidence):
        propose(tools)
    with pytest.raises(NoEvidence, match="at session"):
        propose(flat(), scope="session")


def test_a_scope_that_the_target_does_not_have_is_a_settings_error() -> None:
    class SpanOnly(LocalTarget):
        scopes = ("span",)

    with pytest.raises(SettingsError, match="no evaluators at scope trace"):
        propose_map([flat()], "trace", SpanOnly(), "grader")
    assert propose_map([agent()], None, SpanOnly(), "grader").scope == "span"


def test_gt6_expected_output_is_never_proposed() -> None:
    given_ = row(span("s1", "task", input={"value": "q", "expected_output": "X"}, output="a", expected_output="X"))
    found = propose(given_)
    payload = TARGET.payload(given_, "span", "grader")
    assert payload is not None
    assert all("X" not in TARGET.resolve("{{" + f.path + "}}", payload).text for f in found.fields)
