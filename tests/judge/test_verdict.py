"""The strict verdict parser (OUT-1, OUT-5): one object, nothing around it, no repair, never a crash."""

from __future__ import annotations

import json
import random
import time
from typing import Any, get_args

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fitter.evidence.targets.local import LocalTarget
from fitter.judge.verdict import MAX_CHARS, PARSER_VERSION, Fault, Verdict, complaint, parse_verdict
from fitter.labels import LabelSchema
from fitter.records import UnusableReason, VerdictContract
from tests.judge.test_prompt_frame import BOOLEAN, CHOICE, SCORE, SET, schema

KINDS = {s.kind: LocalTarget().contract(s) for s in (BOOLEAN, CHOICE, SET, SCORE)}
CONTRACT = KINDS["categorical"]
GOOD = '{"reasoning": "because", "label": "good", "confidence": 80}'


def reason(text: str, contract: VerdictContract = CONTRACT) -> str:
    found = parse_verdict(text, contract)
    assert isinstance(found, Fault), found
    return found.reason


def verdict(text: str, contract: VerdictContract = CONTRACT) -> Verdict:
    found = parse_verdict(text, contract)
    assert isinstance(found, Verdict), found
    return found


def answer(label: Any, **more: Any) -> str:
    return json.dumps({"reasoning": "because", "label": label, "confidence": 80, **more})


def test_out1_a_plain_verdict() -> None:
    assert verdict(f" \n{GOOD}\t\r\n") == Verdict(label="good", confidence=80, reasoning="because")


def test_out1_reasoning_need_not_come_first_in_the_text() -> None:
    assert verdict('{"label": "bad", "confidence": 1, "reasoning": "x"}').label == "bad"


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("", "empty_text"),
        (" \n\t", "empty_text"),
        ("\u200b\ufeff\u2060", "empty_text"),
        (f"```json\n{GOOD}\n```", "fenced"),
        (f"```\n{GOOD}\n```", "fenced"),
        (f"Here it is:\n```json\n{GOOD}\n```\nDone.", "fenced"),
        (f"{GOOD}\n{GOOD}", "two_objects"),
        (f"{GOOD},{GOOD}", "two_objects"),
        (f'{GOOD} {{"label": "bad"}}', "two_objects"),
        (f"Sure! {GOOD} or {GOOD}", "two_objects"),
        (f"Sure! {GOOD}", "text_around_json"),
        (f"{GOOD} I hope this helps.", "text_around_json"),
        (f"{GOOD}.", "text_around_json"),
        (f"\ufeff{GOOD}", "text_around_json"),
        (f"{GOOD}\u00a0", "text_around_json"),
        (f"<think>maybe {{bad}}</think>{GOOD}", "text_around_json"),
        ("good", "not_json"),
        ("I would say {good}.", "not_json"),
        ("{'reasoning': 'x', 'label': 'good'}", "not_json"),
        ('{"reasoning": "x", "label": "good",}', "not_json"),
        ('{"reasoning": "he said "no"", "label": "good"}', "not_json"),
        ('{"reasoning": "line\nbreak", "label": "good"}', "not_json"),
        ('{"reasoning": "x", "label": good}', "not_json"),
        ("[]", "not_an_object"),
        (f"[{GOOD}]", "not_an_object"),
        ('"good"', "not_an_object"),
        ("true", "not_an_object"),
        ("null", "not_an_object"),
        ("7", "not_an_object"),
        ("{}", "missing_key"),
        ('{"reasoning": "x", "confidence": 5}', "missing_key"),
        ('{"label": "good", "confidence": 5}', "missing_key"),
        (answer("good", extra=1), "unknown_key"),
        ('{"Reasoning": "x", "label": "good"}', "unknown_key"),
        ('{"reasoning": "x", "label": "good", "label": "bad"}', "duplicate_key"),
        ('{"reasoning": "x", "label": "good", "label": "good"}', "duplicate_key"),
        ('{"reasoning": {"a": 1, "a": 2}, "label": "good"}', "duplicate_key"),
        (answer("good", reasoning=""), "blank_reasoning"),
        (answer("good", reasoning=" \u200b\u00a0\n"), "blank_reasoning"),
        (answer("good", reasoning=None), "wrong_type"),
        (answer("good", reasoning=["x"]), "wrong_type"),
        (answer("Good"), "label_not_in_schema"),
        (answer(" good"), "label_not_in_schema"),
        (answer("good "), "label_not_in_schema"),
        (answer(["good"]), "wrong_type"),
        (answer(True), "wrong_type"),
        (answer(None), "wrong_type"),
        ('{"reasoning": "x", "label": "good", "confidence": NaN}', "non_finite"),
        ('{"reasoning": "x", "label": "good", "confidence": 1e999}', "non_finite"),
        ('{"reasoning": "x", "label": "good", "confidence": ' + "9" * 5000 + "}", "number_too_long"),
        ('{"reasoning": ' + "[" * 65 + "]" * 65 + ', "label": "good"}', "too_deep"),
        ("[" * 100_000, "too_deep"),
        ('{"a":' * 100_000, "too_deep"),
    ],
)
def test_out1_each_departure_has_its_reason_code(text: str, expected: str) -> None:
    assert reason(text) == expected


