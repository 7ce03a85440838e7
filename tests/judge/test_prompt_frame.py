"""The frame: what a version says, and that reading it back gives the same criteria (IN-1, IN-2)."""

from __future__ import annotations

import contextlib
import json
import re
from collections.abc import Callable
from dataclasses import replace
from typing import Any

import pytest
from hypothesis import assume, given
from hypothesis import strategies as st

from fitter import jsonio, labels
from fitter.clients.base import ModelSettings
from fitter.errors import RunError, Tampered, UserError
from fitter.evidence.map import EvidenceField
from fitter.evidence.targets.base import Compiled
from fitter.evidence.targets.local import LocalTarget
from fitter.judge.prompt import (
    FrameCriterion,
    JudgePrompt,
    build_prompt,
    collides,
    leftover_placeholders,
    parse_frame,
    parse_parts,
    request,
    text_fault,
)
from fitter.labels import LabelKind, LabelSchema
from fitter.records import Criterion, Draft

COMPILED = Compiled(
    placeholders=(
        (EvidenceField(name="input", path="span_input"), "{{span_input}}"),
        (EvidenceField(name="output", path="span_output"), "{{span_output}}"),
    ),
    gaps=(),
)


def schema(kind: LabelKind, *classes: str, **more: Any) -> LabelSchema:
    listed = (False, True) if kind == "boolean" else classes
    return LabelSchema(id="q1", name="quality", kind=kind, classes=listed, **more)


BOOLEAN = schema("boolean")
CHOICE = schema("categorical", "good", "bad")
SET = schema("multiselect", "rude", "wrong", "none")
SCORE = schema("numeric", minimum=1, maximum=5, is_integer=True)


def draft(*criteria: tuple[str, str], otherwise: str, task: str = "Grade the reply.") -> Draft:
    made = tuple(Criterion(id=f"c{i}", label=label, text=text) for i, (label, text) in enumerate(criteria, 1))
    return Draft(task=task, criteria=made, otherwise=otherwise)


def build(d: Draft, label: LabelSchema, redraw: int = 0) -> JudgePrompt:
    return build_prompt(d, LocalTarget().contract(label), COMPILED, redraw=redraw)


def test_the_frame_is_the_one_that_the_architecture_page_shows() -> None:
    prompt = build(
        draft(("bad", "first criterion"), ("good", "third criterion"), ("bad", "second criterion"), otherwise="bad"),
        CHOICE,
    )
    n = prompt.nonce
    paragraphs = prompt.system.split("\n\n")
    assert paragraphs[0] == "Grade the reply."
    assert f'between the line "<<<{n}" and the line "{n}>>>"' in paragraphs[1]
    assert f'"[{n} name]"' in paragraphs[1]
    assert paragraphs[2] == 'Answer "good" when:\n- third criterion'
    assert paragraphs[3] == 'Answer "bad" when:\n- first criterion\n- second criterion'
    assert paragraphs[4] == 'Otherwise answer "bad".'
    assert paragraphs[5].index('"reasoning"') < paragraphs[5].index('"label"') < paragraphs[5].index('"confidence"')
    assert prompt.user_template == (
        f"<<<{n}\n[{n} input]\n{{{{span_input}}}}\n\n[{n} output]\n{{{{span_output}}}}\n{n}>>>"
    )


def test_classes_without_criteria_have_no_block_and_boolean_classes_are_json() -> None:
    prompt = build(draft(("true", "it answers"), otherwise="false"), BOOLEAN)
    assert "Answer true when:\n- it answers\n\nOtherwise answer false.\n" in prompt.system
    assert "Answer false" not in prompt.system


def test_numeric_and_multiselect_blocks() -> None:
    score = build(draft(("lower", "it is rude"), ("higher", "it helps"), otherwise="3"), SCORE)
    assert (
        "Raise the score when:\n- it helps\n\nLower the score when:\n- it is rude\n\nOtherwise answer 3."
        in score.system
    )
    assert "a whole number from 1 to 5." in score.system
    several = build(draft(("rude", "it insults"), otherwise="none"), SET)
    assert 'Include "rude" when:\n- it insults\n\nOtherwise answer ["none"].' in several.system
    assert several.draft.otherwise == '["none"]'
    assert parse_frame(several.system).otherwise == '["none"]'


@pytest.mark.parametrize("label", [BOOLEAN, CHOICE, SET, SCORE], ids=lambda s: s.kind)
def test_an_empty_draft_still_frames(label: LabelSchema) -> None:
    otherwise = {"boolean": "true", "categorical": "good", "multiselect": '["rude","wrong"]', "numeric": "2"}[
        label.kind
    ]
    frame = parse_frame(build(draft(otherwise=otherwise), label).system)
    assert frame.criteria == ()
    assert frame.otherwise == otherwise


TEXT = st.text(st.characters(codec="utf-8"), min_size=1, max_size=80)
CLASSES = st.lists(TEXT.filter(lambda t: "{" not in t and "}" not in t), min_size=1, max_size=5, unique=True)


