"""The isolation proof (EV-5): it passes on honest targets and fails on every kind of leak."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

import pytest

from fitter.clients.base import ModelSettings
from fitter.errors import RunError
from fitter.evidence.isolation import IsolationProof, private_fields, prove_isolation
from fitter.evidence.map import EvidenceField, EvidenceMap
from fitter.evidence.targets.local import LocalTarget
from fitter.judge.prompt import build_prompt
from fitter.labels import text
from fitter.records import Framing, Row, Scope
from tests.evidence.content import row, span
from tests.judge.test_prompt_frame import CHOICE, draft

MAP = EvidenceMap(
    scope="trace",
    fields=(
        EvidenceField(name="input", path="spans[0].meta.input.value"),
        EvidenceField(name="everything", path="*"),
        EvidenceField(name="output", path="spans[0].meta.output.value"),
    ),
)
HONEST = LocalTarget()
PROMPT = build_prompt(draft(("bad", "rude"), otherwise="good"), HONEST.contract(CHOICE), HONEST.compile(MAP))


def rows() -> list[Row]:
    made = []
    for i, label in enumerate(["good", "bad", "bad"]):
        root = span(
            "root", "workflow", input=f"q{i}", output=f"a{i}", metadata={"k": {"evaluation": "old", "kept": 1}},
            evaluation={"tone": {"value": "pass"}}, expected_output="ref",
        )  # fmt: skip
        check = span("check", "task", parent="root", output=f"app says {label}", metadata={"verdict": label})
        private: dict[str, Any] = {
            "label": label, "reasons": ("why",), "annotators": ("ann",), "group": "g", "content_id": "c",
            "expected_output": "ref", "app_verdict": label, "original_labels": ("good", "bad"),
            "app_fields": (("check", "meta.output.value"), ("check", "meta.metadata.verdict")),
        }  # fmt: skip
        made.append(row(root, check, kind="trace", id=f"r{i}", **private))
    return made


def prove(target: LocalTarget = HONEST, framing: Framing = "grader", given: list[Row] | None = None) -> IsolationProof:
    return prove_isolation(target, PROMPT, MAP, given or rows(), framing, ModelSettings(temperature=0.0))


@pytest.mark.parametrize("framing", ["replicator", "grader", "corrector"])
def test_ev5_an_honest_target_passes_at_every_framing(framing: Framing) -> None:
    proof = prove(framing=framing)
    assert (proof.rows, proof.passed) == (3, True)
    assert proof.fields == private_fields(framing)
    assert {"label", "reasons", "annotators", "expected_output", "original_labels"} <= set(proof.fields)
    assert {"content.evaluation", "content.expected_output", "content.assessment", "content.annotations"} <= set(
        proof.fields
    )
    assert ("app_fields" in proof.fields) == (framing == "replicator")
    assert ("app_verdict" in proof.fields) == (framing != "corrector")
    assert re.fullmatch("[0-9a-f]{64}", proof.digest)


def test_ev5_the_digest_is_of_what_was_checked() -> None:
    assert prove().digest == prove().digest
    other = rows()
    other[2] = row(span("root", "workflow", input="another", output="a"), kind="trace", id="r2")
    assert prove(given=other).digest != prove().digest
    assert prove(given=rows()[:2]).digest != prove().digest


Leak = Callable[[Row], Any]


def leaky(leak: Leak) -> LocalTarget:
    """A target whose payload builder slips something of the row into the root's input."""

    class Leaky(LocalTarget):
        def payload(self, row: Row, scope: Scope, framing: Framing) -> Mapping[str, Any] | None:
            payload = super().payload(row, scope, framing)
            assert payload is not None
            payload["spans"][0]["meta"]["input"]["value"] += str(leak(row))
            return payload

    return Leaky()


def first_span(row: Row) -> dict[str, Any]:
    return row.content["traces"][0]["spans"][0]


