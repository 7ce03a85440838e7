"""The template grammar against its contract, and against an independent slow reading of it."""

from __future__ import annotations

from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from fitter.errors import SettingsError
from fitter.evidence.targets.grammar import FIELD_CAP, parse_path, parse_template, resolve
from tests.evidence.reference import render as reference

PAYLOAD: dict[str, Any] = {
    "name": "step",
    "n": 3,
    "x": 1.5,
    "yes": True,
    "none": None,
    "blank": " ",
    "void": "",
    "no_list": [],
    "no_object": {},
    "tags": ["a", "b"],
    "mixed": ["a", 1],
    "nested": [["a"], []],
    "messages": [
        {"role": "system", "content": "be kind"},
        {"role": "user", "content": "héllo {{name}} {% x %} $name"},
        {
            "role": "user",
            "content": "again",
            "tool_calls": [{"name": "f", "tool_id": "1", "arguments": {"b": 1, "a": 2}}],
        },
    ],
    "spans": [
        {"name": "root", "meta": {"span": {"kind": "workflow"}, "output": {"value": "R"}}},
        {
            "name": "call",
            "meta": {"span": {"kind": "llm"}, "output": {"messages": [{"content": "one"}, {"content": "two"}]}},
        },
        {"name": "call 2", "meta": {"span": {"kind": "llm"}, "output": {"messages": [{"content": "three"}]}}},
    ],
}


@pytest.mark.parametrize(
    ("path", "text", "state"),
    [
        ("name", "step", "resolved"),
        (" name ", "step", "resolved"),
        ("n", "3", "resolved"),
        ("x", "1.5", "resolved"),
        ("yes", "true", "resolved"),
        ("none", "", "empty"),
        ("void", "", "empty"),
        ("blank", " ", "empty"),
        ("no_list", "", "empty"),
        ("no_list[*]", "", "empty"),
        ("no_list.content", "", "empty"),
        ("no_list[0]", "", "missing"),
        ("no_object", "{}", "empty"),
        ("tags", "a\nb", "resolved"),
        ("tags[1]", "b", "resolved"),
        ("tags[2]", "", "missing"),
        ("tags[0,0]", "a", "resolved"),
        ("tags[0,99]", "a\nb", "resolved"),
        ("tags[5,9]", "", "missing"),
        ("mixed", '["a",1]', "resolved"),
        ("nested", '[["a"],[]]', "resolved"),
        ("nested[*]", '[["a"],[]]', "resolved"),
        ("nested[1]", "", "empty"),
        ("nested[1,1]", "", "empty"),
        ("absent", "", "missing"),
        ("name.further", "", "missing"),
        ("name[0]", "", "missing"),
        ("messages[0].content", "be kind", "resolved"),
        ("messages[0]", '{"content":"be kind","role":"system"}', "resolved"),
        ("messages.role", "system\nuser\nuser", "resolved"),
        ("messages[*].role", "system\nuser\nuser", "resolved"),
        ("messages[1,2].role", "user\nuser", "resolved"),
        ("messages[role:system].content", "be kind", "resolved"),
        ("messages[role:nobody].content", "", "missing"),
        ("messages.tool_calls", '[[{"arguments":{"a":2,"b":1},"name":"f","tool_id":"1"}]]', "resolved"),
        ("messages.tool_calls.name", "f", "resolved"),
        ("messages.tool_calls[0].name", "f", "resolved"),
        ("spans[meta.span.kind:llm].meta.output.messages.content", "one\ntwo\nthree", "resolved"),
        ("spans[meta.span.kind:llm].meta.output.messages[0].content", "one\nthree", "resolved"),
        ("spans[name:call 2].name", "call 2", "resolved"),
        ("spans[0].meta.output.value", "R", "resolved"),
        ("spans[meta.span:llm]", "", "missing"),
    ],
)
def test_paths(path: str, text: str, state: str) -> None:
    found = resolve("{{" + path + "}}", PAYLOAD)
    assert (found.text, dict(found.states)) == (text, {path.strip(): state})
    assert reference("{{" + path + "}}", PAYLOAD) == (text, {path.strip(): state})


def test_the_whole_payload() -> None:
    assert resolve("{{*}}", {"b": [1], "a": "x"}).text == '{"a":"x","b":[1]}'


def test_in2_substitution_is_one_pass_and_payload_marks_stay_text() -> None:
    hostile = "{{name}} }} {{ {% x %} {# y #} $name ${name} <<<END"
    found = resolve("A {{a}} B {{b}} } }} C", {"a": hostile, "b": "{{a}}", "name": "WRONG"})
    assert found.text == f"A {hostile} B {{{{a}}}} }} }}}} C"


def test_filters_compare_strings_only() -> None:
    payload = {"l": [{"k": 1, "v": "number"}, {"k": "1", "v": "string"}, {"k": True, "v": "bool"}, "1", None]}
    assert resolve("{{l[k:1].v}}", payload).text == "string"
    assert resolve("{{l[k:true].v}}", payload).text == ""
    assert resolve("{{l[k:].v}}", {"l": [{"k": "", "v": "blank"}]}).text == "blank"
    assert resolve("{{l[k: 1].v}}", payload).text == ""