def test_lesson2_backticks_inside_a_valid_object_are_just_text() -> None:
    found = verdict(answer("bad", reasoning="it printed ```json\n{}\n``` and stopped"))
    assert (found.label, "```json" in found.reasoning) == ("bad", True)


def test_lesson3_json_quoted_from_the_graded_text_is_never_the_verdict() -> None:
    assert reason('The reply says {"reasoning": "x", "label": "good", "confidence": 99}, which is wrong.') == (
        "text_around_json"
    )


@pytest.mark.parametrize(
    "whole",
    [
        GOOD,
        '{"reasoning": "tab\\t \\u00e9 \\\\ \\"q\\" {[", "label": true, "confidence": -1.5e+3}',
        '{"confidence": null, "label": false, "reasoning": "x"}',
    ],
)
def test_lesson4_every_proper_prefix_of_an_object_is_truncated(whole: str) -> None:
    for end in range(1, len(whole)):
        assert reason(whole[:end]) == "truncated", whole[:end]


# Booleans: true is not 1, "true" is not true.
@pytest.mark.parametrize("label", [1, 0, "true", "false", None, [True], 1.0])
def test_out1_boolean_takes_only_json_booleans(label: Any) -> None:
    assert reason(answer(label), KINDS["boolean"]) == "wrong_type"


@pytest.mark.parametrize("label", [True, False])
def test_out1_boolean(label: bool) -> None:
    assert verdict(answer(label), KINDS["boolean"]).label is label


def test_out1_multiselect_is_read_as_a_set() -> None:
    contract = KINDS["multiselect"]
    assert verdict(answer(["wrong", "rude", "wrong"]), contract).label == frozenset({"rude", "wrong"})
    assert reason(answer([]), contract) == "label_not_in_schema"
    assert reason(answer(["rude", "unlisted"]), contract) == "label_not_in_schema"
    assert reason(answer("rude"), contract) == "wrong_type"
    assert reason(answer(["rude", 1]), contract) == "wrong_type"
    assert reason(answer([["rude"]]), contract) == "wrong_type"


@pytest.mark.parametrize(
    ("label", "expected"),
    [(6, "out_of_range"), (0, "out_of_range"), (10**400, "out_of_range"), (2.5, "wrong_type"), (True, "wrong_type"),
     ("3", "wrong_type"), ([3], "wrong_type"), (None, "wrong_type")],
)  # fmt: skip
def test_nu1_numbers_outside_the_schema_are_unusable_and_never_clamped(label: Any, expected: str) -> None:
    assert reason(answer(label), KINDS["numeric"]) == expected


def test_nu1_numbers() -> None:
    assert verdict(answer(4.0), KINDS["numeric"]).label == 4.0
    assert verdict(answer(5), KINDS["numeric"]).label == 5.0
    unbounded = LocalTarget().contract(schema("numeric"))
    assert verdict(answer(-2.75), unbounded).label == -2.75
    assert reason(answer(10**400), unbounded) == "out_of_range"


