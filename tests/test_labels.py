"""Label values, their identity and their schema."""

from __future__ import annotations

import itertools
import math
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st
from pydantic import ValidationError

from fitter.jsonio import canonical, strict_loads
from fitter.labels import LabelKind, LabelSchema, LabelValue, from_json, ordered, same, text, to_json

KINDS: tuple[LabelKind, ...] = ("boolean", "categorical", "multiselect", "numeric")
by_kind: dict[LabelKind, st.SearchStrategy[Any]] = {
    "boolean": st.booleans(),
    "categorical": st.text(min_size=1, max_size=6),
    "multiselect": st.frozensets(st.text(min_size=1, max_size=3), min_size=1, max_size=4),
    "numeric": st.floats(allow_nan=False, allow_infinity=False),
}
pairs = st.one_of([st.tuples(st.just(kind), by_kind[kind], by_kind[kind]) for kind in KINDS])


def a_schema(**more: Any) -> LabelSchema:
    return LabelSchema(**{"id": "1", "name": "n", "kind": "categorical", "classes": ("bad", "good"), **more})


NUMBER = a_schema(kind="numeric", classes=(), minimum=1, maximum=5)


@given(pairs)
def test_values_survive_json_and_texts_are_identities(case: tuple[LabelKind, LabelValue, LabelValue]) -> None:
    kind, a, b = case
    again = from_json(strict_loads(canonical(to_json(a))), kind)
    assert same(again, a)
    assert type(again) is type(a)
    assert same(a, b) == (text(a) == text(b))
    assert same(a, b) == same(b, a)


def test_out1_true_is_not_one_and_not_its_name() -> None:
    kinds: list[LabelValue] = [True, False, 1.0, 0.0, "true", "1", frozenset({"true"})]
    for a, b in itertools.combinations(kinds, 2):
        assert not same(a, b)
    assert same(1.0, 1)
    assert same(0.0, -0.0)


def test_lesson33_multi_select_is_a_set() -> None:
    assert same(from_json(["b", "a", "b"], "multiselect"), from_json(["a", "b"], "multiselect"))
    assert text(frozenset({"b", "a"})) == '["a","b"]'


@pytest.mark.parametrize(
    ("value", "shown"),
    [(True, "true"), (False, "false"), ("x", "x"), (3.0, "3"), (3.5, "3.5"), (-0.0, "0"), (1e21, "1" + "0" * 21)],
)
def test_canonical_texts(value: LabelValue, shown: str) -> None:
    assert text(value) == shown


@pytest.mark.parametrize(
    ("value", "kind"),
    [
        (1, "boolean"), ("true", "boolean"), (None, "boolean"), (True, "numeric"), ("3", "numeric"), (None, "numeric"),
        (10**400, "numeric"), (float("nan"), "numeric"), (float("inf"), "numeric"),
        (True, "categorical"), (1, "categorical"), (["a"], "categorical"), ("a", "multiselect"), ([1], "multiselect"),
    ],
)  # fmt: skip
def test_lesson8_nothing_is_coerced(value: Any, kind: LabelKind) -> None:
    with pytest.raises(ValueError, match=f"not a {kind} label"):
        from_json(value, kind)


@pytest.mark.parametrize(
    ("schema", "yes", "no"),
    [
        (a_schema(), ["bad", "good"], ["Bad", "", True, 1.0, frozenset({"bad"})]),
        (a_schema(kind="boolean", classes=(False, True)), [True, False], ["true", 1.0, 1, 0]),
        (
            a_schema(kind="multiselect"),
            [frozenset({"bad"}), frozenset({"bad", "good"})],
            [frozenset(), frozenset({"x"}), frozenset({"bad", "x"}), "bad"],
        ),
        (NUMBER, [1.0, 5.0, 3, 2.5], [0.99, 5.01, True, "3", math.nan, math.inf, 10**400, -(10**400)]),
        (a_schema(kind="numeric", classes=(), is_integer=True), [3.0, 3, 2**53 + 1, -4.0], [3.5, True]),
        (a_schema(kind="numeric", classes=()), [-1e300, 0.0], [math.nan]),
    ],
    ids=["categorical", "boolean", "multiselect", "bounded", "integer", "unbounded"],
)
def test_a_schema_admits_its_own_values_only(schema: LabelSchema, yes: list[Any], no: list[Any]) -> None:
    assert [schema.admits(v) for v in yes] == [True] * len(yes)
    assert [schema.admits(v) for v in no] == [False] * len(no)


@pytest.mark.parametrize(
    "fields",
    [
        {"kind": "boolean", "classes": (True, False)},
        {"kind": "boolean", "classes": ()},
        {"classes": ()},
        {"classes": ("a", "a")},
        {"classes": ("a", "")},
        {"classes": (True, "a")},
        {"kind": "numeric", "classes": ("1",)},
        {"kind": "numeric", "classes": (), "minimum": 5, "maximum": 1},
        {"kind": "numeric", "classes": (), "minimum": math.nan},
        {"kind": "numeric", "classes": (), "maximum": math.inf},
        {"kind": "text"},
        {"surprise": 1},
    ],
    ids=str,
)
def test_gt8_impossible_schemas_are_refused(fields: dict[str, Any]) -> None:
    with pytest.raises(ValidationError):
        a_schema(**fields)


def test_a_schema_survives_json() -> None:
    for schema in (a_schema(value_descriptions={"bad": "no"}), NUMBER, a_schema(kind="boolean", classes=(False, True))):
        assert LabelSchema.model_validate(strict_loads(canonical(schema.model_dump(mode="json")))) == schema


def test_order_is_that_of_texts() -> None:
    assert ordered([True, False]) == [False, True]
    assert ordered(["b", "a", "B"]) == ["B", "a", "b"]