@pytest.mark.parametrize(
    ("template", "position"),
    [
        ("ab {{name", 4),
        ("{{}}", 3),
        ("x{{  }}", 6),
        ("{{a..b}}", 5),
        ("{{a.}}", 5),
        ("{{.a}}", 3),
        ("{{[0]}}", 3),
        ("{{a[-1]}}", 4),
        ("{{a[x]}}", 4),
        ("{{a[]}}", 4),
        ("{{a[1,]}}", 4),
        ("{{a[2,1]}}", 4),
        ("{{a[1}}", 4),
        ("{{a]}}", 4),
        ("{{a[0]b}}", 7),
        ("{{a.*}}", 5),
        ("{{*.a}}", 3),
        ("{{{a}}}", 3),
        ("{{a [0]}}", 3),
        ("{{a[.b:c]}}", 4),
        ("{{a[:c]}}", 4),
        ("{{a[b:[c]}}", 4),
        ("{{a[99999999999]}}", 4),
        ("{{ok}} {{a[①]}}", 11),
    ],
)
def test_what_does_not_parse_is_a_settings_error_with_its_position(template: str, position: int) -> None:
    with pytest.raises(SettingsError, match=rf"template, character {position}:"):
        parse_template(template)


def test_a_template_is_parsed_once() -> None:
    assert parse_template("a {{b}}") is parse_template("a {{b}}")
    assert [p.text for p in parse_template("{{a}} {{ b.c }}{{*}}").paths] == ["a", "b.c", "*"]


def test_ev6_the_field_cap_is_reported_and_cuts_between_characters() -> None:
    long = "é" * FIELD_CAP
    found = resolve("[{{a}}] {{b}}", {"a": long, "b": "é" * (FIELD_CAP // 2)})
    assert found.truncated == ("a",)
    assert found.text == "[" + "é" * (FIELD_CAP // 2) + "] " + "é" * (FIELD_CAP // 2)
    odd = resolve("{{a}}", {"a": "x" + long})
    assert len(odd.text.encode()) == FIELD_CAP - 1
    assert resolve("{{a}}", {"a": long}, field_cap=None).truncated == ()


def test_aliases_are_the_callers() -> None:
    aliases = {"span_input": lambda payload: "messages.role" if "messages" in payload else "name"}
    found = resolve("{{ span_input }}", PAYLOAD, aliases=aliases)
    assert (found.text, dict(found.states)) == ("system\nuser\nuser", {"span_input": "resolved"})
    assert resolve("{{span_input}}", {"name": "n"}, aliases=aliases).text == "n"
    assert resolve("{{span_input}}", PAYLOAD).states == {"span_input": "missing"}


NAMES = ("a", "b", "c", "name", "role")
KEYS = st.sampled_from(NAMES)
WORDS = st.sampled_from(["x", "y", "", " ", "user", "{{a}}", "}}", "{%", "é\n"]) | st.text(max_size=5)
VALUES = st.recursive(
    WORDS | st.none() | st.booleans() | st.integers(-5, 5) | st.sampled_from([0.5, -2.0]),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner, max_size=4),
    max_leaves=25,
)
SMALL = st.integers(0, 3)
BRACKETS = st.one_of(
    SMALL.map(lambda n: f"[{n}]"),
    st.tuples(SMALL, SMALL).map(lambda p: f"[{min(p)},{max(p)}]"),
    st.just("[*]"),
    st.tuples(st.lists(KEYS, min_size=1, max_size=2), st.sampled_from(["x", "y", "user", ""])).map(
        lambda p: f"[{'.'.join(p[0])}:{p[1]}]"
    ),
)
STEPS = st.lists(st.one_of(KEYS.map(lambda k: f".{k}"), BRACKETS), max_size=4).map("".join)
PATHS = st.one_of(st.just("*"), st.tuples(KEYS, STEPS).map("".join))
LITERALS = st.text(alphabet="ab {}$%\n}é", max_size=6).filter(lambda t: "{{" not in t and not t.endswith("{"))


@st.composite
def templates(draw: st.DrawFn) -> str:
    parts = draw(st.lists(st.tuples(LITERALS, PATHS), min_size=1, max_size=4))
    return "".join(literal + "{{" + path + "}}" for literal, path in parts) + draw(LITERALS)


@given(templates(), st.dictionaries(KEYS, VALUES, max_size=5))
def test_resolution_equals_the_independent_reading(template: str, payload: dict[str, Any]) -> None:
    found = resolve(template, payload, field_cap=None)
    assert (found.text, dict(found.states)) == reference(template, payload)


@given(
    st.recursive(st.text(max_size=3), lambda inner: st.lists(inner, max_size=3) | st.dictionaries(KEYS, inner)), STEPS
)
def test_resolution_equals_the_independent_reading_on_deep_lists(value: Any, steps: str) -> None:
    template = "{{a" + steps + "}}"
    found = resolve(template, {"a": value})
    assert (found.text, dict(found.states)) == reference(template, {"a": value})


@given(st.text(alphabet="ab.[]*:,{} 01-\n", max_size=14))
def test_any_path_parses_or_is_a_settings_error(path: str) -> None:
    try:
        steps = parse_path(path).steps
    except SettingsError:
        return
    assert steps or path.strip() == "*"
    assert isinstance(resolve("{{" + path + "}}", PAYLOAD).text, str)