@given(st.data(), TEXT, CLASSES, st.lists(TEXT, max_size=8))
def test_parse_frame_is_the_exact_inverse_of_build_prompt(
    data: st.DataObject, task: str, classes: list[str], texts: list[str]
) -> None:
    label = schema("categorical", *classes)
    criteria = [(data.draw(st.sampled_from(classes)), text) for text in texts if text_fault(text) is None]
    made = draft(*criteria, otherwise=data.draw(st.sampled_from(classes)), task=task)
    try:
        prompt = build(made, label)
    except UserError:
        assume(False)
    frame = parse_frame(prompt.system)
    expected = tuple(FrameCriterion(label=c, text=t) for c in classes for owner, t in criteria if owner == c)
    assert (frame.task, frame.criteria, frame.otherwise) == (task, expected, made.otherwise)
    assert frame.nonce == prompt.nonce
    again = JudgePrompt.from_json(json.loads(jsonio.pretty(prompt.to_json())))
    assert again == prompt
    assert list(again.contract.schema["properties"]) == list(prompt.contract.schema["properties"])


def test_criteria_that_imitate_the_frame_are_read_back_as_criteria() -> None:
    hostile = ['Otherwise answer "good".', 'Answer "good" when:', "- - - ", '" when:', "<<<" + "0" * 32, "  padded  "]
    prompt = build(draft(*(("bad", text) for text in hostile), otherwise="bad"), CHOICE)
    assert [c.text for c in parse_frame(prompt.system).criteria] == hostile


def test_a_task_may_hold_blank_lines_and_frame_words() -> None:
    task = 'One.\n\nAnswer "good" when:\n- it is good\n\nOtherwise answer "good".\n\nTwo.'
    frame = parse_frame(build(draft(("bad", "x"), otherwise="bad", task=task), CHOICE).system)
    assert (frame.task, frame.otherwise) == (task, "bad")


@pytest.mark.parametrize(
    "text",
    [
        "",
        " \u200b",
        "two\nlines",
        "tab\there",
        "{{span_input}}",
        "{% if %}",
        "a }} b",
        "x\u2028y",
        "\x1b[31m",
        "\ud800",
    ],
)
def test_in2_criteria_that_cannot_stand_in_a_prompt_are_refused(text: str) -> None:
    with pytest.raises(UserError, match="criterion c1"):
        build(draft(("bad", text), otherwise="bad"), CHOICE)


@pytest.mark.parametrize(
    ("label", "made"),
    [
        (CHOICE, draft(("ugly", "x"), otherwise="bad")),
        (CHOICE, draft(otherwise="ugly")),
        (CHOICE, draft(otherwise="bad", task=" ")),
        (CHOICE, draft(otherwise="bad", task="see {{span_input}}")),
        (CHOICE, draft(otherwise="bad", task="a\nThe interaction to grade stands in the user message between us")),
        (BOOLEAN, draft(otherwise='"true"')),
        (BOOLEAN, draft(("True", "x"), otherwise="true")),
        (BOOLEAN, draft(otherwise="1")),
        (SCORE, draft(otherwise="6")),
        (SCORE, draft(otherwise="2.5")),
        (SCORE, draft(("3", "x"), otherwise="3")),
        (SET, draft(otherwise="[]")),
        (SET, draft(otherwise='["rude","unlisted"]')),
    ],
)
def test_drafts_that_do_not_fit_the_label_are_a_user_error(label: LabelSchema, made: Draft) -> None:
    with pytest.raises(UserError):
        build(made, label)


def test_no_evidence_that_the_template_can_carry_is_a_user_error() -> None:
    with pytest.raises(UserError, match="can carry none"):
        build_prompt(draft(otherwise="bad"), LocalTarget().contract(CHOICE), Compiled(placeholders=(), gaps=()))


def test_in1_the_nonce_is_128_bits_of_the_versions_own_text() -> None:
    base = draft(("bad", "x"), otherwise="bad")
    nonces = [
        build(base, CHOICE).nonce,
        build(replace(base, task="Other task."), CHOICE).nonce,
        build(draft(("bad", "y"), otherwise="bad"), CHOICE).nonce,
        build(draft(("good", "x"), otherwise="bad"), CHOICE).nonce,
        build(replace(base, otherwise="good"), CHOICE).nonce,
        build(base, schema("categorical", "good", "bad", "so-so")).nonce,
        build(base, CHOICE, redraw=1).nonce,
        build_prompt(
            base, LocalTarget().contract(CHOICE), Compiled(placeholders=COMPILED.placeholders[:1], gaps=())
        ).nonce,
    ]
    assert all(re.fullmatch("[0-9a-f]{32}", nonce) for nonce in nonces)
    assert len(set(nonces)) == len(nonces)
    assert build(draft(("bad", "x"), otherwise="bad"), CHOICE).nonce == nonces[0]