@pytest.mark.parametrize(
    ("name", "leak"),
    [
        ("label", lambda r: text(r.label)),
        ("label", lambda r: " " if r.label == "bad" else ""),
        ("label", lambda r: r.label.encode().hex()),
        ("reasons", lambda r: r.reasons[0]),
        ("annotators", lambda r: r.annotators),
        ("group", lambda r: r.group),
        ("content_id", lambda r: r.content_id),
        ("expected_output", lambda r: r.expected_output),
        ("app_verdict", lambda r: r.app_verdict),
        ("adjudicated", lambda r: r.adjudicated),
        ("original_labels", lambda r: len(r.original_labels)),
        ("content.evaluation", lambda r: first_span(r)["evaluation"]),
        ("content.evaluation", lambda r: first_span(r)["meta"]["metadata"]["k"].get("evaluation")),
        ("content.expected_output", lambda r: first_span(r).get("expected_output")),
        ("content.assessment", lambda r: first_span(r).get("assessment", "")),
        ("content.annotations", lambda r: first_span(r)["meta"].get("annotations", "")),
        ("content.annotations", lambda r: r.content.get("annotations", "")),
    ],
)
def test_ev5_every_leak_is_found_and_named(name: str, leak: Leak) -> None:
    with pytest.raises(RunError, match=r"row r\d changes with the private field") as caught:
        prove(leaky(leak))
    assert name in caught.value.message.split("private field ")[1].split(", ")


def test_ev5_a_leak_of_how_two_private_fields_compare_is_found() -> None:
    with pytest.raises(RunError, match="label, app_verdict"):
        prove(leaky(lambda r: r.label == r.app_verdict))


def test_ev5_a_leak_that_trips_over_the_canary_is_found() -> None:
    with pytest.raises(RunError, match="private field label"):
        prove(leaky(lambda r: {"good": 1, "bad": 2}[r.label]))


def test_ev5_a_row_that_is_excluded_because_of_its_label_is_found() -> None:
    class Picky(LocalTarget):
        def payload(self, row: Row, scope: Scope, framing: Framing) -> Mapping[str, Any] | None:
            return None if row.label == "bad" else super().payload(row, scope, framing)

    with pytest.raises(RunError, match="row r1 changes with the private field label"):
        prove(Picky())


def test_ev5_ev3_a_replicator_that_shows_the_apps_verdict_is_found() -> None:
    class Copying(LocalTarget):
        def payload(self, row: Row, scope: Scope, framing: Framing) -> Mapping[str, Any] | None:
            return super().payload(row, scope, "grader")

    assert prove(Copying(), "grader").passed
    with pytest.raises(RunError, match="private field app_fields"):
        prove(Copying(), "replicator")


def test_ev5_one_leaking_row_in_many_is_named() -> None:
    with pytest.raises(RunError, match="row r2 changes with the private field expected_output"):
        prove(leaky(lambda r: r.expected_output if r.id == "r2" else ""))


def test_ev5_app_fields_that_lead_nowhere_prove_nothing() -> None:
    misspelt = [replace(r, app_fields=(("check", "meta.output.vaule"),)) for r in rows()]
    with pytest.raises(RunError, match=r"meta\.output\.vaule, named by row r0, leads nowhere"):
        prove(framing="replicator", given=misspelt)
    assert prove(framing="grader", given=misspelt).passed
    # One row in which that span is absent is no misspelling: there the app wrote nothing.
    one = [*rows(), replace(rows()[0], id="r9", app_fields=(("gone", "meta.output.value"),))]
    assert prove(framing="replicator", given=one).rows == 4


def test_ev5_nested_and_indexed_app_fields() -> None:
    given = rows()[0]
    check = span(
        "check", "task", output={"messages": [{"content": "app: good"}, {"content": "app: good"}]}, tags=["v:good"]
    )
    content = {**given.content, "traces": [{"trace_id": "t1", "spans": [first_span(given), check]}]}
    paths = ("meta.output", "meta.output.messages.0.content", "meta.output.messages.content", "tags.0")
    made = replace(given, content=content, app_fields=tuple(("check", path) for path in paths))
    assert prove(framing="replicator", given=[made]).passed


def test_ev5_private_values_never_stand_in_the_error() -> None:
    secret = [replace(r, reasons=("SECRET-REASON",)) for r in rows()]
    with pytest.raises(RunError) as caught:
        prove(leaky(lambda r: r.reasons), given=secret)
    assert "SECRET" not in str(caught.value)