@pytest.mark.parametrize(("given_", "read"), [(0, 0), (100, 100), (95.0, 95), (-0.0, 0), (1e2, 100)])
def test_out5_confidence_is_integer_valued(given_: float, read: int) -> None:
    found = verdict(answer("good", confidence=given_))
    assert (found.confidence, found.confidence_fault) == (read, None)
    assert type(found.confidence) is int


@pytest.mark.parametrize("given_", [95.5, True, False, "95", None, -1, 101, 10**400, [95], {"value": 95}, 0.95])
def test_out5_a_bad_confidence_is_counted_and_the_label_stays(given_: Any) -> None:
    found = verdict(answer("good", confidence=given_))
    assert (found.label, found.confidence, found.confidence_fault) == ("good", None, "invalid")


def test_out5_a_missing_confidence_is_counted_and_the_label_stays() -> None:
    found = verdict('{"reasoning": "x", "label": "bad"}')
    assert (found.label, found.confidence, found.confidence_fault) == ("bad", None, "missing")


def test_a_target_without_a_confidence_field_refuses_one_and_misses_none() -> None:
    named = VerdictContract(
        label_field="boolean_eval", reasoning_field="reasoning", confidence_field=None, schema={}, label=BOOLEAN
    )
    found = verdict('{"reasoning": "x", "boolean_eval": true}', named)
    assert (found.label, found.confidence, found.confidence_fault) == (True, None, None)
    assert reason('{"reasoning": "x", "boolean_eval": true, "confidence": 5}', named) == "unknown_key"
    assert reason('{"reasoning": "x", "label": true}', named) == "unknown_key"


def test_lone_surrogates_do_not_reach_the_record() -> None:
    found = verdict('{"reasoning": "x\\ud800y", "label": "good", "confidence": 5}')
    assert found.reasoning == "x\ufffdy"
    found.reasoning.encode("utf-8")
    fault = parse_verdict('{"reasoning": "x", "label": "\\udfff", "confidence": 5}', CONTRACT)
    assert isinstance(fault, Fault)
    fault.detail.encode("utf-8")
    strange = parse_verdict('{"reasoning": "x", "label": "good", "\ud800": 5}', CONTRACT)
    assert isinstance(strange, Fault)
    assert strange.reason == "unknown_key"
    strange.detail.encode("utf-8")
    doubled = parse_verdict('{"\\ud800": 1, "\\ud800": 2}', CONTRACT)
    assert isinstance(doubled, Fault)
    doubled.detail.encode("utf-8")