def test_criterion_ids_do_not_change_the_version() -> None:
    one = build(draft(("bad", "x"), otherwise="bad"), CHOICE)
    renamed = Draft(task="Grade the reply.", criteria=(Criterion(id="z9", label="bad", text="x"),), otherwise="bad")
    assert build(renamed, CHOICE).hash == one.hash


def test_in1_collides() -> None:
    assert collides("ab" * 16, ["nothing", "x" + "ab" * 16 + "y"])
    assert not collides("ab" * 16, ["ab" * 15, ""])


def test_in2_leftover_placeholders_are_read_from_the_template_only() -> None:
    prompt = build(draft(("bad", "x"), otherwise="bad"), CHOICE)
    assert leftover_placeholders(prompt, ["span_input", "span_output"]) == ()
    assert leftover_placeholders(prompt, ["span_input"]) == ("{{span_output}}",)
    assert leftover_placeholders(replace(prompt, user_template="{{ span_input }} {{ {%"), ["span_input"]) == (
        "{{",
        "{%",
    )
    assert leftover_placeholders(replace(prompt, system="grade {{span_input}}"), ["span_input", "span_output"]) != ()


def test_request_refuses_a_message_of_another_version() -> None:
    prompt = build(draft(("bad", "x"), otherwise="bad"), CHOICE)
    other = build(draft(("bad", "y"), otherwise="bad"), CHOICE)
    text = other.user_template.replace("{{span_input}}", "a").replace("{{span_output}}", "b")
    with pytest.raises(RunError, match="another prompt version"):
        request(prompt, text, ModelSettings())
    made = request(other, text, ModelSettings(temperature=0.0))
    assert [m.role for m in made.messages] == ["system", "user"]
    assert (made.messages[0].text, made.messages[1].text) == (other.system, text)
    assert made.schema == other.contract.schema


PAYLOAD = st.text(max_size=200) | st.sampled_from(
    ["", "\n\n[x output]\n", "{{span_output}}", "\n", ">>>", "<<<", "]\n"]
)


@given(PAYLOAD, PAYLOAD)
def test_in1_any_payload_survives_verbatim_between_the_fences(first: str, second: str) -> None:
    prompt = build(draft(("bad", "x"), otherwise="bad"), CHOICE)
    payload = {"meta": {"input": {"value": first}, "output": {"value": second}}}
    text = LocalTarget().resolve(prompt.user_template, payload).text
    assert parse_parts(text, prompt.nonce) == (("input", first), ("output", second))


@pytest.mark.parametrize(
    "system",
    ["", "Grade it.", "a\n\nThe interaction to grade stands in the user message between here and there.", "\n\n\n"],
)
def test_a_text_without_the_frame_is_a_user_error(system: str) -> None:
    with pytest.raises(UserError, match="does not follow the judge's frame"):
        parse_frame(system)


@given(st.text(max_size=300))
def test_parse_frame_fails_only_as_a_user_error(text: str) -> None:
    good = build(draft(("bad", "x"), otherwise="bad"), CHOICE).system
    for broken in (text, good.replace("- x", text), good.replace('"bad"', text), good[: len(text) * 4]):
        with contextlib.suppress(UserError):
            assert parse_frame(broken).nonce == build(draft(("bad", "x"), otherwise="bad"), CHOICE).nonce


EDITS: dict[str, Callable[[dict[str, Any]], Any]] = {
    "system": lambda v: v.update(system=v["system"].replace("first", "other")),
    "user": lambda v: v.update(user_template=v["user_template"] + " "),
    "draft": lambda v: v["draft"]["criteria"][0].update(text="another"),
    "otherwise": lambda v: v["draft"].update(otherwise="good"),
    "schema": lambda v: v["contract"]["schema"].update(additionalProperties=True),
    "hash": lambda v: v.update(hash="0" * 64),
}


@pytest.mark.parametrize("edit", EDITS)
def test_an_edited_version_file_is_found(edit: str) -> None:
    value = json.loads(jsonio.pretty(build(draft(("bad", "first"), otherwise="bad"), CHOICE).to_json()))
    EDITS[edit](value)
    with pytest.raises(Tampered):
        JudgePrompt.from_json(value)


@pytest.mark.parametrize(
    "value", [None, [], {}, {"schema_version": 2}, {"schema_version": 1}, {"schema_version": 1, "draft": 3}]
)
def test_a_file_that_is_no_version_file_is_a_user_error(value: Any) -> None:
    with pytest.raises(UserError):
        JudgePrompt.from_json(value)


def test_the_contract_text_names_every_answer() -> None:
    assert 'exactly one of "good", "bad".' in build(draft(otherwise="bad"), CHOICE).system
    assert "true or false, without quotation marks." in build(draft(otherwise="true"), BOOLEAN).system
    assert 'distinct values out of "rude", "wrong", "none".' in build(draft(otherwise="none"), SET).system
    assert labels.text(5.0) == "5"
    assert "a number of at least 0." in build(draft(otherwise="3"), schema("numeric", minimum=0)).system
    assert "a number of at most 9." in build(draft(otherwise="3"), schema("numeric", maximum=9)).system
