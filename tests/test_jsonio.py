"""Strict JSON in, canonical JSON out."""

from __future__ import annotations

import json
import time
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fitter.jsonio import MAX_DEPTH, JSONFault, canonical, digest, jsonl, pretty, sha256, strict_loads

any_text = st.text(st.characters(codec=None), max_size=12)
values: st.SearchStrategy[Any] = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=12),
    lambda inner: st.lists(inner, max_size=4) | st.dictionaries(st.text(max_size=8), inner, max_size=4),
    max_leaves=20,
)


@given(values)
def test_what_is_written_reads_back_the_same(value: Any) -> None:
    assert strict_loads(canonical(value)) == value
    assert strict_loads(pretty(value)) == value


@given(values)
def test_canonical_has_one_form_whatever_the_spacing_and_key_order(value: Any) -> None:
    def reversed_keys(v: Any) -> Any:
        if isinstance(v, dict):
            return {k: reversed_keys(v[k]) for k in sorted(v, reverse=True)}
        return [reversed_keys(x) for x in v] if isinstance(v, list) else v

    assert canonical(strict_loads(json.dumps(reversed_keys(value), indent=3))) == canonical(value)
    assert digest(reversed_keys(value)) == digest(value)


@given(any_text)
def test_lesson16_lone_surrogates_can_always_be_written(text: str) -> None:
    written = canonical({"a": text})
    again = strict_loads(written.encode("utf-8").decode("utf-8"))["a"]
    pairs_joined = text.encode("utf-16", "surrogatepass").decode("utf-16", "surrogatepass")
    assert again == pairs_joined
    assert len(sha256(text)) == 64


def test_a_surrogate_is_an_escape_and_other_text_is_kept() -> None:
    assert canonical(["\ud800", "é", "\u2028"]) == '["\\ud800","é","\u2028"]'
    assert pretty({"\udfff": 1}) == '{\n  "\\udfff": 1\n}\n'


@pytest.mark.parametrize(
    ("text", "code"),
    [
        ("", "not_json"),
        ("{", "not_json"),
        ("{'a': 1}", "not_json"),
        ("[1,]", "not_json"),
        ('"\n"', "not_json"),
        ("\ufeff{}", "not_json"),
        ("tru", "not_json"),
        ("\u00a0{}", "not_json"),
        ('{"a":1,"a":1}', "duplicate_key"),
        ('{"a":1,"\\u0061":2}', "duplicate_key"),
        ('[{"b":[{"a":{},"a":1}]}]', "duplicate_key"),
        ("NaN", "non_finite"),
        ('{"a":-Infinity}', "non_finite"),
        ("1e999", "non_finite"),
        ("[-1e999]", "non_finite"),
        ("[" * (MAX_DEPTH + 1) + "]" * (MAX_DEPTH + 1), "too_deep"),
        ('{"a":' * 2000 + "1" + "}" * 2000, "too_deep"),
        ("[" * 200_000, "too_deep"),
        ("1" * 5000, "number_too_long"),
        ("{} {}", "trailing_text"),
        ("1 2", "trailing_text"),
        ("{}x", "trailing_text"),
    ],
)
def test_faults_have_codes(text: str, code: str) -> None:
    with pytest.raises(JSONFault) as fault:
        strict_loads(text)
    assert fault.value.code == code


@pytest.mark.parametrize(
    ("text", "line"),
    [
        ('\n\n{\n"a": 1,\n"a": 2}', 5),
        ('\n{"a": 1\n "b": 2}', 3),
        ("\n\n[1,\n2] 3", 4),
        ('{"x": [{"a": "{\\"a\\"", "b": "a"}],\n "x": 1}', 2),
    ],
)
def test_gt8_faults_name_their_line(text: str, line: int) -> None:
    with pytest.raises(JSONFault) as fault:
        strict_loads(text)
    assert fault.value.line == line


def test_lesson2_backticks_and_brackets_in_strings_are_text() -> None:
    deep = '{"a": "' + "[{" * 500 + '```\\"' + '"}'
    assert strict_loads(deep) == {"a": "[{" * 500 + '```"'}
    assert strict_loads(" \n[true, 1, 1.0]\t") == [True, 1, 1.0]


@given(st.text(alphabet='{}[]",:\\a1 \n', max_size=300))
def test_nothing_but_a_fault_is_raised(text: str) -> None:
    try:
        value = strict_loads(text, max_depth=8)
    except JSONFault:
        return
    assert json.loads(text) == value


@given(st.text(alphabet='{}[]"\\a', max_size=80), st.integers(0, 6))
def test_depth_is_that_of_a_plain_walk(text: str, limit: int) -> None:
    from fitter.jsonio import _depth_over

    depth, deepest, in_string, escaped = 0, 0, False, False
    for ch in text:
        if in_string:
            if escaped:
                escaped = False
            elif ch == "\\":
                escaped = True
            elif ch == '"':
                in_string = False
        elif ch == '"':
            in_string = True
        elif ch in "[{":
            depth += 1
            deepest = max(deepest, depth)
        elif ch in "]}":
            depth -= 1
    assert _depth_over(text, limit) == (deepest > limit)


@pytest.mark.parametrize(
    "text",
    ['"\\"' * 700_000, '"' + "\\" * 2_000_001, "[" + '"a",' * 500_000, "{}" * 300_000, '["' + "x" * 3_000_000],
    ids=["quotes", "backslashes", "strings", "objects", "long"],
)
def test_hostile_text_takes_no_quadratic_time(text: str) -> None:
    start = time.process_time()
    with pytest.raises(JSONFault):
        strict_loads("[{}]" * 40 + text)
    assert time.process_time() - start < 3.0


def test_nan_is_never_written() -> None:
    for write in (canonical, pretty, digest):
        with pytest.raises(ValueError):
            write([float("nan")])


def test_jsonl_is_one_object_a_line_even_with_line_separators_inside() -> None:
    text = jsonl([{"b": 1, "a": "x\u2028\x85\n"}, {}])
    assert text.split("\n") == ['{"a":"x\u2028\x85\\n","b":1}', "{}", ""]
    assert jsonl([]) == ""


def test_hashes_are_those_of_utf8() -> None:
    assert sha256("é") == sha256("é".encode())
    assert digest({"a": 1}) == sha256('{"a":1}')