HUGE = {
    "50 MB of text": "a" * 50_000_000,
    "50 MB of blanks": " " * 50_000_000,
    "50 MB of reasoning": '{"reasoning": "' + "x" * 50_000_000 + '", "label": "good"}',
    "braces": "{" * (MAX_CHARS // 2),
    "open strings": '{"' * (MAX_CHARS // 2),
    "objects": "x {}" * (MAX_CHARS // 4),
    "broken objects": '{"a":1,' * (MAX_CHARS // 8),
    "fences": "```" * (MAX_CHARS // 3),
    "fence and blanks": "```" + " " * (MAX_CHARS - 3),
    "blanks": "\u200b" * MAX_CHARS,
    "commas": '{"reasoning": [' + "1," * (MAX_CHARS // 3) + "]}",
    "keys": "{" + ",".join(f'"{i}": 1' for i in range(80_000)) + "}",
    "long key": '{"' + "k" * (MAX_CHARS - 20) + '": 1}',
    "digits": '{"confidence": 0.' + "1" * (MAX_CHARS - 30) + "}",
    "exponents": '{"confidence": 1e' + "1" * (MAX_CHARS - 30) + "}",
}


@pytest.mark.parametrize("name", HUGE)
def test_huge_and_hostile_texts_end_within_a_second(name: str) -> None:
    start = time.process_time()
    found = parse_verdict(HUGE[name], CONTRACT)
    assert time.process_time() - start < 1.0
    assert isinstance(found, Fault)
    assert len(found.detail) < 400


def test_the_complaint_names_the_fault_and_the_contract_and_quotes_nothing() -> None:
    for contract in KINDS.values():
        for code in get_args(UnusableReason):
            text = complaint(Fault(reason=code, detail="SECRET of the payload"), contract)
            assert code in text
            assert '"reasoning"' in text
            assert '"label"' in text
            assert "SECRET" not in text
    assert "code fence; leave the fence out" in complaint(Fault(reason="fenced"), CONTRACT)


def test_the_parser_names_its_version() -> None:
    assert PARSER_VERSION == "verdict-1"


JSON = st.recursive(
    st.none() | st.booleans() | st.floats(allow_nan=True) | st.integers() | st.text(max_size=10),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=6), inner, max_size=3),
    max_leaves=8,
)
FIELDS = st.sampled_from(["reasoning", "label", "confidence"])


def admitted(value: Any, label: LabelSchema) -> bool:
    """An independent reading of OUT-1's one line about labels."""
    if label.kind == "boolean":
        return value is True or value is False
    if label.kind == "categorical":
        return type(value) is str and value in label.classes
    if label.kind == "multiselect":
        return type(value) is list and value != [] and all(type(v) is str and v in label.classes for v in value)
    return type(value) in (int, float) and value in (1, 2, 3, 4, 5)


@pytest.mark.parametrize("kind", KINDS)
@given(
    st.dictionaries(FIELDS, JSON | st.sampled_from(["good", "bad", ["rude"], 3, 2.0, True, "because"]), max_size=3)
    | st.fixed_dictionaries({"reasoning": st.text(max_size=5), "label": JSON, "confidence": JSON})
)
def test_out1_a_verdict_stands_exactly_when_the_object_is_right(kind: Any, value: dict[str, Any]) -> None:
    contract = KINDS[kind]
    found = parse_verdict(json.dumps(value), contract)
    finite = "NaN" not in json.dumps(value) and "Infinity" not in json.dumps(value)
    text = value.get("reasoning")
    blank = not isinstance(text, str) or not any(ch.isprintable() and not ch.isspace() for ch in text)
    if isinstance(found, Verdict):
        assert finite
        assert admitted(value["label"], contract.label)
    elif finite and not blank and "label" in value:
        assert not admitted(value["label"], contract.label)


def fuzz(cases: int, seed: int) -> dict[str, int]:
    """Mutated verdicts: cut, doubled, wrapped, bytes changed. Returns reason code → count."""
    rng = random.Random(seed)
    alphabet = '{}[]":,\\ \n\t`truefalsn0123456789.eE-+\u200b\ud800é<>' + "\x00"
    seeds = [GOOD, answer("bad", reasoning='``` {["}'), answer(["rude"]), answer(3), answer(True), "```json\n" + GOOD]
    seen: dict[str, int] = {}
    contracts = list(KINDS.values())
    for _ in range(cases):
        text = rng.choice(seeds)
        for _ in range(rng.randint(1, 4)):
            at, end = sorted((rng.randint(0, len(text)), rng.randint(0, len(text))))
            kind = rng.randrange(5)
            if kind == 0:
                text = text[:at] + rng.choice(alphabet) + text[at:]
            elif kind == 1:
                text = text[:at] + text[end:]
            elif kind == 2:
                text = text[:end] + text[at:]
            elif kind == 3:
                text = text[:at] + rng.choice(alphabet) + text[at + 1 :]
            else:
                text = rng.choice(["Sure: ", "```", "", " "]) + text + rng.choice([GOOD, "```", "", "."])
        contract = rng.choice(contracts)
        found = parse_verdict(text, contract)
        if isinstance(found, Verdict):
            # Whatever stands must be one JSON object for a plain parser too, with an admitted label.
            value = json.loads(text.strip(" \t\r\n"))
            assert admitted(value["label"], contract.label), text
            seen["ok"] = seen.get("ok", 0) + 1
        else:
            assert found.reason in get_args(UnusableReason)
            seen[found.reason] = seen.get(found.reason, 0) + 1
    return seen


def test_out1_fuzz_never_crashes_and_never_takes_what_a_plain_parser_refuses() -> None:
    seen = fuzz(5_000, seed=1)
    assert set(seen) > {"ok", "not_json", "truncated", "fenced", "two_objects", "text_around_json", "unknown_key"}


@pytest.mark.slow
def test_out1_fuzz_long() -> None:
    assert sum(fuzz(200_000, seed=2).values()) == 200_000
